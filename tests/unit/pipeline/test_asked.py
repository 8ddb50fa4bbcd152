"""What names in a spec stand for, before any data is seen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from assay import catalogue
from assay.errors import ModelError, SpecError
from assay.metrics.own import FunctionMetric
from assay.pipeline.asked import (
    OF_CLASSES,
    OF_CLASSES_WITH_PROBABILITY,
    OF_INTERVALS,
    OF_LABELS,
    WITH_PROBABILITY,
    WITHOUT_PROBABILITY,
    canonical_gates,
    check_metrics_of_gates,
    choice_words,
    expanded,
    output_kinds,
    resolve_tasks,
    unmeasured_tasks,
    with_inputs,
)
from assay.spec.model import Spec, VariantSpec

TASKS = {"click": {"label": "c", "output": {"is": "logit"}}, "buy": {"label": "b", "where": "c = 1"}}


def spec(**changes: Any) -> Spec:
    variants = [{"name": "old", "column": "p"}, {"name": "new", "column": "q"}]
    given = {"data": {"path": "x.parquet", "label": "y"}, "variants": variants, "baseline": "old", **changes}
    return Spec.model_validate(given)


def two_tasks(**changes: Any) -> Spec:
    variants = [{"name": "old", "column": {"click": "p", "buy": "q"}}]
    return spec(data={"path": "x.parquet"}, tasks=TASKS, variants=variants, **changes)


# ---- metrics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "metrics"),
    [
        ({}, WITHOUT_PROBABILITY),
        ({"output": {"is": "score"}}, WITHOUT_PROBABILITY),
        ({"output": {"is": "probability"}}, WITH_PROBABILITY),
        ({"output": {"is": "logit"}}, WITH_PROBABILITY),
        ({"output": {"is": "interval"}}, OF_INTERVALS),
        (
            {"variants": [{"name": "old", "column": "p", "output": {"is": "logit"}}, {"name": "new", "column": "q"}]},
            WITHOUT_PROBABILITY,
        ),
    ],
)
def test_metrics_of_a_spec_that_names_none(changes: dict[str, Any], metrics: tuple[str, ...]) -> None:
    assert [task.metrics for task in resolve_tasks(spec(**changes))] == [metrics]


def test_metrics_are_canonical_and_come_once() -> None:
    metrics = ["auc", "precision(threshold=0.50)", "precision", "f1(threshold=.3)"]
    [task] = resolve_tasks(spec(metrics=metrics, output={"is": "probability"}))
    assert task.metrics == ("auc", "precision", "f1(threshold=0.3)")


def test_a_metric_may_be_of_one_task() -> None:
    click, buy = resolve_tasks(two_tasks(metrics=["auc", {"metric": "log_loss", "task": "click"}]))
    assert (click.metrics, buy.metrics) == (("auc", "log_loss"), ("auc",))
    assert (buy.label, buy.where) == ("b", "c = 1")


def test_a_task_without_metrics_of_its_own_gets_the_default() -> None:
    click, buy = resolve_tasks(two_tasks(metrics=[{"metric": "brier", "task": "click"}]))
    assert (click.metrics, buy.metrics) == (("brier",), WITHOUT_PROBABILITY)


@pytest.mark.parametrize(("metrics", "kind"), [(["rmse"], "real"), (["rmse", "auc"], "binary"), (["count"], "real")])
def test_a_label_is_binary_when_a_metric_needs_it(metrics: list[str], kind: str) -> None:
    [task] = resolve_tasks(spec(metrics=metrics))
    assert task.label_kind == kind


def test_all_metrics_that_are_wrong() -> None:
    with pytest.raises(SpecError) as caught:
        resolve_tasks(spec(metrics=["aucc", "auc", "f1(k=2)", "ece(", {"metric": "rsme"}]))
    assert [str(fault) for fault in caught.value.faults] == [
        "metrics[0]: There is no metric 'aucc'; did you mean 'auc'?",
        "metrics[2]: The metric 'f1' has no parameter 'k'; expected 'threshold'.",
        "metrics[3]: 'ece(' is no metric name; expected one like 'auc', 'ndcg@10' or 'f1(threshold=0.3)'.",
        "metrics[4]: There is no metric 'rsme'; did you mean 'rmse'?",
    ]


def test_a_metric_that_needs_a_probability_says_whose_output_is_none() -> None:
    variants = [
        {"name": "old", "column": "p", "output": {"is": "score"}},
        {"name": "new", "column": "q"},
        {"name": "third", "column": "r", "output": {"is": "logit"}},
    ]
    with pytest.raises(SpecError) as caught:
        resolve_tasks(spec(variants=variants, metrics=["auc", "brier", "ece"]))
    assert [str(fault) for fault in caught.value.faults] == [
        "variants[0].output: brier needs a probability, but the output of 'old' is a plain score; take the metric out, "
        "or give a probability or logit.",
        "variants[1].output: brier needs a probability, but the spec does not say what the output of 'new' is; say "
        "output: {is: probability} or {is: logit}.",
    ]


def test_a_metric_at_a_threshold_offers_one_for_plain_scores() -> None:
    assert faults_of(spec(metrics=["f_beta(beta=0.5)"], output={"is": "score"}))[0] == (
        "variants[0].output: f_beta(beta=0.5) needs a probability, but the output of 'old' is a plain score; take the "
        "metric out, or give a probability or logit, or give a threshold, as f_beta(beta=0.5, threshold=0.3)."
    )
    resolve_tasks(spec(metrics=["f_beta(beta=0.5, threshold=0.3)"], output={"is": "score"}))


def test_an_output_that_does_not_fit_is_that_of_a_task_where_there_are_several() -> None:
    tasks = {"click": {"label": "y", "output": {"is": "probability"}}, "buy": {"label": "z"}}
    assert faults_of(spec(data={"path": "d"}, tasks=tasks, metrics=["accuracy"]))[0] == (
        "variants[0].output: accuracy needs a probability, but the spec does not say what the output of 'old' for task "
        "'buy' is; say output: {is: probability} or {is: logit}, or give a threshold, as accuracy(threshold=0.3)."
    )


def test_tasks_without_metrics_keep_their_texts() -> None:
    click, buy = unmeasured_tasks(two_tasks(metrics=["aucc"]))
    assert (click.label, buy.where, buy.metrics) == ("c", "c = 1", ())


def test_output_kinds() -> None:
    assert output_kinds(two_tasks()) == {("old", "click"): "logit", ("old", "buy"): None}


# ---- classes, labels, intervals --------------------------------------------------------------------------------------


def of_classes(*metrics: Any, output: str | None = "probability", classes: Any = "auto", **changes: Any) -> Spec:
    kind = {} if output is None else {"output": {"is": output}}
    data = {"path": "x.parquet", "label": "y", "classes": classes}
    return spec(**{"data": data, "metrics": list(metrics), **kind, **changes})


def of_labels(*metrics: Any, labels: Any = "auto", output: str = "probability", **data: Any) -> Spec:
    given = {"path": "x.parquet", "labels": labels, **data}
    return spec(data=given, metrics=list(metrics), output={"is": output})


def faults_of(given: Spec, base: Path = Path()) -> list[str]:
    with pytest.raises(SpecError) as caught:
        resolve_tasks(given, base)
    return [str(fault) for fault in caught.value.faults]


def test_what_a_label_is_follows_from_the_spec() -> None:
    [auto] = resolve_tasks(of_classes("accuracy"))
    assert (auto.label_kind, auto.classes, auto.label) == ("class", (), "y")
    [declared] = resolve_tasks(of_classes("accuracy", classes=["b", 3, True]))
    assert declared.classes == ("b", "3", "true")
    [sets] = resolve_tasks(of_labels(label="tags"))
    assert (sets.label_kind, sets.classes, sets.targets, sets.label) == ("labels", (), None, "tags")
    [mapped] = resolve_tasks(of_labels(labels={"a": "is_a", "b": "n > 1"}))
    assert (mapped.classes, mapped.targets, mapped.label) == (("a", "b"), ("is_a", "n > 1"), "")


def test_metrics_of_a_spec_of_classes_or_labels_that_names_none() -> None:
    assert resolve_tasks(of_classes())[0].metrics == OF_CLASSES_WITH_PROBABILITY
    assert resolve_tasks(of_classes(output="label"))[0].metrics == OF_CLASSES
    assert resolve_tasks(of_classes(output=None))[0].metrics == OF_CLASSES
    assert resolve_tasks(of_labels(label="tags"))[0].metrics == OF_LABELS
    assert resolve_tasks(of_labels(label="tags", output="label"))[0].metrics == OF_LABELS


def test_a_name_stands_for_the_metric_of_the_tasks_family() -> None:
    tasks = {
        "one": {"label": "y", "output": {"is": "probability"}},
        "several": {"label": "z", "classes": ["a", "b"], "output": {"is": "probability"}},
    }
    variants = [{"name": "old", "column": {"one": "p", "several": "q"}}]
    one, several = resolve_tasks(spec(data={}, tasks=tasks, variants=variants, metrics=["log_loss"]))
    found = [catalogue.metric_of(task, "log_loss").label_kind for task in (one, several)]
    assert (found, one.metrics, several.metrics) == (["binary", "class"], ("log_loss",), ("log_loss",))
    assert faults_of(spec(data={}, tasks=tasks, variants=variants, metrics=["macro_f1", "auc"])) == [
        "metrics[0]: For task 'one': 'macro_f1' is a metric of several classes; the task has none: give classes. Name "
        "its task with {metric: ..., task: ...}.",
        "metrics[1]: For task 'several': 'auc' is a metric of a single score, and the task is of several classes; "
        "see `assay metrics`. Name its task with {metric: ..., task: ...}.",
    ]


def test_a_metric_of_another_family_is_refused() -> None:
    assert faults_of(spec(metrics=["macro_f1"])) == [
        "metrics[0]: 'macro_f1' is a metric of several classes; the task has none: give classes."
    ]
    assert faults_of(spec(metrics=["subset_accuracy"])) == [
        "metrics[0]: 'subset_accuracy' is a metric of sets of labels; the task has none: give labels."
    ]
    assert faults_of(of_classes("subset_accuracy")) == [
        "metrics[0]: 'subset_accuracy' is a metric of sets of labels, and the task is of several classes; see `assay "
        "metrics`."
    ]


def test_an_output_must_be_what_its_metrics_take() -> None:
    assert faults_of(of_classes("accuracy", "log_loss", output="label"))[0] == (
        "variants[0].output: log_loss needs a probability, but the output of 'old' is the predicted class; take the "
        "metric out, or give a probability or logit."
    )
    assert faults_of(of_classes("macro_auc", output="label"))[0] == (
        "variants[0].output: macro_auc needs a score for each class, but the output of 'old' is the predicted class; "
        "take the metric out, or give scores."
    )
    assert faults_of(spec(metrics=["log_loss"], output={"is": "interval"}))[0] == (
        "variants[0].output: log_loss needs a probability, but the output of 'old' is an interval; take the metric "
        "out, or give a probability or logit."
    )
    resolve_tasks(spec(metrics=["rmse"], output={"is": "interval"}))  # of the middle


def named(needing: str) -> str:
    """A metric of a single score with this need."""
    return next(one.name for one in catalogue.listed_metrics("single") if getattr(one, needing))


def test_a_metric_of_intervals_needs_them() -> None:
    name = named("needs_interval")
    resolve_tasks(spec(metrics=[name, "rmse"], output={"is": "interval"}))
    assert faults_of(spec(metrics=[name], output={"is": "score"}))[0] == (
        f"variants[0].output: {name} needs an interval, but the output of 'old' is a score; say output: "
        "{is: interval}."
    )
    assert faults_of(spec(metrics=[name]))[0] == (
        f"variants[0].output: {name} needs an interval, but the output of 'old' is not said to be one; say output: "
        "{is: interval}."
    )


def test_a_metric_that_compares_needs_a_baseline() -> None:
    name = named("needs_baseline")
    resolve_tasks(spec(metrics=[name], output={"is": "probability"}))
    assert faults_of(spec(metrics=[name], output={"is": "probability"}, baseline=None)) == [
        f"metrics[0]: {name} compares with the baseline, and none is named."
    ]


def test_gates_have_the_metric_of_their_tasks_family() -> None:
    gates = spec(gates=[{"metric": "f1(threshold=0.50)", "min": 0}, {"metric": "f1(class=a)", "min": 0}]).gates
    assert [one.metric for one in canonical_gates(gates)] == ["f1", "f1(class=a)"]
    assert [one.metric for one in canonical_gates(gates, {"main": "single"})] == ["f1", "f1(class=a)"]
    assert [one.metric for one in canonical_gates(gates, {"main": "classes"})] == ["f1(threshold=0.50)", "f1(class=a)"]


# ---- metrics of the spec's own ---------------------------------------------------------------------------------------


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "gains.py").write_text("def gain(batch, rate=1.0):\n    return rate * batch.score\n")
    monkeypatch.delitem(sys.modules, "gains", raising=False)
    return tmp_path


GAIN = {
    "metric": "gain",
    "function": "gains:gain",
    "direction": "higher",
    "columns": ["price"],
    "settings": {"rate": 2},
}


def test_a_function_is_a_metric(base: Path) -> None:
    [task] = resolve_tasks(spec(metrics=["auc", GAIN]), base)
    [own] = task.own
    assert (task.metrics, task.label_kind, task.columns) == (("auc", "gain"), "binary", ("price",))
    assert (own.name, own.function, own.direction, own.settings) == ("gain", "gains:gain", "higher", {"rate": 2})
    assert catalogue.metric_of(task, "gain") == FunctionMetric.of(own)
    assert resolve_tasks(spec(metrics=[GAIN]), base)[0].label_kind == "real"


def test_the_fingerprint_of_a_function_covers_code_and_settings(base: Path) -> None:
    def fingerprint(**changes: Any) -> str:
        return resolve_tasks(spec(metrics=[{**GAIN, **changes}]), base)[0].own[0].fingerprint

    first = fingerprint()
    assert fingerprint() == first
    assert fingerprint(metric="other") == first
    assert fingerprint(settings={"rate": 3}) != first
    (base / "gains.py").write_text("def gain(batch, rate=1.0):\n    return rate * batch.label\n")
    assert fingerprint() != first


def test_a_function_must_be_there_under_a_name_of_its_own(base: Path) -> None:
    twice = [GAIN, {**GAIN, "function": "gains:gain"}]
    assert faults_of(spec(metrics=twice), base) == [
        "metrics[1].metric: the name 'gain' is taken by a metric above; give another."
    ]
    assert faults_of(spec(metrics=[{**GAIN, "metric": "auc"}]), base) == [
        "metrics[0].metric: the name 'auc' is that of a metric there is; give another."
    ]
    assert faults_of(spec(metrics=[{**GAIN, "function": "gains:gian"}]), base) == [
        "metrics[0].function: module 'gains' has no function 'gian'; did you mean 'gain'?"
    ]
    assert faults_of(spec(metrics=[{**GAIN, "function": "nowhere:gain"}]), base) == [
        f"metrics[0].function: there is no module 'nowhere' in {str(base)!r} or among the installed ones; put it in "
        "that folder."
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "as f(batch): missing a required argument: 'rate'"),
        ({"rate": 1.0, "rat": 2}, "as f(batch, rate=1.0, rat=2): got an unexpected keyword argument 'rat'"),
    ],
)
def test_a_function_must_take_a_batch_and_the_settings(base: Path, settings: dict[str, float], said: str) -> None:
    (base / "gains.py").write_text("def gain(batch, rate):\n    return rate * batch.score\n")

    assert faults_of(spec(metrics=[{**GAIN, "settings": settings}]), base) == [
        f"metrics[0].function: 'gains:gain' cannot be called {said}. See the metric's settings."
    ]


def test_a_gate_may_be_of_a_function(base: Path) -> None:
    given = spec(metrics=[GAIN], gates=[{"metric": "gain", "margin": 0.1}])
    check_metrics_of_gates(given, catalogue.metrics_of(resolve_tasks(given, base)))


# ---- gates -----------------------------------------------------------------------------------------------------------


def test_gates_get_canonical_metrics() -> None:
    gates = [{"metric": "precision(threshold=0.50)", "min": 0}, {"metric": "aucc", "min": 0}, {"coverage": 1}]
    assert [gate.metric for gate in canonical_gates(spec(gates=gates).gates)] == ["precision", "aucc", None]


def test_a_gate_in_other_words_finds_its_metric() -> None:
    gates = [{"metric": "precision( threshold = 0.5 )", "min": 0.1}]
    given = spec(metrics=["precision"], gates=gates, output={"is": "probability"})
    check_metrics_of_gates(given, catalogue.metrics_of(resolve_tasks(given)))


def test_a_gate_on_a_metric_that_is_not_measured() -> None:
    given = spec(metrics=["f1(threshold=0.3)"], gates=[{"metric": "f1(threshold=0.2)", "min": 0.1}])
    sentence = r"^gates\[0\]\.metric: 'f1\(threshold=0\.2\)' is not among the metrics of the spec; did you mean "
    with pytest.raises(SpecError, match=sentence):
        check_metrics_of_gates(given, catalogue.metrics_of(resolve_tasks(given)))


# ---- templates -------------------------------------------------------------------------------------------------------


def test_templates_become_variants(tmp_path: Path) -> None:
    for trial in (10, 2):
        (tmp_path / f"{trial}.txt").touch()
    given = spec(variants=[{"name": "t-{n}", "lightgbm": "{n}.txt"}], baseline="t-2")
    assert [variant.name for variant in expanded(given, tmp_path).variants] == ["t-2", "t-10"]


def test_names_are_checked_once_templates_are_expanded(tmp_path: Path) -> None:
    (tmp_path / "2.txt").touch()
    given = spec(variants=[{"name": "t-{n}", "lightgbm": "{n}.txt"}, {"name": "t-2", "column": "p"}], baseline="t-3")
    with pytest.raises(SpecError) as caught:
        expanded(given, tmp_path)
    assert [str(fault) for fault in caught.value.faults] == [
        "variants[1].name: the name 't-2' is taken by variants[0]; give another.",
        "baseline: there is no variant 't-3'; did you mean 't-2'?",
    ]


def test_all_templates_without_match(tmp_path: Path) -> None:
    variants = [{"name": "a-{n}", "lightgbm": "a/{n}"}, {"name": "b-{n}", "lightgbm": "b/{n}"}]
    with pytest.raises(ModelError) as caught:
        expanded(spec(variants=variants), tmp_path)
    assert str(caught.value) == (
        f"Variant 'a-{{n}}': nothing matches its path; looked for '{tmp_path}/a/*'.\n"
        f"Variant 'b-{{n}}': nothing matches its path; looked for '{tmp_path}/b/*'."
    )


# ---- inputs ----------------------------------------------------------------------------------------------------------


def test_torch_variants_of_one_loader_share_inputs_and_form_unless_they_say_their_own() -> None:
    def torch(name: str, load: str, **said: Any) -> VariantSpec:
        return VariantSpec.model_validate({"name": name, "torch": {"load": load, "path": name}, **said})

    completed = with_inputs(
        [
            torch("before", "m:f"),
            torch("says", "m:f", inputs=["a"], receive="dict"),
            torch("own", "m:f", inputs=["b"]),
            torch("after", "m:f", receive="matrix"),
            torch("other", "m:g"),
            VariantSpec(name="served", column="p"),
        ]
    )

    assert [(one.inputs, one.receive) for one in completed] == [
        (("a",), "dict"),
        (("a",), "dict"),
        (("b",), None),
        (("a",), "matrix"),
        (None, None),
        (None, None),
    ]


def test_torch_variants_of_one_loader_share_a_preparation_unless_they_say_inputs() -> None:
    def torch(name: str, **said: Any) -> VariantSpec:
        return VariantSpec.model_validate({"name": name, "torch": {"load": "m:f", "path": name}, **said})

    says, own = torch("says", prepare="tokens", receive="arguments"), torch("own", inputs=["a"])
    completed = with_inputs([says, torch("after"), own])
    assert [(one.prepare, one.inputs, one.receive) for one in completed] == [
        ("tokens", None, "arguments"),
        ("tokens", None, "arguments"),
        (None, ("a",), None),
    ]


def test_whole_modules_are_made_by_nothing_that_they_could_share() -> None:
    whole = [VariantSpec.model_validate({"name": name, "torch": {"path": name}}) for name in ("says", "other")]
    says = whole[0].model_copy(update={"inputs": ("a",)})
    assert [one.inputs for one in with_inputs([says, whole[1]])] == [("a",), None]


@pytest.mark.parametrize(
    ("confirm", "words"),
    [
        (None, ""),
        (0.5, "the best by auc on 50 % of the clusters, judged on the others"),
        (
            {"fraction": 0.25, "keep": 3, "metric": "average_precision"},
            "the best 3 by average_precision on 75 % of the clusters, judged on the others",
        ),
    ],
)
def test_how_variants_are_chosen_in_words(confirm: Any, words: str) -> None:
    given = spec(confirm=confirm)
    assert choice_words(given, catalogue.metrics_of(resolve_tasks(given))) == words
