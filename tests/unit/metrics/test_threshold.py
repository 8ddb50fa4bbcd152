"""Decisions at a threshold against scikit-learn, and where they are undefined."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    fbeta_score,
    matthews_corrcoef,
    precision_score,
    recall_score,
)

from assay.metrics.threshold import (
    F1,
    Accuracy,
    BalancedAccuracy,
    ExpectedCost,
    FalsePositiveRate,
    FBeta,
    Matthews,
    Precision,
    Recall,
    Specificity,
)
from assay.records import StateChoice, Undefined
from assay.testing import evaluate, make_block

CHOICE = StateChoice(exact_ranking=True, bucketed="all")


def f2_score(label, predicted, sample_weight=None):
    return fbeta_score(label, predicted, beta=2, sample_weight=sample_weight)


def specificity_score(label, predicted, sample_weight=None):
    return recall_score(label, predicted, pos_label=0, sample_weight=sample_weight)


def false_positive_rate(label, predicted, sample_weight=None):
    return 1.0 - specificity_score(label, predicted, sample_weight)


def mean_cost(label, predicted, sample_weight=None):
    counts = confusion_matrix(label, predicted, sample_weight=sample_weight)
    return (1.0 * counts[0, 1] + 5.0 * counts[1, 0]) / counts.sum()


METRICS = pytest.mark.parametrize(
    ("metric", "reference"),
    [
        (Accuracy, accuracy_score),
        (Precision, precision_score),
        (Recall, recall_score),
        (F1, f1_score),
        (FBeta, f2_score),
        (Matthews, matthews_corrcoef),
        (BalancedAccuracy, balanced_accuracy_score),
        (Specificity, specificity_score),
        (FalsePositiveRate, false_positive_rate),
        (ExpectedCost, mean_cost),
    ],
)


def only(metric, score, label, **kwargs):
    result = evaluate(metric, make_block(score, label, **kwargs), choice=CHOICE)
    return result.reason[0] or result.value[0]


@METRICS
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 1.0])
def test_equal_to_scikit_learn(metric, reference, threshold):
    rng = np.random.default_rng(0)
    score, label, weight = np.round(rng.random(500), 1), rng.integers(0, 2, 500), rng.integers(1, 9, 500)
    found = only(metric(threshold=threshold), score, label, weight=weight)
    if metric is Matthews and threshold == 0.0:
        assert found is Undefined.ZERO_DENOMINATOR  # all rows are predicted positive; scikit-learn says 0
        return
    expected = reference(label, score >= threshold, sample_weight=weight)
    assert found == pytest.approx(expected, rel=1e-14, abs=1e-15)


@METRICS
def test_replicates_leave_out_rows(metric, reference):
    rng = np.random.default_rng(1)
    score, label = rng.random(500), rng.integers(0, 2, 500)
    block = make_block(score, label)
    result = evaluate(metric(), block, choice=CHOICE)
    kept = block.bucket != 5
    expected = reference(label[kept], score[kept].astype(np.float32) >= 0.5)
    assert result.without[0, 5] == pytest.approx(expected, rel=1e-14)


def test_a_score_equal_to_the_threshold_is_positive():
    assert only(Accuracy(threshold=0.7), [0.7], [1]) == 1.0
    assert only(Accuracy(threshold=0.7), [0.7], [1], probability=False) == 1.0
    assert only(Accuracy(threshold=2.0), [1.9, 2.0], [0, 1], probability=False) == 1.0


def test_undefined_with_a_reason():
    assert only(Precision(), [0.1, 0.2], [0, 1]) is Undefined.NOTHING_PREDICTED
    assert only(Recall(), [0.1, 0.9], [0, 0]) is Undefined.NO_POSITIVES
    assert only(F1(), [0.1, 0.2], [0, 0]) is Undefined.NO_POSITIVES
    assert only(F1(), [0.1, 0.9], [0, 0]) == 0.0
    assert only(FBeta(), [0.1, 0.2], [0, 0]) is Undefined.NO_POSITIVES
    assert only(FBeta(), [0.1, 0.9], [0, 0]) == 0.0


@METRICS
def test_no_rows(metric, reference):
    assert only(metric(), [], []) is Undefined.NO_ROWS


def test_one_class():
    for metric in (Matthews(), BalancedAccuracy()):
        assert only(metric, [0.1, 0.9], [0, 0]) is Undefined.ONE_CLASS
        assert only(metric, [0.1, 0.9], [1, 1]) is Undefined.ONE_CLASS
    for metric in (Specificity(), FalsePositiveRate()):
        assert only(metric, [0.1, 0.9], [1, 1]) is Undefined.ONE_CLASS
        assert only(metric, [0.1, 0.9], [0, 0]) == 0.5
    assert only(ExpectedCost(), [0.1, 0.9], [0, 0]) == 0.5
    assert only(ExpectedCost(), [0.1, 0.9], [1, 1]) == 2.5


def test_matthews_of_certain_decisions():
    assert only(Matthews(), [0.1, 0.9], [0, 1]) == 1.0
    assert only(Matthews(), [0.9, 0.1], [0, 1]) == -1.0
    assert only(Matthews(), [0.9, 0.1, 0.9, 0.1], [0, 1, 1, 0]) == 0.0
    assert only(Matthews(), [0.1, 0.2], [0, 1]) is Undefined.NOTHING_PREDICTED
    assert only(Matthews(), [0.5], [1]) is Undefined.ONE_CLASS


def test_matthews_of_many_rows_does_not_overflow():
    weight = [3 << 24, 1 << 24, 1 << 24, 3 << 24]
    assert only(Matthews(), [0.1, 0.9, 0.1, 0.9], [0, 0, 1, 1], weight=weight) == 0.5


def test_f_beta_lies_between_precision_and_recall():
    rows = [0.9, 0.9, 0.9, 0.9, 0.1], [1, 0, 0, 0, 1]  # precision 1/4, recall 1/2
    assert only(FBeta(beta=1.0), *rows) == only(F1(), *rows)
    assert only(FBeta(beta=1e-9), *rows) == pytest.approx(0.25)
    assert only(FBeta(beta=1e9), *rows) == pytest.approx(0.5)


def test_expected_cost_by_hand():
    rows = [0.9, 0.1, 0.9, 0.1], [0, 1, 1, 0]
    metric = ExpectedCost(false_positive=2, false_negative=0.5)
    assert only(metric, *rows, weight=[3, 4, 1, 2]) == (2 * 3 + 0.5 * 4) / 10


def test_names_hold_the_threshold():
    assert Precision().name == "precision"
    assert Precision(threshold=0.30).name == "precision(threshold=0.3)"
    assert Recall(threshold=1).name == Recall(threshold=1.0).name == "recall(threshold=1)"
    assert Recall(threshold=1) == Recall(threshold=1.0)


def test_the_threshold_is_checked():
    with pytest.raises(ValueError, match=r"^The 'threshold' of the metric 'f1' is nan; expected a number\.$"):
        F1(threshold=float("nan"))


def test_names_hold_what_is_not_the_default():
    assert FBeta(beta=0.5, threshold=0.3).name == "f_beta(beta=0.5, threshold=0.3)"
    assert FBeta().name == "f_beta"
    assert ExpectedCost(false_negative=20).name == "expected_cost(false_negative=20)"
    assert ExpectedCost(false_positive=1, false_negative=5.0) == ExpectedCost()


def test_beta_and_costs_are_checked():
    with pytest.raises(ValueError, match=r"^The 'beta' of the metric 'f_beta' is 0; expected a number above 0\.$"):
        FBeta(beta=0)
    sentence = r"^The 'false_negative' of the metric 'expected_cost' is -1; expected a cost, 0 or more\.$"
    with pytest.raises(ValueError, match=sentence):
        ExpectedCost(false_negative=-1)


@pytest.mark.parametrize("metric", [Accuracy, F1, Matthews, ExpectedCost])
def test_one_half_is_for_probabilities_and_another_threshold_for_any_score(metric):
    assert metric().needs_probability
    assert not metric(threshold=0.25).needs_probability
