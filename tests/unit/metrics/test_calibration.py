"""Expected calibration error and the reliability curve against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

from assay.metrics.calibration import ECE, calibration_bins
from assay.records import Sizes, StateChoice, Undefined
from assay.testing import evaluate, make_block

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


def test_buckets_are_kept_only_where_the_plan_says():
    score, label, _ = rows()
    block = make_block(score, label, slices=[np.zeros(3000), np.ones(3000)])
    result = evaluate(ECE(), block, choice=CHOICE, sizes=Sizes(2, 64, 2))
    assert result.value[0] == result.value[1]
    assert result.interval_reason == (None, Undefined.OVER_BUDGET)
    assert np.isnan(result.without[1]).all()
    none = evaluate(ECE(), block, choice=StateChoice(True, "none"), sizes=Sizes(2, 64, 2))
    assert none.interval_reason == (Undefined.OVER_BUDGET,) * 2


def test_no_rows():
    assert evaluate(ECE(), make_block([], []), choice=CHOICE).reason == (Undefined.NO_ROWS,)


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
