"""Several classes, sets of labels and intervals from data to results: every number beside scikit-learn's, and every
way of giving the same output has the same digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, log_loss

from assay import api
from assay.errors import DataError, ModelError
from assay.evaluation import Evaluation

IRIS = load_iris()
SPECIES = np.array(IRIS.target_names)[IRIS.target]
CLASSES = ("setosa", "versicolor", "virginica")
FEATURES = ("length", "width", "petal_length", "petal_width")
MODEL = LogisticRegression(max_iter=1000).fit(IRIS.data[::2], SPECIES[::2])
CHANCES = MODEL.predict_proba(IRIS.data)
SETS = np.random.default_rng(0).random((150, 3)) < 0.4
TAGS = ("blue", "green", "red")


def frame() -> pa.Table:
    predicted = MODEL.predict(IRIS.data)
    scores = IRIS.data[:, :3] / IRIS.data[:, :3].max()
    return pa.table(
        {
            "species": SPECIES,
            "number": IRIS.target,
            "p": pa.FixedSizeListArray.from_arrays(pa.array(CHANCES.ravel()), 3),
            **{f"p_{name}": CHANCES[:, position] for position, name in enumerate(CLASSES)},
            "logits": list(MODEL.decision_function(IRIS.data)),
            "predicted": predicted,
            "predicted_number": pa.array([CLASSES.index(name) for name in predicted], pa.int8()),
            "tags": [[name for name, has in zip(TAGS, row, strict=True) if has] for row in SETS],
            **{name: SETS[:, position] for position, name in enumerate(TAGS)},
            "tag_scores": list(scores),
            "tag_sets": [[name for name, score in zip(TAGS, row, strict=True) if score >= 0.5] for row in scores],
            **dict(zip(FEATURES, IRIS.data.T, strict=True)),
            "user": np.arange(150) % 75,
        }
    )


def values(found: Evaluation) -> dict[str, dict[str, float]]:
    """variant -> {metric: value} of all rows."""
    rows = [row for row in found.metrics.to_pylist() if row["slice"] == "overall"]
    return {
        variant: {row["metric"]: row["value"] for row in rows if row["variant"] == variant}
        for variant in dict.fromkeys(row["variant"] for row in rows)
    }


def carried_out(spec: dict[str, Any], folder: Path) -> Evaluation:
    """The spec as a file, over the frame as another."""
    pq.write_table(frame(), folder / "iris.parquet", row_group_size=40)
    (folder / "eval.yaml").write_text(yaml.safe_dump(spec))
    return api.run(folder / "eval.yaml")


def test_all_ways_of_giving_classes_agree_with_scikit_learn() -> None:
    probability = {"is": "probability"}
    variants = [
        {"name": "list", "column": "p", "output": probability},
        {"name": "columns", "column": [f"p_{name}" for name in CLASSES], "output": probability},
        {"name": "logits", "column": "logits", "output": {"is": "logit"}},
    ]
    found = values(
        api.evaluate(
            frame(), label="species", classes="auto", variants=variants, baseline="list", cluster="user",
            metrics=["accuracy", "macro_f1", "log_loss", "top_accuracy@2"],
        )
    )  # fmt: skip
    predicted = MODEL.predict(IRIS.data)
    assert found["list"]["accuracy"] == pytest.approx(accuracy_score(SPECIES, predicted), abs=1e-12)
    assert found["list"]["macro_f1"] == pytest.approx(f1_score(SPECIES, predicted, average="macro"), abs=1e-12)
    assert found["list"]["log_loss"] == pytest.approx(log_loss(SPECIES, CHANCES), rel=1e-6)
    assert found["list"] == found["columns"]
    assert found["logits"]["accuracy"] == found["list"]["accuracy"]
    assert found["logits"]["log_loss"] == pytest.approx(found["list"]["log_loss"], rel=1e-6)


@pytest.mark.parametrize(
    ("label", "classes", "column"),
    [
        ("species", "auto", "predicted"),
        ("species", ["virginica", "setosa", "versicolor"], "predicted"),
        ("number", "auto", "predicted_number"),
        ("number", [2, 0, 1, 7], "predicted_number"),  # a class without rows
        ("number * 1.0", [0, 1, 2], "predicted_number"),
    ],
)
def test_predicted_classes_are_as_good_as_scores(label: str, classes: Any, column: str) -> None:
    variants = [{"name": "label", "column": column, "output": {"is": "label"}}]
    found = values(api.evaluate(frame(), label=label, classes=classes, variants=variants, metrics=["accuracy"]))
    assert found["label"]["accuracy"] == accuracy_score(SPECIES, MODEL.predict(IRIS.data))


def test_an_estimators_columns_are_put_in_the_order_of_the_classes(tmp_path: Path) -> None:
    joblib.dump(LogisticRegression(max_iter=1000).fit(IRIS.data[::2], SPECIES[::2]), tmp_path / "iris.joblib")
    spec = {
        "data": {"path": "iris.parquet", "label": "species", "classes": ["virginica", "setosa", "versicolor"]},
        "variants": [{"name": "model", "sklearn": "iris.joblib", "trusted": True, "inputs": list(FEATURES)}],
        "output": {"is": "probability"},
    }
    found = values(carried_out(spec, tmp_path))
    assert list(found["model"]) == ["accuracy", "macro_f1", "log_loss"]
    assert found["model"]["log_loss"] == pytest.approx(log_loss(SPECIES, CHANCES), rel=1e-6)


def test_sets_of_labels_from_lists_and_from_columns_agree_with_scikit_learn() -> None:
    variants = [
        {"name": "scores", "column": "tag_scores", "output": {"is": "probability"}},
        {"name": "sets", "column": "tag_sets", "output": {"is": "label"}},
    ]
    lists = values(api.evaluate(frame(), label="tags", labels="auto", variants=variants, baseline="scores"))
    columns = values(api.evaluate(frame(), labels={name: name for name in TAGS}, variants=variants, baseline="scores"))
    assert lists == columns
    assert lists["scores"] == lists["sets"]
    predicted = IRIS.data[:, :3] / IRIS.data[:, :3].max() >= 0.5
    assert lists["sets"]["micro_f1"] == pytest.approx(f1_score(SETS, predicted, average="micro"), abs=1e-12)
    assert lists["sets"]["macro_f1"] == pytest.approx(f1_score(SETS, predicted, average="macro"), abs=1e-12)
    assert lists["sets"]["subset_accuracy"] == pytest.approx(accuracy_score(SETS, predicted), abs=1e-12)


def test_a_forests_matrix_for_each_label(tmp_path: Path) -> None:
    forest = RandomForestClassifier(10, max_depth=3, random_state=0).fit(IRIS.data, SETS)
    joblib.dump(forest, tmp_path / "forest.joblib")
    spec = {
        "data": {"path": "iris.parquet", "labels": {name: name for name in TAGS}},
        "variants": [{"name": "model", "sklearn": "forest.joblib", "trusted": True, "inputs": list(FEATURES)}],
        "output": {"is": "probability"},
        "metrics": ["micro_f1"],
    }
    found = values(carried_out(spec, tmp_path))
    chances = np.column_stack([one[:, 1] for one in forest.predict_proba(IRIS.data)])
    assert found["model"]["micro_f1"] == pytest.approx(f1_score(SETS, chances >= 0.5, average="micro"), abs=1e-12)


def test_tasks_of_three_kinds_in_one_pass() -> None:
    tasks = {
        "kind": {"label": "species", "classes": "auto", "output": {"is": "probability"}},
        "tags": {"label": "tags", "labels": "auto", "output": {"is": "probability"}, "where": "petal_length > 2"},
        "length": {"label": "length", "output": {"is": "interval"}},
    }
    columns = {"kind": "p", "tags": "tag_scores", "length": ["petal_width", "petal_length"]}
    metrics = [
        {"metric": "accuracy", "task": "kind"},
        {"metric": "subset_accuracy", "task": "tags"},
        {"metric": "mae", "task": "length"},
    ]
    found = api.evaluate(frame(), tasks=tasks, variants=[{"name": "served", "column": columns}], metrics=metrics)
    value = values(found)["served"]
    middle = (IRIS.data[:, 2] + IRIS.data[:, 3]) / 2
    assert value["mae"] == pytest.approx(np.abs(middle - IRIS.data[:, 0]).mean(), rel=1e-9)
    assert value["accuracy"] == accuracy_score(SPECIES, MODEL.predict(IRIS.data))
    taking_part = IRIS.data[:, 2] > 2
    predicted = IRIS.data[:, :3] / IRIS.data[:, :3].max() >= 0.5
    assert value["subset_accuracy"] == accuracy_score(SETS[taking_part], predicted[taking_part])


def test_any_split_and_number_of_workers_gives_the_same_digits(tmp_path: Path) -> None:
    variants = [
        {"name": "list", "column": "p", "output": {"is": "probability"}},
        {"name": "logits", "column": "logits", "output": {"is": "logit"}},
    ]

    def found(**settings: Any) -> pa.Table:
        return api.evaluate(
            frame(), label="species", classes="auto", variants=variants, baseline="list", cluster="user", **settings
        ).metrics

    assert found(workers=1) == found(workers=2, execution={"unit_rows": 7})


def test_a_label_that_is_none_of_the_classes_ends_the_run_by_its_row() -> None:
    variants = [{"name": "list", "column": "p", "output": {"is": "score"}}]
    with pytest.raises(DataError) as caught:
        api.evaluate(frame(), label="species", classes=["setosa", "versicolor", "tulip"], variants=variants)
    assert str(caught.value) == (
        "data.label: 'species' is 'virginica' in row 100 of 'frame', which is none of the classes 'setosa', "
        "'versicolor' and 'tulip'. Add it to them, or leave such rows out with where."
    )


def test_a_metric_of_the_specs_own_reads_columns_and_outputs(tmp_path: Path) -> None:
    (tmp_path / "gains.py").write_text(
        "def gain(batch, rate):\n    return rate * batch.columns['width'] * (batch.score == batch.label)\n"
    )
    spec = {
        "data": {"path": "iris.parquet", "label": "species", "classes": "auto"},
        "variants": [{"name": "served", "column": "p", "output": {"is": "probability"}}],
        "metrics": [{"metric": "gain", "function": "gains:gain", "columns": ["width"], "settings": {"rate": 2}}],
    }
    found = values(carried_out(spec, tmp_path))
    expected = (2 * IRIS.data[:, 1] * (MODEL.predict(IRIS.data) == SPECIES)).mean()
    assert found["served"]["gain"] == pytest.approx(expected, rel=1e-12)


def test_a_variant_beside_the_baseline() -> None:
    variants = [
        {"name": "list", "column": "p", "output": {"is": "probability"}},
        {"name": "truth", "column": "species", "output": {"is": "label"}},
    ]
    found = values(
        api.evaluate(
            frame(), label="species", classes="auto", variants=variants, baseline="list", metrics=["flip_rate"]
        )
    )
    assert found["list"]["flip_rate"] == 0
    assert found["truth"]["flip_rate"] == np.mean(MODEL.predict(IRIS.data) != SPECIES)


def test_probabilities_that_do_not_sum_to_1_are_refused_by_the_row_in_the_file(tmp_path: Path) -> None:
    spec = {
        "data": {"path": "iris.parquet", "label": "species", "classes": list(CLASSES), "where": "number > 0"},
        "variants": [{"name": "scores", "column": "tag_scores", "output": {"is": "probability"}}],
    }
    sums = (IRIS.data[:, :3] / IRIS.data[:, :3].max()).sum(axis=1)
    with pytest.raises(ModelError) as caught:
        carried_out(spec, tmp_path)
    assert str(caught.value) == (
        f"Variant 'scores': the probabilities in row 0 of the batch sum to {sums[50]:.6g}, not to 1; if they are none, "
        "say output: {is: logit} or {is: score}. In the data that is row 50 of iris.parquet."
    )
