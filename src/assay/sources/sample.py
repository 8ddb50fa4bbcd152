"""A seeded sample of rows, for what the plan fixes before the first row is scored: dictionaries, quantiles, weights.

Lives here: which pieces of the data, and which of their rows. Not here: what is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from assay.hashing import row_hash, with_seed
from assay.protocols import Source
from assay.records import Chunk, Fragment, Unit

Piece = TypeVar("Piece", Unit, Chunk)

WHOLE_FILE_BYTES = 256 << 20
"""A file without row groups is read whole up to this size, or else only its first chunk."""


class _Limits(NamedTuple):
    """See `sample`."""

    seed: int
    max_rows: int
    max_pieces: int


def sample(source: Source, columns: Sequence[str], seed: int, max_rows: int, max_pieces: int) -> pa.Table:
    """At most `max_rows` rows of `max_pieces` row groups (chunks where a file has none), in their own order; of more
    pieces where these hold fewer rows.

    Pieces are drawn by the seed; of each, the same fraction of rows is drawn, evenly. The same source, seed and limits
    give the same rows: all of them when they are no more than `max_rows`.
    """
    limits = _Limits(seed, max_rows, max_pieces)
    units = _drawn([unit for fragment in source.fragments for unit in _pieces(fragment)], limits)
    streamed = _streamed(source, columns, limits)
    total = sum(unit.num_rows or 0 for unit in units) + sum(chunk.table.num_rows for chunk in streamed)
    read = (chunk for unit in units for chunk in source.read(unit, columns))
    return pa.concat_tables([_thinned(chunk, max_rows / total, seed) for chunk in chain(read, streamed)])


def _pieces(fragment: Fragment) -> Iterator[Unit]:
    first_row = 0
    for rows in fragment.row_groups or ():
        if rows:
            yield Unit("sample", fragment.path, first_row, rows, 0)
        first_row += rows


def _streamed(source: Source, columns: Sequence[str], limits: _Limits) -> list[Chunk]:
    """Chunks of the files whose rows are not known beforehand."""
    kept: list[Chunk] = []
    for fragment in (one for one in source.fragments if one.row_groups is None):
        chunks = source.read(Unit("sample", fragment.path, 0, None, 0), columns)
        for chunk in chunks if fragment.size_bytes <= WHOLE_FILE_BYTES else islice(chunks, 1):
            kept.append(chunk)
            if len(kept) > limits.max_pieces and sum(map(_num_rows, kept)) > 2 * limits.max_rows:
                kept = _drawn(kept, limits)
    return _drawn(kept, limits)


def _drawn(pieces: Sequence[Piece], limits: _Limits) -> list[Piece]:
    """The pieces with the least seeded hash of their place, whatever order they come in, sorted by place: the most that
    are allowed, and more until they hold enough rows."""
    by_chance = sorted(pieces, key=lambda piece: _chance(piece, limits.seed))
    enough = int(np.searchsorted(np.cumsum([_num_rows(piece) for piece in by_chance]), limits.max_rows)) + 1
    return sorted(by_chance[: max(limits.max_pieces, enough)], key=_place)


def _num_rows(piece: Unit | Chunk) -> int:
    return piece.table.num_rows if isinstance(piece, Chunk) else piece.num_rows or 0


def _chance(piece: Unit | Chunk, seed: int) -> int:
    return int(with_seed(row_hash(piece.path, np.array([piece.first_row])), seed)[0])


def _place(piece: Unit | Chunk) -> tuple[str, int]:
    return piece.path, piece.first_row


def _thinned(chunk: Chunk, fraction: float, seed: int) -> pa.Table:
    rows = chunk.table.num_rows
    share = int(rows * fraction)
    if share >= rows:
        return chunk.table
    chances = with_seed(row_hash(chunk.path, chunk.first_row + np.arange(rows)), seed)
    return chunk.table.take(np.sort(np.argpartition(chances, share)[:share]))
