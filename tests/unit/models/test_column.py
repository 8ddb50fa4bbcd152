from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fakes.scores import score_all

from assay.errors import ModelError
from assay.models.column import ColumnModel
from assay.models.outputs import TaskOutput
from assay.spec.model import OutputSpec, VariantSpec

BASE = Path()
ONE = {"main": OutputSpec(kind="probability")}
TWO = {"click": OutputSpec(kind="logit", select="ctr"), "buy": OutputSpec(kind="logit", select="cvr")}


def model(column: str | dict[str, str], outputs: dict[str, OutputSpec] = ONE) -> ColumnModel:
    return ColumnModel.from_spec(VariantSpec(name="served", column=column), outputs, BASE)


def test_scores_are_the_columns_values_and_null_is_missing() -> None:
    table = pa.table({"p": pa.array([0.5, None, 1.0], pa.float32())})
    scores = score_all(model("p").load(), table)["main"]
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, [0.5, np.nan, 1.0])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, None, 1]),
        pa.array([False, None, True]),
        pa.array([0.0, None, 1.0]),
        pa.array([0.0, None, 1.0]).dictionary_encode(),
        pa.array([0, None, 1], pa.decimal128(3, 1)),
        pa.array([0.0, None, 1.0], pa.float16()),
    ],
)
def test_any_numbers_are_scores(column: pa.Array) -> None:
    table = pa.table({"p": column})
    one = model("p")
    one.check(table.schema)
    np.testing.assert_array_equal(score_all(one.load(), table)["main"], [0.0, np.nan, 1.0])


def test_each_task_has_its_column_and_a_tasks_select_is_not_for_columns() -> None:
    served = model({"click": "p_ctr", "buy": "p_cvr"}, TWO)
    assert served.columns == ("p_ctr", "p_cvr")
    scores = score_all(served.load(), pa.table({"p_cvr": [3.0], "p_ctr": [2.0]}))
    assert {task: values.tolist() for task, values in scores.items()} == {"click": [2.0], "buy": [3.0]}


def test_its_output_does_not_depend_on_the_batch() -> None:
    assert model("p").batch_rows is None


def test_it_is_the_same_after_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(model("p"))) == model("p")


def test_the_fingerprint_covers_columns_and_outputs_but_not_the_name() -> None:
    twin = ColumnModel.from_spec(VariantSpec(name="twin", column="p"), ONE, BASE / "elsewhere")
    assert twin.fingerprint == model("p").fingerprint
    assert model("q").fingerprint != model("p").fingerprint
    assert model("p", {"main": OutputSpec(kind="logit")}).fingerprint != model("p").fingerprint


def test_a_probability_outside_0_and_1_is_refused() -> None:
    with pytest.raises(ModelError) as caught:
        score_all(model("p").load(), pa.table({"p": [0.5, 1.25]}))
    assert str(caught.value) == (
        "Variant 'served': the score 1.25 in row 1 of the batch is outside [0, 1], but the output is a probability; if "
        "it is none, say output: {is: logit} or {is: score}."
    )


def test_a_missing_column_offers_the_nearest() -> None:
    with pytest.raises(ModelError) as caught:
        model("p_click").check(pa.schema({"p_clik": pa.float64(), "y": pa.int8()}))
    assert str(caught.value) == (
        "Variant 'served': the model wants column 'p_click', which the data do not have; did you mean 'p_clik'?"
    )


def test_a_column_of_text_is_no_score() -> None:
    with pytest.raises(ModelError) as caught:
        model("p").check(pa.schema({"p": pa.string()}))
    assert str(caught.value) == "Variant 'served': column 'p' is of type string; a score must be a number."


# ---- several scores a row

ROWS = [[0.5, 0.25, 0.25], [0.0, 0.75, 0.25]]


def of_classes(
    column: str | tuple[str, ...], kind: str, several: str = "classes", names: tuple[str, ...] = ("a", "b", "c")
):
    return ColumnModel.from_spec(
        VariantSpec(name="served", column=column), {"main": TaskOutput(kind=kind, several=several, names=names)}, BASE
    )


