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
    if pa.types.is_dictionary(kind):
        found = pa.dictionary(kind.index_type, plain_type(kind.value_type), kind.ordered)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        found = make(plain_type(kind.value_type))
    elif pa.types.is_fixed_size_list(kind):
        found = pa.list_(plain_type(kind.value_type), kind.list_size)
    elif pa.types.is_map(kind):
        found = pa.map_(plain_type(kind.key_type), plain_type(kind.item_type), kind.keys_sorted)
    elif pa.types.is_struct(kind):
        found = pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    return kind if found == kind else found


def without_coded_views(schema: pa.Schema) -> pa.Schema:
    """With plain types for columns that have dictionaries of views, as categories of polars are: Arrow finds no value
    of such a dictionary by its code, and no format of files holds one."""
    return pa.schema(
        [field.with_type(plain_type(field.type)) if _has_coded_views(field.type) else field for field in schema],
        schema.metadata,
    )


def _has_coded_views(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return bool(plain_type(kind) != kind)
    return any(_has_coded_views(kind.field(number).type) for number in range(kind.num_fields))


def cast_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the types and metadata of a schema of the same columns. Columns of the right type are left alone:
    Arrow spoils a slice of structs with a child of type null even where a cast changes nothing."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
