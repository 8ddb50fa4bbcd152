"""Predicted intervals, by hand and against a plain formula."""

from __future__ import annotations

import re

import numpy as np
import pytest

from assay.metrics.intervals_of_outputs import IntervalCoverage, IntervalScore, IntervalWidth
from assay.records import StateChoice, Undefined
from assay.testing import check_metric, evaluate, make_block

CHOICE = StateChoice(exact_ranking=True, bucketed="all")


def only(metric, lower, upper, label, **kwargs):
    block = make_block([lower, upper], label, label_kind="real", probability=False, **kwargs)
    result = evaluate(metric, block, choice=CHOICE)
    return result.reason[0] or result.value[0]


def test_by_hand():
    rows = ([0.0, 0.0, 0.0, 2.0], [1.0, 1.0, 1.0, 4.0], [0.5, 1.0, 1.25, 1.0])  # inside, at the edge, above, below
    assert only(IntervalCoverage(), *rows) == 0.5
    assert only(IntervalCoverage(), *rows, weight=[1, 1, 1, 5]) == 0.25
    assert only(IntervalWidth(), *rows) == 5 / 4
    assert only(IntervalScore(), *rows) == pytest.approx((1 + 1 + (1 + 40 * 0.25) + (2 + 40 * 1)) / 4, rel=1e-15)
    assert only(IntervalScore(0.5), *rows) == (1 + 1 + (1 + 4 * 0.25) + (2 + 4 * 1)) / 4


def test_a_score_is_least_for_the_true_interval():
    label = np.random.default_rng(0).normal(size=20_000)
    scores = [only(IntervalScore(0.1), np.full(20_000, -z), np.full(20_000, z), label) for z in (1.3, 1.645, 2.0)]
    assert scores[1] == min(scores)


def test_widths_are_exact_whatever_the_offset():
    lower = 2.0**30 + 64 * np.arange(100)
    assert only(IntervalWidth(), lower, lower + 128, lower) == 128
    assert only(IntervalCoverage(), lower, lower + 128, lower + 128) == 1.0
    assert only(IntervalCoverage(), lower, lower + 128, lower + 129) == 0.0


def test_unknown_is_said():
    for metric in (IntervalCoverage(), IntervalWidth(), IntervalScore()):
        assert only(metric, [], [], []) is Undefined.NO_ROWS
    assert only(IntervalScore(), [0.0], [1.0], [1e39]) is Undefined.OVERFLOW
    assert only(IntervalCoverage(), [0.0], [1.0], [1e39]) == 0.0


def test_coverage_is_best_at_what_was_promised():
    assert (IntervalCoverage().direction, IntervalCoverage(0.2).direction) == (0.95, 0.8)
    assert IntervalCoverage(0.2).name == "interval_coverage(alpha=0.2)"
    assert IntervalCoverage().accumulators(CHOICE) == IntervalCoverage(0.2).accumulators(CHOICE)


@pytest.mark.parametrize("metric", [IntervalCoverage(0.2), IntervalScore(0.2)])
def test_with_parameters_they_keep_the_laws(metric):
    check_metric(metric, bounds=(0.0, np.inf))


def test_outputs_that_are_no_intervals():
    sentence = "A metric needs a lower and an upper bound; declare that the output `is` an interval."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        evaluate(IntervalWidth(), make_block([0.5], [1.0]), choice=CHOICE)
    sentence = "The 'alpha' of the metric 'interval_score' is 95; expected a number above 0 and below 1."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        IntervalScore(95)
