"""Metrics of sets of labels against scikit-learn, by hand, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk

from assay.metrics.label_averages import (
    MacroF1,
    MacroPrecision,
    MacroRecall,
    MicroF1,
    MicroPrecision,
    MicroRecall,
    WeightedF1,
    WeightedPrecision,
    WeightedRecall,
)
from assay.metrics.multilabel import HammingLoss, LabelRankingAveragePrecision, SubsetAccuracy
from assay.metrics.one_label import F1, PositiveRate, Precision, Recall
from assay.records import Sizes, StateChoice, Undefined
from assay.testing import evaluate, make_block

AVERAGES = [
    MacroPrecision, MacroRecall, MacroF1, MicroPrecision, MicroRecall, MicroF1,
    WeightedPrecision, WeightedRecall, WeightedF1,
]  # fmt: skip


def choice(num_labels, bucketed="all"):
    return StateChoice(exact_ranking=True, bucketed=bucketed, classes=tuple(f"l{i}" for i in range(num_labels)))


def result_of(metric, score, targets, **kwargs):
    block = make_block(score, targets, label_kind="labels", **kwargs)
    return evaluate(metric, block, choice=choice(len(targets)))


def value(metric, score, targets, **kwargs):
    return result_of(metric, score, targets, **kwargs).value[0]


def rows(num_rows, num_labels, seed=0):
    """Labels of all frequencies, the last two without rows, the last never predicted; ties in the scores."""
    rng = np.random.default_rng(seed)
    targets = rng.random((num_labels, num_rows)) < np.linspace(0.6, 0.02, num_labels)[:, None]
    targets[-2:] = False
    score = np.round(np.clip(rng.beta(1, 2, targets.shape) + 0.3 * targets, 0, 1), 2).astype(np.float32)
    score[-1] = 0.1
    return score, targets, rng.integers(1, 50, num_rows)


@pytest.mark.parametrize("threshold", [0.5, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_against_scikit_learn(weighted, threshold):
    score, targets, weight = rows(500, 8)
    weight = weight if weighted else np.ones(500, int)
    predicted = (score >= np.float32(threshold)).T
    truth = targets.T
    for metric in AVERAGES:
        average, quantity = metric.word.split("_")
        theirs = sk.precision_recall_fscore_support(
            truth, predicted, average=average, sample_weight=weight, zero_division=np.nan
        )
        ours = value(metric(threshold), score, targets, weight=weight)
        assert ours == pytest.approx(theirs[["precision", "recall", "f1"].index(quantity)], rel=1e-12)
    exact = sk.accuracy_score(truth, predicted, sample_weight=weight)
    assert value(SubsetAccuracy(threshold), score, targets, weight=weight) == pytest.approx(exact, rel=1e-12)
    hamming = sk.hamming_loss(truth, predicted, sample_weight=weight)
    assert value(HammingLoss(threshold), score, targets, weight=weight) == pytest.approx(hamming, rel=1e-12)


@pytest.mark.parametrize("metric", [Precision, Recall, F1])
def test_of_one_label_against_scikit_learn(metric):
    score, targets, weight = rows(400, 5)
    theirs = sk.precision_recall_fscore_support(
        targets.T, (score >= 0.5).T, average=None, sample_weight=weight, zero_division=np.nan
    )
    ours = [value(metric(label=f"l{i}"), score, targets, weight=weight) for i in range(5)]
    assert ours == pytest.approx(
        theirs[["precision", "recall", "f1"].index(metric.word)].tolist(), rel=1e-12, nan_ok=True
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_label_ranking_average_precision_against_scikit_learn(weighted):
    score, targets, weight = rows(500, 9, seed=3)
    targets[:, :7] = False  # no label
    targets[:, 7:9] = True  # all of them
    weight = weight if weighted else np.ones(500, int)
    theirs = sk.label_ranking_average_precision_score(targets.T, score.T, sample_weight=weight)
    assert value(LabelRankingAveragePrecision(), score, targets, weight=weight) == pytest.approx(theirs, abs=2**-32)


def test_label_ranking_average_precision_by_hand():
    score = [[0.75, 1.0], [0.5, 0.2], [1.0, 0.1]]
    targets = [[1, 0], [0, 0], [0, 1]]
    assert value(LabelRankingAveragePrecision(), score, targets) == pytest.approx((1 / 2 + 1 / 3) / 2, abs=2**-32)
    tied = [[0.5], [0.5], [0.5]]
    assert value(LabelRankingAveragePrecision(), tied, [[1], [0], [0]]) == pytest.approx(1 / 3, abs=2**-32)


def test_a_score_equal_to_the_threshold_counts():
    score, targets = [[0.7]], [[1]]
    assert value(MicroRecall(0.7), score, targets) == 1.0  # 0.7 as float32 is below 0.7 as float64
    assert value(MicroRecall(0.75), score, targets) == 0.0


@pytest.mark.parametrize("metric", [*AVERAGES, HammingLoss, SubsetAccuracy])
def test_weights_are_repeated_rows(metric):
    score, targets, weight = rows(60, 5, seed=1)
    many = np.repeat(np.arange(60), weight)
    once = value(metric(), score, targets, weight=weight)
    assert once == value(metric(), score[:, many], targets[:, many])


@pytest.mark.parametrize("metric", [*AVERAGES, HammingLoss, SubsetAccuracy, LabelRankingAveragePrecision])
def test_no_rows(metric):
    assert result_of(metric(), np.zeros((3, 0)), np.zeros((3, 0))).reason == (Undefined.NO_ROWS,)


def test_what_is_undefined_says_why():
    score, targets = [[0.9, 0.1], [0.2, 0.1]], [[1, 0], [0, 0]]
    assert result_of(Recall(label="l1"), score, targets).reason == (Undefined.NO_POSITIVES,)
    assert result_of(Precision(label="l1"), score, targets).reason == (Undefined.NOTHING_PREDICTED,)
    assert result_of(F1(label="l1"), score, targets).reason == (Undefined.NO_POSITIVES,)
    assert result_of(MicroPrecision(0.95), score, targets).reason == (Undefined.NOTHING_PREDICTED,)
    assert value(PositiveRate("l1"), score, targets) == 0.0
    assert value(PositiveRate("l0"), score, targets, weight=[1, 3]) == 0.25


def test_without_buckets_values_stand_and_say_so():
    score, targets, _ = rows(100, 4)
    block = make_block(score, targets, label_kind="labels", slices=[np.zeros(100), np.ones(100)])
    result = evaluate(MacroF1(), block, choice=choice(4, "none"), sizes=Sizes(2, 64, 2))
    assert result.interval_reason == (Undefined.OVER_BUDGET,) * 2
    assert result.value[0] == result.value[1] == value(MacroF1(), score, targets)


def test_curves_show_each_label():
    score, targets = [[0.9, 0.9, 0.1], [0.2, 0.1, 0.1], [0.1, 0.9, 0.9]], [[1, 0, 1], [0, 0, 0], [0, 0, 1]]
    block = make_block(score, targets, label_kind="labels", weight=[1, 2, 3])
    metric = MacroF1(0.3)
    states = {one.identity: one.update(one.zero(Sizes(1, 64)), block) for one in metric.accumulators(choice(3))}
    precision, recall = metric.curves(states, choice(3), 0.5)
    assert (precision.curve, recall.curve) == ("label_precision(threshold=0.3)", "label_recall(threshold=0.3)")
    assert recall.x.tolist() == precision.x.tolist() == [0.0, 2.0]
    assert recall.y.tolist() == [0.25, 1.0]
    assert recall.rows.tolist() == [2, 1]
    assert recall.weight.tolist() == [2.0, 1.5]
    assert precision.y.tolist() == pytest.approx([1 / 3, 3 / 5])
    assert precision.positive_weight.tolist() == [0.5, 1.5]


def test_names():
    assert MacroF1().name == "macro_f1"
    assert MacroF1(0.3).name == "macro_f1(threshold=0.3)"
    assert Recall(label="two words", threshold=0.3).name == "recall(label='two words', threshold=0.3)"
    assert Recall(label="cat").name == "recall(label=cat)"


def test_refusals():
    with pytest.raises(ValueError, match=r"^There is no label 'L1'; did you mean 'l1'\?$"):
        Recall(label="L1").accumulators(choice(2))
    with pytest.raises(ValueError, match=r"^There is no label 'cat'; expected 'l0' or 'l1'\.$"):
        PositiveRate("cat").accumulators(choice(2))
    with pytest.raises(ValueError, match=r"^The 'threshold' of the metric 'macro_f1' is nan; expected a number\.$"):
        MacroF1(float("nan"))
    with pytest.raises(ValueError, match=r"^A metric needs rows with a set of 1 labels each\.$"):
        evaluate(HammingLoss(), make_block([[0.5]], [0], label_kind="class"), choice=choice(1))


@pytest.mark.parametrize("metric", [MicroF1, HammingLoss, SubsetAccuracy])
def test_one_half_is_for_probabilities_and_another_threshold_for_any_score(metric):
    assert metric().needs_probability
    assert not metric(threshold=0.25).needs_probability
