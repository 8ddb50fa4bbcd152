from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fakes.scores import score_all

from assay.errors import ModelError
from assay.models.lightgbm import LightGBMModel, read_header
from assay.models.outputs import TaskOutput
from assay.spec.model import OutputSpec, VariantSpec

RNG = np.random.default_rng(0)
NUM_ROWS = 400
FRAME = pd.DataFrame(
    {
        "distance": RNG.normal(size=NUM_ROWS),
        "carrier": pd.Categorical(RNG.choice(["DL", "AA", "UA"], NUM_ROWS), categories=["DL", "AA", "UA"]),
        "hour": RNG.integers(0, 24, NUM_ROWS),
        "month": pd.Categorical(RNG.integers(3, 7, NUM_ROWS)),
    }
)
LOGIT = FRAME["distance"] + 2 * (FRAME["carrier"] == "AA") - (FRAME["month"] == 5)
LABEL = ((LOGIT + RNG.normal(size=NUM_ROWS)) > 0).astype(int)
TABLE = pa.table(
    {
        "distance": FRAME["distance"].to_numpy(),
        "carrier": FRAME["carrier"].astype(str).tolist(),
        "hour": FRAME["hour"].to_numpy(),
        "month": FRAME["month"].astype(int).to_numpy(),
    }
)


