from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from assay.errors import ModelError
from assay.models.outputs import TaskOutput, ValueOutput, read_score, read_scores, resolve_outputs
from assay.spec.model import OutputSpec, VariantSpec

SCORE = OutputSpec(kind="score")
PROBABILITY = OutputSpec(kind="probability")


def read(returned: object, select: str | int | None = None, num_rows: int = 2) -> list[float]:
    return read_score("v", "main", OutputSpec(kind="score", select=select), returned, num_rows).tolist()


# ---- which output a task has


def test_a_variant_without_output_has_the_tasks_own() -> None:
    outputs = {"click": OutputSpec(kind="logit", select="ctr")}
    assert resolve_outputs(VariantSpec(name="v", column="p"), outputs) == outputs


def test_one_override_holds_for_every_task_and_drops_their_select() -> None:
    outputs = {"click": OutputSpec(kind="logit", select="ctr"), "buy": OutputSpec(kind="logit", select="cvr")}
    variant = VariantSpec(name="v", column="p", output=PROBABILITY)
    assert resolve_outputs(variant, outputs) == {
        "click": OutputSpec(kind="probability"),
        "buy": OutputSpec(kind="probability"),
    }


def test_an_override_by_task_leaves_the_others_and_resolving_twice_changes_nothing() -> None:
    outputs = {"click": OutputSpec(kind="logit"), "buy": OutputSpec(kind="logit", select="cvr")}
    variant = VariantSpec(name="v", column="p", output={"buy": OutputSpec(select=0)})
    once = resolve_outputs(variant, outputs)
    assert once == {"click": OutputSpec(kind="logit"), "buy": OutputSpec(kind="logit", select=0)}
    assert resolve_outputs(variant, once) == once


# ---- what is taken


@pytest.mark.parametrize(
    "returned",
    [
        np.array([0.25, 0.5]),
        np.array([[0.25], [0.5]]),
        [0.25, 0.5],
        (0.25, 0.5),
        pa.array([0.25, 0.5]),
        {"only": np.array([0.25, 0.5])},
        (np.array([0.25, 0.5]),),
        [np.array([[0.25], [0.5]])],
    ],
)
def test_one_output_needs_no_select(returned: object) -> None:
    assert read(returned) == [0.25, 0.5]


@pytest.mark.parametrize(
    ("returned", "select"),
    [
        (np.array([[9, 0.25], [9, 0.5]]), 1),
        (np.array([[0.25], [0.5]]), 0),
        ({"ctr": np.array([0.25, 0.5]), "cvr": np.array([9.0, 9.0])}, "ctr"),
        ((np.array([9.0, 9.0]), np.array([[0.25], [0.5]])), 1),
    ],
)
def test_select_chooses_a_column_key_or_position(returned: object, select: str | int) -> None:
    assert read(returned, select) == [0.25, 0.5]


def test_several_tasks_read_one_return() -> None:
    outputs = {"click": OutputSpec(kind="score", select="ctr"), "buy": OutputSpec(kind="score", select="cvr")}
    scores = read_scores("v", outputs, {"ctr": np.array([1.0]), "cvr": np.array([2.0])}, 1)
    assert {task: values.tolist() for task, values in scores.items()} == {"click": [1.0], "buy": [2.0]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i8", "f8"), ("u1", "f8"), ("?", "f8")],
)
def test_scores_are_float32_or_float64(given: str, expected: str) -> None:
    scores = read_score("v", "main", SCORE, np.array([0, 1], given), 2)
    assert scores.dtype == np.dtype(expected)
    assert scores.tolist() == [0.0, 1.0]


def test_where_there_is_no_score_one_stands_for_rows_with_all_that_the_variant_gives() -> None:
    outputs = {
        "none": OutputSpec(kind="none"),
        "click": OutputSpec(kind="score", select="click"),
        "word": ValueOutput(name="word", type="string"),
        "vector": ValueOutput(name="vector", type="list<float32>"),
    }
    returned = {
        "click": np.array([0.1, np.nan, 0.3, 0.4]),
        "word": ["a", "b", None, "d"],
        "vector": np.zeros((4, 2)),
    }
    found = read_scores("v", outputs, returned, 4)
    np.testing.assert_array_equal(found["none"], np.array([1, np.nan, np.nan, 1], np.float32))
    assert found["none"].dtype == np.float32


def test_no_rows_give_no_scores() -> None:
    assert read(np.empty(0), num_rows=0) == []


@pytest.mark.parametrize("kind", ["logit", "score", None])
def test_infinite_scores_are_missing(kind: str | None) -> None:
    returned = np.array([np.inf, -np.inf, np.nan, 1.0], np.float32)
    scores = read_score("v", "main", OutputSpec(kind=kind), returned, 4)
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, [np.nan, np.nan, np.nan, 1.0])
    assert np.isinf(returned[:2]).all()  # the model's own array is left as it was


def test_a_missing_probability_is_taken() -> None:
    scores = read_score("v", "main", PROBABILITY, np.array([0.0, np.nan, 1.0]), 3)
    np.testing.assert_array_equal(scores, [0.0, np.nan, 1.0])


# ---- what is refused


