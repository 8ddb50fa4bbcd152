"""The top of the ranking, by hand and by brute force; ties in part, never by the order of rows."""

from __future__ import annotations

import numpy as np
import pytest

from assay import catalogue
from assay.metrics.ranking_states import ranking_state
from assay.metrics.sums import SUPPORT
from assay.metrics.top_of_ranking import FBetaAt, Lift, PrecisionAt, RecallAt
from assay.records import Sizes, StateChoice, Undefined
from assay.testing import evaluate, make_block

EXACT = StateChoice(exact_ranking=True, bucketed="all")
BINNED = StateChoice(exact_ranking=False, bucketed="all", ranking_bits=11)
COARSE = StateChoice(exact_ranking=False, bucketed="all", ranking_bits=7)
SPARSE = StateChoice(exact_ranking=False, bucketed="all", ranking_bits=16)
ALL = pytest.mark.parametrize("choice", [EXACT, BINNED, SPARSE])


def clicks(size, seed=0, tied=0.5):
    rng = np.random.default_rng(seed)
    score = rng.beta(1, 4, size)
    score = np.where(rng.random(size) < tied, np.round(score, 2), score).astype(np.float32)
    return score, (rng.random(size) < score).astype(int), rng.integers(1, 20, size)


def true_at_top(label, score, weight, cut):
    """Positive weight in the top `cut` of the weight: of a tie, its mean."""
    true = taken = 0.0
    for one in np.unique(score)[::-1]:
        tied = score == one
        part = min((cut - taken) / weight[tied].sum(), 1.0)
        true += part * (weight * label)[tied].sum()
        taken += part * weight[tied].sum()
        if part < 1.0:
            break
    return true


def expected(metric, label, score, weight):
    cut = metric.fraction * weight.sum() if metric.k is None else min(metric.k, weight.sum())
    true, positives = true_at_top(label, score, weight, cut), (weight * label).sum()
    if isinstance(metric, FBetaAt):
        precision, recall = true / cut, true / positives
        square = metric.beta**2
        return (1 + square) * precision * recall / (square * precision + recall)
    return {
        PrecisionAt: true / cut,
        RecallAt: true / positives,
        Lift: true / cut / (positives / weight.sum()),
    }[type(metric)]


METRICS = pytest.mark.parametrize(
    "metric",
    [
        PrecisionAt(),
        PrecisionAt(fraction=0.3),
        PrecisionAt(k=100),
        RecallAt(),
        RecallAt(k=1000),
        FBetaAt(fraction=0.2),
        FBetaAt(k=500, beta=0.5),
        Lift(),
        Lift(k=77),
        Lift(fraction=1),
    ],
    ids=lambda metric: metric.name,
)


@METRICS
@ALL
@pytest.mark.parametrize("weighted", [False, True])
def test_few_scores_are_exact(metric, choice, weighted):
    score, label, weight = clicks(2000)
    weight = weight if weighted else np.ones_like(weight)
    result = evaluate(metric, make_block(score, label, weight=weight), choice=choice)
    assert result.value == pytest.approx(expected(metric, label, score, weight), rel=1e-12)
    assert result.error_bound.tolist() == [0.0]


@METRICS
@pytest.mark.parametrize("choice", [COARSE, BINNED, SPARSE])
@pytest.mark.parametrize("scale", [1.0, 1e-5])
def test_many_scores_are_within_the_bound(metric, choice, scale):
    score, label, weight = clicks(10_000, tied=0.0)
    score = score * np.float32(scale)
    result = evaluate(metric, make_block(score, label, weight=weight), choice=choice)
    assert abs(result.value[0] - expected(metric, label, score, weight)) <= result.error_bound[0] + 1e-9


@METRICS
def test_leaving_out_a_bucket_leaves_the_cut_at_its_share(metric):
    score, label, weight = clicks(3000, seed=1)
    rows = make_block(score, label, weight=weight)
    share = metric.fraction if metric.k is None else metric.k / weight.sum()
    of_share = {PrecisionAt: PrecisionAt, RecallAt: RecallAt, Lift: Lift}.get(type(metric))
    same = of_share(fraction=share) if of_share else FBetaAt(fraction=share, beta=metric.beta)
    result = evaluate(metric, rows, choice=EXACT)
    for bucket in range(0, 64, 9):
        kept = rows.bucket != bucket
        assert result.without[0, bucket] == pytest.approx(expected(same, label[kept], score[kept], weight[kept]))


