"""Parquet files: planned from their footers, read by row group.

Lives here: footers, their statistics and digests, reading a range of rows. Not here: which files, which rows, and what
the columns mean.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from assay.errors import DataError
from assay.footers import MAGIC, TAIL_BYTES
from assay.records import Chunk, ColumnStatistics, EncodedRows, Fragment, Unit
from assay.sources.encoded import encoded_rows
from assay.sources.plain import cast_table, plain_type

MOST_AT_ONCE = 1 << 20
"""Rows of a row group that are decoded at once; longer ones are skipped through in such steps."""
PIECE_ROWS = 32_768
"""The same where all columns may be wanted, as they were written."""
PIECE_BYTES = 512 << 20
"""And so many bytes about, where rows are long: Arrow decodes no 2 GiB of texts in lists or structs at once."""
MOST_CHUNKS = 10_000
"""Columns of row groups of a file; our own look into a footer takes 0.1 ms and 4 KiB for each."""


class Footer(NamedTuple):
    """One file's footer and its digest."""

    metadata: pq.FileMetaData
    size_bytes: int
    digest: str


class ParquetSource:
    """Parquet files under a root folder, all with the same columns and types.

    Pickles with what the footers said, so that a worker need not read them all again. Dictionary-encoded columns come
    with 32-bit indices, whatever each file has. Raises DataError: no complete Parquet file, columns that differ between
    files, no rows at all.
    """

    resumable = True

    def __init__(self, paths: Sequence[str], root: Path) -> None:
        self._root = root
        footers = {path: read_footer(root / path) for path in paths}
        schemas = {path: _schema(root / path, footer.metadata) for path, footer in footers.items()}
        self.schema = schemas[paths[0]]
        for path in paths[1:]:
            _check_same(paths[0], self.schema, path, schemas[path])
        self.original = _original([_as_read(footer.metadata) for footer in footers.values()])
        self.fragments = tuple(_fragment(path, footer) for path, footer in footers.items())
        if not any(sum(fragment.row_groups or ()) for fragment in self.fragments):
            raise DataError(
                f"The data have no rows: {len(paths)} Parquet file(s) under {str(root)!r}, all empty. Name data with "
                "rows in data.path; for these there is nothing to score."
            )
        metadata = [footer.metadata for footer in footers.values()]
        places = _places_of(metadata)
        self._statistics = {name: _merged_statistics(metadata, places, name) for name in self.schema.names}
        self._bytes = _bytes_of(metadata, self.schema.names)

    def statistics(self, column: str) -> ColumnStatistics | None:
        """What the footers say of one column; None for an unknown or nested one."""
        return self._statistics.get(column)

    def first_values(self, column: str) -> Mapping[str, tuple[float, ...]] | None:
        """The least value of the column in each row group of each fragment, times in microseconds; None where not all
        footers say it. Reads the footers again."""
        minima = {}
        for fragment in self.fragments:
            metadata = read_footer(self._root / fragment.path).metadata
            (places,) = _places_of([metadata])
            groups = _column_chunks(metadata, places, column)
            least = _all_known([_least(group) for group in groups])
            if least is None or len(least) != len(fragment.row_groups or ()):
                return None
            minima[fragment.path] = tuple(least)
        return minima

    def column_bytes(self, column: str) -> int:
        """What the footers say; values that a dictionary holds once are counted once."""
        return self._bytes.get(column, 0)

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """One chunk for each row group, or part of one, that the unit spans; only `columns`, in the order given."""
        path = self._root / unit.path
        fragment, footer, _ = self._planned(unit)
        types = pa.schema([self.schema.field(name) for name in columns])
        num_rows = sum(fragment.row_groups or ()) - unit.first_row if unit.num_rows is None else unit.num_rows
        with pq.ParquetFile(path, metadata=footer.metadata, memory_map=True) as file:
            for group, start, stop, first_row in _overlaps(fragment.row_groups or (), unit.first_row, num_rows):
                yield Chunk(unit.path, first_row, _read_rows(path, file, group, start, stop, types))

    def read_original(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """See OriginalSource. Of a row group that the unit begins in, the rows before it are decoded too."""
        path = self._root / unit.path
        fragment, footer, _ = self._planned(unit)
        types = pa.schema([self.original.field(name) for name in columns], self.original.metadata)
        num_rows = sum(fragment.row_groups or ()) - unit.first_row if unit.num_rows is None else unit.num_rows
        with pq.ParquetFile(path, metadata=footer.metadata, memory_map=True) as file:
            for group, start, stop, first_row in _overlaps(fragment.row_groups or (), unit.first_row, num_rows):
                position = first_row
                for table in _pieces(path, file, group, start, stop, types):
                    yield Chunk(unit.path, position, table)
                    position += table.num_rows

    def encoded(self, unit: Unit, columns: Sequence[str]) -> EncodedRows | None:
        """See EncodedSource."""
        fragment, footer, data = self._planned(unit)
        metadata, groups = footer.metadata, _whole_groups(fragment.row_groups or (), unit)
        if groups is None or metadata.num_columns * metadata.num_row_groups > MOST_CHUNKS:
            return None
        return encoded_rows(self._root / unit.path, data, groups, columns, _as_read(metadata))

    def _planned(self, unit: Unit) -> tuple[Fragment, Footer, bytes]:
        """The unit's file, and its footer, read and as bytes. DataError: it is none of these, or has changed."""
        fragment = next((one for one in self.fragments if one.path == unit.path), None)
        if fragment is None:
            raise DataError(f"The file {unit.path!r} of unit {unit.id} is not among the files of {str(self._root)!r}.")
        path = self._root / unit.path
        footer, data = _read_footer(path)
        if footer.digest != fragment.digest:
            raise DataError(f"The file {str(path)!r} has changed since it was planned. Plan again, as a new run.")
        return fragment, footer, data


def read_footer(path: Path) -> Footer:
    """A file's footer, from its last bytes alone. DataError when they are not those of a Parquet file."""
    return _read_footer(path)[0]


def _read_footer(path: Path) -> tuple[Footer, bytes]:
    """With its bytes."""
    least = len(MAGIC) + TAIL_BYTES
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            tail = file.read(TAIL_BYTES)
            length = int.from_bytes(tail[:4], "little")
            if size < least or tail[4:] != MAGIC or length > size - least:
                raise DataError(_incomplete(path, size))
            file.seek(size - TAIL_BYTES - length)
            footer = file.read(length)
        metadata = pq.read_metadata(pa.BufferReader(MAGIC + footer + tail))
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"The file {str(path)!r} cannot be read as Parquet: {_line(error)}.") from None
    return Footer(metadata, size, hashlib.sha256(footer).hexdigest()[:32]), footer


