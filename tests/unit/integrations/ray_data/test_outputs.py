"""What a model may return, and what becomes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from assay.errors import ModelError
from assay.integrations.ray_data.outputs import Declared, declared_outputs, joined_batches, read_outputs


def read(outputs: Declared, returned: object, rows: int = 2) -> list[pa.Array]:
    return read_outputs("m", declared_outputs("m", outputs), returned, rows)


@pytest.mark.parametrize(
    ("returned", "column"),
    [
        (np.array([1.5, 2.0]), pa.array([1.5, 2.0])),
        (np.array([1, 2], np.int32), pa.array([1, 2], pa.int32())),
        (["a", None], pa.array(["a", None])),
        ([{"k": 1}, None], pa.array([{"k": 1}, None])),
        (np.array([[1, 2], [3, 4]]), pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))),
        (torch.tensor([1.0, 2.0], requires_grad=True), pa.array([1, 2], pa.float32())),
        (torch.tensor([1.0, 2.0], dtype=torch.bfloat16), pa.array([1, 2], pa.float32())),
        (pd.Series([1, 2], dtype="Int8"), pa.array([1, 2], pa.int8())),
        (pa.array([1, None]), pa.array([1, None])),
        (pa.chunked_array([[1], [2]]), pa.array([1, 2])),
        ({"p": [1, 2]}, pa.array([1, 2])),
        (pd.DataFrame({"p": [1.0, 2.0]}, index=[7, 8]), pa.array([1.0, 2.0])),
        (pa.table({"p": [1, 2]}), pa.array([1, 2])),
        (pa.record_batch({"p": [1, 2]}), pa.array([1, 2])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_one_output(returned: object, column: pa.Array) -> None:
    assert read("p", returned) == [column]


@pytest.mark.parametrize(
    "returned", [np.array([1.5, np.nan]), torch.tensor([1.5, torch.nan]), pd.Series([1.5, np.nan])]
)
def test_nan_stays_what_it_is(returned: object) -> None:
    [column] = read("p", returned)
    assert column.null_count == 0
    assert np.isnan(column[1].as_py())


def test_an_image_for_each_row_is_a_tensor() -> None:
    [column] = read("p", np.arange(12.0).reshape(2, 2, 3))
    assert column.type == pa.fixed_shape_tensor(pa.float64(), [2, 3])
    assert column.to_numpy_ndarray().tolist() == np.arange(12.0).reshape(2, 2, 3).tolist()


@pytest.mark.parametrize(
    "returned",
    [
        {"b": [3, 4], "a": [1, 2]},
        ([1, 2], [3, 4]),
        np.array([[1, 3], [2, 4]]),
        torch.tensor([[1, 3], [2, 4]]),
        pd.DataFrame({"b": [3, 4], "a": [1, 2]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_several_outputs_are_in_the_declared_order(returned: object) -> None:
    assert read(["a", "b"], returned) == [pa.array([1, 2]), pa.array([3, 4])]


def test_a_declared_type_is_the_columns() -> None:
    assert read({"p": "float32"}, np.array([0.1, 0.2])) == [pa.array([0.1, 0.2], pa.float32())]
    assert read({"p": pa.list_(pa.float32(), 1)}, np.ones((2, 1))) == [pa.array([[1], [1]], pa.list_(pa.float32(), 1))]


@pytest.mark.parametrize(
    ("outputs", "returned", "sentence"),
    [
        ("p", [1, 2, 3], "it returned 3 rows of 'p' for a batch of 2 rows; expected one for each."),
        (
            ["a", "b", "c"],
            {"a": [1], "b": [1, 2], "c": []},
            "it returned 1 row of 'a', 0 rows of 'c' for a batch of 2 rows; expected one for each.",
        ),
        (["a", "b"], {"a": [1, 2], "z": [1, 2]}, "it returned 'a' and 'z'; its outputs are 'a' and 'b'."),
        (["a", "b"], ([1, 2],), "it returned a tuple of 1; its outputs are 'a' and 'b'."),
        (
            ["a", "b"],
            np.ones((2, 3)),
            "it returned a ndarray of shape [2, 3]; expected a dict, a frame or a table with 'a' and 'b', or an array "
            "[rows, 2].",
        ),
        (
            {"p": "int8"},
            np.array([1, 300]),
            "output 'p', returned as ndarray of shape [2], cannot be a column of type int8: Integer value 300 not in "
            "range: -128 to 127.",
        ),
        ("p", None, "output 'p', returned as NoneType, cannot be an Arrow column: a NoneType is no column."),
        (
            "p",
            np.float64(3),
            "output 'p', returned as float64 of shape [], cannot be an Arrow column: a float64 is no column.",
        ),
        (
            "p",
            torch.tensor(3.0),
            "output 'p', returned as Tensor of shape [], cannot be an Arrow column: it is one value, not one for each "
            "row.",
        ),
    ],
)
def test_what_does_not_fit_is_refused(outputs: Any, returned: object, sentence: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(outputs, returned)
    assert caught.value.message == sentence


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        ([], "outputs are empty; expected a name, names, or {name: type}."),
        (["a", "b", "a"], "outputs name 'a' twice."),
        (
            {"a": "floaty"},
            "the type of output 'a' is 'floaty'; expected a type of pyarrow or its name, such as 'float32'.",
        ),
    ],
)
def test_declarations_that_cannot_be_followed(outputs: Any, sentence: str) -> None:
    with pytest.raises(ModelError) as caught:
        declared_outputs("m", outputs)
    assert caught.value.message == sentence


def test_a_vector_and_a_matrix_of_one_column_together_are_told() -> None:
    vector, matrix = np.arange(4.0), np.arange(4.0).reshape(4, 1)
    said = (
        " A vector [n] and a matrix of one column [n, 1] make [n, n] together: inputs={'b': 'column'} gives a vector, "
        "inputs={'b': ['column']} a matrix, of which batch['b'][:, 0] is the vector."
    )
    with pytest.raises(ModelError) as caught:
        read_outputs("m", declared_outputs("m", {"p": "float64"}), vector + matrix, 4)
    assert caught.value.message == (
        "output 'p', returned as ndarray of shape [4, 4], cannot be a column of type double: Unsupported cast from "
        f"fixed_size_list<item: double>[4] to double using function cast_double.{said}"
    )
    [output] = declared_outputs("m", "p")
    with pytest.raises(ModelError) as caught:
        joined_batches("m", output, [pa.FixedSizeListArray.from_arrays(np.zeros(n * n), n) for n in (4, 3)])
    assert caught.value.message == (
        "output 'p' is 'fixed_size_list<item: double>[4]' and 'fixed_size_list<item: double>[3]' in batches of one "
        f"block; declare its type: outputs={{'p': type}}.{said}"
    )
    with pytest.raises(ModelError) as caught:
        read_outputs("m", declared_outputs("m", {"p": pa.list_(pa.int8(), 2)}), np.array([[1, 2], [3, 300]]), 2)
    assert caught.value.message.endswith("Integer value 300 not in range: -128 to 127.")


def test_batches_of_two_types_ask_for_a_declared_one() -> None:
    [output] = declared_outputs("m", "p")
    assert joined_batches("m", output, [pa.array([1]), pa.array([2])]) == pa.array([1, 2])
    with pytest.raises(ModelError) as caught:
        joined_batches("m", output, [pa.array([1]), pa.array([1.5])])
    assert caught.value.message == (
        "output 'p' is 'int64' and 'double' in batches of one block; declare its type: outputs={'p': type}."
    )
