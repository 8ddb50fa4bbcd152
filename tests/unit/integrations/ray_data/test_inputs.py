"""What a model receives of a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray

from assay.errors import ModelError
from assay.integrations.ray_data.inputs import input_form

LARGE = 2**53 + 1


def given(table: pa.Table, inputs: Any, batch_format: str, rows: slice = slice(0, 2)) -> Any:
    form = input_form("m", inputs, batch_format)
    form.check(table.schema)
    return form.rows_of(form.convert(table), rows)


TABLE = pa.table(
    {
        "id": [LARGE, 2, 3],
        "x": pa.array([0.5, None, 2], pa.float32()),
        "flag": [True, None, False],
        "text": pa.array(["a", None, "b"]).dictionary_encode(),
        "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16(), 2)),
        "items": [["a"], [], ["b", "c"]],
        "image": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.uint8).reshape(3, 2, 2)),
    }
)


def test_arrays_have_the_types_of_their_columns() -> None:
    batch = given(TABLE, ["id", "x", "text", "pair", "items", "image"], "numpy")
    assert list(batch) == ["id", "x", "text", "pair", "items", "image"]
    assert batch["id"].tolist() == [LARGE, 2]
    assert batch["x"].dtype == np.float32
    assert np.isnan(batch["x"][1])
    assert batch["text"].tolist() == ["a", None]
    assert batch["pair"].tolist() == [[1, 2], [3, 4]]
    assert [list(one) for one in batch["items"]] == [["a"], []]
    assert batch["image"].tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


def test_a_list_of_columns_is_a_matrix() -> None:
    batch = given(TABLE, {"one": "id", "all": ["x", "flag"]}, "numpy")
    assert batch["one"].tolist() == [LARGE, 2]
    assert batch["all"].dtype == np.float64
    np.testing.assert_array_equal(batch["all"], [[0.5, 1], [np.nan, np.nan]])


def test_arrays_that_models_share_cannot_be_written_to() -> None:
    arrays = given(TABLE, {"id": "id", "all": ["x"], "image": "image"}, "numpy").values()
    assert [array.flags.writeable for array in arrays] == [False, False, False]


def test_tensors_are_the_models_own() -> None:
    form = input_form("m", {"id": "id", "all": ["x", "id"], "pair": "pair", "image": "image"}, "torch")
    converted = form.convert(TABLE)
    batch = form.rows_of(converted, slice(0, 2))
    assert {name: tensor.dtype for name, tensor in batch.items()} == {
        "id": torch.int64,
        "all": torch.float32,
        "pair": torch.int64,
        "image": torch.uint8,
    }
    batch["id"][:] = 0
    assert form.rows_of(converted, slice(0, 3))["id"].tolist() == [LARGE, 2, 3]


def test_a_frame_and_a_table_are_named_by_the_arguments() -> None:
    frame = given(TABLE, {"key": "id", "word": "text", "x": "x"}, "pandas", slice(1, 3))
    assert frame["key"].tolist() == [2, 3]
    assert frame["word"].tolist()[1] == "b"
    assert frame.index.tolist() == [0, 1]  # as if the batch were all there is
    table = given(TABLE, {"key": "id", "word": "text"}, "pyarrow", slice(1, 3))
    assert table.equals(TABLE.select(["id", "text"]).slice(1).rename_columns(["key", "word"]))


def test_a_table_is_the_blocks_own_memory() -> None:
    table = given(TABLE, ["id"], "pyarrow")
    assert table["id"].chunk(0).buffers()[1].address == TABLE["id"].chunk(0).buffers()[1].address


@pytest.mark.parametrize(
    ("batch_format", "advice"),
    [
        (
            "numpy",
            "say inputs={'flag': [column]} for floats with NaN, as a matrix [n, 1] whose vector is "
            "batch['flag'][:, 0], or batch_format='pyarrow'.",
        ),
        ("pandas", "say batch_format='pyarrow'."),
    ],
)
def test_a_null_never_makes_floats_of_integers(batch_format: str, advice: str) -> None:
    with pytest.raises(ModelError) as caught:
        given(TABLE, ["flag"], batch_format)
    assert caught.value.message == (
        f"input 'flag' is of type bool and has nulls (1 in this block), which {batch_format} cannot hold without "
        f"changing its type; {advice}"
    )


@pytest.mark.parametrize("batch_format", ["numpy", "torch"])
def test_a_null_among_arrays_is_no_array(batch_format: str) -> None:
    pairs = pa.array([[1, 2], None], pa.list_(pa.int16(), 2))
    with pytest.raises(ModelError) as caught:
        given(pa.table({"pair": pairs}), ["pair"], batch_format)
    assert caught.value.message == (
        "input 'pair' is of type fixed_size_list<item: int16>[2] and has nulls (1 in this block), which "
        f"{batch_format} cannot hold without changing its type; say batch_format='pyarrow'."
    )
    assert given(pa.table({"pair": pairs}), ["pair"], "pandas")["pair"][1] is None


@pytest.mark.parametrize(
    ("inputs", "batch_format", "sentence"),
    [
        ("id", "numpy", "inputs are 'id'; expected a list of columns, or {argument: column or [column, ...]}."),
        ([], "numpy", "inputs are []; expected a list of columns, or {argument: column or [column, ...]}."),
        (["id"], "arrow", "batch_format is 'arrow'; expected 'numpy', 'torch', 'pandas' or 'pyarrow'."),
        (["id", "id"], "numpy", "inputs name column 'id' twice."),
        (
            {"all": ["id", "x"]},
            "pandas",
            "inputs give 'all' several columns, which batch_format='pandas' cannot do; give each column a name of its "
            "own.",
        ),
        (
            ["text"],
            "torch",
            "column 'text' is of type dictionary<values=string, indices=int32, ordered=0>, but input 'text' is a "
            "tensor, which holds numbers. Make numbers of it in a step before, or say batch_format='numpy', 'pandas' "
            "or 'pyarrow' and convert it in the model.",
        ),
        (
            {"all": ["id", "items"]},
            "numpy",
            "column 'items' is of type list<item: string>, but input 'all' is a matrix of numbers, as is every list of "
            "columns. Make numbers of it in a step before, or take it out of the list and give it as an input of its "
            "own, inputs={'items': 'items'}, and convert it in the model.",
        ),
        (
            ["idd", "y"],
            "numpy",
            "the model wants column 'idd', which the data do not have; did you mean 'id'? It also wants 'y'.",
        ),
    ],
)
def test_inputs_that_cannot_be_given(inputs: Any, batch_format: str, sentence: str) -> None:
    with pytest.raises(ModelError) as caught:
        given(TABLE, inputs, batch_format)
    assert caught.value.message == sentence


@pytest.mark.parametrize(
    ("inputs", "batch_format", "words"),
    [
        (["x", "text"], "pandas", "'x' (float) and 'text' (dictionary<values=string, indices=int32, ordered=0>)"),
        ({"key": "id", "all": ["x", "flag"]}, "numpy", "'key' (column 'id', int64) and 'all' (matrix [n, 2])"),
        (["text"], "numpy", "'text' (dictionary<values=string, indices=int32, ordered=0>, as objects)"),
    ],
)
def test_inputs_in_words(inputs: Any, batch_format: str, words: str) -> None:
    assert input_form("m", inputs, batch_format).described(TABLE.schema) == words


def test_of_many_inputs_a_dozen_are_told() -> None:
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(20)])
    words = input_form("m", schema.names, "numpy").described(schema)
    assert words.endswith("'c11' (int64) and 8 more")


def test_equal_inputs_in_one_format_are_converted_once() -> None:
    def preparation(model: str, inputs: Any, batch_format: str) -> object:
        return input_form(model, inputs, batch_format).preparation

    assert preparation("a", ["id", "x"], "numpy") == preparation("b", ("id", "x"), "numpy")
    assert preparation("a", ["id", "x"], "numpy") != preparation("a", ["id", "x"], "torch")
    assert preparation("a", ["id", "x"], "numpy") != preparation("a", ["x", "id"], "numpy")


def test_arrays_of_large_integers_are_not_rounded() -> None:
    exact: NDArray[np.int64] = given(TABLE, ["id"], "numpy")["id"]
    assert exact.dtype == np.int64
