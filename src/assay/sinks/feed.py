"""Rows in pieces of a size of our own choice, whatever batches they come in.

Pieces are not copied together: they have a chunk for each batch. Who needs one chunk says so (`one_chunk`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from assay.errors import DataError

MOST_BYTES = 1 << 30
"""Of rows that are put together: a chunk of texts holds 2 GiB."""


class Feed:
    """A stream of batches, taken piece by piece; never more than a piece and a batch in memory."""

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self._schema = schema
        self._batches = iter(batches)
        self._left: pa.RecordBatch | None = None

    def take(self, rows: int) -> pa.Table:
        """The next rows: fewer than so many at the end, and none behind it."""
        taken, missing = list[pa.RecordBatch](), rows
        while missing and (batch := self._next()) is not None:
            taken.append(batch.slice(0, missing))
            self._left = batch.slice(missing) if len(batch) > missing else None
            missing -= len(taken[-1])
        return pa.Table.from_batches(taken, self._schema)

    def pieces(self, rows: int) -> Iterator[pa.Table]:
        """All that is left, in pieces of so many rows, the last one shorter."""
        while len(piece := self.take(rows)):
            yield piece

    def _next(self) -> pa.RecordBatch | None:
        if self._left is not None:
            return self._left
        return next((batch for batch in self._batches if len(batch)), None)


def light_pieces(table: pa.Table) -> Iterator[pa.Table]:
    """The rows in their order, so many at a time as one chunk can hold: halves of halves, whatever chunks there are."""
    if len(table) <= 1 or table.nbytes <= MOST_BYTES:
        yield table
        return
    half = len(table) // 2
    yield from light_pieces(table.slice(0, half))
    yield from light_pieces(table.slice(half))


def one_chunk(table: pa.Table) -> pa.Table:
    try:
        return table.combine_chunks()
    except pa.ArrowInvalid as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise DataError(
            f"Rows of several batches cannot be put together: {reason}. A dictionary whose codes are too small for all "
            "values does that; cast the column to text in the data."
        ) from None