def test_scores_of_classes_are_a_list_column_or_a_column_each() -> None:
    table = pa.table({"p": ROWS, "pa": [0.5, 0.0], "pb": [0.25, 0.75], "pc": [0.25, 0.25]})
    for column in ("p", ("pa", "pb", "pc")):
        one = of_classes(column, "probability")
        one.check(table.schema)
        np.testing.assert_array_equal(score_all(one.load(), table)["main"], ROWS)
    assert of_classes(("pa", "pb", "pc"), "probability").columns == ("pa", "pb", "pc")
    assert of_classes(("pa", "pb"), "score", names=()).columns == ("pa", "pb")  # not known yet


def test_columns_of_single_precision_stay_so() -> None:
    single = pa.table({name: pa.array([0.5, None], pa.float32()) for name in ("x", "y", "z")})
    found = score_all(of_classes(("x", "y", "z"), "score").load(), single)["main"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[0.5] * 3, [np.nan] * 3])


def test_predicted_classes_and_sets_are_columns_of_values() -> None:
    table = pa.table({"class": [1, 0], "truth": [True, False], "tags": [["a"], []], "x": [1, 0], "y": [0, None]})
    numbers = [
        score_all(of_classes("class", "label", names=("0", "1")).load(), table),
        score_all(of_classes("truth", "label", names=("false", "true")).load(), table),
    ]
    assert [one["main"].tolist() for one in numbers] == [[1, 0], [1, 0]]
    sets = score_all(of_classes("tags", "label", "labels", ("a", "b")).load(), table)["main"]
    np.testing.assert_array_equal(sets, [[1, 0], [0, 0]])
    flags = score_all(of_classes(("x", "y"), "label", "labels", ("a", "b")).load(), table)["main"]
    np.testing.assert_array_equal(flags, [[1, 0], [0, np.nan]])


def test_intervals_are_a_list_column_or_a_pair() -> None:
    table = pa.table({"i": [[1.0, 2.0]], "low": [1.0], "high": [2.0]})
    outputs = {"main": OutputSpec(kind="interval")}
    for column in ("i", ("low", "high")):
        one = ColumnModel.from_spec(VariantSpec(name="served", column=column), outputs, BASE)
        one.check(table.schema)
        np.testing.assert_array_equal(score_all(one.load(), table)["main"], [[1, 2]])


@pytest.mark.parametrize(
    ("kind", "several", "sentence"),
    [
        (
            None,
            "classes",
            "column 'x' is of type string; expected lists with a score for each class, or a column for each. If it "
            "holds the predicted classes, say output: {is: label}.",
        ),
        (
            "probability",
            "labels",
            "column 'x' is of type string; expected lists with a score for each label, or a column for each.",
        ),
        (
            "label",
            "labels",
            "column 'x' is of type string; expected lists of labels, or a column of 0 and 1 for each label.",
        ),
    ],
)
def test_a_column_of_another_type_is_refused(kind: str, several: str, sentence: str) -> None:
    with pytest.raises(ModelError) as caught:
        of_classes("x", kind, several).check(pa.schema([("x", pa.string())]))
    assert caught.value.message == sentence


def test_other_refusals() -> None:
    schema = pa.schema([("l", pa.list_(pa.string())), ("t", pa.string()), ("n", pa.int64())])
    with pytest.raises(
        ModelError, match=r"column 'l' is of type list<item: string>; a predicted class is one value\.$"
    ):
        of_classes("l", "label").check(schema)
    with pytest.raises(ModelError, match=r"column 't' is of type string; a score must be a number\.$"):
        of_classes(("n", "n", "t"), "score").check(schema)
    with pytest.raises(
        ModelError, match=r"column 'n' is of type int64; expected lists of two numbers, lower and upper, "
    ):
        ColumnModel.from_spec(VariantSpec(name="v", column="n"), {"main": OutputSpec(kind="interval")}, BASE).check(
            schema
        )
    with pytest.raises(ModelError) as caught:
        of_classes(("x", "y"), "score")
    assert caught.value.message == "column gives 2 columns; expected 3, one for each of 'a', 'b' and 'c'."


def test_the_fingerprint_tells_a_task_of_classes_from_another_but_not_by_their_names() -> None:
    several = of_classes("p", "probability").fingerprint
    assert several != model("p").fingerprint
    assert several == of_classes("p", "probability", names=()).fingerprint
    assert several != of_classes("p", "probability", "labels").fingerprint
