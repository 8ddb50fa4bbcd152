"""Errors of real predictions against scikit-learn, and against exact arithmetic where that loses digits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import (
    explained_variance_score,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    r2_score,
    root_mean_squared_error,
)

from assay.metrics.regression import MAE, MAPE, MSE, R2, RMSE, SMAPE, Bias, ExplainedVariance
from assay.records import StateChoice, Undefined
from assay.testing import evaluate, make_block

CHOICE = StateChoice(exact_ranking=True, bucketed="all")
EVERY = [MAE(), MAPE(), MSE(), R2(), RMSE(), SMAPE(), Bias(), ExplainedVariance()]


def only(metric, raw, label, **kwargs):
    result = evaluate(metric, make_block(raw, label, probability=False, **kwargs), choice=CHOICE)
    return result.reason[0] or result.value[0]


def rows(offset=0.0, num_rows=1000):
    rng = np.random.default_rng(0)
    label = offset + rng.normal(0, 3, num_rows)
    return label + rng.normal(0.5, 1, num_rows), label, rng.integers(1, 9, num_rows)


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e15])
def test_equal_to_scikit_learn_whatever_the_offset(offset):
    raw, label, weight = rows(offset)
    theirs = {RMSE(): root_mean_squared_error, MAE(): mean_absolute_error, MSE(): mean_squared_error}
    for metric, function in theirs.items():
        expected = function(label, raw, sample_weight=weight)
        assert only(metric, raw, label, weight=weight) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("metric", "theirs"),
    [(R2(), r2_score), (ExplainedVariance(), explained_variance_score), (MAPE(), mean_absolute_percentage_error)],
)
def test_equal_to_scikit_learn(metric, theirs):
    raw, label, weight = rows()
    expected = theirs(label, raw, sample_weight=weight)
    assert only(metric, raw, label, weight=weight) == pytest.approx(expected, rel=1e-12)


def exact_shares(raw, label, weight):
    """(R2, explained variance) in fractions, of errors that are rounded once."""
    label_, weight_ = [Fraction(one) for one in label.tolist()], weight.tolist()
    error = [Fraction(one) for one in (raw - label).tolist()]

    def variance(values):
        mean = sum(w * x for w, x in zip(weight_, values, strict=True)) / sum(weight_)
        return sum(w * (x - mean) ** 2 for w, x in zip(weight_, values, strict=True))

    squares = sum(w * x * x for w, x in zip(weight_, error, strict=True))
    return float(1 - squares / variance(label_)), float(1 - variance(error) / variance(label_))


@pytest.mark.parametrize("offset", [0.0, 1e9, 1e12, -1e15])
def test_shares_of_variance_lose_nothing_to_an_offset(offset):
    raw, label, weight = rows(offset)
    r2, explained = exact_shares(raw, label, weight)
    assert only(R2(), raw, label, weight=weight) == pytest.approx(r2, rel=1e-12)
    assert only(ExplainedVariance(), raw, label, weight=weight) == pytest.approx(explained, rel=1e-12)
    raw, label, weight = raw[:300], label[:300], weight[:300]
    assert only(ExplainedVariance(), raw + 1e9, label, weight=weight) == pytest.approx(
        exact_shares(raw + 1e9, label, weight)[1], rel=1e-12
    )


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_shares_of_variance_have_no_scale(scale):
    raw, label, weight = rows()
    for metric in (R2(), ExplainedVariance()):
        expected = only(metric, raw, label, weight=weight)
        assert only(metric, raw * scale, label * scale, weight=weight) == pytest.approx(expected, rel=1e-9)


def test_by_hand():
    raw, label = [1.0, 2.0, 6.0], [2.0, 2.0, 5.0]  # errors -1, 0, 1; the labels' mean is 3, their spread 6
    assert only(Bias(), raw, label) == 0.0
    assert only(Bias(), raw, label, weight=[2, 1, 1]) == -0.25
    assert only(MSE(), raw, label) == 2 / 3
    assert only(R2(), raw, label) == only(ExplainedVariance(), raw, label) == 2 / 3  # rounded once: 1 - 2 / 6 is not
    assert only(MAPE(), raw, label) == (1 / 2 + 1 / 5) / 3
    assert only(SMAPE(), raw, label) == pytest.approx((2 / 3 + 2 / 11) / 3, rel=1e-15)
    assert only(R2(), [3.0, 3.0, 3.0], label) == 0.0
    assert only(R2(), [-3.0, 3.0, 3.0], label) == 1 - (25 + 1 + 4) / 6
    assert only(ExplainedVariance(), np.add(label, 100.0), label) == 1.0


def test_sums_lose_nothing():
    label = np.zeros(3)
    assert only(MAE(), [1e30, 1e-9, 0.0], label) == (1e30 + 1e-9) / 3
    assert only(RMSE(), [3.0, 4.0], np.zeros(2)) == np.sqrt(12.5)
    assert only(RMSE(), [1e-15, 1e-15], np.zeros(2)) == pytest.approx(1e-15, rel=1e-8)
    assert only(Bias(), [1e16, 1.0, -1e16], [0.0, 0.0, 1.0]) == 0.0
    assert only(Bias(), [1e16, 4.0, -1e16], [0.0, 1.0, 0.0]) == 1.0


def test_too_large_is_undefined_never_infinite():
    assert only(RMSE(), [1e20, 0.0], [0.0, 0.0]) is Undefined.OVERFLOW
    assert only(MAE(), [1e300, 0.0], [-1e308, 0.0]) is Undefined.OVERFLOW
    assert only(RMSE(), [1e308], [-1e308]) is Undefined.OVERFLOW
    assert only(RMSE(), [1e18, 1e18], [0.0, 0.0]) == 1e18
    assert only(R2(), [0.0, 0.0], [1e20, 0.0]) is Undefined.OVERFLOW
    assert only(ExplainedVariance(), [1e20, 0.0], [1.0, 0.0]) is Undefined.OVERFLOW
    assert only(Bias(), [1e300], [1e300]) is Undefined.OVERFLOW
    assert only(MAPE(), [1e300], [1e-300]) is Undefined.OVERFLOW


def test_relative_errors_at_zero():
    assert only(MAPE(), [1.0, 2.0], [0.0, 2.0]) is Undefined.OUTSIDE_DOMAIN
    assert only(MAPE(), [1.0, 2.0], [-0.0, 2.0]) is Undefined.OUTSIDE_DOMAIN
    assert only(MAPE(), [-1.0], [-2.0]) == 0.5
    assert only(SMAPE(), [0.0, 1.0, 0.0, -1.0], [0.0, 0.0, 5.0, 1.0]) == (0 + 2 + 2 + 2) / 4
    assert only(SMAPE(), [1.7e308], [1.7e308]) == 0.0
    assert only(SMAPE(), [1.7e308], [-1.7e308]) == 2.0
    assert only(SMAPE(), [5e-324], [5e-324]) == 0.0
    assert only(SMAPE(), [1e9 + 1], [1e9]) == pytest.approx(2 / (2e9 + 1), rel=1e-15)


@pytest.mark.parametrize("metric", [R2(), ExplainedVariance()])
def test_a_constant_label_has_no_share_explained(metric):
    assert only(metric, [1.0, 2.0], [0.1, 0.1]) is Undefined.CONSTANT
    assert only(metric, [1e9, 2.0], [1e9, 1e9]) is Undefined.CONSTANT
    assert only(metric, [1.0], [1.0]) is Undefined.CONSTANT


@pytest.mark.parametrize("metric", EVERY)
def test_perfect_and_empty(metric):
    best = 1.0 if metric.direction == "higher" else 0.0
    assert only(metric, [1.5, 2.5, 1e9], [1.5, 2.5, 1e9]) == best
    assert only(metric, [], []) is Undefined.NO_ROWS


@pytest.mark.parametrize("metric", EVERY)
def test_leave_one_out_values_are_those_of_the_other_rows(metric):
    raw, label, weight = rows(offset=1e6, num_rows=200)
    bucket = np.arange(200) % 64
    result = evaluate(metric, make_block(raw, label, probability=False, weight=weight), choice=CHOICE)
    for one in (0, 17, 63):
        others = bucket != one
        rest = only(metric, raw[others], label[others], weight=weight[others])
        assert result.without[0, one] == rest
