"""What names in a spec stand for, before any data is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay import build
from assay.errors import ModelError, SpecError
from assay.pipeline.asked import (
    WITH_PROBABILITY,
    WITHOUT_PROBABILITY,
    canonical_gates,
    check_metrics_of_gates,
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
        (
            {"variants": [{"name": "old", "column": "p", "output": {"is": "logit"}}, {"name": "new", "column": "q"}]},
            WITHOUT_PROBABILITY,
        ),
    ],
)
def test_metrics_of_a_spec_that_names_none(changes: dict[str, Any], metrics: tuple[str, ...]) -> None:
    assert [task.metrics for task in resolve_tasks(spec(**changes))] == [metrics]


def test_metrics_are_canonical_and_come_once() -> None:
    [task] = resolve_tasks(spec(metrics=["auc", "precision(threshold=0.50)", "precision", "f1(threshold=.3)"]))
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


def test_tasks_without_metrics_keep_their_texts() -> None:
    click, buy = unmeasured_tasks(two_tasks(metrics=["aucc"]))
    assert (click.label, buy.where, buy.metrics) == ("c", "c = 1", ())


def test_output_kinds() -> None:
    assert output_kinds(two_tasks()) == {("old", "click"): "logit", ("old", "buy"): None}


# ---- gates -----------------------------------------------------------------------------------------------------------


def test_gates_get_canonical_metrics() -> None:
    gates = [{"metric": "precision(threshold=0.50)", "min": 0}, {"metric": "aucc", "min": 0}, {"coverage": 1}]
    assert [gate.metric for gate in canonical_gates(spec(gates=gates).gates)] == ["precision", "aucc", None]


def test_a_gate_in_other_words_finds_its_metric() -> None:
    given = spec(metrics=["precision"], gates=[{"metric": "precision( threshold = 0.5 )", "min": 0.1}])
    check_metrics_of_gates(given, build.metrics_of(resolve_tasks(given)))


def test_a_gate_on_a_metric_that_is_not_measured() -> None:
    given = spec(metrics=["f1(threshold=0.3)"], gates=[{"metric": "f1(threshold=0.2)", "min": 0.1}])
    sentence = r"^gates\[0\]\.metric: 'f1\(threshold=0\.2\)' is not among the metrics of the spec; did you mean "
    with pytest.raises(SpecError, match=sentence):
        check_metrics_of_gates(given, build.metrics_of(resolve_tasks(given)))


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


def test_whole_modules_are_made_by_nothing_that_they_could_share() -> None:
    whole = [VariantSpec.model_validate({"name": name, "torch": {"path": name}}) for name in ("says", "other")]
    says = whole[0].model_copy(update={"inputs": ("a",)})
    assert [one.inputs for one in with_inputs([says, whole[1]])] == [("a",), None]
