"""Delta tables, through deltalake: parts are files that no reader sees before one transaction adds them all.

The transaction carries the run's id (`txn` of the Delta protocol), so that of two commits of one run only one can go
through, whatever processes they come from. Credentials come from the environment, as deltalake finds them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from assay.errors import RunError
from assay.protocols import OpenPlace
from assay.records import PartFile, SinkSettings
from assay.sinks.forms import Form
from assay.sinks.kinds import is_bytes, is_text, nested
from assay.sinks.parquet import ParquetFormat
from assay.sinks.parts import PartWriter
from assay.sinks.tables import COMMITS, as_reason, check_same, of_64_bits, other_partitions, part_of

if TYPE_CHECKING:  # older releases do not have it
    from deltalake.transaction import RemoveAction

_KEPT = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32())
_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.float16(): pa.float32()}


def delta_type(kind: pa.DataType) -> pa.DataType | None:
    """The type of Delta that holds all values of a type: the same, a wider one, or None.

    >>> delta_type(pa.uint32()), delta_type(pa.uint64()), delta_type(pa.timestamp("ms", "Europe/Berlin"))
    (DataType(int64), None, TimestampType(timestamp[us, tz=UTC]))
    """
    return nested(kind, _leaf)


def _leaf(kind: pa.DataType) -> pa.DataType | None:
    if is_text(kind):
        return pa.string()
    if is_bytes(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_date64(kind):
        return pa.date32()
    return _WIDER.get(kind, kind if kind in _KEPT else None)


FORM = Form("Delta", delta_type, bare=True, folds_case=True)


@dataclass(frozen=True)
class DeltaSink:
    """A Delta table to which a run adds its rows at once; what others have added stays."""

    url: str
    parts: PartWriter
    run: str

    def check(self, schema: pa.Schema) -> tuple[str, ...]:
        return self.parts.check(schema)

    def stored(self, schema: pa.Schema) -> pa.Schema:
        return FORM.stored(schema)

    def expect(self, schema: pa.Schema, floats: Collection[str]) -> frozenset[str]:
        """Whether the table fits that is there."""
        try:
            table = DeltaTable(self.url)
        except TableNotFoundError:
            return frozenset()
        except (DeltaError, OSError) as error:
            raise RunError(f"The Delta table {self.url} cannot be read: {as_reason(error)}.") from error
        self._check(table, FORM.stored(schema), floats)
        return of_64_bits(_stored(table), floats)

    def begin(self, schema: pa.Schema) -> None:
        """Make the table, empty, where there is none. DataError: a table with other columns or partitions."""
        stored = FORM.stored(schema)
        try:
            table = DeltaTable.create(
                self.url, stored, mode="ignore", partition_by=list(self.parts.partition_by) or None
            )
        except (DeltaError, OSError, ValueError) as error:
            raise RunError(f"The Delta table {self.url} cannot be made or opened: {as_reason(error)}.") from error
        self._check(table, stored)

    def write(self, part: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[PartFile, ...]:
        return self.parts.write(part_of(self.run, part), schema, batches)

    def found(self) -> frozenset[str]:
        return frozenset(self.parts.place.list())

    def commit(self, parts: Sequence[PartFile], schema: pa.Schema) -> None:
        """Add the parts in one transaction, unless the run has done so."""
        for _ in range(COMMITS):
            table = self._open()
            if table.transaction_version(self._app) is not None:
                return
            self._check(table, FORM.stored(schema))
            try:
                self._add(table, parts)
            except CommitFailedError as error:
                reason = as_reason(error)
            except (DeltaError, OSError, ValueError) as error:
                raise RunError(f"The Delta table {self.url} cannot be written: {as_reason(error)}.") from error
            else:
                return
        raise RunError(
            f"The Delta table {self.url} was changed by others at each of {COMMITS} tries to add the run's "
            f"{len(parts)} parts ({reason}). Nothing was added; resume the run once they are done."
        )

    def _open(self) -> DeltaTable:
        try:
            return DeltaTable(self.url)
        except TableNotFoundError as error:
            raise RunError(f"The Delta table {self.url} is gone since the run began. Begin a new run.") from error
        except (DeltaError, OSError) as error:
            raise RunError(f"The Delta table {self.url} cannot be read: {as_reason(error)}.") from error

    def _add(self, table: DeltaTable, parts: Sequence[PartFile]) -> None:
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(part.path, part.bytes, dict(part.partition), now, True, json.dumps({"numRecords": part.rows}))
            for part in parts
        ]
        properties = CommitProperties(
            custom_metadata={"assay.run": self.run}, app_transactions=[Transaction(self._app, 1)]
        )
        table.create_write_transaction(
            actions,
            mode="append",
            schema=table.schema(),
            partition_by=list(self.parts.partition_by) or None,
            commit_properties=properties,
        )

    def _check(self, table: DeltaTable, stored: pa.Schema, floats: Collection[str] = ()) -> None:
        check_same(f"The Delta table {self.url}", _stored(table), stored, floats)
        partitions = tuple(table.metadata().partition_columns)
        if partitions != self.parts.partition_by:
            raise other_partitions(f"The Delta table {self.url}", partitions, self.parts.partition_by)

    @property
    def _app(self) -> str:
        return f"assay/{self.run}"


def _stored(table: DeltaTable) -> pa.Schema:
    return FORM.stored(pa.schema(table.schema()))


def delta_sink(settings: SinkSettings, open_place: OpenPlace) -> DeltaSink:
    """The table at a path or a place in a bucket. DataError: no such compression."""
    place = open_place(settings.to, settings.run)
    parts = PartWriter(ParquetFormat.of(settings, FORM), place, settings.partition_by, settings.file_rows)
    return DeltaSink(place.url, parts, settings.run)
