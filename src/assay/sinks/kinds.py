"""Types and what is in them: of lists, structs, maps and dictionaries.

Not here: what a format makes of each (`forms.py` and the formats).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

TypeOf = Callable[[pa.DataType], pa.DataType | None]
"""The type that a value is written as; None: the format cannot hold it."""


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


def retyped(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType], *, nullable: bool = False) -> pa.DataType:
    """A type with that of each value in it as `leaf` says, and all around them as it was. nullable: but that whatever
    is in lists, structs and maps may be null, keys apart.

    >>> retyped(pa.large_list(pa.struct([("a", pa.int8())])), lambda kind: pa.int64())
    LargeListType(large_list<item: struct<a: int64>>)
    >>> retyped(pa.struct([pa.field("a", pa.int8(), nullable=False)]), lambda kind: kind, nullable=True)
    StructType(struct<a: int8>)
    """

    def inside(field: pa.Field) -> pa.Field:
        found = field.with_type(retyped(field.type, leaf, nullable=nullable))
        return found.with_nullable(True) if nullable else found

    if pa.types.is_map(kind):
        key = kind.key_field.with_type(retyped(kind.key_type, leaf, nullable=nullable))
        return pa.map_(key, inside(kind.item_field), kind.keys_sorted)
    if pa.types.is_struct(kind):
        return pa.struct([inside(field) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(inside(kind.value_field), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(inside(kind.value_field))
    return leaf(kind)


def without_views(schema: pa.Schema) -> pa.Schema:
    """With texts and bytes for views of them, at any depth: Arrow takes no rows of views."""

    def leaf(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_string_view(kind):
            return pa.large_string()
        return pa.large_binary() if pa.types.is_binary_view(kind) else kind

    return pa.schema([field.with_type(retyped(field.type, leaf)) for field in schema], schema.metadata)


def parts_of(kind: pa.DataType) -> tuple[pa.DataType, ...]:
    """The types of what a value holds: of items, keys, fields; none where it holds no others."""
    if pa.types.is_map(kind):
        return kind.key_type, kind.item_type
    if pa.types.is_struct(kind):
        return tuple(field.type for field in kind)
    return (kind.value_type,) if is_any_list(kind) else ()


def structs_in(kind: pa.DataType) -> Iterator[pa.StructType]:
    """All that are in a type, at any depth."""
    if pa.types.is_struct(kind):
        yield kind
    for part in parts_of(kind):
        yield from structs_in(part)


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
    return bool(pa.types.is_dictionary(kind)) or any(map(has_dictionaries, parts_of(kind)))


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