def test_by_hand():
    rows = make_block([0.9, 0.8, 0.8, 0.8, 0.1], [1, 1, 0, 0, 1])
    assert evaluate(PrecisionAt(k=1), rows, choice=EXACT).value.tolist() == [1.0]
    # Of three tied rows with one positive, two enter: 2 / 3 of a positive.
    assert evaluate(PrecisionAt(k=3), rows, choice=EXACT).value == pytest.approx((1 + 2 / 3) / 3)
    assert evaluate(RecallAt(k=3), rows, choice=EXACT).value == pytest.approx((1 + 2 / 3) / 3)
    assert evaluate(RecallAt(fraction=0.8), rows, choice=EXACT).value == pytest.approx(2 / 3)
    assert evaluate(Lift(fraction=0.2), rows, choice=EXACT).value == pytest.approx(1 / 0.6)
    assert evaluate(FBetaAt(k=4, beta=1), rows, choice=EXACT).value == pytest.approx(2 * 2 / (4 + 3))


def test_k_counts_weight_and_never_more_than_there_is():
    rows = make_block([0.9, 0.5, 0.1], [1, 0, 1], weight=[2, 1, 1])
    assert evaluate(PrecisionAt(k=2), rows, choice=EXACT).value.tolist() == [1.0]
    assert evaluate(PrecisionAt(k=99), rows, choice=EXACT).value.tolist() == [0.75]
    states = {one.identity: one.update(one.zero(Sizes(1, 64)), rows) for one in PrecisionAt().accumulators(EXACT)}
    assert PrecisionAt(k=1).evaluate(states, EXACT, 0.5).value.tolist() == [1.0]  # in units of one half
    assert PrecisionAt(k=2).evaluate(states, EXACT, 0.5).value.tolist() == [0.75]


@ALL
def test_undefined(choice):
    nothing, negatives = make_block([], []), make_block([0.1, 0.2], [0, 0])
    for metric in (PrecisionAt(), RecallAt(), FBetaAt(), Lift()):
        assert evaluate(metric, nothing, choice=choice).reason == (Undefined.NO_ROWS,)
        if not isinstance(metric, PrecisionAt):
            assert evaluate(metric, negatives, choice=choice).reason == (Undefined.NO_POSITIVES,)
    assert evaluate(PrecisionAt(), negatives, choice=choice).value.tolist() == [0.0]
    assert evaluate(Lift(), make_block([0.3], [1]), choice=choice).value.tolist() == [1.0]


@ALL
@pytest.mark.parametrize("doublings", [20, 46])
def test_a_precision_of_point_six_stays_so_for_any_number_of_rows(choice, doublings):
    """10 rows, merged with themselves to 10^7 and to 2^49 of weight: no count is a float32."""
    rows = make_block(np.arange(10) / 10, [0, 0, 0, 0, 0, 1, 1, 0, 1, 0])
    metrics = (PrecisionAt(fraction=0.5), RecallAt(fraction=0.5), Lift(fraction=0.5))
    before = [evaluate(metric, rows, choice=choice).value.tolist() for metric in metrics]
    assert before[0] == [0.6]
    states = {}
    for one in (SUPPORT, ranking_state(choice)):
        state = one.update(one.zero(Sizes(1, 64)), rows)
        for _ in range(doublings):
            state = one.merge(state, state)
        states[one.identity] = state
    assert [metric.evaluate(states, choice, 1.0).value.tolist() for metric in metrics] == before


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("precision_at", "precision_at"),
        ("precision_at(fraction=0.01)", "precision_at"),
        ("precision_at@100", "precision_at(k=100)"),
        ("recall_at(precision=0.9)", "recall_at(precision=0.9)"),
        ("precision_at(recall=0.5)", "precision_at(recall=0.5)"),
        ("lift(fraction=0.1)", "lift"),
        ("lift(fraction=0.01)", "lift(fraction=0.01)"),
        ("f_beta_at(beta=1, k=10)", "f_beta_at(k=10, beta=1)"),
    ],
)
def test_names(text, name):
    metric = catalogue.metric(text)
    assert metric.name == name
    assert catalogue.metric(name) == metric


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lift(fraction=0)", "The 'fraction' of the metric 'lift' is 0; expected a number above 0 and at most 1."),
        ("recall_at@0", "The 'k' of the metric 'recall_at' is 0; expected whole rows, 1 or more."),
        ("recall_at(k=1.5)", "The 'k' of the metric 'recall_at' is 1.5; expected whole rows, 1 or more."),
        ("recall_at(k=5, fraction=0.1)", "The metric 'recall_at' has both 'fraction' and 'k'; give one of them."),
        ("f_beta_at(beta=0)", "The 'beta' of the metric 'f_beta_at' is 0; expected a number above 0."),
        (
            "precision_at(recall=2)",
            "The 'recall' of the metric 'precision_at' is 2; expected a number above 0 and at most 1.",
        ),
    ],
)
def test_wrong_parameters_are_refused(text, sentence):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole sentence is compared
        catalogue.metric(text)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("metric", [PrecisionAt(fraction=1.0), Lift(fraction=1.0)])
def test_weights_beyond_2_53_of_which_the_last_is_lost_to_rounding(metric):
    block = make_block([0.9, 0.5, 0.1], [1, 1, 0], weight=[1 << 53, 1 << 53, 1])
    result = evaluate(metric, block, choice=EXACT)
    assert result.value[0] == 1.0
