"""Metrics after recalibration against scikit-learn, and where they and their intervals are undefined."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from assay.metrics.parse import make, parse
from assay.metrics.probability import LogLoss
from assay.metrics.recalibrated import (
    CalibrationIntercept,
    CalibrationSlope,
    RecalibratedBrier,
    RecalibratedECE,
    RecalibratedLogLoss,
)
from assay.records import Sizes, StateChoice, Undefined
from assay.testing import CHOICES, check_metric, evaluate, make_block

CHOICE = StateChoice(exact_ranking=True, bucketed="overall")
RECALIBRATED = (RecalibratedLogLoss, RecalibratedBrier, RecalibratedECE)
EVERY = (*RECALIBRATED, CalibrationSlope, CalibrationIntercept)


def rows(size=20_000, seed=0):
    """Scores whose log-odds are 1.5 times too large, and 1 too high."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(-1.0, 1.0, size)
    label = (rng.random(size) < 1 / (1 + np.exp(-log_odds))).astype(int)
    score = (1 / (1 + np.exp(-(1.5 * log_odds + 1.0)))).astype(np.float32)
    return score, label, rng.integers(1, 9, size), rng.integers(0, 64, size)


def isotonic_reference(score, label, weight, at):
    ends = np.argmin(score), np.argmax(score)
    score = np.concatenate([score, score[list(ends)]])  # a row of the other class at either end
    label, weight = np.concatenate([label, [1, 0]]), np.concatenate([weight, [1, 1]])
    return IsotonicRegression(out_of_bounds="clip").fit(score, label, weight).predict(at)


def platt_reference(score, label, weight, at):
    x, at = (np.log(p / (1 - p))[:, None] for p in (score, at))
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(x, label, weight)
    return model.predict_proba(at)[:, 1]


REFERENCES = pytest.mark.parametrize(
    ("method", "reference", "tolerance"), [("isotonic", isotonic_reference, 3e-4), ("platt", platt_reference, 2e-5)]
)


def recalibrated(reference, score, label, weight, bucket):
    result = np.empty(len(score))
    for half in (0, 1):
        train, test = bucket % 2 != half, bucket % 2 == half
        result[test] = reference(score[train].astype(float), label[train], weight[train], score[test].astype(float))
    return result


def equal_width_error(p, label, weight, bins):
    place = np.minimum((p * bins).astype(int), bins - 1)
    return np.abs(np.bincount(place, weight * (p - label), bins)).sum() / weight.sum()


@REFERENCES
def test_near_what_scikit_learn_gives_on_the_scores_themselves(method, reference, tolerance):
    score, label, weight, bucket = rows()
    block = make_block(score, label, weight=weight, bucket=bucket)
    p = recalibrated(reference, score, label, weight, bucket)
    expected = {
        RecalibratedLogLoss: log_loss(label, p, sample_weight=weight),
        RecalibratedBrier: brier_score_loss(label, p, sample_weight=weight),
    }
    for metric, value in expected.items():
        result = evaluate(metric(method=method), block, choice=CHOICE)
        assert result.value[0] == pytest.approx(value, abs=tolerance)
        assert result.interval_reason == (None,)
    error = evaluate(RecalibratedECE(method=method, bins=10), block, choice=CHOICE)
    assert error.value[0] == pytest.approx(equal_width_error(p, label, weight, 10), abs=2e-3)


@REFERENCES
def test_replicates_are_the_metric_without_a_bucket(method, reference, tolerance):
    score, label, weight, bucket = rows()
    metric = RecalibratedLogLoss(method=method)
    whole = evaluate(metric, make_block(score, label, weight=weight, bucket=bucket), choice=CHOICE)
    for one in (0, 33):
        kept = bucket != one
        block = make_block(score[kept], label[kept], weight=weight[kept], bucket=bucket[kept])
        alone = evaluate(metric, block, choice=CHOICE)
        moved = whole.without[0, one] - whole.value[0]
        assert moved == pytest.approx(alone.value[0] - whole.value[0], abs=2 * tolerance)
        assert abs(moved) > 0.0


def test_it_takes_out_what_miscalibration_costs_and_not_what_order_costs():
    score, label, _, bucket = rows()
    odds = (score / (1 - score)).astype(float) ** 0.7
    milder = (odds / (3 + odds)).astype(np.float32)
    values = [evaluate(LogLoss(), make_block(p, label), choice=CHOICE).value[0] for p in (score, milder)]
    assert abs(values[0] - values[1]) > 0.03
    for method in ("isotonic", "platt"):
        metric = RecalibratedLogLoss(method=method)
        blocks = (make_block(p, label, bucket=bucket) for p in (score, milder))
        one, other = (evaluate(metric, block, choice=CHOICE).value[0] for block in blocks)
        assert one == pytest.approx(other, abs=2e-4)
        assert one < min(values)


# ---- slope and intercept ---------------------------------------------------------------------------------------------


