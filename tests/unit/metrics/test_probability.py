"""Proper scores and calibration in the large against scikit-learn and by hand."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import brier_score_loss, log_loss

import assay
from assay.errors import ModelError
from assay.metrics.counts import Count, MeanScore, PositiveRate
from assay.metrics.probability import Brier, CalibrationRatio, LogLoss, NormalisedEntropy, entropy
from assay.records import Sizes, StateChoice, Undefined
from assay.testing import evaluate, make_block

CHOICE = StateChoice(exact_ranking=True, bucketed="all")


def rows():
    rng = np.random.default_rng(0)
    score = rng.beta(1, 4, 2000).astype(np.float32)
    return score, (rng.random(2000) < score).astype(int), rng.integers(1, 20, 2000)


def value(metric, *args, **kwargs):
    result = evaluate(metric, make_block(*args, **kwargs), choice=CHOICE)
    assert result.reason == (None,)
    return result.value[0]


def reason(metric, *args, **kwargs):
    result = evaluate(metric, make_block(*args, **kwargs), choice=CHOICE)
    assert np.isnan(result.value[0])
    assert np.isnan(result.without[0]).all()
    return result.reason[0]


def test_scores_equal_second_implementations():
    score, label, weight = rows()
    base = np.average(label, weights=weight)
    loss = log_loss(label, score.astype(float), sample_weight=weight)
    assert value(LogLoss(), score, label, weight=weight) == pytest.approx(loss, abs=2e-10)
    brier = brier_score_loss(label, score.astype(float), sample_weight=weight)
    assert value(Brier(), score, label, weight=weight) == pytest.approx(brier, abs=2e-10)
    normalised = loss / log_loss(label, np.full(2000, base), sample_weight=weight)
    assert value(NormalisedEntropy(), score, label, weight=weight) == pytest.approx(normalised, abs=1e-9)
    ratio = (weight * score.astype(float)).sum() / (weight * label).sum()
    assert value(CalibrationRatio(), score, label, weight=weight) == pytest.approx(ratio, rel=1e-9)
    assert value(MeanScore(), score, label, weight=weight) == pytest.approx(np.average(score, weights=weight), rel=1e-6)
    assert value(PositiveRate(), score, label, weight=weight) == base
    assert value(Count(), score, label, weight=weight) == 2000


def test_leaving_out_a_bucket_is_leaving_out_its_rows():
    score, label, weight = rows()
    block = make_block(score, label, weight=weight)
    for metric in (LogLoss(), Brier(), NormalisedEntropy(), CalibrationRatio(), MeanScore(), PositiveRate(), Count()):
        result = evaluate(metric, block, choice=CHOICE)
        for bucket in (0, 17, 63):
            kept = block.bucket != bucket
            assert result.without[0, bucket] == value(metric, score[kept], label[kept], weight=weight[kept])


def test_certain_and_wrong_costs_the_clip():
    assert value(LogLoss(), [0.0], [1]) == pytest.approx(24 * math.log(2), abs=1e-9)
    assert value(LogLoss(), [1.0], [0]) == pytest.approx(24 * math.log(2), abs=1e-9)
    assert value(LogLoss(), [1.0, 0.0], [1, 0]) == pytest.approx(2.0**-24, abs=2e-10)
    assert value(Brier(), [0.0, 1.0], [1, 1]) == 0.5


def test_tiny_probabilities_are_not_lost():
    assert value(LogLoss(), [1e-5], [1]) == pytest.approx(-math.log(1e-5), rel=1e-7)
    assert value(MeanScore(), [1e-30, 3e-30], [0, 0]) == pytest.approx(2e-30, rel=1e-6)


def test_mean_of_raw_scores_is_exact():
    assert value(MeanScore(), [1e9, 1.0, -1e9], [0, 0, 0], probability=False) == 1.0 / 3.0
    assert value(MeanScore(), [1e30, 1.0, -1e30], [0, 0, 0], probability=False) == 1.0 / 3.0
    large = evaluate(MeanScore(), make_block([1e300, 1.0], [0, 0], probability=False), choice=CHOICE)
    assert large.reason == (Undefined.OVERFLOW,)
    assert large.without[0, :2].tolist() == [1.0, pytest.approx(np.nan, nan_ok=True)]


def test_one_class_leaves_log_loss_defined():
    assert value(LogLoss(), [0.5, 0.5], [0, 0]) == pytest.approx(math.log(2), abs=2e-10)
    assert value(PositiveRate(), [0.5, 0.5], [0, 0]) == 0.0
    assert reason(NormalisedEntropy(), [0.5, 0.5], [0, 0]) is Undefined.ONE_CLASS
    assert reason(NormalisedEntropy(), [0.5, 0.5], [1, 1]) is Undefined.ONE_CLASS
    assert reason(CalibrationRatio(), [0.5, 0.5], [0, 0]) is Undefined.NO_POSITIVES


def test_no_rows_are_undefined_but_counted():
    for metric in (LogLoss(), Brier(), NormalisedEntropy(), CalibrationRatio(), MeanScore(), PositiveRate()):
        assert reason(metric, [], []) is Undefined.NO_ROWS
    assert value(Count(), [], []) == 0


def test_one_row_is_undefined_without_its_bucket():
    result = evaluate(LogLoss(), make_block([0.5], [1]), choice=CHOICE)
    assert np.isnan(result.without[0]).tolist() == [True] + [False] * 63
    assert result.value[0] == result.without[0, 1]


def test_slices_are_told_apart():
    block = make_block([0.5, 0.25], [1, 1], slices=[[0, 0], [1, 3]])
    result = evaluate(LogLoss(), block, choice=CHOICE, sizes=Sizes(4, 64, 2))
    assert result.value[[0, 1, 3]] == pytest.approx([1.5 * math.log(2), math.log(2), 2 * math.log(2)], abs=2e-10)
    assert result.reason == (None, None, Undefined.NO_ROWS, None)


def test_a_probability_metric_refuses_a_plain_score():
    sentence = "^A metric needs a probability, and the output is a plain score; declare what the output `is`.$"
    with pytest.raises(ValueError, match=sentence):
        evaluate(Brier(), make_block([3.0], [1], probability=False), choice=CHOICE)


def test_entropy_of_edges():
    result = entropy(np.array([0.0, 3.0, 1.0, 0.0]), np.array([3.0, 3.0, 2.0, 0.0]))
    np.testing.assert_allclose(result, [0.0, 0.0, math.log(2), np.nan], rtol=1e-15)
    assert not np.signbit(result[:2]).any()


def test_logits_are_never_guessed():
    """Not from the values of a batch: 0.9678 alone could be a probability, and two others could not."""
    given = pa.table({"score": [1.2, 0.9678, 1.7], "label": [1, 0, 1]})
    asked = {"label": "label", "scores": ["score"], "metrics": ["mean_score"]}
    found = assay.evaluate(given, output="logit", **asked).metrics.to_pylist()[0]["value"]
    assert found == pytest.approx(np.mean(1 / (1 + np.exp(-np.array([1.2, 0.9678, 1.7])))), abs=1e-7)
    for some in (given, given.slice(0, 1)):
        with pytest.raises(ModelError) as caught:
            assay.evaluate(some, output="probability", **asked)
        assert str(caught.value) == (
            "Variant 'score': the score 1.2 in row 0 of the batch is outside [0, 1], but the output is a probability; "
            "if it is none, say output: {is: logit} or {is: score}. In the data that is row 0 of frame."
        )
    alone = assay.evaluate(given.slice(1, 1), output="logit", **asked).metrics.to_pylist()[0]["value"]
    assert alone == pytest.approx(1 / (1 + np.exp(-0.9678)), abs=1e-7)
