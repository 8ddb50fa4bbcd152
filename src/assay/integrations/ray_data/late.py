"""Wide columns that are read after the models: by row numbers, from where they lie.

Lives here: the stage that appends them. Not here: where they lie (`parquet_rows.py`, `blocks.py`).

Axes: n rows of a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.errors import DataError
from assay.integrations.ray_data.columns import CarryOver, check_clash
from assay.spec.words import agree, count

Numbers = NDArray[np.int64]
ROW_NUMBER = "row_number"


class Wide(Protocol):
    """Where wide columns lie: pieces of rows, one after another. Cheap to send to another process."""

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def starts(self) -> Numbers: ...  # [pieces + 1] number of each piece's first row, and of all rows
    def read_piece(self, piece: int, columns: Sequence[str]) -> pa.Table: ...  # DataError when it has changed


class Late:
    """The stage after the models: appends wide columns by the number of each row.

    Columns come out in the order of `wide`, then those that only the block has, then the outputs. What the block has
    itself is not read again.
    """

    def __init__(self, wide: Wide, carry_over: CarryOver, row_column: str, outputs: Sequence[str]) -> None:
        self._wide, self._carry_over = wide, carry_over
        self._row_column, self._outputs = row_column, tuple(outputs)

    def __call__(self, block: pa.Table) -> Iterator[pa.Table]:
        """The rows of the block by piece of `wide`, so that no more than one piece of it is held."""
        if not block.num_columns:
            yield block
            return
        kept = self._kept(block.column_names)
        absent = [name for name in kept if name not in block.column_names]
        numbers = row_numbers(block, self._row_column)
        for part, found in take_rows(self._wide, numbers, absent):
            yield self._together(block.slice(part.start, part.stop - part.start), found, kept)

    def _together(self, block: pa.Table, found: pa.Table, kept: Sequence[str]) -> pa.Table:
        names = [*kept, *self._outputs]
        homes = [block if name in block.column_names else found for name in names]
        fields = [home.schema.field(name) for home, name in zip(homes, names, strict=True)]
        metadata = {**(self._wide.schema.metadata or {}), **(block.schema.metadata or {})}
        columns = [home.column(name) for home, name in zip(homes, names, strict=True)]
        return pa.table(columns, schema=pa.schema(fields, metadata or None))

    def _kept(self, block: Sequence[str]) -> list[str]:
        """What is carried over of all columns that the data have."""
        wide = self._wide.schema.names
        own = [name for name in block if name not in wide and name not in (*self._outputs, self._row_column)]
        kept = self._carry_over.chosen([*wide, *own])
        check_clash(self._outputs, kept)
        return kept


def row_numbers(block: pa.Table, column: str) -> Numbers:
    """[n] the number of each row. DataError when the column is not there, of another type, or has nulls."""
    if column not in block.column_names:
        raise DataError(
            f"The dataset has no column {column!r} any more, by which wide columns are found. Keep it in all steps "
            "between ParquetRows.dataset and here."
        )
    values = block.column(column)
    if values.type != pa.int64() or values.null_count:
        nulls = f" with {count(values.null_count, 'null')}" if values.null_count else ""
        raise DataError(
            f"The column {column!r} is {values.type}{nulls}; expected int64 without nulls, as ParquetRows.dataset "
            "gives it."
        )
    numbers: Numbers = values.to_numpy()
    return numbers


def take_rows(wide: Wide, numbers: Numbers, columns: Sequence[str]) -> Iterator[tuple[slice, pa.Table]]:
    """The rows of these numbers: a part of them, and its table, one after another in their order.

    A table is a piece's own memory where the rows follow one another in it. Rows out of order are all one part.
    """
    outside = numbers[(numbers < 0) | (numbers >= wide.starts[-1])]
    if len(outside):
        raise DataError(
            f"{count(len(outside), 'row number')} {agree(len(outside), 'is', 'are')} outside the "
            f"{count(int(wide.starts[-1]), 'row')} of the data, the first is {outside[0]}. The dataset was read from "
            "other data than those named as late."
        )
    if not columns or not len(numbers):
        empty = pa.schema([wide.schema.field(name) for name in columns]).empty_table()
        yield slice(0, len(numbers)), empty
    elif (np.diff(numbers) < 0).any():
        order = np.argsort(numbers, kind="stable")
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        parts = [table for _, table in take_rows(wide, numbers[order], columns)]
        yield slice(0, len(numbers)), pa.concat_tables(parts).take(pa.array(back))
    else:
        pieces = np.searchsorted(wide.starts, numbers, side="right") - 1
        first = np.flatnonzero(np.r_[True, np.diff(pieces) > 0])
        for start, stop in zip(first, [*first[1:], len(numbers)], strict=True):
            piece = int(pieces[start])
            rows = numbers[start:stop] - wide.starts[piece]
            yield slice(int(start), int(stop)), _some_rows(wide.read_piece(piece, columns), rows)


def _some_rows(table: pa.Table, rows: Numbers) -> pa.Table:
    """rows: increasing positions, maybe some twice."""
    if rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return table.slice(int(rows[0]), len(rows))
    return table.take(pa.array(rows))
