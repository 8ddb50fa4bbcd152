"""One type for each column of all blocks: Ray's tensors become Arrow's, and what differs is said."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from ray.data.extensions import ArrowTensorArray, ArrowVariableShapedTensorArray

from assay.errors import DataError
from assay.integrations.ray_data.block_types import as_types, one_schema

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")  # Ray Data's, at its own defaults
SQUARES = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)


def tensors(array: np.ndarray) -> pa.Array:
    return ArrowTensorArray.from_numpy(array)


def schema(*kinds: pa.DataType) -> pa.Schema:
    return one_schema([pa.schema([("x", kind)]) for kind in kinds]).plain


def test_tensors_of_one_shape() -> None:
    block = pa.table({"image": tensors(SQUARES)})
    types = one_schema([block.schema, block.schema])
    assert types.plain.field("image").type == pa.fixed_shape_tensor(pa.uint8(), (2, 2))
    made = as_types(block, types.plain)["image"].combine_chunks()
    np.testing.assert_array_equal(made.to_numpy_ndarray(), SQUARES)
    sliced = as_types(block.slice(1, 2), types.plain)["image"].combine_chunks()
    np.testing.assert_array_equal(sliced.to_numpy_ndarray(), SQUARES[1:])


def test_tensors_with_nulls_and_blocks_without_any() -> None:
    with_null = pa.table({"image": tensors(SQUARES).take(pa.array([2, None, 0]))})
    nothing = pa.table({"image": pa.nulls(2)})
    types = one_schema([with_null.schema, nothing.schema])
    made = as_types(with_null, types.plain)["image"].combine_chunks()
    assert made.storage.to_pylist() == [[8, 9, 10, 11], None, [0, 1, 2, 3]]
    assert as_types(nothing, types.plain)["image"].null_count == 2


def test_tensors_of_several_shapes() -> None:
    """In one block they are ragged; two blocks of different shapes are made so."""
    ragged = pa.table({"image": ArrowVariableShapedTensorArray.from_numpy([np.ones((1, 2)), np.zeros((2, 1))])})
    fixed = pa.table({"image": tensors(np.full((1, 3, 1), 0.5))})
    types = one_schema([ragged.schema, fixed.schema])
    kind = pa.struct([("data", pa.large_list(pa.float64())), ("shape", pa.list_(pa.int64()))])
    assert types.plain.field("image").type == kind
    assert as_types(ragged, types.plain)["image"].to_pylist() == [
        {"data": [1.0, 1.0], "shape": [1, 2]},
        {"data": [0.0, 0.0], "shape": [2, 1]},
    ]
    assert as_types(fixed, types.plain)["image"].to_pylist() == [{"data": [0.5] * 3, "shape": [3, 1]}]


def test_what_is_no_tensor() -> None:
    assert schema(pa.null(), pa.int64()) == pa.schema([("x", pa.int64())])
    assert schema(pa.int64(), pa.float64()) == pa.schema([("x", pa.float64())])
    assert schema(pa.dictionary(pa.int8(), pa.string())) == pa.schema([("x", pa.dictionary(pa.int32(), pa.string()))])
    assert schema(pa.string_view()) == pa.schema([("x", pa.large_string())])


def test_types_that_differ_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"^The column 'x' is int64 and string in different blocks of the dataset; give"
    ):
        schema(pa.int64(), pa.string())
    byte, real = tensors(SQUARES).type, tensors(SQUARES.astype(float)).type
    with pytest.raises(DataError, match=r"^The column 'x' has tensors of double and uint8 in different blocks of the"):
        schema(byte, real)
    with pytest.raises(DataError, match=r"^The column 'x' has tensors of no tensor and uint8 in different blocks"):
        schema(byte, pa.int64())
    with pytest.raises(DataError, match=r"^The dataset has two columns of the name 'x'\. Rename one of them\.$"):
        one_schema([pa.schema([("x", pa.int64()), ("x", pa.int64())])])
    large = pa.table({"x": [2**53 + 1]})
    with pytest.raises(DataError, match=r"^The column 'x' is int64 in a block of the dataset and cannot be double, as"):
        as_types(large, schema(pa.int64(), pa.float64()))
