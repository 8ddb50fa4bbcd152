"""When a reader is told that bins are too coarse, and what the sentence offers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

import assay
from assay.stats.resolution import resolution_notes

RANKED = {("main", "auc"), ("click", "auc")}
TOO_CLOSE = "scores too close together for the state's resolution"


def metric(variant="a", bound=0.0, half=0.008, undefined=None, **other):
    limits = {"low": 0.7 - half, "high": 0.7 + half} if undefined is None else {"low": None, "high": None}
    row = {"variant": variant, "task": "main", "metric": "auc", "slice": "overall", "error_bound": bound}
    return {**row, **limits, "undefined": undefined, **other}


def comparison(half, **other):
    row = {"variant": "b", "baseline": "a", "task": "main", "metric": "auc", "slice": "overall"}
    return {**row, "low": -half, "high": half, **other}


def notes(metrics, comparisons=(), bits=11):
    return resolution_notes(pa.Table.from_pylist(metrics), pa.Table.from_pylist(list(comparisons)), RANKED, bits)


def test_nothing_is_said_up_to_a_quarter_of_the_half_width():
    assert notes([metric(bound=0.00199), metric("b", bound=0.0)], [comparison(0.008)]) == ()
    assert notes([]) == ()


def test_a_value():
    assert notes([metric(bound=0.0021), metric("b")]) == (
        "AUC resolution is limited: the error bound of auc of 'a' is 2.1e-03, more than a quarter of the half width "
        "8.0e-03 of its interval. For a closer look, run it again with --set budget.auc_bits=12.",
    )


@pytest.mark.parametrize(("half", "bits"), [(0.0015, 12), (0.0008, 13), (0.0001, 16), (1e-9, 23), (0.0, 23)])
def test_a_difference_has_the_bounds_of_both(half, bits):
    """4e-4 together; each bit halves it."""
    (note,) = notes([metric(bound=2e-4), metric("b", bound=2e-4)], [comparison(half)])
    assert note == (
        "AUC resolution is limited: the error bound of the difference in auc of 'b' and 'a' is 4.0e-04, more than a "
        f"quarter of the half width {half:.1e} of its interval. For a closer look, run it again with --set "
        f"budget.auc_bits={bits}."
    )


def test_the_worst_is_told_and_the_others_are_counted():
    (note,) = notes([metric(bound=0.003), metric("b", bound=0.1, task="click"), metric("c", bound=0.003)])
    assert "the error bound of auc of task 'click' of 'b' is 1.0e-01" in note
    assert note.endswith(
        "its interval, and so for 2 other numbers. For a closer look, run it again with --set budget.auc_bits=17."
    )


def test_scores_too_close_together_for_an_interval():
    (note,) = notes([metric(bound=0.08, undefined=TOO_CLOSE)])
    assert note == (
        "AUC resolution is limited: the scores of 'a' are too close together for an interval of auc. For a closer "
        "look, run it again with --set budget.auc_bits=20."
    )


def test_other_slices_and_other_metrics_are_left_alone():
    assert notes([metric(bound=0.1, slice="country=DE"), metric(bound=0.1, metric="error_quantile")]) == ()
    assert notes([metric(bound=0.1, undefined="too few clusters")]) == ()
    assert notes([metric(bound=None, undefined="one class"), metric("b")], [comparison(0.008)]) == ()


def test_no_more_bits_are_offered_than_there_are():
    assert notes([metric(bound=0.1)], bits=23)[0].endswith(
        "Bins cannot be finer; a budget.exact_rows of all rows keeps every score apart."
    )


# ---- in a run --------------------------------------------------------------------------------------------------------


def run(scores, label, **budget):
    table = pa.table({"y": label.astype(int), **scores, "user": np.arange(len(label)) // 5})
    return assay.evaluate(
        table,
        label="y",
        scores=list(scores),
        baseline="a",
        cluster="user",
        output="probability",
        metrics=["auc"],
        budget=budget,
    )


def one_octave(size, width):
    rng = np.random.default_rng(0)
    chance = rng.random(size)
    label = rng.random(size) < chance
    scores = {
        name: (0.25 + width * (chance + noise * rng.random(size)) / 2).astype(np.float32)
        for name, noise in (("a", 0.5), ("b", 0.51))
    }
    return scores, label


def bounds(found):
    return {row["variant"]: row["error_bound"] for row in found.metrics.to_pylist()}


def test_scores_one_octave_wide_are_resolved_by_the_bits_that_the_note_offers():
    scores, label = one_octave(20_000, width=0.2)
    scores["b"] = np.where(np.arange(20_000) % 50 == 0, scores["b"], scores["a"])
    first = run(scores, label, exact_rows=0)
    (note,) = [one for one in first.results.notes if "resolution" in one]
    assert note.startswith("AUC resolution is limited: the error bound of the difference in auc of 'b' and 'a' is ")
    bits = int(note.rstrip(".").rpartition("=")[2])
    assert 12 < bits <= 16
    again = run(scores, label, exact_rows=0, auc_bits=bits)
    assert not [one for one in again.results.notes if "resolution" in one]
    for variant, score in scores.items():
        (value,) = [row["value"] for row in again.metrics.to_pylist() if row["variant"] == variant]
        exact = roc_auc_score(label, score)
        assert abs(value - exact) <= bounds(again)[variant] < bounds(first)[variant] / 2 ** (bits - 12)


def test_where_bits_end_every_score_can_be_kept():
    scores, label = one_octave(20_000, width=2e-4)  # more distinct scores than are kept anyway, and ties
    scores["b"] = np.where(np.arange(20_000) % 50 == 0, scores["b"], scores["a"])
    (note,) = [one for one in run(scores, label, exact_rows=0, auc_bits=23).results.notes if "resolution" in one]
    assert note.endswith("a budget.exact_rows of all rows keeps every score apart.")
    again = run(scores, label, exact_rows=20_000)
    assert not [one for one in again.results.notes if "resolution" in one]
    assert set(bounds(again).values()) == {0.0}


def test_scores_without_an_interval_get_one():
    scores, label = one_octave(10_000, width=1e-4)
    first = run(scores, label, exact_rows=0)
    assert {row["undefined"] for row in first.comparisons.to_pylist()} == {TOO_CLOSE}
    (note,) = [one for one in first.results.notes if "resolution" in one]
    bits = int(note.rstrip(".").rpartition("=")[2])
    again = run(scores, label, exact_rows=0, auc_bits=bits)
    assert {row["undefined"] for row in again.comparisons.to_pylist()} == {None}
    assert bits <= 23


def test_bits_without_effect_are_said():
    scores, label = one_octave(1000, width=0.2)
    note = "budget.auc_bits has no effect: the rows are few enough for every distinct score to be kept."
    assert note in run(scores, label, auc_bits=16).results.notes
    assert note not in run(scores, label, auc_bits=16, exact_rows=0).results.notes
