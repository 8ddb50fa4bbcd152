"""Scores of several classes or labels, predicted ones, and intervals, from whatever holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from assay.errors import ModelError
from assay.models.outputs import TaskOutput, read_score, resolve_outputs
from assay.spec.model import OutputSpec, VariantSpec

NAN = float("nan")
ABC = ("a", "b", "c")
ROWS = [[0.5, 0.25, 0.25], [0.0, 0.75, 0.25]]


def read(returned: object, rows: int = 2, select: str | int | None = None, **output: Any) -> np.ndarray:
    """Any: the fields of an output, of the classes a, b, c unless it says otherwise."""
    fields = {"kind": "score", "several": "classes", "names": ABC, **output}
    return read_score("v", "main", TaskOutput(select=select, **fields), returned, rows)


def refusal(returned: object, rows: int = 2, select: str | int | None = None, **output: Any) -> str:  # Any: as in read
    with pytest.raises(ModelError) as caught:
        read(returned, rows, select, **output)
    return str(caught.value)


# ---- a score for each class


@pytest.mark.parametrize(
    "returned",
    [
        np.array(ROWS),
        ROWS,
        pa.array(ROWS),
        pa.chunked_array([ROWS[:1], ROWS[1:]]),
        pa.array(ROWS, pa.list_(pa.float64(), 3)),
        pa.array(ROWS, pa.large_list(pa.float64())),
        {"only": np.array(ROWS)},
        (np.array(ROWS),),
    ],
)
@pytest.mark.parametrize("kind", ["probability", "logit", "score", None])
def test_matrices_in_any_form_are_scores(returned: object, kind: str | None) -> None:
    np.testing.assert_array_equal(read(returned, kind=kind), ROWS)


def test_select_picks_one_of_several_heads() -> None:
    heads = {"kind": np.array(ROWS), "size": np.array([1.0, 2.0])}
    np.testing.assert_array_equal(read(heads, select="kind"), ROWS)
    np.testing.assert_array_equal(read((np.zeros(2), np.array(ROWS)), select=1), ROWS)
    assert refusal(np.array(ROWS), select=1) == (
        "Variant 'v': output.select is 1, but the model returned one array; remove it."
    )
    assert refusal(heads) == (
        "Variant 'v': the model returned a dict with keys 'kind' and 'size'; choose one with output.select. "
        "If none is a score, say output: {is: none}."
    )


def test_float32_and_half_stay_single_and_all_else_is_double() -> None:
    assert read(np.array(ROWS, np.float16)).dtype == np.float32
    assert read(pa.array(ROWS, pa.list_(pa.float32()))).dtype == np.float32
    assert read(np.ones((2, 3), np.int8)).dtype == np.float64
    assert read(pa.array([[1, 2, 3], [4, 5, 6]])).dtype == np.float64


def test_nulls_and_infinities_are_missing() -> None:
    lists = pa.array([None, [1.0, None, 2.0], [1.0, 2.0, 3.0]], pa.list_(pa.float64(), 3))
    np.testing.assert_array_equal(read(lists, 3), [[NAN] * 3, [1, NAN, 2], [1, 2, 3]])
    np.testing.assert_array_equal(read(np.array([[np.inf, 0, -np.inf]]), 1), [[NAN, 0, NAN]])
    np.testing.assert_array_equal(read(np.array([[0.5, NAN, 0.9]]), 1, kind="probability"), [[0.5, NAN, 0.9]])


def test_the_sum_of_probabilities_may_be_off_by_a_thousandth() -> None:
    read(np.array([[0.5, 0.25, 0.2509]]), 1, kind="probability")
    assert refusal(np.array([*ROWS, [0.5, 0.25, 0.2511]]), 3, kind="probability") == (
        "Variant 'v': the probabilities in row 2 of the batch sum to 1.0011, not to 1; if they are none, say output: "
        "{is: logit} or {is: score}."
    )


def test_other_shapes_and_types_are_refused_with_what_is_expected() -> None:
    assert refusal(np.zeros((2, 4))) == (
        "Variant 'v': the model returned a matrix with 4 columns; expected 3, one for each class: 'a', 'b' and 'c'."
    )
    assert refusal(np.zeros(2)) == (
        "Variant 'v': the model returned an array of shape (2,); expected a matrix with 3 columns, one for each class: "
        "'a', 'b' and 'c'. If these are the predicted classes, say output: {is: label}."
    )
    assert refusal(np.zeros((5, 3))) == "Variant 'v': the model returned 5 scores for 2 rows."
    assert refusal(np.array([["x"] * 3] * 2)) == "Variant 'v': the model returned scores of type <U1; expected numbers."
    assert refusal(pa.array([["x"], ["y"]])) == "Variant 'v': its lists are of string; expected numbers."
    assert refusal(pa.array([[1.0, 2.0, 3.0], [1.0]])) == (
        "Variant 'v': the list in row 1 of the batch has 1 item, and others have 3; expected as many in each."
    )
    assert refusal([[1.0, 2.0], [1.0]]).startswith("Variant 'v': the model returned what is no array: ")


def test_a_probability_outside_0_and_1_names_row_and_class() -> None:
    with pytest.raises(ModelError) as caught:
        read(np.array([[0.5, 0.5, 0.0], [0.5, 0.75, -0.25]]), kind="probability")
    assert caught.value.row == 1
    assert caught.value.message == (
        "the score -0.25 of 'c' in row 1 of the batch is outside [0, 1], but the output is a probability; if it is "
        "none, say output: {is: logit} or {is: score}."
    )


# ---- predicted classes


@pytest.mark.parametrize(
    ("names", "returned", "numbers"),
    [
        (ABC, ["c", "a", "zz", None], [2, 0, -1, NAN]),
        (ABC, np.array(["c", "a", "zz", "b"]), [2, 0, -1, 1]),
        (ABC, np.array([["c"], ["a"], ["zz"], ["b"]]), [2, 0, -1, 1]),
        (ABC, pa.array(["c", "a", "zz", None]).dictionary_encode(), [2, 0, -1, NAN]),
        (("3", "1", "2"), np.array([1, 2, 3, 4]), [1, 2, 0, -1]),
        (("3", "1", "2"), np.array([1.0, 2.0, NAN, 2.5]), [1, 2, NAN, -1]),
        (("3", "1", "2"), ["1", "2", "3", "4"], [1, 2, 0, -1]),
        (("true", "false"), np.array([True, False, True, True]), [0, 1, 0, 0]),
    ],
)
def test_predicted_classes_are_numbered_by_value(
    names: tuple[str, ...], returned: object, numbers: list[float]
) -> None:
    np.testing.assert_array_equal(read(returned, 4, kind="label", names=names), numbers)


def test_predicted_classes_that_cannot_be_are_refused() -> None:
    assert refusal(np.array([0, 1]), kind="label") == (
        "Variant 'v': the model predicts numbers (int64), and none of the task's class names is one: 'a', 'b' and 'c'. "
        "Return the names themselves."
    )
    assert refusal(np.array(ROWS), kind="label") == (
        "Variant 'v': the model returned an array of shape (2, 3); expected one predicted class a row, shape (n,). If "
        "these are scores, say output: {is: probability}, {is: logit} or {is: score}."
    )
    assert refusal(pa.array(ROWS), kind="label") == (
        "Variant 'v': the predicted classes are of type list<item: double>; expected one a row. If these are scores, "
        "say output: {is: probability}, {is: logit} or {is: score}."
    )
    assert refusal(["a"], kind="label") == "Variant 'v': the model returned 1 label for 2 rows."


# ---- labels


def test_probabilities_of_labels_need_no_sum() -> None:
    np.testing.assert_array_equal(
        read(np.array([[1.0, 0.9, 0.0]]), 1, several="labels", kind="probability"), [[1.0, 0.9, 0.0]]
    )
    assert refusal(np.array([[1.5, 0, 0]]), 1, several="labels", kind="probability") == (
        "Variant 'v': the score 1.5 of 'a' in row 0 of the batch is outside [0, 1], but the output is a probability; "
        "if it is none, say output: {is: logit} or {is: score}."
    )


@pytest.mark.parametrize(
    "returned",
    [
        [["a", "c"], [], None],
        [{"c", "a"}, set(), None],
        pa.array([["c", "a", "a"], [], None]),
        pa.array([["a", "c"], [], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        np.array([[1, 0, 1], [0, 0, 0], [NAN, 0, 0]]),
    ],
)
def test_predicted_sets_are_0_and_1(returned: object) -> None:
    found = read(returned, 3, several="labels", kind="label")
    np.testing.assert_array_equal(found[:2], [[1, 0, 1], [0, 0, 0]])
    assert np.isnan(found[2]).any()


def test_sets_that_are_all_unknown_are_missing() -> None:
    assert np.isnan(read(pa.array([None, None], pa.list_(pa.string())), several="labels", kind="label")).all()


def test_predicted_sets_that_cannot_be_are_refused() -> None:
    assert refusal([["a"], ["zz"]], several="labels", kind="label") == (
        "Variant 'v': the predicted set in row 1 of the batch holds 'zz', which is no label of the task; expected 'a', "
        "'b' and 'c'. A label that no row has may be declared in labels."
    )
    assert refusal(np.array([[1, 0, 0], [0, 0.5, 0]]), several="labels", kind="label") == (
        "Variant 'v': 0.5 in row 1 of the batch is neither 0 nor 1, but the output is sets of labels; if these are "
        "scores, say output: {is: probability}."
    )
    assert refusal(pa.array([[0], [1]]), several="labels", kind="label") == (
        "Variant 'v': the model predicts numbers (int64), and none of the task's label names is one: 'a', 'b' and 'c'. "
        "Return the names themselves."
    )


# ---- intervals


def interval(returned: object, rows: int = 2, select: str | int | None = None) -> np.ndarray:
    return read_score("v", "main", OutputSpec(kind="interval", select=select), returned, rows)


@pytest.mark.parametrize(
    "returned",
    [
        np.array([[1, 2], [3, 3]]),
        (np.array([1.0, 3.0]), np.array([2.0, 3.0])),
        [np.array([[1.0], [3.0]]), np.array([[2.0], [3.0]])],
        pa.array([[1, 2], [3, 3]]),
        pa.array([[1.0, 2.0], [3.0, 3.0]], pa.list_(pa.float32(), 2)),
    ],
)
def test_intervals_are_pairs_in_double_precision(returned: object) -> None:
    found = interval(returned)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [[1, 2], [3, 3]])


def test_an_interval_may_be_one_head_of_several() -> None:
    heads = {"mean": np.zeros(2), "bounds": np.array([[1.0, 2.0], [3.0, 4.0]])}
    np.testing.assert_array_equal(interval(heads, select="bounds"), [[1, 2], [3, 4]])
    pair = {"mean": np.zeros(2), "bounds": (np.array([1.0, 3.0]), np.array([2.0, 4.0]))}
    np.testing.assert_array_equal(interval(pair, select="bounds"), [[1, 2], [3, 4]])


def test_intervals_that_cannot_be_are_refused() -> None:
    def said(returned: object) -> str:
        with pytest.raises(ModelError) as caught:
            interval(returned)
        return str(caught.value)

    assert said(np.array([[1.0, 2.0], [3.0, 2.5]])) == (
        "Variant 'v': the interval in row 1 of the batch goes from 3.0 to 2.5; expected lower, then upper."
    )
    assert said(np.zeros(2)) == (
        "Variant 'v': the model returned an array of shape (2,); expected lower and upper, shape (n, 2)."
    )
    assert said((np.zeros(2), np.zeros(3))) == (
        "Variant 'v': the model returned arrays of shape (2,) and (3,); expected lower and upper, shape (n,) each."
    )


def test_an_infinite_bound_is_missing() -> None:
    np.testing.assert_array_equal(interval(np.array([[-np.inf, 1.0], [1.0, 2.0]])), [[NAN, 1], [1, 2]])


def test_an_override_keeps_what_the_task_is() -> None:
    outputs = {"main": TaskOutput(kind="score", several="classes", names=ABC)}
    variant = VariantSpec(name="v", column="p", output=OutputSpec(kind="label"))
    assert resolve_outputs(variant, outputs) == {"main": TaskOutput(kind="label", several="classes", names=ABC)}
