"""How many rows are read at once where a source has no row groups of its own."""

from __future__ import annotations

GROUP_ROWS = 65_536
GROUP_BYTES = 128 << 20
"""About the most that a row group takes: a worker holds two, the one it scores and the next."""


def group_rows(num_rows: int, num_bytes: int) -> int:
    """Rows of a row group: 65,536, or a half, a quarter, ... of them where rows are large.

    >>> group_rows(1_000_000, 40_000_000), group_rows(50_000, 50_000 * 150_528)
    (65536, 512)
    """
    size = GROUP_ROWS
    while size > 1 and size * num_bytes > GROUP_BYTES * num_rows:
        size //= 2
    return size


def in_groups(num_rows: int, size: int) -> tuple[int, ...]:
    """The rows of each row group.

    >>> in_groups(10, 4)
    (4, 4, 2)
    """
    return tuple(min(size, num_rows - start) for start in range(0, num_rows, size))
