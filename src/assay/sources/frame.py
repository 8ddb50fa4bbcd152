"""A frame in memory: pandas, polars, pyarrow, or anything with the Arrow PyCapsule interface.

Lives here: making it one Arrow table, and slices of that without copies. Not here: what the columns mean.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from assay.errors import DataError
from assay.records import Chunk, ColumnStatistics, Fragment, Unit
from assay.sources.plain import cast_table, plain_type, without_coded_views
from assay.sources.row_groups import GROUP_ROWS

PATH = "frame"


class FrameSource:
    """One frame as a single fragment `frame` with row groups of 65,536 rows.

    Its index, if it has one, is not a column. A run over it cannot be resumed: its content has no digest. Raises
    DataError: no frame, values that Arrow cannot hold, columns of one name, no rows.
    """

    resumable = False

    def __init__(self, frame: Any) -> None:  # Any: a frame of any library
        self._original = _converted_as_table(frame)
        self._table = plain_table(self._original)
        self.schema, self.original = self._table.schema, self._original.schema
        rows = self._table.num_rows
        if not rows:
            raise DataError("The data have no rows: the frame is empty. Give one with rows; there is nothing to score.")
        groups = tuple(min(GROUP_ROWS, rows - start) for start in range(0, rows, GROUP_ROWS))
        self.fragments = (Fragment(PATH, self._table.nbytes, _digest(self.schema, rows), groups),)

    def statistics(self, column: str) -> ColumnStatistics | None:
        """The statistics of the data; None for an unknown column, no minimum and maximum for one that is no number."""
        if column not in self.schema.names:
            return None
        values, kind = self._table[column], self.schema.field(column).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return ColumnStatistics(None, None, values.null_count)
        least, most = _range(values)
        return ColumnStatistics(least, most, values.null_count)

    def first_values(self, column: str) -> Mapping[str, tuple[float, ...]] | None:
        """The least value in each row group, times in microseconds; None where one has none, and
        for an unknown column or one without such values."""
        if column not in self.schema.names:
            return None
        kind = self.schema.field(column).type
        values = self._table[column]
        if pa.types.is_temporal(kind):
            values = values.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return None
        least = [_range(values.slice(start, GROUP_ROWS))[0] for start in range(0, len(values), GROUP_ROWS)]
        known = tuple(value for value in least if value is not None)
        return {PATH: known} if len(known) == len(least) else None

    def column_bytes(self, column: str) -> int:
        """See SizedSource."""
        return int(self._table[column].nbytes) if column in self.schema.names else 0

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """One chunk for each row group, or part of one, that the unit spans; slices of the frame, not copies."""
        table = self._table.select(list(columns))
        stop = table.num_rows if unit.num_rows is None else unit.first_row + unit.num_rows
        start = unit.first_row
        while start < stop:
            end = min(stop, (start // GROUP_ROWS + 1) * GROUP_ROWS)
            yield Chunk(PATH, start, table.slice(start, end - start))
            start = end

    def read_original(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """See OriginalSource; slices of the frame."""
        table = self._original.select(list(columns))
        stop = table.num_rows if unit.num_rows is None else unit.first_row + unit.num_rows
        for start in range(unit.first_row, stop, GROUP_ROWS):
            yield Chunk(PATH, start, table.slice(start, min(GROUP_ROWS, stop - start)))


def as_table(frame: Any) -> pa.Table:  # Any: a frame of any library
    """In types that all readers of rows know, without metadata. DataError as in `FrameSource`."""
    return plain_table(_converted_as_table(frame))


def _converted_as_table(frame: Any) -> pa.Table:  # Any: a frame of any library
    try:
        table = _converted(frame)
    except _REFUSALS as error:
        raise _refused(frame, error) from None
    twice = next((name for name in table.column_names if table.column_names.count(name) > 1), None)
    if twice is not None:
        raise _named_twice(twice)
    return cast_table(table, without_coded_views(table.schema))


_REFUSALS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _refused(frame: Any, error: Exception) -> DataError:  # Any: a frame of any library
    """What a library or Arrow said of the frame, as of the first column that it says it of."""
    for name in getattr(frame, "columns", ()):
        try:
            _converted(frame[[name]])
        except _REFUSALS as of_column:
            kind = str(getattr(frame[name], "dtype", "unknown"))
            advice = (
                "Give all its values one type that Arrow has."
                if kind == "object"
                else "Cast it to a type that Arrow has, or leave it out of the frame."
            )
            return DataError(
                f"The column {str(name)!r} of the frame, of type {kind}, cannot be taken as an Arrow column: "
                f"{_reason(of_column)}. {advice}"
            )
    return DataError(
        f"A {type(frame).__name__} cannot be taken as an Arrow table: {_reason(error)}. Give a pandas, polars or Arrow "
        "table, or a path to files."
    )


def _named_twice(name: object) -> DataError:
    return DataError(f"The frame has two columns of the name {str(name)!r}. Rename one of them.")


def _reason(error: Exception) -> str:
    """The first of the sentences that an error has, in its first line."""
    first = error.args[0] if error.args else error
    return str(first).split("\n")[0].rstrip(".")


def plain_table(table: pa.Table) -> pa.Table:
    plain = pa.schema([field.with_type(plain_type(field.type)) for field in table.schema])
    columns = [_unified(column) for column in cast_table(table, plain).columns]
    return pa.table(columns, table.column_names)


def _unified(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """With one dictionary for all its chunks; by value where Arrow makes none, as of words that are null, or a wrong
    one, as of 16-bit floats; and as it is where it has no value either."""
    is_coded = pa.types.is_dictionary(column.type)
    if not (is_coded and pa.types.is_float16(column.type.value_type)):
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return column.unify_dictionaries()
    if is_coded:
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return column.cast(column.type.value_type)
    return column


def _converted(frame: Any) -> pa.Table:  # Any: a frame of any library
    if isinstance(frame, pa.Table):
        return frame
    if type(frame).__module__.split(".")[0] == "pandas" and hasattr(frame, "columns"):
        if not frame.columns.is_unique:
            raise _named_twice(frame.columns[frame.columns.duplicated()][0])
        return pa.Table.from_pandas(frame, preserve_index=False)
    if hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__"):
        return pa.table(frame)
    if hasattr(frame, "collect"):
        raise DataError(f"A {type(frame).__name__} has no rows yet. Call its collect() first.")
    raise DataError(f"A {type(frame).__name__} is no frame. Give a pandas, polars or Arrow table, or a path to files.")


def _range(values: pa.ChunkedArray) -> tuple[float | None, float | None]:
    half = pa.types.is_float16(values.type)  # which min_max does not take
    found = pc.min_max(values.cast(pa.float32()) if half else values).as_py()
    if found["min"] is None or found["min"] != found["min"]:
        return None, None
    return float(found["min"]), float(found["max"])


def _digest(schema: pa.Schema, rows: int) -> str:
    return hashlib.sha256(f"{schema} {rows}".encode()).hexdigest()[:32]
