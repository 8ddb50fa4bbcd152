from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fakes.scores import score_all
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from assay.errors import ModelError
from assay.models.outputs import TaskOutput
from assay.models.sklearn import SklearnModel
from assay.spec.model import OutputSpec, VariantSpec

RNG = np.random.default_rng(0)
NUM_ROWS = 200
FRAME = pd.DataFrame(
    {
        "distance": RNG.normal(size=NUM_ROWS),
        "hour": RNG.integers(0, 24, NUM_ROWS),
        "carrier": RNG.choice(["AA", "DL", "UA"], NUM_ROWS),
    }
)
LABEL = ((FRAME["distance"] + (FRAME["carrier"] == "AA") + RNG.normal(size=NUM_ROWS)) > 0).astype(int)
SIZES = RNG.choice(["large", "middle", "small"], NUM_ROWS)
SETS = (RNG.random((NUM_ROWS, 3)) < 0.4).astype(int)
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)


def permuted(table: pa.Table) -> pa.Table:
    """The same values; other column order, and carrier as a dictionary whose codes are in another order."""
    codes = pa.array([["UA", "DL", "AA"].index(value) for value in table["carrier"].to_pylist()], pa.int8())
    return pa.table(
        {
            "carrier": pa.DictionaryArray.from_arrays(codes, ["UA", "DL", "AA"]),
            "unused": pa.nulls(table.num_rows),
            "hour": table["hour"],
            "distance": table["distance"],
        }
    )


def pipeline() -> Pipeline:
    by_column = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["distance", "hour"]),
            ("carrier", OneHotEncoder(handle_unknown="ignore"), ["carrier"]),
        ]
    )
    return Pipeline([("columns", by_column), ("model", LogisticRegression())]).fit(FRAME, LABEL)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("sklearn")
    numbers = FRAME[["distance", "hour"]]
    joblib.dump(pipeline(), base / "pipeline.joblib")
    with (base / "pipeline.pkl").open("wb") as file:
        pickle.dump(pipeline(), file)
    joblib.dump(LogisticRegression().fit(numbers.to_numpy(), LABEL), base / "unnamed.joblib")
    joblib.dump(LinearRegression().fit(numbers, LABEL), base / "regression.joblib")
    joblib.dump(LogisticRegression().fit(numbers, np.where(LABEL == 1, "late", "early")), base / "words.joblib")
    joblib.dump(LogisticRegression().fit(numbers, RNG.integers(0, 3, NUM_ROWS)), base / "three.joblib")
    joblib.dump(LogisticRegression().fit(numbers, 1 - 2 * LABEL), base / "signs.joblib")
    forest = RandomForestClassifier(5, max_depth=3, n_jobs=2, random_state=0)
    joblib.dump(forest.fit(numbers, LABEL == 1), base / "forest.joblib")
    boosting = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    joblib.dump(boosting.fit(FRAME.astype({"carrier": "category"}), LABEL), base / "boosting.joblib")
    joblib.dump(LogisticRegression().fit(numbers, SIZES), base / "sizes.joblib")
    joblib.dump(OneVsRestClassifier(LogisticRegression()).fit(numbers, SETS), base / "one_vs_rest.joblib")
    joblib.dump(RandomForestClassifier(5, random_state=0).fit(numbers, SETS), base / "sets.joblib")
    joblib.dump(MultiOutputClassifier(LogisticRegression()).fit(numbers, SETS[:, :1] == 1), base / "truth.joblib")
    never = RandomForestClassifier(2, random_state=0).fit(numbers, np.column_stack([SETS[:, 0], np.zeros(NUM_ROWS)]))
    joblib.dump(never, base / "never.joblib")
    (base / "text.joblib").write_text("no pickle")
    return base


def model(base: Path, path: str, kind: str | None = "probability", **spec: Any) -> SklearnModel:
    method = {"path": path, "method": spec.pop("method")} if "method" in spec else path
    variant = VariantSpec.model_validate({"name": "v", "sklearn": method, "trusted": True, **spec})
    return SklearnModel.from_spec(variant, {"main": OutputSpec(kind=kind)}, base)


def scores(one: SklearnModel, table: pa.Table = TABLE) -> np.ndarray[Any, np.dtype[Any]]:
    one.check(table.schema)
    return np.asarray(score_all(one.load(), table.select(one.columns))["main"])


# ---- what is given and what is called


@pytest.mark.parametrize("path", ["pipeline.joblib", "pipeline.pkl"])
def test_a_pipeline_gets_named_columns_whatever_the_datas_order_and_codes(saved: Path, path: str) -> None:
    one = model(saved, path)
    assert one.columns == ("distance", "hour", "carrier")
    expected = pipeline().predict_proba(FRAME)[:, 1]
    np.testing.assert_array_equal(scores(one), expected)
    np.testing.assert_array_equal(scores(one, permuted(TABLE)), expected)