def _incomplete(path: Path, size: int) -> str:
    return (
        f"The file {str(path)!r} ({size} bytes) is not a complete Parquet file: it does not end with a footer. "
        "It may be truncated or of another format; write it again or leave it out."
    )


def _line(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(".")


def _schema(path: Path, metadata: pq.FileMetaData) -> pa.Schema:
    fields = [field.with_type(_wide(field.type)).remove_metadata() for field in metadata.schema.to_arrow_schema()]
    names = [field.name for field in fields]
    numbers = Counter(names)
    twice = next((name for name in names if numbers[name] > 1), None)
    if twice is not None:
        raise DataError(f"The file {str(path)!r} has two columns of the name {twice!r}. Rename one of them.")
    return pa.schema(fields)


def _wide(kind: pa.DataType) -> pa.DataType:
    """Dictionaries of different sizes have indices of different widths: one width fits all files."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), kind.value_type, kind.ordered)
    return plain_type(kind)


def _check_same(first: str, expected: pa.Schema, path: str, schema: pa.Schema) -> None:
    own_names, expected_names = frozenset(schema.names), frozenset(expected.names)
    for field in expected:
        if field.name not in own_names:
            raise DataError(f"The file {path!r} has no column {field.name!r}, which {first!r} has as {field.type}.")
        own = schema.field(field.name).type
        if own != field.type:
            raise DataError(f"The column {field.name!r} is {own} in the file {path!r}, but {field.type} in {first!r}.")
    for field in schema:
        if field.name not in expected_names:
            raise DataError(f"The file {path!r} has a column {field.name!r} ({field.type}) that {first!r} has not.")


def _as_read(metadata: pq.FileMetaData) -> pa.Schema:
    """The types in which Arrow gives the columns of the file, those of its extensions too."""
    return pq.ParquetFile(pa.BufferReader(b""), metadata=metadata).schema_arrow


def _original(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """As the first file has it; a type that is not the same in all of them as it is read."""
    fields = []
    for field in schemas[0]:
        others = [one.field(field.name) for one in schemas]
        same = all(one.type == field.type for one in others)
        kind = field.type if same else _wide(field.type)
        fields.append(field.with_type(kind).with_nullable(any(one.nullable for one in others)))
    return pa.schema(fields, schemas[0].metadata)


def _fragment(path: str, footer: Footer) -> Fragment:
    metadata = footer.metadata
    row_groups = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    return Fragment(path, footer.size_bytes, footer.digest, row_groups)


# ---- statistics ------------------------------------------------------------------------------------------------------


def _bytes_of(files: Sequence[pq.FileMetaData], names: Sequence[str]) -> dict[str, int]:
    """Column -> bytes of its values in all row groups, decompressed; a nested column's parts together."""
    known, found = frozenset(names), Counter[str]()
    for metadata in files:
        paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
        columns = [path if path in known else path.partition(".")[0] for path in paths]
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for position, name in enumerate(columns):
                found[name] += group.column(position).total_uncompressed_size
    return dict(found)


Places = Mapping[str, Sequence[int]]
"""The positions of a file's columns, by their paths."""


def _places_of(files: Sequence[pq.FileMetaData]) -> list[Places]:
    """One for each file; files of the same columns share it."""
    known: dict[tuple[str, ...], Places] = {}
    found = []
    for metadata in files:
        schema = metadata.schema
        paths = tuple(schema.column(i).path for i in range(metadata.num_columns))
        if paths not in known:
            places: dict[str, list[int]] = {}
            for position, path in enumerate(paths):
                places.setdefault(path, []).append(position)
            known[paths] = places
        found.append(known[paths])
    return found


def _column_chunks(metadata: pq.FileMetaData, places: Places, column: str) -> list[pq.ColumnChunkMetaData]:
    """The column's part of each row group; none for a nested or unknown column. places: of this file."""
    groups = range(metadata.num_row_groups)
    return [metadata.row_group(group).column(i) for i in places.get(column, ()) for group in groups]


def _has_range(chunk: pq.ColumnChunkMetaData) -> bool:
    return bool(chunk.is_stats_set and chunk.statistics.has_min_max)


def _least(chunk: pq.ColumnChunkMetaData) -> float | None:
    """An empty row group comes after all."""
    if not chunk.num_values:
        return math.inf
    return _number(chunk.statistics.min) if _has_range(chunk) else None


def _merged_statistics(
    files: Sequence[pq.FileMetaData], places: Sequence[Places], column: str
) -> ColumnStatistics | None:
    """None for a nested column; a field is None when any row group with values does not say it."""
    by_file = zip(files, places, strict=True)
    chunks = [chunk for metadata, own in by_file for chunk in _column_chunks(metadata, own, column)]
    chunks = [chunk for chunk in chunks if chunk.num_values]
    if not chunks:
        return None
    nulls = [chunk.statistics.null_count if chunk.is_stats_set else None for chunk in chunks]
    filled = [chunk for chunk, count in zip(chunks, nulls, strict=True) if count != chunk.num_values]
    minima = [_number(chunk.statistics.min) if _has_range(chunk) else None for chunk in filled]
    maxima = [_number(chunk.statistics.max) if _has_range(chunk) else None for chunk in filled]
    num_nulls = sum(count for count in nulls if count is not None)
    least, most = _all_known(minima), _all_known(maxima)
    return ColumnStatistics(
        min(least) if least else None, max(most) if most else None, None if None in nulls else num_nulls
    )


def _all_known(values: Sequence[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def _number(value: object) -> float | None:
    """Numbers as they are, times in microseconds since 1970; None for what has no place on a line."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware.timestamp() * 1e6
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).total_seconds() * 1e6
    return float(value) if isinstance(value, int | float) else None


# ---- rows ------------------------------------------------------------------------------------------------------------


def _overlaps(row_groups: Sequence[int], first_row: int, num_rows: int) -> Iterator[tuple[int, int, int, int]]:
    """(row group, start and stop inside it, position in the file of the start) for each row group the range touches."""
    begin = 0
    for group, rows in enumerate(row_groups):
        start, stop = max(0, first_row - begin), min(rows, first_row + num_rows - begin)
        if start < stop:
            yield group, start, stop, begin + start
        begin += rows


def _whole_groups(row_groups: Sequence[int], unit: Unit) -> range | None:
    """Which row groups a unit is made of; None where it has a part of one."""
    starts = [0, *accumulate(row_groups)]
    stop = starts[-1] if unit.num_rows is None else unit.first_row + unit.num_rows
    if unit.first_row not in starts or stop not in starts:
        return None
    return range(starts.index(unit.first_row), starts.index(stop))


def _read_rows(path: Path, file: pq.ParquetFile, group: int, start: int, stop: int, schema: pa.Schema) -> pa.Table:
    """Rows start..stop of a row group. Decoding stops at `stop`, and holds at most MOST_AT_ONCE rows before `start`."""
    size = max(1, min(MOST_AT_ONCE, stop))
    pieces, begin = [], 0
    try:
        for batch in file.iter_batches(size, row_groups=[group], columns=schema.names, use_threads=False):
            if begin + len(batch) > start:
                pieces.append(batch.slice(max(0, start - begin), stop - max(start, begin)))
            begin += len(batch)
            if begin >= stop:
                break
        table = cast_table(pa.Table.from_batches(pieces).select(schema.names), schema)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"Row group {group} of the file {str(path)!r} cannot be read: {_line(error)}.") from None
    if table.num_rows != stop - start:
        raise DataError(f"Row group {group} of the file {str(path)!r} holds {begin} rows, fewer than its footer says.")
    return table


def _pieces(
    path: Path, file: pq.ParquetFile, group: int, start: int, stop: int, schema: pa.Schema
) -> Iterator[pa.Table]:
    """The same rows, as many at a time as `_piece_rows` says."""
    begin, size = 0, _piece_rows(file.metadata.row_group(group), schema.names)
    try:
        for batch in file.iter_batches(size, row_groups=[group], columns=schema.names, use_threads=False):
            first, last = max(start, begin), min(stop, begin + len(batch))
            if first < last:
                piece = pa.Table.from_batches([batch.slice(first - begin, last - first)])
                yield cast_table(piece.select(schema.names), schema)
            begin += len(batch)
            if begin >= stop:
                return
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"Row group {group} of the file {str(path)!r} cannot be read: {_line(error)}.") from None
    raise DataError(f"Row group {group} of the file {str(path)!r} holds {begin} rows, fewer than its footer says.")


def _piece_rows(group: pq.RowGroupMetaData, names: Sequence[str]) -> int:
    """PIECE_ROWS, or fewer where so many of these columns have more than PIECE_BYTES."""
    known = frozenset(names)
    columns = map(group.column, range(group.num_columns))
    num_bytes: int = sum(
        one.total_uncompressed_size
        for one in columns
        if one.path_in_schema in known or one.path_in_schema.partition(".")[0] in known
    )
    num_rows: int = group.num_rows
    return max(1, min(PIECE_ROWS, PIECE_BYTES * num_rows // max(1, num_bytes)))
