"""Delta tables on a disk: the Parquet files that a version lists, read as such, with the columns it is partitioned by.

Lives here: which files, and the values that the table keeps outside of them. Not here: reading files (`parquet.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from assay.errors import DataError
from assay.records import Chunk, ColumnStatistics, EncodedRows, Unit
from assay.sources.parquet import ParquetSource
from assay.sources.table_settings import Table, table_of
from assay.spec.model import DataSpec

PARTITION = "partition."


class DeltaSource:
    """One version of a table. Its files never change, so a run over it can go on: over the latest as long as no other
    follows, else with `settings: {version: ...}`.

    Raises DataError: no table, no such version, rows deleted by vectors or renamed columns, and as `ParquetSource`.
    """

    resumable = True

    def __init__(self, data: DataSpec, base: Path) -> None:
        where = table_of(data, base)
        table = _opened(where)
        _check_readable(table, where.place)
        files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        if not files:
            raise DataError(
                f"The data have no rows: the Delta table {where.place!r} is empty. Name data with rows in data.path; "
                "for these there is nothing to score."
            )
        paths = sorted(unquote(one["path"]) for one in files)
        self._files = ParquetSource(paths, Path(where.place))
        self.fragments = self._files.fragments
        logical = pa.schema(table.schema().to_arrow())
        self._apart = {name: _wide(logical.field(name).type) for name in table.metadata().partition_columns}
        self._values = {
            unquote(one["path"]): {name: one[PARTITION + name] for name in self._apart} for one in files
        }  # as texts; None is null
        self.schema = self._whole(logical.names, self._files.schema)
        self.original = self._whole(logical.names, self._files.original)

    def statistics(self, column: str) -> ColumnStatistics | None:
        """What the files' footers say of one column; None for one that the table is partitioned by."""
        return self._files.statistics(column)

    def first_values(self, column: str) -> Mapping[str, tuple[float, ...]] | None:
        """As of Parquet files; None for a column that the table is partitioned by."""
        return None if column in self._apart else self._files.first_values(column)

    def column_bytes(self, column: str) -> int:
        """What the files' footers say; 0 for a column that the table is partitioned by."""
        return self._files.column_bytes(column)

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """As of Parquet files."""
        return self._with_values(self._files.read(unit, self._inside(columns)), columns)

    def read_original(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """See OriginalSource."""
        return self._with_values(self._files.read_original(unit, self._inside(columns)), columns)

    def encoded(self, unit: Unit, columns: Sequence[str]) -> EncodedRows | None:
        """See EncodedSource; None where one of the columns is in no file."""
        return None if self._apart.keys() & frozenset(columns) else self._files.encoded(unit, columns)

    def _whole(self, names: Sequence[str], files: pa.Schema) -> pa.Schema:
        """The table's columns, in its order."""
        fields = [pa.field(name, self._apart[name]) if name in self._apart else files.field(name) for name in names]
        return pa.schema(fields, files.metadata)

    def _inside(self, columns: Sequence[str]) -> list[str]:
        """Those that are in files; where none is, one, by which rows are counted."""
        return [name for name in columns if name not in self._apart] or self._files.schema.names[:1]

    def _with_values(self, chunks: Iterator[Chunk], columns: Sequence[str]) -> Iterator[Chunk]:
        for path, first_row, table in ((one.path, one.first_row, one.table) for one in chunks):
            values = {
                name: pa.chunked_array([_repeated(self._values[path][name], kind, table.num_rows)])
                for name, kind in self._apart.items()
                if name in columns
            }
            fields = [pa.field(name, self._apart[name]) if name in values else table.field(name) for name in columns]
            arrays = [values[name] if name in values else table[name] for name in columns]
            yield Chunk(path, first_row, pa.table(arrays, schema=pa.schema(fields, table.schema.metadata)))


def check_place(place: str, settings: Mapping[str, Any]) -> None:  # Any: of Ray Data's reader
    """DataError where that would read a table wrongly: it reads the files that the table lists, and no more."""
    table = _opened(Table(place, settings.get("version")), settings.get("storage_options"))
    _check_readable(table, place)


def _opened(where: Table, storage_options: dict[str, str] | None = None) -> DeltaTable:
    try:
        return DeltaTable(where.place, where.version, storage_options)
    except (DeltaError, OSError, ValueError) as error:
        said = str(error).split("\n")[0].rstrip(".")
        of_version = "" if where.version is None else f" in version {where.version}"
        raise DataError(f"There is no Delta table{of_version} at {where.place!r}: {said}.") from None


def _check_readable(table: DeltaTable, place: str) -> None:
    """What older readers would read wrongly without saying so."""
    features = table.protocol().reader_features or []
    if "deletionVectors" in features and pa.table(table.deletion_vectors()).num_rows:
        raise DataError(
            f"Rows of the Delta table {place!r} are deleted by vectors, which are not read here. Purge them (REORG "
            "TABLE ... APPLY (PURGE)), or write what is to be evaluated as a table of its own."
        )
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        raise DataError(
            f"The columns of the Delta table {place!r} have other names in its files (delta.columnMapping.mode), which "
            "is not read here. Write what is to be evaluated as a table of its own."
        )


def _wide(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_string(kind) or pa.types.is_large_string(kind) else kind


def _repeated(text: object, kind: pa.DataType, rows: int) -> pa.Array:
    value = pa.scalar(None if text is None else text).cast(kind)
    return pa.repeat(value, rows)
