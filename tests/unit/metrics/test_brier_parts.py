"""The Brier score is the sum of its parts, each of which is what its paper says."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from assay.metrics.brier_parts import BrierReliability, BrierResolution, BrierUncertainty, BrierWithinBins
from assay.metrics.calibration import calibration_bins
from assay.metrics.probability import Brier
from assay.records import Sizes, StateChoice, Undefined
from assay.testing import CHOICES, check_metric, evaluate, make_block

CHOICE = StateChoice(exact_ranking=True, bucketed="overall")
PARTS = (BrierReliability, BrierResolution, BrierUncertainty, BrierWithinBins)


def rows(seed=0):
    rng = np.random.default_rng(seed)
    score = np.where(rng.random(2000) < 0.5, rng.random(2000), rng.integers(0, 5, 2000) / 4).astype(np.float32)
    return score, (rng.random(2000) < score**2).astype(int), rng.integers(1, 20, 2000)


def by_definition(score, label, weight, bins):
    """Reliability, resolution, uncertainty and what is within bins (Stephenson et al.), each from the rows."""
    place, p = calibration_bins(score, bins), score.astype(float)
    of_bin = [place == one for one in np.unique(place)]
    mean_p, rate = np.zeros(len(p)), np.zeros(len(p))
    for one in of_bin:
        mean_p[one], rate[one] = (np.average(x[one], weights=weight[one]) for x in (p, label))
    base = np.average(label, weights=weight)
    within = (p - mean_p) ** 2 - 2 * (label - rate) * (p - mean_p)
    parts = (mean_p - rate) ** 2, (rate - base) ** 2, np.full(len(p), base * (1 - base)), within
    return [np.average(part, weights=weight) for part in parts]


def values(bins, block, choice=CHOICE):
    made = [part() if part is BrierUncertainty else part(bins=bins) for part in PARTS]
    return [evaluate(metric, block, choice=choice) for metric in made]


@pytest.mark.parametrize("bins", [1, 4, 32])
def test_parts_are_as_defined_and_add_up_to_the_brier_score(bins):
    score, label, weight = rows()
    block = make_block(score, label, weight=weight)
    found = values(bins, block)
    for kept, which in ((np.ones(2000, bool), None), (block.bucket != 9, 9)):
        numbers = [one.value[0] if which is None else one.without[0, which] for one in found]
        expected = by_definition(score[kept], label[kept], weight[kept], bins)
        assert numbers == pytest.approx(expected, abs=1e-8)
        brier = brier_score_loss(label[kept], score[kept].astype(float), sample_weight=weight[kept])
        reliability, resolution, uncertainty, within = numbers
        assert reliability - resolution + uncertainty + within == pytest.approx(brier, abs=1e-9)


def test_the_sum_is_that_of_the_metric_to_rounding():
    score, label, weight = rows(1)
    block = make_block(score, label, weight=weight)
    reliability, resolution, uncertainty, within = (one.value[0] for one in values(32, block))
    brier = evaluate(Brier(), block, choice=CHOICE).value[0]
    assert reliability - resolution + uncertainty + within == pytest.approx(brier, abs=1e-15)


def test_scores_equal_in_each_bin_leave_nothing_within():
    score, label = np.repeat([0.125, 0.625, 1.0], 40), np.tile([0, 1, 1, 1], 30)
    reliability, resolution, uncertainty, within = (one.value[0] for one in values(4, make_block(score, label)))
    assert within == pytest.approx(0.0, abs=1e-9)
    assert (resolution, uncertainty) == (0.0, 0.1875)
    assert reliability == pytest.approx((0.625**2 + 0.125**2 + 0.25**2) / 3, abs=1e-9)


def test_one_class_has_no_uncertainty_and_nothing_to_resolve():
    reliability, resolution, uncertainty, _ = (one.value[0] for one in values(4, make_block([0.25, 1.0], [1, 1])))
    assert (reliability, resolution, uncertainty) == (0.75**2 / 2, 0.0, 0.0)


def test_no_rows_and_no_buckets():
    for one in values(4, make_block([], [])):
        assert one.reason == (Undefined.NO_ROWS,)
    block = make_block([0.25, 1.0], [1, 0], slices=[[0, 0], [1, 1]])
    for part in (BrierReliability(), BrierWithinBins()):
        result = evaluate(part, block, choice=CHOICE, sizes=Sizes(2, 64, 2))
        assert result.value[0] == result.value[1]
        assert result.interval_reason == (None, Undefined.OVER_BUDGET)


@pytest.mark.parametrize("part", PARTS)
def test_laws(part):
    check_metric(part(), bounds=(-1.0, 1.0) if part is BrierWithinBins else (0.0, 1.0), choices=CHOICES[:3])


def test_rounding_is_no_part_of_what_is_within_bins():
    """0.3 is no multiple of 2^-32, in which sums count."""
    score, label = np.full(600, 0.3), np.arange(600) % 3 == 0
    result = evaluate(BrierWithinBins(), make_block(score, label), choice=CHOICE)
    assert result.value.tolist() == [0.0]
    assert not result.without.any()
