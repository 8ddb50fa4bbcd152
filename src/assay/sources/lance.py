"""Lance tables: the fragments of one version, read by position.

Lives here: all that needs the package. Not here: what the columns mean.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from assay.errors import DataError
from assay.records import Chunk, ColumnStatistics, Fragment, Unit
from assay.sources.plain import plain_type
from assay.sources.row_groups import group_rows, in_groups
from assay.sources.table_settings import Table, table_of
from assay.spec.model import DataSpec


class LanceSource:
    """One version of a table. Its files never change, so a run over it can go on: of the latest version as long as it
    has the same fragments, else with `settings: {version: ...}`.

    Raises DataError: no table, no such version, no rows.
    """

    resumable = True

    def __init__(self, data: DataSpec, base: Path) -> None:
        where = table_of(data, base)
        self._opened: Any = _open(where)  # Any: lance has no types
        self._where = Table(where.place, self._opened.version)
        self.original: pa.Schema = self._opened.schema
        self.schema = pa.schema([pa.field(field.name, plain_type(field.type)) for field in self.original])
        fragments = [(one, one.count_rows()) for one in self._opened.get_fragments()]
        rows, size = sum(rows for _, rows in fragments), sum(_size(one) for one, _ in fragments)
        if not rows:
            raise DataError(
                f"The data have no rows: the Lance table {where.place!r} is empty. Name data with rows in data.path; "
                "for these there is nothing to score."
            )
        self._group_rows = group_rows(rows, size)
        self.fragments = tuple(
            Fragment(str(one.fragment_id), _size(one), _digest(one), in_groups(num_rows, self._group_rows))
            for one, num_rows in fragments
        )

    def __getstate__(self) -> dict[str, Any]:  # Any: as above
        """Without the table itself, which another process opens at the same version."""
        return {**self.__dict__, "_opened": None}

    def statistics(self, column: str) -> ColumnStatistics | None:
        """None: the table's own statistics are not read."""
        return None

    def first_values(self, column: str) -> Mapping[str, tuple[float, ...]] | None:
        """None, as above."""
        return None

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """One chunk for each row group, or part of one, that the unit spans."""
        return self._chunks(unit, pa.schema([self.schema.field(name) for name in columns]))

    def read_original(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """See OriginalSource; in the same pieces."""
        return self._chunks(unit, pa.schema([self.original.field(name) for name in columns], self.original.metadata))

    def _chunks(self, unit: Unit, schema: pa.Schema) -> Iterator[Chunk]:
        if self._opened is None:
            self._opened = _open(self._where)
        fragment = self._opened.get_fragment(int(unit.path))
        known = next(one for one in self.fragments if one.path == unit.path)
        rows = sum(known.row_groups or ()) - unit.first_row if unit.num_rows is None else unit.num_rows
        start, stop = unit.first_row, unit.first_row + rows
        while start < stop:
            end = min(stop, (start // self._group_rows + 1) * self._group_rows)
            yield Chunk(unit.path, start, self._rows(fragment, start, end, schema))
            start = end

    def _rows(self, fragment: Any, start: int, stop: int, schema: pa.Schema) -> pa.Table:  # Any: as above
        try:
            read = fragment.to_table(columns=schema.names, offset=start, limit=stop - start)
            table = read.select(schema.names).cast(schema)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DataError(
                f"Rows {start} to {stop} of fragment {fragment.fragment_id} of the Lance table {self._where.place!r} "
                f"cannot be read: {_line(error)}."
            ) from None
        if table.num_rows != stop - start:
            raise DataError(
                f"Fragment {fragment.fragment_id} of the Lance table {self._where.place!r} has changed since it was "
                "planned. Plan again, as a new run."
            )
        return table


def _open(where: Table) -> Any:  # Any: as above
    try:
        return lance.dataset(where.place, version=where.version)
    except (OSError, ValueError) as error:
        of_version = "" if where.version is None else f" in version {where.version}"
        raise DataError(f"There is no Lance table{of_version} at {where.place!r}: {_line(error)}.") from None


def _size(fragment: Any) -> int:  # Any: as above
    return sum(file.file_size_bytes or 0 for file in fragment.data_files())


def _digest(fragment: Any) -> str:  # Any: as above
    """Of its files' names, which are given once, and of the file that says which rows are deleted."""
    text = json.dumps(fragment.metadata.to_json(), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _line(error: Exception) -> str:
    return str(error).split("\n")[0].split(", /")[0].rstrip(".")
