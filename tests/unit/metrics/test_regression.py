"""Errors of real predictions against exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from assay.metrics.regression import MAE, RMSE
from assay.records import StateChoice, Undefined
from assay.testing import evaluate, make_block

CHOICE = StateChoice(exact_ranking=True, bucketed="all")


def only(metric, raw, label, **kwargs):
    result = evaluate(metric, make_block(raw, label, probability=False, **kwargs), choice=CHOICE)
    return result.reason[0] or result.value[0]


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e15])
def test_equal_to_scikit_learn_whatever_the_offset(offset):
    rng = np.random.default_rng(0)
    label = offset + rng.normal(0, 3, 1000)
    raw, weight = label + rng.normal(0, 1, 1000), rng.integers(1, 9, 1000)
    rmse = root_mean_squared_error(label, raw, sample_weight=weight)
    assert only(RMSE(), raw, label, weight=weight) == pytest.approx(rmse, rel=1e-14)
    mae = mean_absolute_error(label, raw, sample_weight=weight)
    assert only(MAE(), raw, label, weight=weight) == pytest.approx(mae, rel=1e-14)


def test_sums_lose_nothing():
    label = np.zeros(3)
    assert only(MAE(), [1e30, 1e-9, 0.0], label) == (1e30 + 1e-9) / 3
    assert only(RMSE(), [3.0, 4.0], np.zeros(2)) == np.sqrt(12.5)
    assert only(RMSE(), [1e-15, 1e-15], np.zeros(2)) == pytest.approx(1e-15, rel=1e-8)


def test_too_large_is_undefined_never_infinite():
    assert only(RMSE(), [1e20, 0.0], [0.0, 0.0]) is Undefined.OVERFLOW
    assert only(MAE(), [1e300, 0.0], [-1e308, 0.0]) is Undefined.OVERFLOW
    assert only(RMSE(), [1e308], [-1e308]) is Undefined.OVERFLOW
    assert only(RMSE(), [1e18, 1e18], [0.0, 0.0]) == 1e18


def test_perfect_and_empty():
    assert only(RMSE(), [1.5], [1.5]) == 0.0
    assert only(MAE(), [], []) is Undefined.NO_ROWS
