"""AUC and average precision against scikit-learn, in both forms of state."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from assay.metrics.ranking import AUC, AveragePrecision, average_precision_bound, roc_auc_bound
from assay.metrics.ranking_states import MOST_DISTINCT, BinnedRanking
from assay.records import Sizes, StateChoice, Undefined
from assay.testing import evaluate, make_block

EXACT = StateChoice(exact_ranking=True, bucketed="all")
BINNED = StateChoice(exact_ranking=False, bucketed="all")
BOTH = pytest.mark.parametrize("choice", [EXACT, BINNED])
METRICS = pytest.mark.parametrize(
    ("metric", "reference"), [(AUC(), roc_auc_score), (AveragePrecision(), average_precision_score)]
)
ONE_ULP = (1e-5 * (1 + np.arange(12) * 2.0**-23)).astype(np.float32)


def clicks(size, seed=0, tied=0.5):
    rng = np.random.default_rng(seed)
    score = rng.beta(1, 4, size)
    score = np.where(rng.random(size) < tied, np.round(score, 2), score).astype(np.float32)
    return score, (rng.random(size) < score).astype(int), rng.integers(1, 20, size)


def only(result):
    assert result.reason == (None,)
    return result.value[0]


@METRICS
@BOTH
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [10, 3000])
def test_few_scores_are_exact(metric, reference, choice, weighted, size):
    score, label, weight = clicks(size)
    label[:2] = [0, 1]
    rows = make_block(score, label, weight=weight if weighted else None)
    expected = reference(label, score, sample_weight=weight if weighted else None)
    result = evaluate(metric, rows, choice=choice)
    assert only(result) == pytest.approx(expected, abs=1e-12)
    assert result.error_bound.tolist() == [0.0]


@METRICS
def test_exact_states_hold_any_number_of_scores(metric, reference):
    score, label, weight = clicks(30_000, tied=0.0)
    blocks = [make_block(score[i::3], label[i::3], weight=weight[i::3]) for i in range(3)]
    result = evaluate(metric, *blocks, choice=EXACT)
    assert only(result) == pytest.approx(reference(label, score, sample_weight=weight), abs=1e-12)


@METRICS
@pytest.mark.parametrize(
    "transform", [lambda p: p, lambda p: p * 1e-5, lambda p: 1 - p * 1e-4, lambda p: (p - 0.2) * 1e4]
)
def test_many_scores_are_within_a_small_bound(metric, reference, transform):
    score, label, weight = clicks(30_000, tied=0.0)
    score = transform(score.astype(np.float64)).astype(np.float32)
    probability = bool(score.min() >= 0 and score.max() <= 1)
    result = evaluate(metric, make_block(score, label, weight=weight, probability=probability), choice=BINNED)
    error = abs(only(result) - reference(label, score, sample_weight=weight))
    assert error <= result.error_bound[0] + 1e-12
    assert result.error_bound[0] <= 0.02
    assert error <= 1e-3


@METRICS
@BOTH
def test_scores_one_ulp_apart_are_told_apart(metric, reference, choice):
    label = np.arange(12) % 3 == 0
    result = evaluate(metric, make_block(ONE_ULP, label), choice=choice)
    assert only(result) == pytest.approx(reference(label, ONE_ULP), abs=1e-12)


def test_the_bound_holds_where_bins_are_too_wide():
    rng = np.random.default_rng(0)
    score = np.concatenate([rng.choice(ONE_ULP, 9000), rng.random(9000).astype(np.float32)])
    label = np.concatenate([(score[:9000] > np.median(ONE_ULP)), rng.random(9000) < 0.5])
    result = evaluate(AUC(), make_block(score, label), choice=BINNED)
    error = abs(only(result) - roc_auc_score(label, score))
    assert 0.05 < error <= result.error_bound[0]
    assert result.interval_reason == (Undefined.RESOLUTION,)


@METRICS
@BOTH
def test_leaving_out_a_bucket_is_leaving_out_its_rows(metric, reference, choice):
    score, label, weight = clicks(10_000, seed=1, tied=0.0)
    rows = make_block(score, label, weight=weight)
    result = evaluate(metric, rows, choice=choice)
    assert result.interval_reason == (None,)
    expected = np.array(
        [reference(label[k], score[k], sample_weight=weight[k]) for b in range(64) for k in [rows.bucket != b]]
    )
    if choice is EXACT:
        assert result.without[0] == pytest.approx(expected, abs=1e-12)
    else:
        assert np.corrcoef(result.without[0], expected)[0, 1] > 0.995
        assert result.without[0].std() == pytest.approx(expected.std(), rel=0.03)


@METRICS
@pytest.mark.parametrize(
    ("bucketed", "kept"), [("all", [True, True]), ("overall", [True, False]), ("none", [False, False])]
)
def test_buckets_are_kept_where_the_plan_says(metric, reference, bucketed, kept):
    score, label, _ = clicks(2000)
    rows = make_block(score, label, slices=[np.zeros(2000), np.ones(2000)])
    choice = StateChoice(exact_ranking=False, bucketed=bucketed)
    result = evaluate(metric, rows, choice=choice, sizes=Sizes(2, 64, 2))
    assert [reason is None for reason in result.interval_reason] == kept
    assert {reason for reason in result.interval_reason if reason} <= {Undefined.OVER_BUDGET}
    assert (~np.isnan(result.without)).all(axis=1).tolist() == kept
    assert result.value == pytest.approx(reference(label, score), abs=1e-12)


@BOTH
def test_one_class_and_no_rows_are_undefined(choice):
    ones, zeros, nothing = make_block([0.1, 0.2], [1, 1]), make_block([0.1, 0.2], [0, 0]), make_block([], [])
    assert evaluate(AUC(), ones, choice=choice).reason == (Undefined.ONE_CLASS,)
    assert evaluate(AUC(), zeros, choice=choice).reason == (Undefined.ONE_CLASS,)
    assert evaluate(AUC(), nothing, choice=choice).reason == (Undefined.NO_ROWS,)
    assert only(evaluate(AveragePrecision(), ones, choice=choice)) == 1.0
    assert evaluate(AveragePrecision(), zeros, choice=choice).reason == (Undefined.NO_POSITIVES,)
    assert evaluate(AveragePrecision(), nothing, choice=choice).reason == (Undefined.NO_ROWS,)


@BOTH
def test_all_scores_equal(choice):
    rows = make_block([0.3] * 8, [0, 1] * 4)
    assert only(evaluate(AUC(), rows, choice=choice)) == 0.5
    assert only(evaluate(AveragePrecision(), rows, choice=choice)) == 0.5


def test_bounds_by_hand():
    weight = np.array([[2, 0], [3, 1], [0, 4]])  # by increasing score: 2 of 5 * 5 pairs, 3 of them tied
    assert roc_auc_bound(weight) == pytest.approx(0.5 * 3 / 25)
    # The top bin gains 4 in any order, the middle one 5 / 5 with its positive first, and the integral with it last.
    value = (4 + 5 / 8) / 5
    last = 1 - 3 * np.log((4 + 1 + 3) / (4 + 3))
    assert average_precision_bound(weight, value) == pytest.approx(max((4 + 1) / 5 - value, value - (4 + last) / 5))
    assert average_precision_bound(np.array([[3, 0]]), np.nan) == roc_auc_bound(np.array([[3, 0]])) == 0.0


# ---- the binned state past its cap -----------------------------------------------------------------------------------


def binned(*blocks):
    accumulator, state = BinnedRanking("overall"), BinnedRanking("overall").zero(Sizes(1, 64))
    for one in blocks:
        state = accumulator.update(state, one)
    return state


def same(one, other):
    return all(one[name].tobytes() == other[name].tobytes() for name in one) and one.keys() == other.keys()


def distinct_rows(size):
    return make_block(np.arange(1, size + 1) / (size + 1), np.arange(size) % 2)


def test_exact_entries_are_kept_up_to_the_cap():
    assert len(binned(distinct_rows(MOST_DISTINCT))["codes"]) == MOST_DISTINCT
    past = binned(distinct_rows(MOST_DISTINCT + 1))
    assert past["coarse"].tolist() == [1]
    assert len(past["codes"]) == 0


def test_the_cap_does_not_depend_on_how_rows_are_split():
    rows = distinct_rows(MOST_DISTINCT + 1)
    halves = [rows.take(np.arange(i, MOST_DISTINCT + 1, 2)) for i in range(2)]
    merge = BinnedRanking("overall").merge
    assert same(merge(binned(halves[0]), binned(halves[1])), binned(rows))
    assert same(binned(*halves), binned(rows))
    assert same(merge(binned(rows), binned(halves[0])), merge(binned(halves[0]), binned(rows)))


def test_once_coarse_always_coarse():
    accumulator, few, many = BinnedRanking("overall"), distinct_rows(10), distinct_rows(MOST_DISTINCT + 1)
    merged = accumulator.merge(binned(few), binned(many))
    back = accumulator.subtract(merged, binned(many))
    assert back["coarse"].tolist() == [1]
    assert back["overall"].tobytes() == binned(few)["overall"].tobytes()
    assert len(accumulator.update(back, few)["codes"]) == 0