def test_slope_and_intercept_equal_scikit_learn():
    score, label, weight, bucket = rows()
    block = make_block(score, label, weight=weight, bucket=bucket)
    slope, intercept = (evaluate(metric(), block, choice=CHOICE) for metric in (CalibrationSlope, CalibrationIntercept))
    for kept, values in ((bucket >= 0, (slope.value[0], intercept.value[0])),
                         (bucket != 5, (slope.without[0, 5], intercept.without[0, 5]))):  # fmt: skip
        p = score[kept].astype(float)
        x = np.log(p / (1 - p))
        model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=1000)
        model.fit(x[:, None], label[kept], weight[kept])
        assert values[0] == pytest.approx(model.coef_[0, 0], rel=1e-3)
        in_total = np.average(1 / (1 + np.exp(-(x + values[1]))), weights=weight[kept])
        assert in_total == pytest.approx(np.average(label[kept], weights=weight[kept]), abs=1e-4)
    assert slope.value[0] == pytest.approx(1 / 1.5, abs=0.05)
    assert slope.interval_reason == intercept.interval_reason == (None,)


def test_slope_and_intercept_of_scores_that_give_none():
    slope, intercept = CalibrationSlope(), CalibrationIntercept()
    constant = make_block([0.25] * 4, [0, 0, 1, 1])
    assert evaluate(slope, constant, choice=CHOICE).reason == (Undefined.RESOLUTION,)
    assert evaluate(intercept, constant, choice=CHOICE).value[0] == pytest.approx(np.log(3), abs=0.02)
    separated = make_block([0.25, 0.25, 0.5, 0.5], [0, 0, 1, 1])
    assert evaluate(slope, separated, choice=CHOICE).reason == (Undefined.SEPARATED,)
    for metric in (slope, intercept):
        assert evaluate(metric, make_block([0.25, 0.5], [1, 1]), choice=CHOICE).reason == (Undefined.ONE_CLASS,)


# ---- undefined -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", EVERY)
def test_only_the_overall_slice_is_known(metric):
    score, label, _, bucket = rows(2000)
    block = make_block(score, label, bucket=bucket, slices=[np.zeros(2000), np.ones(2000)])
    result = evaluate(metric(), block, choice=CHOICE, sizes=Sizes(3, 64, 2))
    assert result.reason == (None, Undefined.OVER_BUDGET, Undefined.NO_ROWS)
    assert result.interval_reason[0] is (Undefined.NOT_SMOOTH if metric is RecalibratedECE else None)
    assert result.interval_reason[1:] == (Undefined.OVER_BUDGET,) * 2


@pytest.mark.parametrize("metric", [RecalibratedLogLoss, RecalibratedBrier, CalibrationSlope])
def test_without_buckets_there_is_the_same_value_and_no_interval(metric):
    score, label, _, bucket = rows(2000)
    block = make_block(score, label, bucket=bucket)
    result = evaluate(metric(), block, choice=StateChoice(True, "none"))
    assert result.value[0] == evaluate(metric(), block, choice=CHOICE).value[0]
    assert result.interval_reason == (Undefined.OVER_BUDGET,)


@pytest.mark.parametrize("metric", EVERY)
def test_no_rows_and_one_row(metric):
    assert evaluate(metric(), make_block([], []), choice=CHOICE).reason == (Undefined.NO_ROWS,)
    assert evaluate(metric(), make_block([0.5], [1]), choice=CHOICE).reason == (Undefined.ONE_CLASS,)


@pytest.mark.parametrize("metric", RECALIBRATED)
def test_extreme_probabilities(metric):
    score, label = np.tile([0.0, 1.0, 0.0, 1.0], 64), np.tile([0, 1, 1, 0], 64)
    block = make_block(score, label, bucket=np.arange(256) // 4)
    for method in ("isotonic", "platt"):
        value = evaluate(metric(method=method), block, choice=CHOICE).value[0]
        assert value == pytest.approx({"log_loss": np.log(2), "brier": 0.25, "ece": 0.0}[metric.word[13:]], abs=1e-6)


def test_scores_that_only_fine_bins_tell_apart_have_no_interval():
    score = np.tile([0.5, 0.51], 320)  # one coarse bin
    block = make_block(score, np.tile([0, 1], 320) ^ (np.arange(640) % 7 == 0), bucket=np.arange(640) // 10)
    result = evaluate(RecalibratedLogLoss(), block, choice=CHOICE)
    assert result.value[0] < 0.5
    assert result.interval_reason == (Undefined.RESOLUTION,)


# ---- names -----------------------------------------------------------------------------------------------------------


def test_names():
    assert RecalibratedLogLoss().name == "recalibrated_log_loss"
    assert RecalibratedECE(method="platt", bins=16).name == "recalibrated_ece(bins=16, method=platt)"
    word, parameters = parse("recalibrated_ece(bins=16, method=platt)")
    assert make(RecalibratedECE, word, parameters) == RecalibratedECE(method="platt", bins=16)


def test_parameters_are_checked():
    with pytest.raises(
        ValueError, match=r"^The 'method' of the metric 'recalibrated_brier' is 'plat'; did you mean 'platt'\?$"
    ):
        RecalibratedBrier(method="plat")
    sentence = r"^The 'method' of the metric 'recalibrated_brier' is 3; expected 'isotonic' or 'platt'\.$"
    with pytest.raises(ValueError, match=sentence):
        make(RecalibratedBrier, "recalibrated_brier", {"method": 3})
    with pytest.raises(ValueError, match=r"^The 'bins' of the metric 'recalibrated_ece' are 0; expected 1 to 10000\.$"):
        RecalibratedECE(bins=0)


@pytest.mark.parametrize("metric", RECALIBRATED)
def test_the_laws_hold_with_platt_as_well(metric):
    bounds = (0.0, 24 * np.log(2)) if metric is RecalibratedLogLoss else (0.0, 1.0)
    check_metric(metric(method="platt"), bounds=bounds, choices=CHOICES[:1])
