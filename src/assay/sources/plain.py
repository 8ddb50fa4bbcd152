"""Arrow's view types (polars hands its text out so), which its filters and takes do not know, as plain ones; and the
way there and back."""

from __future__ import annotations

import pyarrow as pa


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that holds the same values without views, also inside lists, maps and structs.

    >>> plain_type(pa.string_view()), plain_type(pa.list_(pa.binary_view())), plain_type(pa.int64())
    (DataType(large_string), ListType(list<item: large_binary>), DataType(int64))
    """
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    found = kind
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        found = make(plain_type(kind.value_type))
    elif pa.types.is_fixed_size_list(kind):
        found = pa.list_(plain_type(kind.value_type), kind.list_size)
    elif pa.types.is_map(kind):
        found = pa.map_(plain_type(kind.key_type), plain_type(kind.item_type), kind.keys_sorted)
    elif pa.types.is_struct(kind):
        found = pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    return kind if found == kind else found


def cast_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the types and metadata of a schema of the same columns. Columns of the right type are left alone:
    Arrow spoils a slice of structs with a child of type null even where a cast changes nothing."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
