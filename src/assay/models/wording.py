"""Lists of names in error sentences."""

from __future__ import annotations

from collections.abc import Collection

MOST_LISTED = 12


def listing(names: Collection[object]) -> str:
    """The names in quotes, cut after a dozen.

    >>> listing(["a", "b", "c"])
    "'a', 'b' and 'c'"
    """
    words = [repr(name) for name in names]
    if len(words) > MOST_LISTED:
        words = [*words[:MOST_LISTED], f"{len(words) - MOST_LISTED} more"]
    return " and ".join(part for part in (", ".join(words[:-1]), "".join(words[-1:])) if part) or "none"
