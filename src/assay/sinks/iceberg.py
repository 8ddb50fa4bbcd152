"""Iceberg tables, through pyiceberg: parts are files that no reader sees before one snapshot adds them all.

The snapshot's summary carries the run's id (`assay.run`); a commit that meets another's looks for it before it tries
again. Catalogs, and their credentials, are those of pyiceberg's own configuration (~/.pyiceberg.yaml, PYICEBERG_...).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from assay.errors import DataError, RunError
from assay.protocols import OpenPlace
from assay.records import PartFile, SinkSettings
from assay.sinks.forms import Form, check_partitions
from assay.sinks.kinds import is_bytes, is_text, nested
from assay.sinks.parquet import ParquetFormat
from assay.sinks.parts import PartWriter
from assay.sinks.tables import COMMITS, as_reason, check_same, of_64_bits, other_partitions, part_of

RUN = "assay.run"
"""The key in a snapshot's summary."""
RETRIES = "commit.retry.num-retries"
"""A table's property, that newer releases of pyiceberg heed."""
_KEPT = (pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32())
_WIDER = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
}
_ERRORS = (RESTError, NotInstalledError, OSError, ValueError)


def iceberg_type(kind: pa.DataType) -> pa.DataType | None:
    """The type of Iceberg that holds all values of a type: the same, a wider one, or None.

    >>> iceberg_type(pa.int8()), iceberg_type(pa.timestamp("ns")), iceberg_type(pa.list_(pa.float32(), 3))
    (DataType(int32), None, ListType(list<item: float>))
    """
    return nested(kind, _leaf)


def _leaf(kind: pa.DataType) -> pa.DataType | None:
    types = pa.types
    if is_text(kind):
        return pa.string()
    if is_bytes(kind):
        return pa.binary()
    if types.is_timestamp(kind) and kind.unit != "ns":
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if types.is_time(kind) and kind.unit != "ns":
        return pa.time64("us")
    if types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_date64(kind):
        return pa.date32()
    kept = kind in _KEPT or (types.is_fixed_size_binary(kind) and not isinstance(kind, pa.BaseExtensionType))
    return _WIDER.get(kind, kind if kept else None)


FORM = Form("Iceberg", iceberg_type, bare=True, folds_case=True)