def test_a_logit_is_the_decision_function(saved: Path) -> None:
    np.testing.assert_array_equal(scores(model(saved, "pipeline.joblib", "logit")), pipeline().decision_function(FRAME))


def test_a_score_is_the_prediction(saved: Path) -> None:
    expected = LinearRegression().fit(FRAME[["distance", "hour"]], LABEL).predict(FRAME[["distance", "hour"]])
    np.testing.assert_array_equal(scores(model(saved, "regression.joblib", "score")), expected)


def test_the_method_may_be_said(saved: Path) -> None:
    one = model(saved, "pipeline.joblib", "score", method="predict_proba")
    np.testing.assert_array_equal(scores(one), pipeline().predict_proba(FRAME)[:, 1])


def test_two_tasks_are_two_views_of_one_model(saved: Path) -> None:
    variant = VariantSpec(name="v", sklearn="pipeline.joblib", trusted=True)
    outputs = {"a": OutputSpec(kind="probability"), "b": OutputSpec(kind="logit"), "c": OutputSpec(kind="probability")}
    both = score_all(SklearnModel.from_spec(variant, outputs, saved).load(), TABLE)
    np.testing.assert_allclose(both["a"], 1 / (1 + np.exp(-both["b"])), rtol=1e-12)
    np.testing.assert_array_equal(both["a"], both["c"])


def test_categories_that_are_integers_or_booleans_are_matched_in_chunks_with_a_null_too(tmp_path: Path) -> None:
    frame = pd.DataFrame({"hour": [1, 2, 3] * 20, "night": [True, False] * 30, "x": np.linspace(0, 1, 60)})
    encoded = ColumnTransformer(
        [("codes", OneHotEncoder(handle_unknown="ignore"), ["hour", "night"])], remainder="passthrough"
    )
    fitted = Pipeline([("columns", encoded), ("model", LogisticRegression())]).fit(frame, [0, 1, 1] * 20)
    joblib.dump(fitted, tmp_path / "codes.joblib")
    table = pa.table({"hour": [1, 2, None], "night": [True, None, False], "x": [0.1, 0.2, 0.3]})

    got = scores(model(tmp_path, "codes.joblib"), table)
    apart = [scores(model(tmp_path, "codes.joblib"), table.slice(row, 1))[0] for row in range(3)]

    expected = fitted.predict_proba(pd.DataFrame({"hour": [1], "night": [True], "x": [0.1]}))[:, 1]
    np.testing.assert_allclose(got, apart, rtol=1e-12)
    np.testing.assert_allclose(got[:1], expected, rtol=1e-12)


def test_categories_of_training_are_matched_by_value(saved: Path) -> None:
    one = model(saved, "boosting.joblib")
    estimator = joblib.load(saved / "boosting.joblib")
    expected = estimator.predict_proba(FRAME.astype({"carrier": "category"}))[:, 1]
    np.testing.assert_array_equal(scores(one), expected)
    np.testing.assert_array_equal(scores(one, permuted(TABLE)), expected)


def test_a_model_without_names_gets_a_matrix_of_its_inputs(saved: Path) -> None:
    one = model(saved, "unnamed.joblib", inputs=["distance", "hour"])
    expected = joblib.load(saved / "unnamed.joblib").predict_proba(FRAME[["distance", "hour"]].to_numpy())[:, 1]
    np.testing.assert_array_equal(scores(one), expected)


def test_a_feature_may_come_from_a_column_of_another_name(saved: Path) -> None:
    table = TABLE.rename_columns(["miles", "hour", "carrier"])
    one = model(saved, "pipeline.joblib", inputs={"distance": "miles"})
    assert one.columns == ("miles", "hour", "carrier")
    np.testing.assert_array_equal(scores(one, table), pipeline().predict_proba(FRAME)[:, 1])


@pytest.mark.parametrize("select", ["late", 1])
def test_a_class_is_chosen_by_name_or_column(saved: Path, select: str | int) -> None:
    one = model(saved, "words.joblib", output={"select": select})
    expected = joblib.load(saved / "words.joblib").predict_proba(FRAME[["distance", "hour"]])[:, 1]
    np.testing.assert_array_equal(scores(one), expected)


def test_one_of_several_classes_is_chosen_by_its_name(saved: Path) -> None:
    estimator = joblib.load(saved / "three.joblib")
    numbers = FRAME[["distance", "hour"]]
    one = model(saved, "three.joblib", output={"select": "2"})
    np.testing.assert_array_equal(scores(one), estimator.predict_proba(numbers)[:, 2])
    logit = model(saved, "three.joblib", "logit", output={"select": "2"})
    np.testing.assert_array_equal(scores(logit), estimator.decision_function(numbers)[:, 2])


