"""CSV files: types from the first rows, then fixed; read as a stream.

Lives here: inferring and keeping the types, chunks of one size. Not here: which files, and what the columns mean.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from assay.errors import DataError
from assay.records import Chunk, ColumnStatistics, Fragment, Unit

CHUNK_ROWS = 65_536
INFERENCE_BYTES = 16 << 20
BLOCK_BYTES = 4 << 20
_CONVERSION = re.compile(r"In CSV column #(?P<column>\d+): (?:Row #(?P<row>\d+): )?(?P<reason>.*)", re.DOTALL)


class CsvSource:
    """CSV files with a header under a root folder, all with the columns of the first.

    Types are inferred from the first 16 MiB of the first file that has rows (a column without a value there is a
    string), then hold for all rows. Empty fields are null; so are pyarrow's other null spellings, but not in columns of
    text. Raises DataError: unreadable, columns that differ, no rows; when read, a value that is not of its column's
    type.
    """

    resumable = True

    def __init__(self, paths: Sequence[str], root: Path) -> None:
        self._root = root
        first, has_rows = _peek(root / paths[0], INFERENCE_BYTES)
        for path in paths[1:]:
            schema, more = _peek(root / path, BLOCK_BYTES if has_rows else INFERENCE_BYTES)
            _check_same(paths[0], first.names, path, schema.names)
            first, has_rows = (first, True) if has_rows else (schema, more)
        self.schema = pa.schema([_known(field) for field in first])
        if not has_rows:
            raise DataError(
                f"The data have no rows: {len(paths)} CSV file(s) under {str(root)!r}, only headers. Name data with "
                "rows in data.path; for these there is nothing to score."
            )
        self.fragments = tuple(_fragment(root, path) for path in paths)

    def statistics(self, column: str) -> ColumnStatistics | None:
        """None: CSV files keep none."""
        return None

    def first_values(self, column: str) -> Mapping[str, tuple[float, ...]] | None:
        """None: CSV files keep none."""
        return None

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """The unit's rows in chunks that start at multiples of 65,536; only `columns`, in the order given."""
        path = self._root / unit.path
        fragment = next((one for one in self.fragments if one.path == unit.path), None)
        if fragment is None:
            raise DataError(f"The file {unit.path!r} of unit {unit.id} is not among the files of {str(self._root)!r}.")
        if not path.is_file() or _digest(path) != fragment.digest:
            raise DataError(f"The file {str(path)!r} has changed since it was planned. Plan again, as a new run.")
        stop = None if unit.num_rows is None else unit.first_row + unit.num_rows
        for chunk in self._chunks(unit.path, columns):
            start = max(0, unit.first_row - chunk.first_row)
            num_rows = chunk.table.num_rows - start if stop is None else stop - chunk.first_row - start
            if start < chunk.table.num_rows and num_rows > 0:
                yield Chunk(unit.path, chunk.first_row + start, chunk.table.slice(start, num_rows))
            if stop is not None and stop <= chunk.first_row + chunk.table.num_rows:
                return

    def _chunks(self, relative: str, columns: Sequence[str]) -> Iterator[Chunk]:
        path = self._root / relative
        types = pa.schema([self.schema.field(name) for name in columns])
        convert = pv.ConvertOptions(column_types=types, include_columns=list(columns))
        first_row, waiting, rows = 0, list[pa.RecordBatch](), 0
        try:
            for batch in _open(path, BLOCK_BYTES, convert):
                waiting.append(_without_empty_text(batch))
                rows += len(batch)
                while rows >= CHUNK_ROWS:
                    table = pa.Table.from_batches(waiting, types)
                    yield Chunk(relative, first_row, table.slice(0, CHUNK_ROWS).combine_chunks())
                    first_row, rows = first_row + CHUNK_ROWS, rows - CHUNK_ROWS
                    waiting = table.slice(CHUNK_ROWS).to_batches()
        except pa.ArrowInvalid as error:
            _refuse(path, error, self.schema)
        if rows:
            yield Chunk(relative, first_row, pa.Table.from_batches(waiting, types).combine_chunks())


def _fragment(root: Path, path: str) -> Fragment:
    return Fragment(path, (root / path).stat().st_size, _digest(root / path), None)


def _without_empty_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Empty texts are null, as an empty field is in a column of any other type."""
    columns = [
        pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
        if pa.types.is_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, schema=batch.schema)


def _open(path: Path, block_bytes: int, convert: pv.ConvertOptions | None = None) -> pv.CSVStreamingReader:
    """One thread: errors then name the row, and a worker computes on one thread."""
    reading = pv.ReadOptions(use_threads=False, block_size=block_bytes)
    parsing = pv.ParseOptions(newlines_in_values=True)
    return pv.open_csv(path, read_options=reading, parse_options=parsing, convert_options=convert)


def _peek(path: Path, block_bytes: int) -> tuple[pa.Schema, bool]:
    """The types of the first block, and whether it has a row."""
    try:
        with _open(path, block_bytes) as reader:
            schema, rows = reader.schema, sum(len(batch) for batch in islice(reader, 1))
    except (pa.ArrowInvalid, OSError) as error:
        _refuse(path, error, None)
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"The file {str(path)!r} has two columns of the name {twice!r}. Rename one of them.")
    return schema, rows > 0


def _known(field: pa.Field) -> pa.Field:
    return field.with_type(pa.string()) if pa.types.is_null(field.type) else field


def _check_same(first: str, expected: Sequence[str], path: str, names: Sequence[str]) -> None:
    for name in expected:
        if name not in names:
            raise DataError(f"The file {path!r} has no column {name!r}, which {first!r} has.")
    for name in names:
        if name not in expected:
            raise DataError(f"The file {path!r} has a column {name!r} that {first!r} has not.")


def _digest(path: Path) -> str:
    status = path.stat()
    return hashlib.sha256(f"{status.st_size} {status.st_mtime_ns}".encode()).hexdigest()[:32]


def _refuse(path: Path, error: Exception, schema: pa.Schema | None) -> NoReturn:
    """pyarrow's message with the file, the column's name and the row (the header is row 1)."""
    match = _CONVERSION.match(str(error))
    if match is None or schema is None:
        reason = str(error).split("\n")[0].rstrip(".")
        raise DataError(f"The file {str(path)!r} cannot be read as CSV: {reason}.") from None
    row = f", row {match['row']}" if match["row"] else ""
    raise DataError(
        f"The file {str(path)!r}{row} does not fit the column types: {match['reason'].rstrip('.')}, in column "
        f"{_column_name(path, int(match['column']))!r}. Types are those of the first rows of the first file; "
        "convert the column or write Parquet."
    ) from None


def _column_name(path: Path, position: int) -> str:
    with _open(path, BLOCK_BYTES, pv.ConvertOptions(column_types={})) as reader:
        return str(reader.schema.names[position])
