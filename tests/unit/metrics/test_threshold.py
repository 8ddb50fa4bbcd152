"""Decisions at a threshold against scikit-learn, and where they are undefined."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from assay.metrics.threshold import F1, Accuracy, Precision, Recall
from assay.records import StateChoice, Undefined
from assay.testing import evaluate, make_block

CHOICE = StateChoice(exact_ranking=True, bucketed="all")
METRICS = pytest.mark.parametrize(
    ("metric", "reference"),
    [(Accuracy, accuracy_score), (Precision, precision_score), (Recall, recall_score), (F1, f1_score)],
)


def only(metric, score, label, **kwargs):
    result = evaluate(metric, make_block(score, label, **kwargs), choice=CHOICE)
    return result.reason[0] or result.value[0]


@METRICS
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 1.0])
def test_equal_to_scikit_learn(metric, reference, threshold):
    rng = np.random.default_rng(0)
    score, label, weight = np.round(rng.random(500), 1), rng.integers(0, 2, 500), rng.integers(1, 9, 500)
    expected = reference(label, score >= threshold, sample_weight=weight)
    assert only(metric(threshold=threshold), score, label, weight=weight) == pytest.approx(expected, rel=1e-14)


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
    for metric in (Accuracy, Precision, Recall, F1):
        assert only(metric(), [], []) is Undefined.NO_ROWS


def test_names_hold_the_threshold():
    assert Precision().name == "precision"
    assert Precision(threshold=0.30).name == "precision(threshold=0.3)"
    assert Recall(threshold=1).name == Recall(threshold=1.0).name == "recall(threshold=1)"
    assert Recall(threshold=1) == Recall(threshold=1.0)


def test_the_threshold_is_checked():
    with pytest.raises(ValueError, match=r"^The 'threshold' of the metric 'f1' is nan; expected a number\.$"):
        F1(threshold=float("nan"))