def test_classes_of_minus_one_and_one_have_a_class_one(saved: Path) -> None:
    expected = joblib.load(saved / "signs.joblib").predict_proba(FRAME[["distance", "hour"]])[:, 1]
    np.testing.assert_array_equal(scores(model(saved, "signs.joblib")), expected)


def test_a_forest_of_several_jobs_gives_the_same_digits_each_time(saved: Path) -> None:
    predict = model(saved, "forest.joblib").load()
    first = score_all(predict, TABLE)["main"]
    assert all(score_all(predict, TABLE)["main"].tobytes() == first.tobytes() for _ in range(3))


def test_a_pickled_model_scores_alike(saved: Path) -> None:
    one = model(saved, "pipeline.joblib")
    fresh, opened = pickle.loads(pickle.dumps(one)), scores(one)
    np.testing.assert_array_equal(scores(fresh), opened)
    np.testing.assert_array_equal(scores(pickle.loads(pickle.dumps(one))), opened)
    assert one.batch_rows == 16_384


def test_the_fingerprint_covers_weights_method_inputs_and_outputs(saved: Path) -> None:
    before = model(saved, "pipeline.joblib").fingerprint
    assert model(saved, "pipeline.joblib", name="twin").fingerprint == before
    others = [
        model(saved, "boosting.joblib"),
        model(saved, "pipeline.joblib", "logit"),
        model(saved, "pipeline.joblib", method="predict"),
        model(saved, "pipeline.joblib", inputs={"distance": "hour"}),
    ]
    assert len({before, *(other.fingerprint for other in others)}) == 5


# ---- what is refused


