"""What a format makes of each type: kept, written as another that holds all its values, or refused with its column.

Not here: the formats' own tables of types, which lie with the formats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from assay.errors import DataError
from assay.sinks.kinds import TypeOf, structs_in
from assay.sinks.stored import is_convertible
from assay.spec.names import nearest

_KINDS_OF_PARTITIONS = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_date32,
)


@dataclass(frozen=True)
class Form:
    """The types of one format."""

    name: str  # as a user knows it: "CSV"
    type_of: TypeOf
    bare: bool = False  # the metadata of fields are left out: the format has its own
    folds_case: bool = False  # names that differ by case only are one

    def stored(self, schema: pa.Schema) -> pa.Schema:
        """The schema as it is written. DataError names every column that cannot be."""
        twice = sorted(name for name, number in Counter(schema.names).items() if number > 1)
        if twice:
            raise DataError(f"Two columns are named {twice[0]!r}. Give one of them another name.")
        types = {field.name: self._type(field.type) for field in schema}
        refused = [self._refusal(field) for field in schema if types[field.name] is None]
        refused += [self._confusion(*names) for names in _alike(schema)] if self.folds_case else []
        if refused:
            raise DataError("\n".join(refused))
        fields = [self._field(field, types[field.name]) for field in schema]
        return pa.schema(fields, None if self.bare else schema.metadata)

    def notes(self, schema: pa.Schema) -> tuple[str, ...]:
        """A sentence for each column that is written as another type."""
        return tuple(
            f"The column {before.name!r} of type {before.type} is written as {after.type}."
            for before, after in zip(schema, self.stored(schema), strict=True)
            if before.type != after.type
        )

    def _type(self, kind: pa.DataType) -> pa.DataType | None:
        found = self.type_of(kind)
        return found if found is None or is_convertible(kind, found) else None

    def _field(self, field: pa.Field, kind: pa.DataType | None) -> pa.Field:
        return pa.field(field.name, kind, field.nullable) if self.bare else field.with_type(kind)

    def _confusion(self, where: str, first: str, second: str) -> str:
        return (
            f"{where}{first!r} and {second!r} differ by case only, and readers of {self.name} tables take them for "
            "one. Leave one out of carry_over, give outputs other names (predictions.names), or write parquet."
        )

    def _refusal(self, field: pa.Field) -> str:
        return (
            f"The column {field.name!r} is of type {field.type}, which {self.name} cannot hold. Write another format "
            "(parquet and arrow hold the most types), or leave it out: of carry_over, or of the variant's outputs."
        )


def _alike(schema: pa.Schema) -> Iterator[tuple[str, str, str]]:
    """Names that differ by case only, of columns or of fields in one of them; before them, in words, where they are."""
    yield from (("The columns ", *names) for names in _pairs(schema))
    for column in schema:
        for struct in structs_in(column.type):
            yield from ((f"In the column {column.name!r} the fields ", *names) for names in _pairs(struct))


def _pairs(fields: Iterable[pa.Field]) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for field in fields:
        first = seen.setdefault(field.name.casefold(), field.name)
        if first != field.name:
            yield first, field.name


def check_partitions(schema: pa.Schema, columns: Sequence[str]) -> None:
    """DataError unless the columns, each of them named once, are there, name folders, and leave a column over."""
    for position, column in enumerate(columns):
        path = f"predictions.partition_by[{position}]"
        if column not in schema.names:
            near = nearest(column, schema.names)
            cure = (
                ". Columns of the data are in it once carry_over names them."
                if near is None
                else f"; did you mean {near!r}?"
            )
            raise DataError(f"{path}: the output has no column {column!r}{cure}")
        kind = schema.field(column).type
        value = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not any(one(value) for one in _KINDS_OF_PARTITIONS):
            raise DataError(
                f"{path}: the values of the column {column!r}, of type {kind}, cannot name folders. Take a column of "
                "texts, integers, booleans or days."
            )
    if columns and set(columns) == set(schema.names):
        raise DataError("predictions.partition_by: names every column of the output, so that files would hold none.")
