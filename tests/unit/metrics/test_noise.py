"""Bias of sums of absolute values, against simulation, and what it takes from whom."""

from __future__ import annotations

import numpy as np
import pytest

from assay.metrics.brier_parts import BrierReliability
from assay.metrics.calibration import ECE, MaxCalibrationError
from assay.metrics.noise import HIDDEN, absolute_bias, jackknife_bias
from assay.metrics.score_buckets import ECEMass
from assay.records import Replicates, StateChoice, Undefined
from assay.stats.jackknife import Basis, combine, difference, intervals
from assay.testing import evaluate, make_block

CHOICE = StateChoice(exact_ranking=True, bucketed="all")
OCCUPIED = np.ones((1, 64), np.bool_)


def calibrated(num_rows, seed=0, bias=0.0):
    """A model that is calibrated but for a constant bias."""
    rng = np.random.default_rng(seed)
    score = rng.beta(2, 5, num_rows)
    label = rng.random(num_rows) < score
    return make_block(np.clip(score + bias, 0.0, 1.0), label, bucket=rng.integers(0, 64, num_rows))


@pytest.mark.parametrize("gap", [0.0, 1.0, 5.0])
def test_a_gap_with_noise_is_too_large_in_absolute_value_by_so_much(gap):
    rng = np.random.default_rng(1)
    by_bucket = rng.normal(0.0, 1.0, 64)
    by_bucket *= 1.0 / (by_bucket.std() * 64 / np.sqrt(63))  # a standard error of 1
    expected = np.abs(gap + rng.normal(0.0, 1.0, 1_000_000)).mean() - abs(gap)
    found = absolute_bias(np.array([[gap]]), by_bucket[None, :, None], np.array([1.0]))
    assert found[0] / HIDDEN == pytest.approx(expected, abs=0.003)


def test_without_weight_or_variation_there_is_no_bias():
    assert absolute_bias(np.zeros((1, 3)), np.zeros((1, 64, 3)), np.zeros(1)).tolist() == [0.0]


def test_the_jackknifes_bias_of_a_square_is_its_variance():
    """The mean squared is too large by the variance of the mean."""
    sums = np.random.default_rng(2).normal(1.0, 3.0, 64)
    without = ((sums.sum() - sums) / 63.0) ** 2
    known = Replicates(np.array([sums.mean() ** 2]), (None,), without[None], (None,), np.zeros(1))
    assert jackknife_bias(known, OCCUPIED)[0] == pytest.approx(sums.var(ddof=1) / 64 / 63 * 63, rel=0.05)


@pytest.mark.parametrize("metric", [ECE(), ECEMass(), BrierReliability()])
def test_a_calibrated_model_has_no_interval_of_its_error_and_one_that_is_off_has(metric):
    noise, off = (
        evaluate(metric, calibrated(2000), choice=CHOICE),
        evaluate(metric, calibrated(20_000, bias=0.2), choice=CHOICE),
    )
    assert noise.alone == (Undefined.BIASED,)
    assert off.alone == (None,)
    assert intervals(noise, Basis(OCCUPIED)).undefined == (Undefined.BIASED,)
    assert np.isnan(intervals(noise, Basis(OCCUPIED)).low[0])
    assert intervals(off, Basis(OCCUPIED)).undefined == (None,)


@pytest.mark.parametrize("metric", [ECE(), ECEMass(), BrierReliability(), MaxCalibrationError()])
def test_the_difference_of_two_models_keeps_its_interval_and_a_limit_on_one_has_none(metric):
    one, other = (evaluate(metric, calibrated(2000, bias=bias), choice=CHOICE) for bias in (0.0, 0.01))
    assert intervals(difference(one, other), Basis(OCCUPIED)).undefined == (None,)
    limit = combine(lambda value: 0.1 - value, [one], one.error_bound)
    assert intervals(limit, Basis(OCCUPIED)).undefined in ((Undefined.BIASED,), (Undefined.NOT_SMOOTH,))