def test_a_pickle_needs_trust(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model(saved, "pipeline.joblib", trusted=False)
    assert str(caught.value) == (
        "Variant 'v': 'pipeline.joblib' is a joblib or pickle file, and loading one runs whatever code is in it; if "
        "you trust the one who wrote it, say trusted: true."
    )


def test_the_output_must_be_said(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model(saved, "pipeline.joblib", None)
    assert str(caught.value) == (
        "Variant 'v': the spec does not say what the score is, so the method to call is not known; write output: {is: "
        "probability}, {is: logit} or {is: score}."
    )


def test_all_that_a_spec_must_say_is_told_at_once(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model(saved, "pipeline.joblib", None, trusted=False)
    assert caught.value.message == (
        "'pipeline.joblib' is a joblib or pickle file, and loading one runs whatever code is in it; if you trust the "
        "one who wrote it, say trusted: true. And the spec does not say what the score is, so the method to call is "
        "not known; write output: {is: probability}, {is: logit} or {is: score}."
    )


def test_other_forms_of_input_are_refused(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model(saved, "pipeline.joblib", receive="arrow")
    assert str(caught.value) == ("Variant 'v': receive is 'arrow'; a scikit-learn model receives pandas or matrix.")
    with pytest.raises(ModelError) as caught:
        model(saved, "pipeline.joblib", receive="matrix").check(TABLE.schema)
    assert str(caught.value) == (
        "Variant 'v': the model was trained with column names and receives pandas; remove receive: matrix."
    )


def test_a_model_without_names_needs_inputs(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        _ = model(saved, "unnamed.joblib").columns
    assert str(caught.value) == (
        "Variant 'v': the model was trained without column names; write inputs: [column, ...], in the order of its "
        "training."
    )


def test_a_column_that_is_not_there_offers_the_nearest(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model(saved, "pipeline.joblib").check(TABLE.rename_columns(["distanse", "hour", "carrier"]).schema)
    assert str(caught.value) == (
        "Variant 'v': the model wants column 'distance', which the data do not have; did you mean 'distanse'?"
    )


def test_classes_without_a_one_are_refused(saved: Path) -> None:
    for path, classes in (("words.joblib", "'early' and 'late'"), ("three.joblib", "'0', '1' and '2'")):
        with pytest.raises(ModelError) as caught:
            model(saved, path).load()
        assert str(caught.value) == (
            f"Variant 'v': the model's classes are {classes}, not 0 and 1; say whose score is meant with output: "
            "{select: CLASS}."
        )


def test_an_unknown_class_is_refused(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model(saved, "words.joblib", output={"select": "Late"}).load()
    assert str(caught.value) == (
        "Variant 'v': the model's classes are 'early' and 'late', and output.select is 'Late'; say whose score is "
        "meant with output: {select: CLASS}."
    )


def test_a_decision_function_is_of_the_second_class(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model(saved, "words.joblib", "logit", output={"select": "early"}).load()
    assert str(caught.value) == (
        "Variant 'v': decision_function scores class 'late', not class 'early'; use output: {is: probability}."
    )


def test_a_missing_method_is_refused(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model(saved, "regression.joblib").load()
    assert str(caught.value) == (
        "Variant 'v': the model (LinearRegression) has no method 'predict_proba'; it has 'predict'."
    )


def test_a_missing_or_damaged_file_is_named(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        _ = model(saved, "gone.joblib").columns
    assert str(caught.value) == f"Variant 'v': there is no file '{saved}/gone.joblib'."
    with pytest.raises(ModelError, match=rf"^Variant 'v': loading '{saved}/text\.joblib' failed with \w+: "):
        _ = model(saved, "text.joblib").columns


# ---- several classes and labels

NUMBERS = FRAME[["distance", "hour"]]


def of(base: Path, path: str, kind: str, names: tuple[str, ...], several: str = "classes", **spec: Any) -> SklearnModel:
    variant = VariantSpec.model_validate({"name": "v", "sklearn": path, "trusted": True, **spec})
    return SklearnModel.from_spec(variant, {"main": TaskOutput(kind=kind, several=several, names=names)}, base)


def test_columns_are_in_the_order_of_the_tasks_classes(saved: Path) -> None:
    fitted = LogisticRegression().fit(NUMBERS, SIZES)
    order = [2, 0, 1]
    names = ("small", "large", "middle")
    np.testing.assert_array_equal(
        scores(of(saved, "sizes.joblib", "probability", names)), fitted.predict_proba(NUMBERS)[:, order]
    )
    for kind in ("logit", "score"):
        found = scores(of(saved, "sizes.joblib", kind, names))
        np.testing.assert_array_equal(found, fitted.decision_function(NUMBERS)[:, order])
    predicted = scores(of(saved, "sizes.joblib", "label", names))
    assert [names[int(number)] for number in predicted] == fitted.predict(NUMBERS).tolist()


def test_the_decision_of_two_classes_is_the_seconds_over_the_first(saved: Path) -> None:
    fitted = LogisticRegression().fit(NUMBERS, np.where(LABEL == 1, "late", "early"))
    decision = fitted.decision_function(NUMBERS)
    found = scores(of(saved, "words.joblib", "logit", ("early", "late")))
    np.testing.assert_array_equal(found, np.column_stack([np.zeros(NUM_ROWS), decision]))
    np.testing.assert_array_equal(scores(of(saved, "words.joblib", "logit", ("late", "early"))), found[:, ::-1])


def test_classes_that_are_numbers_or_booleans_match_by_value(saved: Path) -> None:
    assert scores(of(saved, "three.joblib", "probability", ("2", "1", "0"))).shape == (NUM_ROWS, 3)
    assert scores(of(saved, "forest.joblib", "probability", ("true", "false"))).shape == (NUM_ROWS, 2)


def test_other_classes_than_the_tasks_are_refused(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        of(saved, "sizes.joblib", "probability", ("large", "middle", "small", "tiny")).load()
    assert caught.value.message == (
        "the model's classes are 'large', 'middle' and 'small', and it was never trained on 'tiny', which the task "
        "has; a class without a column would have no score. Train it on all classes, or declare those it has."
    )
    with pytest.raises(ModelError) as caught:
        of(saved, "sizes.joblib", "probability", ("large", "small")).load()
    assert caught.value.message == (
        "the model's classes are 'large', 'middle' and 'small', and the task has no 'middle'; declare them in classes, "
        "where a class may have no row."
    )


def test_sets_of_labels_are_a_matrix_or_a_list_of_matrices(saved: Path) -> None:
    names = ("a", "b", "c")
    matrix = OneVsRestClassifier(LogisticRegression()).fit(NUMBERS, SETS)
    np.testing.assert_array_equal(
        scores(of(saved, "one_vs_rest.joblib", "probability", names, "labels")), matrix.predict_proba(NUMBERS)
    )
    several = RandomForestClassifier(5, random_state=0).fit(NUMBERS, SETS)
    expected = np.column_stack([one[:, 1] for one in several.predict_proba(NUMBERS)])
    np.testing.assert_array_equal(scores(of(saved, "sets.joblib", "probability", names, "labels")), expected)
    np.testing.assert_array_equal(scores(of(saved, "sets.joblib", "label", names, "labels")), several.predict(NUMBERS))
    assert scores(of(saved, "truth.joblib", "probability", ("a",), "labels")).shape == (NUM_ROWS, 1)


def test_a_label_that_was_never_there_has_no_score(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        of(saved, "never.joblib", "probability", ("a", "b"), "labels").load()
    assert caught.value.message == (
        "the model's classes for the label 'b' are 0.0, and none is 1: it was never trained on a row with this label, "
        "and gives no score for it."
    )