@pytest.mark.parametrize(
    ("returned", "select", "sentence"),
    [
        (
            np.zeros((2, 3)),
            None,
            "the model returned a matrix with 3 columns, 0 to 2; choose one with output.select.",
        ),
        (
            np.zeros((2, 3)),
            3,
            "output.select is 3, but the model returned a matrix with 3 columns; select one of 0 to 2.",
        ),
        (
            np.zeros((2, 3)),
            "ctr",
            "output.select is 'ctr', but the model returned a matrix with 3 columns; select one of 0 to 2.",
        ),
        (np.zeros(2), "ctr", "output.select is 'ctr', but the model returned one array of shape (2,)."),
        (
            {"ctr": [0, 0], "cvr": [0, 0]},
            None,
            "the model returned a dict with keys 'ctr' and 'cvr'; choose one with output.select. If none is a score, "
            "say output: {is: none}.",
        ),
        (
            {"ctr": [0, 0], "cvr": [0, 0]},
            "ctrl",
            "output.select is 'ctrl', but the model returned a dict with keys 'ctr' and 'cvr'; did you mean 'ctr'?",
        ),
        (
            {},
            None,
            "the model returned a dict with keys none; choose one with output.select. If none is a score, say output: "
            "{is: none}.",
        ),
        (
            (np.zeros(2), np.zeros(2)),
            None,
            "the model returned 2 outputs and output.select is not set; select one of 0 to 1.",
        ),
        (
            (np.zeros(2), np.zeros(2)),
            2,
            "the model returned 2 outputs and output.select is 2; select one of 0 to 1.",
        ),
        ((), None, "the model returned 0 outputs and output.select is not set; it must return at least one."),
        (
            {"logits": np.zeros((2, 2))},
            "logits",
            "the model returned a matrix with 2 columns, 0 to 1; choose one with output.select.",
        ),
        (
            np.zeros((2, 1, 1)),
            None,
            "the model returned an array of shape (2, 1, 1); expected one score a row, shape (n,).",
        ),
        (np.float64(0.5), None, "the model returned an array of shape (); expected one score a row, shape (n,)."),
        (None, None, "the model returned nothing (None) for 2 rows; does it lack a return?"),
        (np.zeros(3), None, "the model returned 3 scores for 2 rows."),
        (np.array(["a", "b"], object), None, "the model returned scores of type object; expected numbers."),
        (np.zeros(2, complex), None, "the model returned scores of type complex128; expected numbers."),
    ],
)
def test_what_cannot_be_read_is_refused(returned: object, select: str | int | None, sentence: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(returned, select)
    assert str(caught.value) == f"Variant 'v': {sentence}"


CLASSES = TaskOutput(kind="score", several="classes", names=("a", "b"))
STRETCHED = (
    "A vector [n] and a matrix of one column [n, 1] make [n, n] together: inputs: {b: column} gives a vector, inputs: "
    "{b: [column]} a matrix, of which b[:, 0] is the vector."
)


@pytest.mark.parametrize(
    ("spec", "expected", "choice"),
    [
        (SCORE, "(4,)", " If each column is a score, choose one with output.select."),
        (CLASSES, "(4, 2)", ""),
        (OutputSpec(kind="interval"), "(4, 2)", ""),
        (ValueOutput(name="p", type="float64"), "(4,)", " If each column is a score, choose one with output.select."),
    ],
)
@pytest.mark.parametrize("form", [lambda array: array, lambda array: {"p": array}], ids=["array", "dict"])
def test_a_vector_and_a_matrix_of_one_column_together_are_told(
    spec: OutputSpec, expected: str, choice: str, form: Any
) -> None:
    vector, matrix = np.arange(4.0), np.arange(4.0).reshape(4, 1)
    with pytest.raises(ModelError) as caught:
        read_score("v", "main", spec, form(vector + matrix), 4)
    assert caught.value.message == (
        f"the model returned an array of shape (4, 4) for 4 rows; expected shape {expected}. {STRETCHED}{choice}"
    )


def test_as_many_classes_as_rows_are_no_such_thing() -> None:
    classes = TaskOutput(kind="score", several="classes", names=("a", "b", "c"))
    with pytest.raises(ModelError) as caught:
        read_score("v", "main", classes, np.full((3, 3), "x"), 3)
    assert caught.value.message == "the model returned scores of type <U1; expected numbers."


@pytest.mark.parametrize("value", [1.5, -0.25, np.inf, -np.inf])
def test_a_probability_outside_0_and_1_names_value_and_row(value: float) -> None:
    with pytest.raises(ModelError) as caught:
        read_score("v", "click", PROBABILITY, np.array([0.5, np.nan, value, value]), 4)
    assert str(caught.value) == (
        f"Variant 'v': task 'click': the score {value} in row 2 of the batch is outside [0, 1], but the output is a "
        "probability; if it is none, say output: {is: logit} or {is: score}."
    )
    assert caught.value.row == 2
    assert pickle.loads(pickle.dumps(caught.value)).row == 2


def test_both_ends_of_an_interval_in_a_dict_are_no_pair() -> None:
    ends = {"low": np.zeros(2), "high": np.ones(2)}
    with pytest.raises(ModelError) as caught:
        read_score("v", "main", OutputSpec(kind="interval"), ends, 2)
    assert str(caught.value) == (
        "Variant 'v': the model returned a dict with keys 'low' and 'high'; return lower and upper as a pair, or as "
        "one array of shape (n, 2) that output.select points to."
    )
