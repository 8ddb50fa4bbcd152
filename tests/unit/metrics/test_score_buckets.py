"""Bins of equal mass against scikit-learn, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from assay.kernels.keys import probability_bins
from assay.metrics.score_buckets import OVERALL_BITS, SLICE_BITS, ECEMass, equal_mass_starts
from assay.records import Sizes, StateChoice, Undefined
from assay.testing import CHOICES, check_metric, evaluate, make_block

CHOICE = StateChoice(exact_ranking=True, bucketed="all")


def far_apart(bits, size):
    """Scores [size], increasing, each alone in its fine bin."""
    grid = np.sort(np.concatenate([np.exp2(np.linspace(-12, -1, 6000)), 1 - np.exp2(np.linspace(-10, -1.01, 5000))]))
    _, first = np.unique(probability_bins(grid.astype(np.float32), bits), return_index=True)
    return grid[first][np.linspace(0, len(first) - 1, size).astype(int)].astype(np.float32)


def curve_of(metric, block, choice=CHOICE):
    states = {one.identity: one.update(one.zero(Sizes(1, 64)), block) for one in metric.accumulators(choice)}
    (curve,) = metric.curves(states, choice, 1.0)
    return curve


@pytest.mark.parametrize("bins", [1, 5, 15])
def test_equal_to_the_quantile_bins_of_scikit_learn(bins):
    score = far_apart(OVERALL_BITS, 600)
    label = (np.random.default_rng(0).random(600) < score).astype(int)
    positives, means = calibration_curve(label, score.astype(float), n_bins=bins, strategy="quantile")
    metric, block = ECEMass(bins=bins), make_block(score, label)
    assert evaluate(metric, block, choice=CHOICE).value[0] == pytest.approx(np.abs(positives - means).mean(), abs=1e-9)
    curve = curve_of(metric, block)
    assert curve.curve == "bias_by_score"
    assert curve.rows.tolist() == [600 // bins] * bins
    np.testing.assert_allclose(curve.x, means, atol=1e-9)
    np.testing.assert_allclose(curve.y, means - positives, atol=1e-9)


def test_replicates_leave_out_rows_of_the_same_bins():
    score = far_apart(SLICE_BITS, 150)
    label = (np.random.default_rng(1).random(150) < score).astype(int)
    block = make_block(score, label, slices=[np.zeros(150), np.ones(150)])
    result = evaluate(ECEMass(bins=5), block, choice=CHOICE, sizes=Sizes(2, 64, 2))
    place, kept = np.arange(150) // 30, block.bucket != 7
    gaps = [abs((score.astype(float) - label)[kept & (place == one)].sum()) for one in range(5)]
    assert result.without[:, 7] == pytest.approx([sum(gaps) / kept.sum()] * 2, abs=1e-9)
    assert result.interval_reason == (None, None)


def test_starts_by_hand():
    assert equal_mass_starts(np.array([0, 1, 1, 0, 1, 1]), 2).tolist() == [0, 4]
    assert equal_mass_starts(np.array([2, 2, 2]), 15).tolist() == [0, 1, 2]
    assert equal_mass_starts(np.array([1, 1, 9, 1]), 4).tolist() == [0, 2, 3]  # the heavy one is not split
    assert equal_mass_starts(np.zeros(4, np.int64), 3).tolist() == []


def test_ties_are_never_split_and_weights_count():
    score, label, weight = [0.1, 0.1, 0.1, 0.9], [0, 1, 0, 1], [10, 20, 30, 60]
    curve = curve_of(ECEMass(bins=2), make_block(score, label, weight=weight))
    assert curve.rows.tolist() == [3, 1]
    assert curve.weight.tolist() == [60.0, 60.0]
    assert curve.positive_weight.tolist() == [20.0, 60.0]
    assert curve.y == pytest.approx([0.1 - 1 / 3, -0.1], abs=1e-7)


def test_constant_scores_are_one_bin():
    result = evaluate(ECEMass(), make_block([0.25] * 8, [0, 0, 0, 0, 1, 1, 1, 1]), choice=CHOICE)
    assert (result.value[0], result.interval_reason) == (0.25, (None,))


def test_extreme_probabilities_count():
    assert evaluate(ECEMass(), make_block([0.0, 1.0], [0, 1]), choice=CHOICE).value[0] == 0.0
    assert evaluate(ECEMass(), make_block([0.0, 1.0], [1, 0]), choice=CHOICE).value[0] == 1.0


def test_scores_too_close_for_the_bins_of_buckets_have_no_interval():
    score = np.linspace(0.5, 0.53, 640).astype(np.float32)  # 8 fine bins, 1 coarse one
    result = evaluate(ECEMass(), make_block(score, np.arange(640) % 2), choice=CHOICE)
    assert result.interval_reason == (Undefined.RESOLUTION,)


def test_no_rows_and_no_buckets():
    assert evaluate(ECEMass(), make_block([], []), choice=CHOICE).reason == (Undefined.NO_ROWS,)
    block = make_block([0.25, 1.0], [1, 0], slices=[[0, 0], [1, 1]])
    result = evaluate(ECEMass(), block, choice=StateChoice(True, "overall"), sizes=Sizes(2, 64, 2))
    assert result.interval_reason == (None, Undefined.OVER_BUDGET)


def test_bins_are_checked():
    with pytest.raises(ValueError, match=r"^The 'bins' of the metric 'ece_mass' are 0; expected 1 to 10000\.$"):
        ECEMass(bins=0)


@pytest.mark.parametrize("metric", [ECEMass(), ECEMass(bins=4)])
def test_laws(metric):
    check_metric(metric, bounds=(0.0, 1.0), choices=CHOICES[:3])
