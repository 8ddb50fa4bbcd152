"""Outputs that are no scores, in the types that a spec says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from assay.errors import ModelError
from assay.models.outputs import ValueOutput, read_scores
from assay.models.values import value_type
from assay.spec.model import OutputSpec


def read(returned: object, type: str, select: str | int | None = "v", num_rows: int = 2) -> pa.Array:
    """What becomes of an output `v`."""
    outputs = {"v": ValueOutput(select=select, name="v", type=type)}
    return read_scores("m", outputs, returned, num_rows)["v"]


@pytest.mark.parametrize(
    ("given", "type", "values"),
    [
        (np.array([1.0, np.nan]), "float32", pa.array([1, None], pa.float32())),
        (np.array([[1.5], [np.inf]]), "float64", pa.array([1.5, np.inf])),
        ([1, 2], "float32", pa.array([1, 2], pa.float32())),
        (np.array([1.0, 2.0]), "int8", pa.array([1, 2], pa.int8())),
        (np.array([2**62 + 1, 0]), "int64", pa.array([2**62 + 1, 0])),
        ([True, None], "bool", pa.array([True, None])),
        (["a", None], "string", pa.array(["a", None])),
        (np.array(["a", "bc"]), "string", pa.array(["a", "bc"])),
        (pa.chunked_array([["a"], ["b"]]), "string", pa.array(["a", "b"])),
        ([None, None], "string", pa.array([None, None], pa.string())),
        (np.eye(2), "list<float32>", pa.array([[1, 0], [0, 1]], pa.list_(pa.float32(), 2))),
        (np.eye(2), "list<int8>[2]", pa.array([[1, 0], [0, 1]], pa.list_(pa.int8(), 2))),
        ([[1, 2, 3], None], "list<float64>", pa.array([[1, 2, 3], None], pa.list_(pa.float64(), 3))),
        (pa.array([[1.0], [2.0]]), "list<float64>", pa.array([[1], [2]], pa.list_(pa.float64(), 1))),
        ([None, None], "list<float32>[3]", pa.nulls(2, pa.list_(pa.float32(), 3))),
    ],
)
def test_what_is_taken(given: Any, type: str, values: pa.Array) -> None:
    found = read({"v": given}, type)
    assert found.type == values.type
    assert found.equals(values)


@pytest.mark.parametrize(
    ("returned", "type", "select", "said"),
    [
        (
            {"v": [1.5, 2]},
            "int8",
            "v",
            "the model returned a double that is no int8 (Float value 1.500000 was truncated converting to int8).",
        ),
        (
            {"v": [300, 2]},
            "int8",
            "v",
            "the model returned a int64 that is no int8 (Integer value 300 not in range: -128 to 127).",
        ),
        ({"v": ["1", "2"]}, "int8", "v", "the model returned values of type string; expected int8."),
        ({"v": [1, 2]}, "string", "v", "the model returned values of type int64; expected string."),
        ({"v": [1.0]}, "float32", "v", "the model returned 1 value for 2 rows."),
        ({"v": np.ones((3, 2))}, "list<float32>", "v", "the model returned 3 values for 2 rows."),
        (
            {"v": np.ones((2, 3))},
            "float32",
            "v",
            "the model returned an array of shape (2, 3); expected one value a row, shape (n,).",
        ),
        (
            {"v": np.ones(2)},
            "list<float32>",
            "v",
            "the model returned an array of shape (2,); expected a list a row, shape (n, k).",
        ),
        (
            {"v": [[1], [2, 3]]},
            "list<float32>",
            "v",
            "the model returned lists of shape (1,) and (2,); expected as many numbers in each row.",
        ),
        (
            {"v": [None, None]},
            "list<float32>",
            "v",
            "the model returned a list for no row; say how long they are: list<float32>[384].",
        ),
        ({"v": np.ones((2, 3))}, "list<float32>[4]", "v", "the model returned lists of 3 numbers; expected 4."),
        (
            {"v": np.zeros((2, 0))},
            "list<float32>",
            "v",
            "the model returned lists without numbers; expected at least one in each.",
        ),
        ({"w": [1.0, 2.0]}, "float32", None, "the model returned a dict with keys 'w', and none is 'v'."),
        (
            {"V": [1.0, 2.0]},
            "float32",
            None,
            "the model returned a dict with keys 'V', and none is 'v'; did you mean 'V'?",
        ),
        (
            {"vector": [1.0, 2.0]},
            "float32",
            "vectr",
            "select is 'vectr', but the model returned a dict with keys 'vector'; did you mean 'vector'?",
        ),
        (([1.0, 2.0],), "float32", 1, "the model returned 1 outputs and output.select is 1; select one of 0 to 0."),
    ],
)
def test_what_is_refused(returned: object, type: str, select: str | int | None, said: str) -> None:
    with pytest.raises(ModelError) as raised:
        read(returned, type, select)
    assert str(raised.value) == f"Variant 'm': outputs 'v': {said}"


def test_where_it_is_looked_for() -> None:
    assert read({"v": [1, 2], "w": [3, 4]}, "int64", None).to_pylist() == [1, 2]
    assert read({"v": [1, 2], "w": [3, 4]}, "int64", "w").to_pylist() == [3, 4]
    assert read(([1, 2], ["a", "b"]), "string", 1).to_pylist() == ["a", "b"]
    assert read(np.array([[1, 2], [3, 4]]), "int64", 1).to_pylist() == [2, 4]


def test_beside_a_score() -> None:
    outputs = {"main": OutputSpec(select="score"), "v": ValueOutput(name="v", type="string")}
    found = read_scores("m", outputs, {"score": np.ones(2), "v": ["a", "b"]}, 2)
    assert found["main"].tolist() == [1, 1]
    assert found["v"].to_pylist() == ["a", "b"]


def test_types() -> None:
    assert value_type("list<int16>[7]") == pa.list_(pa.int16(), 7)
    assert value_type("bool") == pa.bool_()
