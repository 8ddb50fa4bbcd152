"""Partial AUC, KS, Gini and the curves against scikit-learn and scipy; within their bounds where scores are binned."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp
from sklearn.metrics import precision_recall_curve, roc_auc_score, roc_curve

from assay import catalogue
from assay.metrics.ranking import AUC, AveragePrecision, Gini
from assay.metrics.ranking_curves import KS, PartialAUC
from assay.metrics.sweep import MOST_POINTS
from assay.metrics.top_of_ranking import Lift
from assay.records import StateChoice, Undefined
from assay.testing import SIZES, evaluate, make_block

EXACT = StateChoice(exact_ranking=True, bucketed="all")
BINNED = StateChoice(exact_ranking=False, bucketed="all", ranking_bits=11)
SPARSE = StateChoice(exact_ranking=False, bucketed="all", ranking_bits=16)
ALL = pytest.mark.parametrize("choice", [EXACT, BINNED, SPARSE])
ONE_ULP = (1e-5 * (1 + np.arange(12) * 2.0**-23)).astype(np.float32)


def clicks(size, seed=0, tied=0.5):
    rng = np.random.default_rng(seed)
    score = rng.beta(1, 4, size)
    score = np.where(rng.random(size) < tied, np.round(score, 2), score).astype(np.float32)
    return score, (rng.random(size) < score).astype(int), rng.integers(1, 20, size)


def rates(label, score, weight):
    false, true, _ = roc_curve(label, score, sample_weight=weight, drop_intermediate=False)
    return false, true


def ks(label, score, sample_weight=None):
    false, true = rates(label, score, sample_weight)
    return (true - false).max()


def gini(label, score, sample_weight=None):
    return 2 * roc_auc_score(label, score, sample_weight=sample_weight) - 1


def partial(max_fpr):
    return lambda label, score, sample_weight=None: roc_auc_score(
        label, score, sample_weight=sample_weight, max_fpr=max_fpr
    )


METRICS = pytest.mark.parametrize(
    ("metric", "reference"),
    [
        (PartialAUC(), partial(0.1)),
        (PartialAUC(0.013), partial(0.013)),
        (PartialAUC(1), roc_auc_score),
        (KS(), ks),
        (Gini(), gini),
    ],
)


@METRICS
@ALL
@pytest.mark.parametrize("weighted", [False, True])
def test_few_scores_are_exact(metric, reference, choice, weighted):
    score, label, weight = clicks(3000)
    used = weight if weighted else None
    result = evaluate(metric, make_block(score, label, weight=used), choice=choice)
    assert result.value == pytest.approx(reference(label, score, sample_weight=used), abs=1e-12)
    assert result.error_bound.tolist() == [0.0]


def test_ks_is_scipys():
    score, label, _ = clicks(1000)
    expected = ks_2samp(score[label == 0], score[label == 1], alternative="greater").statistic
    assert evaluate(KS(), make_block(score, label), choice=EXACT).value == pytest.approx(expected, abs=1e-12)
    backwards = evaluate(KS(), make_block([0.1, 0.9], [1, 0]), choice=EXACT)
    assert backwards.value.tolist() == [0.0]


@METRICS
@pytest.mark.parametrize("transform", [lambda p: p, lambda p: p * 1e-5, lambda p: (p - 0.2) * 1e4])
@pytest.mark.parametrize("bits", [7, 11, 16])
def test_many_scores_are_within_the_bound(metric, reference, transform, bits):
    score, label, weight = clicks(20_000, tied=0.0)
    score = transform(score.astype(np.float64)).astype(np.float32)
    rows = make_block(score, label, weight=weight, probability=bool(score.min() >= 0))
    result = evaluate(metric, rows, choice=StateChoice(exact_ranking=False, bucketed="all", ranking_bits=bits))
    assert abs(result.value[0] - reference(label, score, sample_weight=weight)) <= result.error_bound[0] + 1e-12
    assert result.error_bound[0] < max(0.03 * 2.0 ** (7 - bits), 2e-4)  # one row of a bin is enough for KS


@METRICS
@ALL
def test_leaving_out_a_bucket_is_leaving_out_its_rows(metric, reference, choice):
    score, label, weight = clicks(20_000, seed=1, tied=0.0)
    rows = make_block(score, label, weight=weight)
    result = evaluate(metric, rows, choice=choice)
    assert result.interval_reason == (None,)
    without = [reference(label[k], score[k], sample_weight=weight[k]) for b in range(64) for k in [rows.bucket != b]]
    if choice is EXACT:
        assert result.without[0] == pytest.approx(np.array(without), abs=1e-12)
    else:
        assert result.without[0].std() == pytest.approx(np.std(without), rel=0.06)


@METRICS
@ALL
def test_one_class_and_no_rows_are_undefined(metric, reference, choice):
    for label in ([1, 1], [0, 0]):
        assert evaluate(metric, make_block([0.1, 0.2], label), choice=choice).reason == (Undefined.ONE_CLASS,)
    assert evaluate(metric, make_block([0.1], [1]), choice=choice).reason == (Undefined.ONE_CLASS,)
    assert evaluate(metric, make_block([], []), choice=choice).reason == (Undefined.NO_ROWS,)


@METRICS
@ALL
def test_scores_one_ulp_apart_are_told_apart(metric, reference, choice):
    label = np.arange(12) % 3 == 0
    result = evaluate(metric, make_block(ONE_ULP, label), choice=choice)
    assert result.value == pytest.approx(reference(label, ONE_ULP), abs=1e-12)


@METRICS
@ALL
def test_a_constant_score_is_chance(metric, reference, choice):
    result = evaluate(metric, make_block([0.3] * 8, [0, 1, 1, 1] * 2), choice=choice)
    assert result.value.tolist() == [0.5 if isinstance(metric, PartialAUC) else 0.0]


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5, float("nan")])
def test_a_wrong_rate_is_refused(rate):
    with pytest.raises(
        ValueError, match=r"The 'max_fpr' of the metric 'partial_auc' is .*; expected a number above 0 and"
    ):
        PartialAUC(rate)


def test_names():
    assert catalogue.metric("partial_auc(max_fpr=0.10)") == PartialAUC()
    assert PartialAUC(0.2).name == "partial_auc(max_fpr=0.2)"
    assert (KS().name, Gini().name) == ("ks", "gini")


# ---- curves ----------------------------------------------------------------------------------------------------------


def curves_of(metric, rows, choice, weight_unit=1.0):
    states = {}
    for one in metric.accumulators(choice):
        states[one.identity] = one.update(one.zero(SIZES), rows)
    return metric.curves(states, choice, weight_unit)


def test_curves_are_scikit_learns():
    score, label, weight = clicks(200)
    rows = make_block(score, label, weight=weight)
    (roc,) = curves_of(AUC(), rows, EXACT)
    false, true = rates(label, score, weight)
    assert (roc.curve, roc.slice, roc.rows) == ("roc", 0, None)
    assert roc.x == pytest.approx(false)
    assert roc.y == pytest.approx(true)
    (pr,) = curves_of(AveragePrecision(), rows, EXACT)
    precision, recall, _ = precision_recall_curve(label, score, sample_weight=weight)
    assert pr.x == pytest.approx(recall[-2::-1])  # without its artificial point at recall 0
    assert pr.y == pytest.approx(precision[-2::-1])
    (gains,) = curves_of(Lift(), rows, EXACT, weight_unit=0.25)
    assert (gains.x[0], gains.y[0], gains.x[-1], gains.y[-1]) == (0, 0, 1, 1)
    assert gains.weight[-1] == 0.25 * weight.sum()
    assert gains.positive_weight[-1] == 0.25 * weight[label == 1].sum()


def test_rows_behind_points_are_known_without_weights():
    (roc,) = curves_of(AUC(), make_block([0.1, 0.2, 0.2, 0.4], [0, 1, 0, 1]), EXACT)
    assert roc.x.tolist() == [0.0, 0.0, 0.5, 1.0]
    assert roc.y.tolist() == [0.0, 0.5, 1.0, 1.0]
    assert roc.rows.tolist() == roc.weight.tolist() == [0, 1, 3, 4]
    assert roc.positive_weight.tolist() == [0, 1, 2, 2]


@ALL
@pytest.mark.parametrize("metric", [AUC(), AveragePrecision(), Lift()])
def test_many_points_are_thinned(metric, choice):
    score, label, _ = clicks(20_000, tied=0.0)
    (curve,) = curves_of(metric, make_block(score, label), choice)
    assert 400 <= len(curve.x) <= MOST_POINTS
    assert (np.diff(curve.x) >= 0).all()
    assert curve.x[-1] == 1.0
    # Straight lines between the points lose next to nothing of the area.
    if curve.curve == "roc":
        assert np.trapezoid(curve.y, curve.x) == pytest.approx(roc_auc_score(label, score), abs=1e-3)


def test_nothing_is_drawn_where_nothing_is_defined():
    assert curves_of(AUC(), make_block([0.1], [1]), EXACT) == ()
    assert curves_of(AveragePrecision(), make_block([0.1], [0]), EXACT) == ()
    assert curves_of(AveragePrecision(), make_block([], []), BINNED) == ()
