"""Carried columns that are decoded: read once for several units, and of each the rows that are wanted.

Lives here: cutting what a source yields. Not here: which rows are wanted (`join.py`), and columns that are copied
undecoded (`sinks/spliced.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.errors import RunError
from assay.records import Chunk, Unit
from assay.sources.plain import cast_table, plain_type

Positions = NDArray[np.int64]


class CarriedRows:
    """Columns of rows that follow one another in a file, read once, unit by unit."""

    def __init__(self, chunks: Iterator[Chunk] | None) -> None:
        """None: no columns are wanted."""
        self._chunks = chunks
        self._left: Chunk | None = None

    def rows(self, unit: Unit, positions: Positions) -> Iterator[tuple[slice, pa.Table]]:
        """Those of a unit, in parts: which of the positions, and their columns. RunError where the source has fewer."""
        if self._chunks is None:
            yield slice(0, len(positions)), pa.table({})
            return
        stop = None if unit.num_rows is None else unit.first_row + unit.num_rows
        done = 0
        while (chunk := self._next(stop)) is not None:
            start, end = np.searchsorted(positions, [chunk.first_row, chunk.first_row + chunk.table.num_rows])
            if start < end:
                yield slice(start, end), taken_in_order(chunk.table, positions[start:end] - chunk.first_row)
                done = int(end)
        if done != len(positions):
            raise RunError(
                f"{unit.path} has only {done} of the {len(positions)} rows that were scored in unit {unit.id}: it is "
                "not what it was."
            )

    def _next(self, stop: int | None) -> Chunk | None:
        """The next rows before `stop`; what lies behind it is left for the next unit."""
        assert self._chunks is not None
        chunk = self._left if self._left is not None else next(self._chunks, None)
        self._left = None
        if chunk is None or stop is None:
            return chunk
        inside = stop - chunk.first_row
        if inside <= 0:
            self._left = chunk
            return None
        if inside < chunk.table.num_rows:
            self._left = Chunk(chunk.path, stop, chunk.table.slice(inside))
            return Chunk(chunk.path, chunk.first_row, chunk.table.slice(0, inside))
        return chunk


def taken_in_order(table: pa.Table, rows: Positions) -> pa.Table:
    """These rows, which are in order: a slice where none is left out between them."""
    if not table.num_columns or not len(rows):
        return table.slice(0, 0)
    if rows[-1] - rows[0] + 1 == len(rows):
        return table.slice(int(rows[0]), len(rows))
    return taken(table, rows)


def taken(table: pa.Table, rows: Positions) -> pa.Table:
    """These rows, which are in order, some of them perhaps several times. Each batch for itself: where Arrow puts
    dictionaries of several together, it refuses some and spoils others."""
    plain = pa.schema([field.with_type(plain_type(field.type)) for field in table.schema], table.schema.metadata)
    found, start = list[pa.RecordBatch](), 0
    for batch in cast_table(table, plain).to_batches():
        first, last = np.searchsorted(rows, [start, start + len(batch)])
        if first < last:
            found.append(batch.take(pa.array(rows[first:last] - start)))
        start += len(batch)
    return cast_table(pa.Table.from_batches(found, plain), table.schema)
