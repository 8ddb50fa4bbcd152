from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fakes.scores import score_all

from assay.errors import ModelError
from assay.models.column import ColumnModel
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
