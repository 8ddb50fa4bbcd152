"""AUC and average precision against scikit-learn, in both forms of state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import assay
from assay.errors import DataError
from assay.metrics.ranking import AUC, AveragePrecision, average_precision_bound, roc_auc_bound
from assay.metrics.ranking_states import MOST_DISTINCT, BinnedRanking, ranking_state
from assay.metrics.sums import SUPPORT
from assay.records import Sizes, StateChoice, Undefined
from assay.states import num_bytes
from assay.testing import check_metric, evaluate, make_block, random_block

EXACT = StateChoice(exact_ranking=True, bucketed="all")
BINNED = StateChoice(exact_ranking=False, bucketed="all")
FINE = StateChoice(exact_ranking=False, bucketed="all", ranking_bits=11)
SPARSE = StateChoice(exact_ranking=False, bucketed="all", ranking_bits=16)
BOTH = pytest.mark.parametrize("choice", [EXACT, BINNED, FINE, SPARSE])
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
    expected = reference(label, score, sample_weight=weight)
    for choice, bound in ((BINNED, 0.02), (FINE, 0.0015), (SPARSE, 0.0015)):
        result = evaluate(metric, make_block(score, label, weight=weight, probability=probability), choice=choice)
        error = abs(only(result) - expected)
        assert error <= result.error_bound[0] + 1e-12
        assert result.error_bound[0] <= bound
        assert error <= bound / 10


@METRICS
@pytest.mark.parametrize("scale", [1.0, 1e-5])
def test_smooth_scores_of_a_million_rows_are_right_to_1e_6(metric, reference, scale):
    rng = np.random.default_rng(0)
    chance = rng.beta(2, 2, 1_000_000)
    label, score = rng.random(len(chance)) < chance, (scale * chance).astype(np.float32)
    result = evaluate(metric, make_block(score, label), choice=FINE)
    assert only(result) == pytest.approx(reference(label, score), abs=1e-6)
    assert result.error_bound[0] < 3e-4


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


def test_the_mean_of_the_aucs_of_batches_is_not_the_auc():
    """Each batch is ranked without a fault, but one on another scale than the other."""
    batches = [make_block([0.1, 0.2], [0, 1]), make_block([0.8, 0.9], [0, 1])]
    for choice in (EXACT, FINE):
        assert [only(evaluate(AUC(), one, choice=choice)) for one in batches] == [1.0, 1.0]
        assert only(evaluate(AUC(), *batches, choice=choice)) == 0.75


@pytest.mark.parametrize("exact_rows", [0, 1000])
def test_a_score_that_is_no_number_is_missing(exact_rows):
    """NaN and infinite scores leave the others' AUC as it is, and never make it 1."""
    score = [0.1, 0.6, 0.4, 0.9, np.nan, np.inf, -np.inf]
    table = pa.table({"y": [0, 0, 1, 1, 1, 1, 0], "a": pa.array(score, from_pandas=False)})
    found = assay.evaluate(table, label="y", scores=["a"], metrics=["auc"], budget={"exact_rows": exact_rows})
    assert found.metrics["value"].to_pylist() == [0.75]
    assert found.coverage["null_score"].to_pylist() == [3]


@BOTH
def test_average_precision_of_a_constant_score_is_the_prevalence(choice):
    """Not 0.5 + prevalence / 2, as the trapezoids of a precision-recall curve come to."""
    for positives in (1, 30, 999):
        rows = make_block(np.full(1000, 0.5), np.arange(1000) < positives)
        assert only(evaluate(AveragePrecision(), rows, choice=choice)) == pytest.approx(positives / 1000, abs=1e-15)


@BOTH
@pytest.mark.parametrize("metric", [AUC(), AveragePrecision()])
def test_values_do_not_drift_with_the_weight(metric, choice):
    """Counts of 2^24 and 2^53 and what lies about them, by merging a state with itself."""
    rows, one = make_block([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], weight=[3, 5, 7, 1]), ranking_state(choice)
    state, support = one.update(one.zero(Sizes(1, 64)), rows), SUPPORT.update(SUPPORT.zero(Sizes(1, 64)), rows)
    before = only(metric.evaluate({one.identity: state, SUPPORT.identity: support}, choice, 1.0))
    for _ in range(55):
        state, support = one.merge(state, state), SUPPORT.merge(support, support)
        assert only(metric.evaluate({one.identity: state, SUPPORT.identity: support}, choice, 1.0)) == before


# ---- the forms of the binned state -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [7, 9, 11, 12, 13, 16, 23])
@pytest.mark.parametrize("bucketed", ["all", "overall", "none"])
def test_states_keep_the_laws_with_any_bits(bits, bucketed):
    choice = StateChoice(exact_ranking=False, bucketed=bucketed, ranking_bits=bits)
    check_metric(AUC(), bounds=(0.0, 1.0), choices=[choice])