def train(path: Path, features: Any, label: Any = LABEL, **parameters: Any) -> lightgbm.Booster:
    categorical = parameters.pop("categorical_feature", "auto")
    parameters = {"objective": "binary", "num_leaves": 8, "verbosity": -1, "num_threads": 1, **parameters}
    data = lightgbm.Dataset(features, label, categorical_feature=categorical)
    lightgbm.train(parameters, data, 10).save_model(path)
    return lightgbm.Booster(model_file=path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("lightgbm")
    train(base / "frame.txt", FRAME)
    train(base / "matrix.txt", FRAME[["distance", "hour"]].to_numpy())
    train(base / "sigmoid.txt", FRAME[["distance", "hour"]], sigmoid=2.0)
    train(base / "regression.txt", FRAME[["distance"]], FRAME["hour"], objective="regression")
    train(base / "classes.txt", FRAME[["distance"]], RNG.integers(0, 3, NUM_ROWS), objective="multiclass", num_class=3)
    train(base / "ova.txt", FRAME[["distance"]], RNG.integers(0, 3, NUM_ROWS), objective="multiclassova", num_class=3)
    train(base / "entropy.txt", FRAME[["distance"]], objective="cross_entropy")
    train(base / "custom.txt", FRAME[["distance"]], objective=lambda margin, data: (margin, np.ones_like(margin)))
    ordered = FRAME.assign(size=pd.Categorical(RNG.choice(["s", "l"], NUM_ROWS), categories=["s", "l"], ordered=True))
    train(base / "ordered.txt", ordered)
    train(base / "codes.txt", ordered[["hour", "size"]], categorical_feature=["hour"])
    (base / "text.txt").write_text("no model\n")
    return base


def model(base: Path, path: str, kind: str | None = "probability", **spec: Any) -> LightGBMModel:
    variant = VariantSpec.model_validate({"name": "gbdt", "lightgbm": path, **spec})
    return LightGBMModel.from_spec(variant, {"main": OutputSpec(kind=kind)}, base)


def scores(one: LightGBMModel, table: pa.Table = TABLE) -> np.ndarray[Any, np.dtype[Any]]:
    one.check(table.schema)
    return np.asarray(score_all(one.load(), table.select(one.columns))["main"])


def booster(base: Path, path: str) -> lightgbm.Booster:
    return lightgbm.Booster(model_file=base / path)


# ---- categories


def test_scores_are_those_of_lightgbm_on_the_training_frame(saved: Path) -> None:
    expected = booster(saved, "frame.txt").predict(FRAME)
    np.testing.assert_array_equal(scores(model(saved, "frame.txt")), expected)


@pytest.mark.parametrize("categories", [["UA", "AA", "DL"], ["AA", "unused", "DL", "UA"]])
def test_the_codes_of_an_arrow_dictionary_mean_nothing(saved: Path, categories: list[str]) -> None:
    codes = pa.array([categories.index(value) for value in TABLE["carrier"].to_pylist()], pa.int16())
    carrier = pa.DictionaryArray.from_arrays(codes, categories)
    month = TABLE["month"].dictionary_encode()
    table = pa.table({"month": month, "carrier": carrier, "hour": TABLE["hour"], "distance": TABLE["distance"]})
    np.testing.assert_array_equal(scores(model(saved, "frame.txt"), table), scores(model(saved, "frame.txt")))


def test_null_and_unknown_categories_are_missing_as_for_pandas(saved: Path) -> None:
    carriers, months = ["AA", None, "ZZ", "DL"], [3, None, 12, 5]
    table = pa.table(
        {"distance": [0.5, None, -0.5, 0.0], "carrier": carriers, "hour": [1, 2, None, 4], "month": months}
    )
    frame = pd.DataFrame(
        {
            "distance": [0.5, np.nan, -0.5, 0.0],
            "carrier": pd.Categorical(carriers),
            "hour": [1, 2, np.nan, 4],
            "month": pd.Categorical(months),
        }
    )
    expected = booster(saved, "frame.txt").predict(frame)
    np.testing.assert_array_equal(scores(model(saved, "frame.txt"), table), expected)


@pytest.mark.parametrize("kind", [pa.int8(), pa.float64(), pa.uint32()])
def test_numbers_as_categories_match_across_widths(saved: Path, kind: pa.DataType) -> None:
    table = TABLE.set_column(3, "month", TABLE["month"].cast(kind))
    np.testing.assert_array_equal(scores(model(saved, "frame.txt"), table), scores(model(saved, "frame.txt")))


def test_the_header_is_read_without_loading(saved: Path) -> None:
    header = read_header("v", saved / "frame.txt")
    assert header.features == ("distance", "carrier", "hour", "month")
    assert header.objective == "binary"
    assert header.named
    assert {name: values.to_pylist() for name, values in header.categories.items()} == {
        "carrier": ["DL", "AA", "UA"],
        "month": [3, 4, 5, 6],
    }
    assert not read_header("v", saved / "matrix.txt").named


def test_categories_that_cannot_be_told_apart_are_refused(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        _ = model(saved, "ordered.txt").columns
    assert str(caught.value) == (
        "Variant 'gbdt': the model records the categories of 3 pandas columns and has 2 categorical features, "
        "'carrier' and 'month', so it cannot be told which list is whose; train it with unordered categories and "
        "categorical_feature: auto."
    )
    with pytest.raises(ModelError, match=r"^Variant 'gbdt': the model records the categories of 1 pandas columns"):
        _ = model(saved, "codes.txt").columns


def test_a_column_of_another_type_than_the_categories_is_refused(saved: Path) -> None:
    table = TABLE.set_column(1, "carrier", pa.array([1] * NUM_ROWS))
    with pytest.raises(ModelError) as caught:
        model(saved, "frame.txt").check(table.schema)
    assert str(caught.value) == (
        "Variant 'gbdt': column 'carrier' is of type int64, but the model was trained on the categories 'DL', 'AA' and "
        "'UA', which are of type string."
    )


def test_text_for_a_feature_of_numbers_is_refused(saved: Path) -> None:
    table = TABLE.set_column(2, "hour", TABLE["carrier"])
    with pytest.raises(ModelError) as caught:
        model(saved, "frame.txt").check(table.schema)
    assert str(caught.value) == (
        "Variant 'gbdt': column 'hour' is of type string, but the model records no categories for it and was trained "
        "on numbers."
    )


# ---- columns


def test_a_model_trained_on_a_matrix_reads_its_inputs_in_order(saved: Path) -> None:
    one = model(saved, "matrix.txt", inputs=["distance", "hour"])
    expected = booster(saved, "matrix.txt").predict(FRAME[["distance", "hour"]].to_numpy())
    np.testing.assert_array_equal(scores(one), expected)
    with pytest.raises(ModelError, match=r"^Variant 'gbdt': inputs give 1 of the 2 columns that the model was trained"):
        _ = model(saved, "matrix.txt", inputs=["distance"]).columns


def test_a_feature_may_come_from_a_column_of_another_name(saved: Path) -> None:
    table = TABLE.rename_columns(["distance", "airline", "hour", "month"])
    one = model(saved, "frame.txt", inputs={"carrier": "airline"})
    assert one.columns == ("distance", "airline", "hour", "month")
    np.testing.assert_array_equal(scores(one, table), scores(model(saved, "frame.txt")))


def test_a_column_that_is_not_there_offers_the_nearest(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model(saved, "frame.txt").check(TABLE.rename_columns(["distanse", "carrier", "hour", "month"]).schema)
    assert str(caught.value) == (
        "Variant 'gbdt': the model wants column 'distance', which the data do not have; did you mean 'distanse'?"
    )


# ---- outputs


def test_a_logit_is_the_raw_score_times_sigmoid(saved: Path) -> None:
    for path in ("frame.txt", "sigmoid.txt", "entropy.txt"):
        probability, logit = scores(model(saved, path)), scores(model(saved, path, "logit"))
        np.testing.assert_allclose(1 / (1 + np.exp(-logit)), probability, rtol=1e-12)


def test_a_score_is_the_prediction(saved: Path) -> None:
    expected = booster(saved, "regression.txt").predict(FRAME[["distance"]])
    np.testing.assert_array_equal(scores(model(saved, "regression.txt", "score")), expected)


def test_one_class_of_several_is_selected(saved: Path) -> None:
    expected = booster(saved, "classes.txt").predict(FRAME[["distance"]])
    np.testing.assert_array_equal(scores(model(saved, "classes.txt", output={"select": 2})), expected[:, 2])
    with pytest.raises(ModelError) as caught:
        scores(model(saved, "classes.txt"))
    assert str(caught.value) == (
        "Variant 'gbdt': the model returned a matrix with 3 columns, 0 to 2; choose one with output.select."
    )


def test_two_tasks_are_two_views_of_one_model(saved: Path) -> None:
    outputs = {"a": OutputSpec(kind="probability"), "b": OutputSpec(kind="logit")}
    both = score_all(LightGBMModel.from_spec(VariantSpec(name="v", lightgbm="frame.txt"), outputs, saved).load(), TABLE)
    np.testing.assert_allclose(1 / (1 + np.exp(-both["b"])), both["a"], rtol=1e-12)


@pytest.mark.parametrize(
    ("path", "kind", "sentence"),
    [
        (
            "regression.txt",
            "probability",
            "the output is to be a probability, but the model's objective is 'regression', whose predictions are none; "
            "write output: {is: score}.",
        ),
        (
            "custom.txt",
            "probability",
            "the output is to be a probability, but the model's objective is 'custom', whose predictions are none; "
            "write output: {is: score}, or {is: logit} if its raw score is one.",
        ),
        (
            "regression.txt",
            "logit",
            "the output is to be a logit, but the model's objective is 'regression', whose raw score is none; write "
            "output: {is: score}.",
        ),
    ],
)
def test_an_objective_of_another_kind_is_refused(saved: Path, path: str, kind: str, sentence: str) -> None:
    for use in (lambda one: one.check(TABLE.schema), lambda one: one.load()):
        with pytest.raises(ModelError) as caught:
            use(model(saved, path, kind))
        assert str(caught.value) == f"Variant 'gbdt': {sentence}"


def test_the_raw_score_of_a_custom_objective_may_be_a_logit(saved: Path) -> None:
    expected = booster(saved, "custom.txt").predict(FRAME[["distance"]], raw_score=True)
    np.testing.assert_array_equal(scores(model(saved, "custom.txt", "logit")), expected)


# ---- the description


def test_a_pickled_model_scores_alike(saved: Path) -> None:
    one = model(saved, "frame.txt")
    fresh, opened = pickle.loads(pickle.dumps(one)), scores(one)
    np.testing.assert_array_equal(scores(fresh), opened)
    np.testing.assert_array_equal(scores(pickle.loads(pickle.dumps(one))), opened)
    assert one.batch_rows is None


def test_the_fingerprint_covers_weights_inputs_and_outputs(saved: Path) -> None:
    before = model(saved, "frame.txt").fingerprint
    assert model(saved, "frame.txt", name="twin").fingerprint == before
    others = [
        model(saved, "matrix.txt"),
        model(saved, "frame.txt", "logit"),
        model(saved, "frame.txt", inputs={"distance": "hour"}),
    ]
    assert len({before, *(other.fingerprint for other in others)}) == 4


def test_receive_has_no_effect(saved: Path) -> None:
    with pytest.raises(ModelError, match=r"^Variant 'gbdt': receive has no effect on a LightGBM model; remove it\.$"):
        model(saved, "frame.txt", receive="pandas")


def test_a_missing_or_other_file_is_named(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        _ = model(saved, "gone.txt").columns
    assert str(caught.value) == f"Variant 'gbdt': there is no file '{saved}/gone.txt'."
    with pytest.raises(ModelError) as caught:
        _ = model(saved, "text.txt").columns
    assert str(caught.value) == f"Variant 'gbdt': '{saved}/text.txt' is not a model that LightGBM saved as text."


# ---- several classes


def of_classes(base: Path, path: str, kind: str) -> LightGBMModel:
    variant = VariantSpec.model_validate({"name": "gbdt", "lightgbm": path})
    output = TaskOutput(kind=kind, several="classes", names=("0", "1", "2"))
    return LightGBMModel.from_spec(variant, {"main": output}, base)


def test_a_score_for_each_class(saved: Path) -> None:
    expected = booster(saved, "classes.txt")
    frame = FRAME[["distance"]]
    np.testing.assert_array_equal(scores(of_classes(saved, "classes.txt", "probability")), expected.predict(frame))
    raw = expected.predict(frame, raw_score=True)
    np.testing.assert_array_equal(scores(of_classes(saved, "classes.txt", "logit")), raw)
    np.testing.assert_array_equal(
        scores(of_classes(saved, "ova.txt", "score")), booster(saved, "ova.txt").predict(frame)
    )


@pytest.mark.parametrize(
    ("path", "kind", "sentence"),
    [
        (
            "ova.txt",
            "probability",
            "the output is to be a probability, but the model's objective is 'multiclassova', whose predictions do not "
            "sum to 1; write output: {is: score}.",
        ),
        (
            "ova.txt",
            "logit",
            "the output is to be a logit, but the model's objective is 'multiclassova', whose raw score is none; write "
            "output: {is: score}.",
        ),
        (
            "classes.txt",
            "label",
            "the output is to be a label, but a LightGBM model gives scores; write output: {is: probability} or {is: "
            "score}.",
        ),
    ],
)
def test_what_its_objective_does_not_give_is_refused(saved: Path, path: str, kind: str, sentence: str) -> None:
    with pytest.raises(ModelError) as caught:
        of_classes(saved, path, kind).check(TABLE.schema)
    assert caught.value.message == sentence


def test_a_model_of_two_classes_has_no_matrix(saved: Path) -> None:
    with pytest.raises(ModelError, match=r"expected a matrix with 3 columns, one for each class: '0', '1' and '2'\."):
        scores(of_classes(saved, "entropy.txt", "probability"))
