"""What a format makes of each type: kept, written as another that holds all its values, or refused with its column.

Not here: the formats' own tables of types, which lie with the formats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from assay.errors import DataError

TypeOf = Callable[[pa.DataType], pa.DataType | None]
"""The type that a value is written as; None: the format cannot hold it."""

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

    def stored(self, schema: pa.Schema) -> pa.Schema:
        """The schema as it is written. DataError names every column that cannot be."""
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise DataError(f"Two columns are named {twice[0]!r}. Give one of them another name.")
        types = {field.name: self.type_of(field.type) for field in schema}
        refused = [self._refusal(field) for field in schema if types[field.name] is None]
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

    def _field(self, field: pa.Field, kind: pa.DataType | None) -> pa.Field:
        return pa.field(field.name, kind, field.nullable) if self.bare else field.with_type(kind)

    def _refusal(self, field: pa.Field) -> str:
        return (
            f"The column {field.name!r} is of type {field.type}, which {self.name} cannot hold. Leave it out of "
            "carry_over, or write another format: parquet and arrow hold the most types."
        )


def nested(kind: pa.DataType, leaf: TypeOf) -> pa.DataType | None:
    """A type with that of each value in it as `leaf` says; lists of any form become lists, dictionaries their values.

    None where one of them is, and for views of lists, of which Arrow makes torn lists.
    """
    if pa.types.is_dictionary(kind):
        return nested(kind.value_type, leaf)
    if pa.types.is_map(kind):
        key, item = nested(kind.key_type, leaf), nested(kind.item_type, leaf)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_struct(kind):
        types = [nested(field.type, leaf) for field in kind]
        if not types or any(one is None for one in types):
            return None
        fields = zip(kind, types, strict=True)
        return pa.struct([pa.field(field.name, one, field.nullable) for field, one in fields])
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return None
    if is_any_list(kind):
        item = nested(kind.value_type, leaf)
        return None if item is None else pa.list_(item)
    return leaf(kind)


def is_any_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def has_dictionaries(kind: pa.DataType) -> bool:
    """Whether a value of the type is, or has in it, a code of a dictionary."""
    return bool(
        pa.types.is_dictionary(kind)
        or (is_any_list(kind) and has_dictionaries(kind.value_type))
        or (pa.types.is_struct(kind) and any(has_dictionaries(field.type) for field in kind))
        or (pa.types.is_map(kind) and (has_dictionaries(kind.key_type) or has_dictionaries(kind.item_type)))
    )


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def as_stored(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in the types of a stored schema. DataError names the column with a value that does not fit."""
    columns = []
    for field in schema:
        column = table[field.name]
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowInvalid as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise DataError(
                f"The column {field.name!r} of type {column.type} cannot be written as {field.type}: {reason}."
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


def check_partitions(schema: pa.Schema, columns: Sequence[str]) -> None:
    """DataError unless the columns are there, name folders, and leave a column over."""
    for column in columns:
        if column not in schema.names:
            raise DataError(
                f"partition_by names the column {column!r}, which the output does not have. Add it to carry_over."
            )
        kind = schema.field(column).type
        value = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not any(one(value) for one in _KINDS_OF_PARTITIONS):
            raise DataError(
                f"partition_by names the column {column!r} of type {kind}, whose values cannot name folders. Take a "
                "column of texts, integers, booleans or days."
            )
    if columns and set(columns) == set(schema.names):
        raise DataError("partition_by names every column of the output, so that files would hold none.")