@dataclass(frozen=True)
class IcebergSink:
    """An Iceberg table to which a run adds its rows at once; what others have added stays."""

    to: str  # catalog.namespace.table
    settings: SinkSettings
    open_place: OpenPlace
    catalog: Mapping[str, str] = field(default_factory=dict)  # of the catalog, over those of pyiceberg's configuration

    def check(self, schema: pa.Schema) -> tuple[str, ...]:
        check_partitions(schema, self.settings.partition_by)
        return FORM.notes(schema)

    def stored(self, schema: pa.Schema) -> pa.Schema:
        return FORM.stored(schema)

    def expect(self, schema: pa.Schema, floats: Collection[str]) -> frozenset[str]:
        """Whether the catalog can be reached, and the table fits that is there."""
        stored = FORM.stored(schema)
        with closing(self._catalog()) as catalog:
            with self._named("looked up"):
                is_there = catalog.table_exists(self._name)
                if not is_there:
                    catalog.load_namespace_properties(self._name.rpartition(".")[0])
            if not is_there:
                return frozenset()
            table = self._open(catalog)
            self._check(table, stored, floats)
            return of_64_bits(_stored(table), floats)

    def begin(self, schema: pa.Schema) -> None:
        """Make the table, empty, where there is none. DataError: a table with other columns or partitions."""
        stored = FORM.stored(schema)
        with closing(self._catalog()) as catalog:
            with self._named("made"), suppress(TableAlreadyExistsError):  # of two drivers one is quicker
                if not catalog.table_exists(self._name):
                    self._create(catalog, stored)
            self._check(self._open(catalog), stored)

    def write(self, part: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[PartFile, ...]:
        return self._parts(self._data()).write(part_of(self.settings.run, part), schema, batches)

    def found(self) -> frozenset[str]:
        return frozenset(self._parts(self._data()).place.list())

    def commit(self, parts: Sequence[PartFile], schema: pa.Schema) -> None:
        """Add the parts in one snapshot, unless the run has done so; no parts make none."""
        with closing(self._catalog()) as catalog:
            self._commit(catalog, parts, schema)

    def _commit(self, catalog: Catalog, parts: Sequence[PartFile], schema: pa.Schema) -> None:
        for _ in range(COMMITS):
            table = self._open(catalog)
            if not parts or any(one.summary and one.summary.get(RUN) == self.settings.run for one in table.snapshots()):
                return
            self._check(table, FORM.stored(schema))
            # Its own retries would add the parts a second time where the other commit was this run's too.
            table.metadata.properties[RETRIES] = "0"
            try:
                table.add_files(
                    [f"{_data(table)}/{part.path}" for part in parts], snapshot_properties={RUN: self.settings.run}
                )
            except CommitFailedException as error:
                reason = as_reason(error)
            except _ERRORS as error:
                raise RunError(f"The Iceberg table {self.to} cannot be written: {as_reason(error)}.") from error
            else:
                return
        raise RunError(
            f"The Iceberg table {self.to} was changed by others at each of {COMMITS} tries to add the run's "
            f"{len(parts)} parts ({reason}). Nothing was added; resume the run once they are done."
        )

    @contextmanager
    def _named(self, done: str) -> Iterator[None]:
        try:
            yield
        except NoSuchNamespaceError as error:
            raise RunError(f"There is no namespace for the Iceberg table {self.to}. Make it in the catalog.") from error
        except _ERRORS as error:
            raise RunError(f"The Iceberg table {self.to} cannot be {done}: {as_reason(error)}.") from error

    @property
    def _name(self) -> str:
        return self.to.partition(".")[2]

    def _parts(self, data: str) -> PartWriter:
        settings = self.settings
        return PartWriter(
            ParquetFormat.of(settings, FORM),
            self.open_place(data, settings.run),
            settings.partition_by,
            settings.file_rows,
            keeps_partitions=True,
        )

    def _catalog(self) -> Catalog:
        name = self.to.partition(".")[0]
        try:
            return load_catalog(name, **self.catalog)
        except _ERRORS as error:
            raise RunError(
                f"The Iceberg catalog {name!r} cannot be reached: {as_reason(error)}. Catalogs are configured as "
                "pyiceberg says, in ~/.pyiceberg.yaml or the environment."
            ) from error

    def _data(self) -> str:
        with closing(self._catalog()) as catalog:
            return _data(self._open(catalog))

    def _create(self, catalog: Catalog, stored: pa.Schema) -> None:
        create = catalog.create_table_transaction(self._name, stored)
        with create as transaction, transaction.update_spec() as partitions:
            for column in self.settings.partition_by:
                partitions.add_identity(column)

    def _open(self, catalog: Catalog) -> Table:
        try:
            return catalog.load_table(self._name)
        except NoSuchTableError as error:
            raise RunError(f"The Iceberg table {self.to} is gone since the run began. Begin a new run.") from error
        except _ERRORS as error:
            raise RunError(f"The Iceberg table {self.to} cannot be read: {as_reason(error)}.") from error

    def _check(self, table: Table, stored: pa.Schema, floats: Collection[str] = ()) -> None:
        check_same(f"The Iceberg table {self.to}", _stored(table), stored, floats)
        fields = table.spec().fields
        partitions = [table.schema().find_column_name(one.source_id) or "" for one in fields]
        plain = all(isinstance(one.transform, IdentityTransform) for one in fields)
        if not plain or tuple(partitions) != self.settings.partition_by:
            shown = [f"{one.transform}({name})" for one, name in zip(fields, partitions, strict=True)]
            raise other_partitions(
                f"The Iceberg table {self.to}", partitions if plain else shown, self.settings.partition_by
            )


def _stored(table: Table) -> pa.Schema:
    return FORM.stored(table.schema().as_arrow())


def _data(table: Table) -> str:
    return f"{table.location().rstrip('/')}/data"


def iceberg_sink(settings: SinkSettings, open_place: OpenPlace) -> IcebergSink:
    """The table that `to` names. DataError: it names none; no such compression."""
    if settings.to.count(".") < 2 or "/" in settings.to or "" in settings.to.split("."):
        raise DataError(f"predictions.to: got {settings.to!r}, expected catalog.namespace.table for an Iceberg table.")
    ParquetFormat.of(settings, FORM)
    return IcebergSink(settings.to, settings, open_place)
