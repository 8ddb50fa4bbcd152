"""Types of a dataset's columns as the rest of assay knows them: Ray's own tensors become Arrow's.

Lives here: one type for each column of all blocks, and columns of that type. Not here: where blocks lie (`dataset.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from assay.errors import DataError
from assay.sources.plain import plain_type

RAY_TENSORS = ("ray.data.arrow_tensor", "ray.data.arrow_tensor_v2")
RAY_RAGGED = "ray.data.arrow_variable_shaped_tensor"
RAY_PICKLES = "ray.data.arrow_pickled_object"


class Types(NamedTuple):
    """Of all columns, the same in every block."""

    original: pa.Schema  # as they are carried over
    plain: pa.Schema  # as they are read


def one_schema(blocks: Sequence[pa.Schema]) -> Types:
    """The types that hold all blocks, each with a row or more. DataError when they have not the same columns, or a
    column of types that have none in common.

    Tensors of one shape are Arrow's `fixed_shape_tensor`, of several structs of `data` and `shape`; pickled objects
    stay the bytes that they are.
    """
    first, *others = blocks
    for schema in others:
        differing = sorted({*schema.names} ^ {*first.names})
        if differing:
            raise DataError(
                f"Some blocks of the dataset have a column {differing[0]!r} and others have not. Give each row all "
                "columns, with None where there is no value."
            )
    twice = next((name for name in first.names if first.names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"The dataset has two columns of the name {twice!r}. Rename one of them.")
    kinds = {name: _one_type(name, [schema.field(name).type for schema in blocks]) for name in first.names}
    original = [first.field(name).with_type(kind).with_nullable(True) for name, kind in kinds.items()]
    plain = [pa.field(name, _wide(kind)) for name, kind in kinds.items()]
    return Types(pa.schema(original), pa.schema(plain))


def as_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of `schema`, in its types. DataError when a value is not one of its column's type."""
    return pa.table([_as_type(field, table.column(field.name)) for field in schema], schema=schema)


def _one_type(name: str, kinds: Sequence[pa.DataType]) -> pa.DataType:
    filled = [kind for kind in dict.fromkeys(kinds) if not pa.types.is_null(kind)]
    if any(_value_type(kind) is not None for kind in filled):
        return _one_tensor(name, filled)
    stored = [kind.storage_type if _is_of(kind, RAY_PICKLES) else kind for kind in filled] or [pa.null()]
    if all(kind == stored[0] for kind in stored):
        return stored[0]
    try:
        schemas = [pa.schema([(name, kind)]) for kind in stored]
        return pa.unify_schemas(schemas, promote_options="permissive").field(name).type
    except pa.ArrowException:
        listed = " and ".join(sorted({str(kind) for kind in stored}))
        raise DataError(
            f"The column {name!r} is {listed} in different blocks of the dataset; give it one type."
        ) from None


def _one_tensor(name: str, kinds: Sequence[pa.DataType]) -> pa.DataType:
    values = {_value_type(kind) for kind in kinds}
    if None in values or len(values) > 1:
        listed = " and ".join(sorted(str(value or "no tensor") for value in values))
        raise DataError(
            f"The column {name!r} has tensors of {listed} in different blocks of the dataset; give it one type."
        )
    (value,) = values
    shapes = {_shape(kind) for kind in kinds}
    (shape,) = shapes if len(shapes) == 1 else (None,)
    if shape is None:
        return pa.struct([("data", pa.large_list(value)), ("shape", pa.list_(pa.int64()))])
    return pa.fixed_shape_tensor(value, shape)


def _is_of(kind: pa.DataType, *names: str) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name in names


def _value_type(kind: pa.DataType) -> pa.DataType | None:
    """Of a tensor's elements; None for all else."""
    if isinstance(kind, pa.FixedShapeTensorType):
        return kind.value_type
    if _is_of(kind, *RAY_TENSORS):
        return kind.storage_type.value_type
    return kind.storage_type.field("data").type.value_type if _is_of(kind, RAY_RAGGED) else None


def _shape(kind: pa.DataType) -> tuple[int, ...] | None:
    """Of tensors that all have the same."""
    return None if _is_of(kind, RAY_RAGGED) else tuple(kind.shape)


def _wide(kind: pa.DataType) -> pa.DataType:
    """As `sources/parquet.py` has it: blocks have dictionaries of their own."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), kind.value_type, kind.ordered)
    return plain_type(kind)


def _as_type(field: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    try:
        if isinstance(column.type, pa.BaseExtensionType):
            chunks = [_from_extension(chunk, field.type) for chunk in column.chunks]
            return pa.chunked_array(chunks, field.type)
        if isinstance(field.type, pa.BaseExtensionType):  # of a block where all are null
            return pa.chunked_array([pa.nulls(len(column), field.type)])
        return column.cast(field.type)
    except pa.ArrowException as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise DataError(
            f"The column {field.name!r} is {column.type} in a block of the dataset and cannot be {field.type}, as in "
            f"others: {reason}. Give it one type."
        ) from None


def _from_extension(array: pa.ExtensionArray, kind: pa.DataType) -> pa.Array:
    if not _is_of(array.type, *RAY_TENSORS) and not isinstance(array.type, pa.FixedShapeTensorType):
        return array.storage.cast(kind)
    shape = tuple(array.type.shape)
    if isinstance(kind, pa.FixedShapeTensorType):
        return pa.ExtensionArray.from_storage(kind, _fixed_lists(array.storage, prod(shape)))
    parts: Mapping[str, pa.Array] = {
        "data": array.storage.cast(kind.field("data").type),
        "shape": pa.array([shape] * len(array), pa.list_(pa.int64())),
    }
    return pa.StructArray.from_arrays(list(parts.values()), fields=list(kind), mask=array.is_null())


def _fixed_lists(lists: pa.Array, size: int) -> pa.Array:
    """The same memory, where there are no nulls."""
    filled = pa.FixedSizeListArray.from_arrays(lists.flatten(), size)
    if not lists.null_count:
        return filled
    is_null = lists.is_null().to_numpy(zero_copy_only=False)
    return filled.take(pa.array(np.cumsum(~is_null) - 1, mask=is_null))