@pytest.mark.parametrize("bits", [13, 16])
def test_a_sparse_histogram_holds_the_occupied_bins_of_a_dense_one(bits):
    score, label, weight = clicks(20_000, tied=0.0)
    slices = [np.zeros(20_000), 1 + np.arange(20_000) % 2]
    rows = make_block(score, label, weight=weight, slices=slices)
    forms = [BinnedRanking("all", bits) for bits in (12, bits)]
    sizes = Sizes(3, 64, 2)
    dense, sparse = (one.of(one.update(one.zero(sizes), rows), 3) for one in forms)
    for one, (coarse, fine) in enumerate(zip(dense, sparse, strict=True)):
        assert (coarse.kept, fine.kept) == (True, True)
        assert fine.bits - coarse.bits == bits - 12
        for of in ("fine", "buckets"):
            wide, narrow = getattr(coarse, of), getattr(fine, of)
            summed = np.zeros_like(wide.weight)
            place = {pair: i for i, pair in enumerate(zip(wide.key.tolist(), wide.bucket.tolist(), strict=True))}
            parents = zip((narrow.key >> (bits - 12)).tolist(), narrow.bucket.tolist(), strict=True)
            np.add.at(summed, [place[pair] for pair in parents], narrow.weight)
            assert summed.tolist() == wide.weight.tolist(), (one, of)


def test_a_sparse_state_is_small_where_scores_are_close_together():
    rng = np.random.default_rng(0)
    one = BinnedRanking("overall", 20)
    rows = make_block(0.3 + 1e-4 * rng.random(20_000), rng.random(20_000) < 0.5)
    state = one.update(one.zero(Sizes(1, 64)), rows)
    assert num_bytes(state) < 100_000 < BinnedRanking("overall", 12).num_bytes(Sizes(1, 64), 20_000)


def test_a_sparse_state_numbers_few_buckets():
    with pytest.raises(ValueError, match="There are 2000 buckets; ranking metrics take at most 1024"):
        BinnedRanking("all", 13).zero(Sizes(1, 2000))


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


@pytest.mark.parametrize(("slice_bits", "most"), [(3, 256), (2, 32)])
def test_forms_for_small_budgets_keep_the_laws_and_fewer_entries(slice_bits, most):
    choice = StateChoice(exact_ranking=False, bucketed="overall", slice_bits=slice_bits)
    check_metric(AUC(), bounds=(0.0, 1.0), choices=[choice], blocks=[random_block(np.random.default_rng(0), 24)])
    (accumulator,) = (one for one in AUC().accumulators(choice) if isinstance(one, BinnedRanking))
    assert accumulator.identity == f"binned_ranking(bits=7,buckets=overall,slices={slice_bits}).v1"
    for rows, kept in ((most, most), (most + 1, 0)):
        state = accumulator.update(accumulator.zero(Sizes(1, 64)), distinct_rows(rows))
        assert len(state["codes"]) == kept


@pytest.mark.parametrize(("slice_bits", "error"), [(5, 2e-5), (3, 5e-4), (2, 1.3e-3)])
def test_the_auc_of_a_slice_is_less_exact_with_fewer_bits(slice_bits, error):
    rng = np.random.default_rng(1)
    score = rng.beta(2, 2, 100_000).astype(np.float32)
    label = rng.random(len(score)) < score
    slices = np.stack([np.zeros(len(score)), np.ones(len(score))])
    choice = StateChoice(exact_ranking=False, bucketed="overall", slice_bits=slice_bits)
    rows, sizes = make_block(score, label, slices=slices), Sizes(2, 64, 2)
    found = evaluate(AUC(), rows, choice=choice, sizes=sizes)
    overall, of_slice = np.abs(found.value - roc_auc_score(label, score))
    assert overall < 1e-5
    assert error / 20 < of_slice < min(error, found.error_bound[1])


def test_once_coarse_always_coarse():
    accumulator, few, many = BinnedRanking("overall"), distinct_rows(10), distinct_rows(MOST_DISTINCT + 1)
    merged = accumulator.merge(binned(few), binned(many))
    back = accumulator.subtract(merged, binned(many))
    assert back["coarse"].tolist() == [1]
    assert back["overall"].tobytes() == binned(few)["overall"].tobytes()
    assert len(accumulator.update(back, few)["codes"]) == 0


@BOTH
@pytest.mark.parametrize(("offset", "scale"), [(1e9, 1.0), (0.0, 1e300)])
def test_plain_scores_that_float32_does_not_tell_apart_are_refused(offset, scale, choice):
    score = offset + scale * (1 + np.arange(100) / 100)
    rows = make_block(score, np.arange(100) % 2, probability=False)
    with pytest.raises(
        DataError,
        match=r"^Rows are ranked by their scores in float32, which leaves 1 of 100 distinct scores from \S+ to \S+; "
        r"take their common offset away, or scale them\.$",
    ):
        evaluate(AUC(), rows, choice=choice)


@BOTH
def test_those_that_it_mostly_does_are_not_and_neither_are_probabilities_next_to_1(choice):
    label, steps = np.arange(100) % 2, np.arange(100)
    for rows in (
        make_block(1e5 + steps / 100, label, probability=False),
        make_block(np.full(100, 1e9 + 0.3), label, probability=False),
        make_block(1 - 1e-12 * steps, label),
    ):
        assert evaluate(AUC(), rows, choice=choice).reason == (None,)
