"""Thresholds for a precision or a recall, against scikit-learn's precision-recall curve."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve

from assay import catalogue
from assay.kernels.elementary import sigmoid
from assay.metrics.threshold import Precision, Recall
from assay.metrics.thresholds import ThresholdAt
from assay.metrics.top_of_ranking import PrecisionAt, RecallAt
from assay.records import StateChoice, Undefined
from assay.testing import evaluate, make_block

EXACT = StateChoice(exact_ranking=True, bucketed="all")
FORMS = {bits: StateChoice(exact_ranking=False, bucketed="all", ranking_bits=bits) for bits in (7, 11, 16)}
ALL = pytest.mark.parametrize("choice", [EXACT, *FORMS.values()])
BINNED = pytest.mark.parametrize("choice", FORMS.values())


def clicks(size, seed=0, tied=0.5):
    rng = np.random.default_rng(seed)
    score = rng.beta(2, 2, size)
    score = np.where(rng.random(size) < tied, np.round(score, 2), score).astype(np.float32)
    return score, (rng.random(size) < score).astype(int), rng.integers(1, 20, size)


def reached(label, score, weight):
    """(threshold, precision, recall) of each distinct score, increasing."""
    precision, recall, threshold = precision_recall_curve(label, score, sample_weight=weight)
    return threshold, precision[:-1], recall[:-1]


LEVELS = pytest.mark.parametrize("level", [0.55, 0.8, 0.9])


@ALL
@LEVELS
def test_few_scores_are_exact(choice, level):
    score, label, weight = clicks(2000)
    rows, (threshold, precision, recall) = (
        make_block(score, label, weight=weight),
        reached(score=score, label=label, weight=weight),
    )
    lowest, highest = np.flatnonzero(precision >= level)[0], np.flatnonzero(recall >= level)[-1]
    for metric, value in (
        (ThresholdAt(precision=level), threshold[lowest]),
        (RecallAt(precision=level), recall[lowest]),
        (ThresholdAt(recall=level), threshold[highest]),
        (PrecisionAt(recall=level), precision[highest]),
    ):
        result = evaluate(metric, rows, choice=choice)
        assert result.value == pytest.approx(value, rel=1e-12)
        assert result.error_bound.tolist() == [0.0]


@BINNED
@LEVELS
@pytest.mark.parametrize("transform", [lambda p: p, lambda p: 1e-5 * p, lambda p: 8 * (p - 0.5)])
def test_many_scores_are_within_the_bound(choice, level, transform):
    score, label, weight = clicks(10_000, tied=0.0)
    score = transform(score.astype(np.float64)).astype(np.float32)
    rows = make_block(score, label, weight=weight, probability=bool(score.min() >= 0))
    threshold, precision, recall = reached(label, score, weight)
    lowest, highest = np.flatnonzero(precision >= level)[0], np.flatnonzero(recall >= level)[-1]
    for metric, value in (
        (ThresholdAt(precision=level), threshold[lowest]),
        (RecallAt(precision=level), recall[lowest]),
        (ThresholdAt(recall=level), threshold[highest]),
        (PrecisionAt(recall=level), precision[highest]),
    ):
        result = evaluate(metric, rows, choice=choice)
        assert abs(result.value[0] - value) <= result.error_bound[0] + 1e-12
    kept = {"precision": Precision, "recall": Recall}
    for name, metric_class in kept.items():
        found = evaluate(ThresholdAt(**{name: level}), rows, choice=choice).value[0]
        assert evaluate(metric_class(threshold=float(found)), rows, choice=EXACT).value[0] >= level


@ALL
def test_a_logits_threshold_is_a_probability(choice):
    raw = np.linspace(-3, 3, 61)
    rows = make_block(raw, raw > 1, probability=False)
    as_probability = sigmoid(rows.raw).astype(np.float32)
    rows = type(rows)(**{**{name: getattr(rows, name) for name in rows.__slots__}, "probability": as_probability})
    expected = as_probability[raw > 1].min()
    assert evaluate(ThresholdAt(precision=1), rows, choice=choice).value == pytest.approx(expected)


@ALL
def test_out_of_reach(choice):
    rows = make_block([0.9, 0.5, 0.1], [0, 1, 1])
    for metric in (ThresholdAt(precision=0.7), RecallAt(precision=0.7)):
        assert evaluate(metric, rows, choice=choice).reason == (Undefined.OUT_OF_REACH,)
    assert evaluate(RecallAt(precision=0.6), rows, choice=choice).value.tolist() == [1.0]
    negatives, nothing = make_block([0.1, 0.2], [0, 0]), make_block([], [])
    for metric in (ThresholdAt(), ThresholdAt(recall=0.5), RecallAt(precision=0.5), PrecisionAt(recall=0.5)):
        assert evaluate(metric, negatives, choice=choice).reason == (Undefined.NO_POSITIVES,)
        assert evaluate(metric, nothing, choice=choice).reason == (Undefined.NO_ROWS,)


def test_bins_too_wide_to_say():
    """The best scores stand in one bin with others: whether a precision is reached there cannot be known."""
    score = 0.3 + np.arange(5000) * 2.0**-24
    result = evaluate(RecallAt(precision=0.9), make_block(score, np.arange(5000) > 4000), choice=FORMS[7])
    assert result.reason == (Undefined.RESOLUTION,)


def test_a_threshold_has_no_interval():
    result = evaluate(ThresholdAt(), make_block([0.1, 0.9], [0, 1]), choice=EXACT)
    assert result.value == pytest.approx(0.9)
    assert result.interval_reason == (Undefined.NO_INTERVAL,)


def test_names():
    assert catalogue.metric("threshold_at(precision=0.9)").name == "threshold_at"
    assert catalogue.metric("threshold_at(recall=0.25)").name == "threshold_at(recall=0.25)"
    with pytest.raises(ValueError, match="The metric 'threshold_at' has both 'precision' and 'recall'; give one of"):
        ThresholdAt(precision=0.5, recall=0.5)
    with pytest.raises(
        ValueError, match=r"The 'recall' of the metric 'threshold_at' is 1.1; expected a number above 0"
    ):
        ThresholdAt(recall=1.1)
