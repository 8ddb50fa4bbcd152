"""What other tools have been reported to get wrong, with the reports' own numbers, end to end on small frames."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import (
    cohen_kappa_score,
    f1_score,
    matthews_corrcoef,
    precision_recall_fscore_support,
    roc_auc_score,
)

import assay
from assay import catalogue
from assay.errors import ModelError, SpecError
from assay.records import Sizes, StateChoice
from assay.testing import make_block

ROWS = 400
USERS = np.arange(ROWS) // 2
RNG = np.random.default_rng(20_240)
LABEL = (RNG.random(ROWS) < 0.4).astype(int)
GOOD = np.clip(0.3 * LABEL + 0.6 * RNG.random(ROWS), 0.0, 1.0)
BETTER = np.clip(0.45 * LABEL + 0.5 * RNG.random(ROWS), 0.0, 1.0)
NOTHING = np.full(ROWS, np.nan)


def evaluate(columns: dict[str, Any], scores: list[str], metrics: list[str], **words: Any) -> assay.Evaluation:
    """Rows with the label `y`, of users where there is a column of them."""
    cluster = "user" if "user" in columns else None
    return assay.evaluate(pa.table(columns), label="y", scores=scores, metrics=metrics, **{"cluster": cluster, **words})


def rows_of(table: pa.Table, **of: str) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if all(row[name] == value for name, value in of.items())]


def only(table: pa.Table, **of: str) -> dict[str, Any]:
    (row,) = rows_of(table, **{"slice": "overall", **of})
    return row


def value(found: assay.Evaluation, metric: str, variant: str = "p") -> float | None:
    return only(found.metrics, metric=metric, variant=variant)["value"]


# ---- ranking ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [0, 1])
def test_the_auc_of_a_single_class_is_undefined_neither_0_nor_one_half(label):
    found = evaluate({"y": [label] * 4, "p": [0.1, 0.4, 0.35, 0.8]}, ["p"], ["auc"])
    row = only(found.metrics)
    assert (row["value"], row["low"], row["undefined"]) == (None, None, "one class")


def test_a_slice_of_a_single_class_is_undefined_beside_others_that_are_not():
    columns = {"y": [0, 1, 1, 1], "p": [0.1, 0.4, 0.35, 0.8], "country": ["DE", "DE", "FR", "FR"]}
    found = evaluate(columns, ["p"], ["auc"], slices=["country"])
    values = {row["slice"]: (row["value"], row["undefined"]) for row in found.metrics.to_pylist()}
    assert values["country=DE"] == (1.0, "too few clusters")
    assert values["country=FR"] == (None, "one class")


def test_missing_scores_never_give_an_auc_of_1():
    found = evaluate({"y": LABEL, "p": NOTHING, "half": np.where(LABEL == 1, GOOD, np.nan)}, ["p", "half"], ["auc"])
    assert only(found.metrics, variant="p")["undefined"] == "all rows excluded"
    assert only(found.metrics, variant="half")["undefined"] == "one class"
    assert only(found.coverage, variant="half")["null_score"] == (LABEL == 0).sum()


def test_missing_scores_are_left_out_and_counted():
    score = np.where(np.arange(ROWS) % 3 == 0, np.nan, GOOD)
    found = evaluate({"y": LABEL, "p": score}, ["p"], ["auc"])
    known = ~np.isnan(score)
    assert value(found, "auc") == pytest.approx(roc_auc_score(LABEL[known], score[known]), abs=1e-12)
    assert only(found.metrics)["rows"] == known.sum()


def test_the_mean_of_the_aucs_of_batches_is_not_the_auc(tmp_path: Path):
    batches = [([0, 1], [0.1, 0.2]), ([0, 1], [0.8, 0.9])]
    for number, (label, score) in enumerate(batches):
        pq.write_table(pa.table({"y": label, "p": score}), tmp_path / f"{number}.parquet")
    found = assay.evaluate(tmp_path, label="y", scores=["p"], metrics=["auc"])
    assert [roc_auc_score(*batch) for batch in batches] == [1.0, 1.0]
    assert value(found, "auc") == 0.75


@pytest.mark.parametrize("score", [0.0, 0.5, 1.0])
def test_the_average_precision_of_a_constant_score_is_the_prevalence(score):
    found = evaluate({"y": [1] * 30 + [0] * 70, "p": [score] * 100}, ["p"], ["average_precision", "auc"])
    assert value(found, "average_precision") == 0.3
    assert value(found, "auc") == 0.5


def test_scores_near_1e_minus_5_do_not_fall_into_one_bin():
    score = 1e-5 * (1.0 + GOOD)
    assert value(evaluate({"y": LABEL, "p": score}, ["p"], ["auc"]), "auc") == pytest.approx(
        roc_auc_score(LABEL, score.astype(np.float32)), abs=1e-12
    )


# ---- probabilities ---------------------------------------------------------------------------------------------------


def test_a_confidence_of_1_is_in_the_last_bin_and_one_of_0_in_the_first():
    found = evaluate({"y": [0, 1, 0], "p": [0.0, 1.0, 1.0]}, ["p"], ["ece"], output="probability")
    points = [(row["x"], row["y"], row["rows"]) for row in rows_of(found.curves, curve="reliability")]
    assert points == [(0.0, 0.0, 1), (1.0, 0.5, 2)]
    assert value(found, "ece") == pytest.approx(1 / 3, abs=1e-9)


LOGITS = [1.2, 0.9678, 1.7]


def test_logits_are_refused_where_probabilities_are_declared():
    with pytest.raises(ModelError, match=r"probability.*outside \[0, 1\]|outside \[0, 1\].*probability") as caught:
        evaluate({"y": [1, 0, 1], "p": LOGITS}, ["p"], ["log_loss"], output="probability")
    assert "1.2" in str(caught.value)


def test_a_batch_of_logits_that_all_lie_between_0_and_1_are_logits_still(tmp_path: Path):
    for number, logit in enumerate(LOGITS):  # the second file could be taken for probabilities
        pq.write_table(pa.table({"y": [1], "p": [logit]}), tmp_path / f"{number}.parquet")
    found = assay.evaluate(tmp_path, label="y", scores=["p"], metrics=["mean_score", "log_loss"], output="logit")
    sigmoids = [1 / (1 + math.exp(-logit)) for logit in LOGITS]
    assert value(found, "mean_score") == pytest.approx(np.mean(sigmoids), rel=1e-7)
    assert value(found, "log_loss") == pytest.approx(-np.mean(np.log(sigmoids)), rel=1e-7)


def test_without_a_declaration_no_probability_is_assumed():
    with pytest.raises(SpecError, match="log_loss"):
        evaluate({"y": [1, 0, 1], "p": [0.2, 0.9678, 0.7]}, ["p"], ["log_loss"])


# ---- counts ----------------------------------------------------------------------------------------------------------


def times(metric: str, score: list[float], label: list[int], number: int) -> float:
    """The value over `number` copies of the rows, by doubling and adding states."""
    choice, made, sizes = StateChoice(exact_ranking=False, bucketed="overall"), catalogue.metric(metric), Sizes(1, 64)
    block, states = make_block(score, label), {}
    for one in made.accumulators(choice):
        power, whole = one.update(one.zero(sizes), block), one.zero(sizes)
        for digit in reversed(f"{number:b}"):
            whole = one.merge(whole, power) if digit == "1" else whole
            power = one.merge(power, power)
        states[one.identity] = whole
    return float(made.evaluate(states, choice, 1.0).value[0])


def test_a_precision_of_6_in_10_stays_so_at_a_hundred_million_rows():
    rows = [0.9] * 5, [1, 1, 1, 0, 0]
    assert times("count", *rows, 20_000_000) == 1e8
    assert times("precision", *rows, 20_000_000) == 0.6
    assert times("accuracy", *rows, 20_000_000) == 0.6
    assert times("positive_rate", *rows, 20_000_000) == 0.6


def test_a_mean_loss_does_not_drift_with_rows():
    rows = [0.1, 0.1, 0.9], [0, 1, 1]
    once = times("log_loss", *rows, 1)
    assert times("log_loss", *rows, 40_000_000) == pytest.approx(once, rel=1e-15)


# ---- comparisons and gates -------------------------------------------------------------------------------------------

COLUMNS = {"y": LABEL, "old": GOOD, "new": BETTER, "user": USERS}
EVERY_RULE = [
    {"metric": "auc", "margin": 1.0},
    {"metric": "auc", "improve": 0.0},
    {"metric": "auc", "harm": True},
    {"metric": "auc", "min": 0.0},
    {"metric": "log_loss", "max": 100.0},
    {"metric": "log_loss", "margin": "1000%"},
]


def judge(new: Any, gates: list[dict[str, Any]], **words: Any) -> assay.Evaluation:
    columns = {**COLUMNS, "new": new}
    settings = {"baseline": "old", "output": "probability", "gates": gates, **words}
    return evaluate(columns, ["old", "new"], ["auc", "log_loss"], **settings)


@pytest.mark.parametrize("gate", EVERY_RULE, ids=str)
def test_a_candidate_without_scores_passes_no_gate(gate):
    assert judge(BETTER, [gate]).outcome == "pass"
    (verdict,) = judge(NOTHING, [gate]).verdicts
    assert verdict.outcome == "undecided"
    assert verdict.gates[0].outcome != "pass"
    assert math.isnan(verdict.gates[0].value)


@pytest.mark.parametrize("gate", EVERY_RULE, ids=str)
def test_nor_does_any_candidate_pass_beside_a_baseline_without_scores(gate):
    found = evaluate(
        {**COLUMNS, "old": NOTHING},
        ["old", "new"],
        ["auc", "log_loss"],
        baseline="old",
        output="probability",
        gates=[gate],
    )
    alone = {"min", "max"} & set(gate)  # judges the candidate by itself
    assert found.outcome == ("pass" if alone else "undecided")


def test_an_arm_without_data_is_not_comparable():
    row = only(judge(NOTHING, []).comparisons, variant="new", metric="auc")
    assert (row["difference"], row["low"], row["p_value"]) == (None, None, None)
    assert (row["rows"], row["undefined"]) == (0, "all rows excluded")


def test_a_slice_in_which_an_arm_has_no_data_is_not_comparable():
    country = np.where(USERS % 2 == 0, "DE", "FR")
    found = evaluate(
        {**COLUMNS, "new": np.where(country == "FR", np.nan, BETTER), "country": country},
        ["old", "new"],
        ["auc"],
        baseline="old",
        slices=["country"],
        gates=[{"metric": "auc", "margin": 0.5, "slices": "country"}],
    )
    (row,) = rows_of(found.comparisons, variant="new", slice="country=FR")
    assert (row["difference"], row["undefined"]) == (None, "all rows excluded")
    assert found.outcome == "undecided"


def test_rows_that_one_arm_misses_are_in_neither_arm_of_a_difference():
    """The hard rows are left unscored: alone the candidate looks better, on common rows it is the same model."""
    hard = np.abs(GOOD - LABEL) > 0.5
    found = judge(np.where(hard, np.nan, GOOD), [])
    assert value(found, "log_loss", "new") < value(found, "log_loss", "old")
    row = only(found.comparisons, variant="new", metric="log_loss")
    assert (row["difference"], row["rows"]) == (0.0, (~hard).sum())


@pytest.mark.parametrize("metric", ["acu", "AUC", "log_los"])
def test_a_gate_on_a_misspelt_metric_is_refused_before_the_run(metric, tmp_path: Path):
    place = tmp_path / "run"
    with pytest.raises(SpecError, match=rf"^gates\[0\]\.metric: '?{metric}") as caught:
        judge(BETTER, [{"metric": metric, "margin": 0.001}], out=place)
    assert "auc" in str(caught.value) or "log_loss" in str(caught.value)
    assert not place.exists()


def test_a_share_of_a_negative_baseline_is_no_measure_of_improvement():
    """-0.9 is not 80 % above -0.5."""
    label = RNG.normal(0.0, 1.0, ROWS)
    label = (label - label.mean()) / label.std()
    columns = {"y": label, "old": (1 - math.sqrt(1.5)) * label, "new": (1 - math.sqrt(1.9)) * label, "user": USERS}
    settings = {"baseline": "old", "scores": ["old", "new"], "metrics": ["r2"]}
    refusal = r"improve is a share of the baseline, but r2 may be negative or 0; give it in the metric's own units\.$"
    with pytest.raises(SpecError, match=refusal):
        evaluate(columns, gates=[{"metric": "r2", "improve": "80%"}], **settings)
    found = evaluate(columns, gates=[{"metric": "r2", "improve": 0.1}], **settings)
    assert [value(found, "r2", variant) for variant in ("old", "new")] == pytest.approx([-0.5, -0.9])
    assert only(found.comparisons, variant="new")["difference"] == pytest.approx(-0.4)
    assert found.outcome == "fail"


def test_models_that_never_reach_the_threshold_are_not_known_to_be_equal():
    """Their scores differ, as the log loss shows; that neither reaches it in 400 rows says little of other rows."""
    low = {"old": 0.1 * GOOD, "new": 0.3 * BETTER}
    gates = [{"metric": "accuracy", "margin": 0.0001}]
    found = evaluate(
        {**COLUMNS, **low}, ["old", "new"], ["accuracy", "log_loss"], baseline="old", output="probability", gates=gates
    )
    row = only(found.comparisons, metric="accuracy")
    assert (row["difference"], row["low"], row["undefined"]) == (0.0, None, "no variation between clusters")
    assert found.outcome == "undecided"


def test_each_variant_alone_is_what_it_is_among_others():
    columns = {**COLUMNS, "third": np.where(USERS % 7 == 0, np.nan, 0.5 * GOOD + 0.5 * BETTER)}
    metrics = ["auc", "average_precision", "log_loss", "ece", "f1", "calibration_ratio"]
    words = {"output": "probability", "slices": [{"third of them": "user % 3"}]}
    together = evaluate(columns, ["old", "new", "third"], metrics, **words).metrics
    for variant in ("old", "new", "third"):
        alone = evaluate(columns, [variant], metrics, **words).metrics
        assert alone.equals(together.filter(pa.compute.equal(together["variant"], variant)))


def test_each_metric_alone_is_what_it_is_among_others():
    metrics = ["auc", "log_loss", "brier", "ece", "accuracy"]
    words = {"output": "probability", "baseline": "old"}
    together = evaluate(COLUMNS, ["old", "new"], metrics, **words)
    for metric in metrics:
        alone = evaluate(COLUMNS, ["old", "new"], [metric], **words)
        for one, other in ((alone.metrics, together.metrics), (alone.comparisons, together.comparisons)):
            assert one.equals(other.filter(pa.compute.equal(other["metric"], metric)))


def test_a_pair_alone_is_what_it_is_among_others():
    columns = {**COLUMNS, "other": RNG.random(ROWS)}
    words = {"output": "probability", "baseline": "old"}
    alone = evaluate(columns, ["old", "new"], ["auc", "log_loss"], **words).comparisons
    together = evaluate(columns, ["old", "other", "new"], ["auc", "log_loss"], **words).comparisons
    own = [name for name in alone.column_names if "simultaneous" not in name]  # these are of all variants together
    assert alone.select(own).equals(together.filter(pa.compute.equal(together["variant"], "new")).select(own))


# ---- several classes -------------------------------------------------------------------------------------------------

TRUE = RNG.choice(list("abc"), ROWS)
PREDICTED = np.where(RNG.random(ROWS) < 0.6, TRUE, RNG.choice(list("abc"), ROWS))
OF_CLASSES = [
    "accuracy",
    *(f"{average}_{one}" for average in ("macro", "weighted", "micro") for one in ("precision", "recall", "f1")),
    "balanced_accuracy",
    "cohens_kappa",
    "matthews",
]


def numbers(predicted: Any, classes: Any) -> dict[str, tuple[Any, ...]]:
    """Value, interval and what is undefined, by metric."""
    columns = {"y": TRUE, "p": predicted, "user": USERS}
    found = evaluate(columns, ["p"], OF_CLASSES, classes=classes, output="label")
    names = ("value", "low", "high", "undefined")
    return {row["metric"]: tuple(row[name] for name in names) for row in rows_of(found.metrics, slice="overall")}


def test_a_class_that_is_declared_and_absent_changes_nothing():
    declared = numbers(PREDICTED, ["a", "b", "c"])
    assert declared["macro_f1"][0] == pytest.approx(f1_score(TRUE, PREDICTED, average="macro"), rel=1e-12)
    assert numbers(PREDICTED, ["a", "b", "c", "d"]) == declared
    assert numbers(PREDICTED, ["0", "a", "b", "c"]) == declared
    assert numbers(PREDICTED, "auto") == declared


def test_the_order_of_classes_changes_nothing_but_the_last_bit():
    for one, other in zip(
        numbers(PREDICTED, list("abc")).values(), numbers(PREDICTED, list("cab")).values(), strict=True
    ):
        assert one[:3] == pytest.approx(other[:3], rel=1e-12)


def test_a_class_that_is_only_predicted_is_an_error_of_the_row_and_changes_no_other_class():
    predicted = PREDICTED.copy()
    predicted[::40] = "d"
    found = numbers(predicted, list("abc"))
    words = {"labels": ["a", "b", "c"], "zero_division": 0.0}
    assert found["accuracy"][0] == pytest.approx(np.mean(predicted == TRUE), rel=1e-15)
    for average in ("macro", "weighted", "micro"):
        of = precision_recall_fscore_support(TRUE, predicted, average=average, **words)
        for name, expected in zip(("precision", "recall", "f1"), of[:3], strict=True):
            assert found[f"{average}_{name}"][0] == pytest.approx(expected, rel=1e-12), (average, name)
    assert found["cohens_kappa"][0] == pytest.approx(cohen_kappa_score(TRUE, predicted), rel=1e-12)
    assert found["matthews"][0] == pytest.approx(matthews_corrcoef(TRUE, predicted), rel=1e-12)
    assert numbers(predicted, "auto") == found


def test_where_it_is_declared_it_is_a_class_that_is_never_right_and_changes_no_other_class():
    predicted = PREDICTED.copy()
    predicted[::40] = "d"
    of_each = [f"{name}(class={one})" for one in "abc" for name in ("precision", "recall", "f1")]
    columns = {"y": TRUE, "p": predicted, "user": USERS}
    metrics = [*of_each, "accuracy", "cohens_kappa", "matthews", "macro_f1"]
    without, declared = (
        {
            row["metric"]: row
            for row in evaluate(columns, ["p"], metrics, classes=classes, output="label").metrics.to_pylist()
        }
        for classes in (["a", "b", "c"], ["a", "b", "c", "d"])
    )
    macro = declared.pop("macro_f1")["value"]
    assert macro == pytest.approx(f1_score(TRUE, predicted, average="macro"), rel=1e-12)
    assert all(declared[metric] == without[metric] for metric in declared)
