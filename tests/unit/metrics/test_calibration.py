"""Calibration in equal-width bins against plain numpy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from assay.metrics.calibration import ECE, ECEDebiased, MaxCalibrationError, calibration_bins
from assay.records import Sizes, StateChoice, Undefined
from assay.testing import CHOICES, check_metric, evaluate, make_block

CHOICE = StateChoice(exact_ranking=True, bucketed="overall")


def rows(seed=0):
    rng = np.random.default_rng(seed)
    score = rng.random(3000).astype(np.float32)
    score[:2] = [0.0, 1.0]
    return score, (rng.random(3000) < score**2).astype(int), rng.integers(1, 20, 3000)


def by_hand(score, label, weight, bins):
    place = np.minimum((score.astype(float) * bins).astype(int), bins - 1)
    gaps = [abs((weight * (score.astype(float) - label))[place == one].sum()) for one in range(bins)]
    return sum(gaps) / weight.sum()


@pytest.mark.parametrize("bins", [1, 10, 32])
def test_value_and_replicates(bins):
    score, label, weight = rows()
    block = make_block(score, label, weight=weight)
    result = evaluate(ECE(bins=bins), block, choice=CHOICE)
    assert result.value[0] == pytest.approx(by_hand(score, label, weight, bins), abs=1e-9)
    assert result.interval_reason == (None,)
    for bucket in (0, 40):
        kept = block.bucket != bucket
        expected = by_hand(score[kept], label[kept], weight[kept], bins)
        assert result.without[0, bucket] == pytest.approx(expected, abs=1e-9)


def test_bins_are_closed_below_and_the_last_one_above():
    p = np.array([0.0, np.nextafter(np.float32(0.5), np.float32(0)), 0.5, 1.0], np.float32)
    assert calibration_bins(p, 2).tolist() == [0, 0, 1, 1]
    assert calibration_bins(np.ones(1, np.float32), 32).tolist() == [31]


@pytest.mark.parametrize("metric", [ECE(), MaxCalibrationError()])
def test_buckets_are_kept_only_where_the_plan_says(metric):
    score, label, _ = rows()
    block = make_block(score, label, slices=[np.zeros(3000), np.ones(3000)])
    result = evaluate(metric, block, choice=CHOICE, sizes=Sizes(2, 64, 2))
    assert result.value[0] == result.value[1]
    assert result.interval_reason == (None, Undefined.OVER_BUDGET)
    assert np.isnan(result.without[1]).all()
    none = evaluate(metric, block, choice=StateChoice(True, "none"), sizes=Sizes(2, 64, 2))
    assert none.interval_reason == (Undefined.OVER_BUDGET,) * 2


@pytest.mark.parametrize("metric", [ECE(), ECEDebiased(), MaxCalibrationError()])
def test_no_rows(metric):
    assert evaluate(metric, make_block([], []), choice=CHOICE).reason == (Undefined.NO_ROWS,)


@pytest.mark.parametrize(("score", "label"), [(1.0, 1), (0.0, 0)])
def test_certain_and_right_is_calibrated(score, label):
    """A confidence of exactly 1 counts, in the last bin, and one of exactly 0 in the first."""
    result = evaluate(ECE(), make_block([score] * 4, [label] * 4), choice=CHOICE)
    assert (result.value[0], result.reason) == (0.0, (None,))
    wrong = evaluate(ECE(), make_block([score] * 4, [1 - label] * 4), choice=CHOICE)
    assert wrong.value[0] == 1.0


# ---- the largest error -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bins", [1, 10, 32])
def test_the_largest_error_is_that_of_scikit_learns_curve(bins):
    score, label, _ = rows()
    kept = np.arange(3000) % 64 != 3
    result = evaluate(MaxCalibrationError(bins=bins), make_block(score, label), choice=CHOICE)
    for some, value in ((np.ones(3000, bool), result.value[0]), (kept, result.without[0, 3])):
        positives, means = calibration_curve(label[some], score[some].astype(float), n_bins=bins)
        assert value == pytest.approx(np.abs(positives - means).max(), abs=1e-9)


def test_an_empty_bin_is_no_error():
    assert evaluate(MaxCalibrationError(), make_block([0.25, 0.75], [0, 1]), choice=CHOICE).value[0] == 0.25


# ---- less the bias ---------------------------------------------------------------------------------------------------


def test_debiased_by_hand():
    score, label, weight = rows()
    block = make_block(score, label, weight=weight, bucket=np.arange(3000) % 5)
    plain = evaluate(ECE(), block, choice=CHOICE)
    result = evaluate(ECEDebiased(), block, choice=CHOICE)
    expected = 5 * plain.value[0] - 4 * plain.without[0, :5].mean()  # 5 of 64 buckets have rows
    assert result.value[0] == pytest.approx(expected, abs=1e-12)
    assert result.interval_reason == (Undefined.NOT_SMOOTH,)
    assert np.isnan(result.without).all()


def test_debiasing_removes_half_of_the_bias_of_calibrated_scores_and_goes_below_0():
    rng = np.random.default_rng(0)
    score = rng.random((100, 2000)).astype(np.float32)
    label = rng.random((100, 2000)) < score
    blocks = [make_block(*one) for one in zip(score, label, strict=True)]
    plain, debiased = (
        np.array([evaluate(metric(), one, choice=CHOICE).value[0] for one in blocks]) for metric in (ECE, ECEDebiased)
    )
    assert plain.mean() == pytest.approx(0.04, abs=0.003)  # the true error is 0
    assert debiased.mean() == pytest.approx(0.5 * plain.mean(), abs=0.003)
    assert min(evaluate(ECEDebiased(bins=1), one, choice=CHOICE).value[0] for one in blocks) < 0.0
    assert not ECEDebiased.nonnegative


def test_debiasing_needs_buckets_and_two_of_them():
    score, label, _ = rows()
    block = make_block(score, label, slices=[np.zeros(3000), np.ones(3000)])
    result = evaluate(ECEDebiased(), block, choice=CHOICE, sizes=Sizes(2, 64, 2))
    assert result.reason == (None, Undefined.OVER_BUDGET)
    one = evaluate(ECEDebiased(), make_block(score, label, bucket=np.zeros(3000)), choice=CHOICE)
    assert one.reason == (Undefined.TOO_FEW_CLUSTERS,)
    assert evaluate(ECEDebiased(), make_block([0.5], [1]), choice=CHOICE).reason == (Undefined.TOO_FEW_CLUSTERS,)
    assert evaluate(ECEDebiased(), make_block([0.25, 0.25], [0, 0]), choice=CHOICE).value[0] == 0.25


@pytest.mark.parametrize("metric", [ECEDebiased(), ECEDebiased(bins=5), MaxCalibrationError(bins=7)])
def test_laws(metric):
    check_metric(metric, bounds=(-1.0, 1.0), choices=CHOICES[:3])


def test_the_reliability_curve_has_a_point_for_each_bin_with_rows():
    metric, accumulators = ECE(bins=4), ECE(bins=4).accumulators(CHOICE)
    block = make_block([0.0, 0.25, 0.375, 1.0], [0, 1, 0, 1], weight=[1, 2, 6, 4])
    states = {one.identity: one.update(one.zero(Sizes(2, 64)), block) for one in accumulators}
    (curve,) = metric.curves(states, CHOICE, 0.5)
    assert (curve.curve, curve.slice) == ("reliability", 0)
    assert curve.x.tolist() == [0.0, 0.34375, 1.0]
    assert curve.y.tolist() == [0.0, 0.25, 1.0]
    assert curve.rows.tolist() == [1, 2, 1]
    assert curve.weight.tolist() == [0.5, 4.0, 2.0]
    assert curve.positive_weight.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("bins", [0, 10_001, 2.5])
def test_bins_are_checked(bins):
    sentence = f"^The 'bins' of the metric 'ece' are {bins!r}; expected 1 to 10000.$"
    with pytest.raises(ValueError, match=sentence):
        ECE(bins=bins)
    for metric, name in ((ECEDebiased, "ece_debiased"), (MaxCalibrationError, "max_calibration_error")):
        with pytest.raises(ValueError, match=sentence.replace("'ece'", repr(name))):
            metric(bins=bins)
