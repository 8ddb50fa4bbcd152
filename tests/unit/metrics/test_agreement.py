"""What a variant changes against the baseline: by hand, against scipy, and with rows that the baseline misses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import pearsonr

import assay
from assay.metrics.agreement import (
    ClassFlipRate,
    FlipRate,
    PredictionAbsoluteDifference,
    PredictionCorrelation,
    PredictionMeanDifference,
)
from assay.records import StateChoice, Undefined
from assay.testing import check_metric, evaluate, make_block

CHOICE = StateChoice(exact_ranking=True, bucketed="all")
SINGLE = [FlipRate(), PredictionCorrelation(), PredictionMeanDifference(), PredictionAbsoluteDifference()]


def only(metric, score, reference, **kwargs):
    label = np.zeros(len(score))
    block = make_block(score, label, reference=reference, **{"probability": False, **kwargs})
    result = evaluate(metric, block, choice=CHOICE)
    return result.reason[0] or result.value[0]


def test_by_hand():
    score, reference = [0.1, 0.6, 0.5, 0.9], [0.2, 0.4, 0.5, 0.1]
    assert only(FlipRate(), score, reference) == 0.5
    assert only(FlipRate(), score, reference, weight=[1, 1, 1, 5]) == 0.75
    assert only(FlipRate(0.15), score, reference) == 0.5
    assert only(PredictionMeanDifference(), score, reference) == pytest.approx(0.9 / 4, rel=1e-15)
    assert only(PredictionAbsoluteDifference(), score, reference) == pytest.approx(1.1 / 4, rel=1e-15)


def test_correlation_equal_to_scipy():
    rng = np.random.default_rng(0)
    one = rng.normal(size=5000)
    for other in (one + rng.normal(size=5000), -one + rng.normal(size=5000), rng.normal(size=5000)):
        assert only(PredictionCorrelation(), one, other) == pytest.approx(pearsonr(one, other).statistic, rel=1e-11)


@pytest.mark.parametrize("offset", [1e9, -1e14])
def test_correlation_loses_nothing_to_an_offset(offset):
    rng = np.random.default_rng(0)
    one = np.round(rng.normal(size=1000) * 64) / 64  # offsets up to 2^46 leave such numbers as they are
    other = one + np.round(rng.normal(size=1000) * 64) / 64
    expected = only(PredictionCorrelation(), one, other)
    assert only(PredictionCorrelation(), one + offset, other + offset) == expected
    assert only(PredictionCorrelation(), 2 * one + offset, other - offset) == expected


def test_of_the_baseline_itself_and_of_twins():
    for score in ([0.1, 0.7, 0.25], [1e9 + 0.1, 1e9, -3e9], [1e-9, 3e-9, 7.1e-10]):
        assert only(FlipRate(), score, score) == 0.0
        assert only(PredictionCorrelation(), score, score) == 1.0
        assert only(PredictionCorrelation(), score, np.negative(score)) == -1.0
        assert only(PredictionMeanDifference(), score, score) == 0.0
        assert only(PredictionAbsoluteDifference(), score, score) == 0.0
    probability = np.array([0.1, 0.7, 0.25], np.float32)
    assert only(FlipRate(0.7), probability, probability.astype(np.float64), probability=True) == 0.0
    assert only(PredictionCorrelation(), probability, probability.astype(np.float64), probability=True) == 1.0


def test_rows_that_the_baseline_misses_do_not_enter():
    score, reference = [0.1, 0.6, 0.9], [0.2, np.nan, 0.1]
    assert only(FlipRate(), score, reference) == 0.5
    assert only(PredictionMeanDifference(), score, reference) == pytest.approx(0.35, rel=1e-15)
    assert only(PredictionCorrelation(), score, reference) == pytest.approx(-1.0, rel=1e-15)


@pytest.mark.parametrize("metric", [*SINGLE, ClassFlipRate()])
def test_without_a_baseline_nothing_is_known(metric):
    assert only(metric, [0.1, 0.6], None) is Undefined.NO_BASELINE
    assert only(metric, [0.1, 0.6], [np.nan, np.nan]) is Undefined.NO_BASELINE
    assert only(metric, [], []) is Undefined.NO_ROWS


def test_a_constant_prediction_has_no_correlation():
    assert only(PredictionCorrelation(), [0.3, 0.3], [0.1, 0.2]) is Undefined.CONSTANT
    assert only(PredictionCorrelation(), [0.3, 0.4], [0.1, 0.1]) is Undefined.CONSTANT
    assert only(PredictionCorrelation(), [1e20, 0.0], [0.1, 0.2]) is Undefined.OVERFLOW


def test_classes():
    block = make_block([0, 1, 2, -1, -1], [0, 0, 0, 0, 0], label_kind="class", reference=[0, 2, 2, -1, 1])
    assert evaluate(ClassFlipRate(), block, choice=CHOICE).value.tolist() == [0.4]
    block = replace(block, weight=np.array([1, 1, 1, 1, 4]))
    assert evaluate(ClassFlipRate(), block, choice=CHOICE).value.tolist() == [5 / 8]


@pytest.mark.parametrize("metric", SINGLE)
def test_they_have_no_better_direction(metric):
    assert metric.direction is None
    assert metric.needs_baseline


def test_with_a_threshold_it_keeps_the_laws():
    check_metric(FlipRate(0.25), bounds=(0.0, 1.0))


def test_joint_and_separate_computation_agree():
    rng = np.random.default_rng(3)
    label = rng.normal(size=900)
    frame = pd.DataFrame({"user": np.arange(900), "y": label, "old": label + rng.normal(size=900)})
    for name in ("a", "b", "c"):
        frame[name] = frame["old"] + rng.normal(size=900)
    frame.loc[::7, "b"] = np.nan
    metrics = ["rmse", "r2", "error_quantile", "flip_rate(threshold=0.25)", *(one.name for one in SINGLE[1:])]

    def rows_of_b(variants):
        done = assay.evaluate(
            frame, label="y", scores=["old", *variants], baseline="old", cluster="user", metrics=metrics
        )
        tables = (done.metrics.to_pandas(), done.comparisons.to_pandas())
        return [
            table[table["variant"] == "b"].filter(regex="^(metric|rows|value|difference|low|high)$") for table in tables
        ]

    for alone, together in zip(rows_of_b(["b"]), rows_of_b(["a", "b", "c"]), strict=True):
        pd.testing.assert_frame_equal(
            alone.reset_index(drop=True), together.reset_index(drop=True), check_exact=True, check_dtype=False
        )
