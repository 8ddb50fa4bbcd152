"""Losses with a shape of their own against scikit-learn and scipy, and where they are undefined."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import huber as scipy_huber
from sklearn.metrics import mean_gamma_deviance, mean_pinball_loss, mean_poisson_deviance, mean_tweedie_deviance

from assay.metrics.losses import GammaDeviance, Huber, LogCosh, Pinball, PoissonDeviance, TweedieDeviance
from assay.records import StateChoice, Undefined
from assay.testing import CHOICES, LAWS, Case, check_metric, evaluate, make_block, random_block

CHOICE = StateChoice(exact_ranking=True, bucketed="all")
DEVIANCES = [PoissonDeviance(), GammaDeviance(), TweedieDeviance(), TweedieDeviance(1.01), TweedieDeviance(3)]
EVERY = [*DEVIANCES, Pinball(), Huber(), LogCosh()]


def only(metric, raw, label, **kwargs):
    result = evaluate(metric, make_block(raw, label, probability=False, **kwargs), choice=CHOICE)
    return result.reason[0] or result.value[0]


@pytest.fixture
def amounts():
    rng = np.random.default_rng(4)
    label = rng.gamma(2.0, 50.0, 2000)
    return label * np.exp(rng.normal(0.0, 0.4, 2000)), label, rng.integers(1, 20, 2000)


def test_deviances_equal_to_scikit_learn(amounts):
    raw, label, weight = amounts
    counts = np.round(label / 40)  # many zeros
    assert (counts == 0).sum() > 50
    cases = [
        (PoissonDeviance(), counts, mean_poisson_deviance(counts, raw, sample_weight=weight)),
        (GammaDeviance(), label, mean_gamma_deviance(label, raw, sample_weight=weight)),
        (TweedieDeviance(), counts, mean_tweedie_deviance(counts, raw, power=1.5, sample_weight=weight)),
        (TweedieDeviance(1.9), counts, mean_tweedie_deviance(counts, raw, power=1.9, sample_weight=weight)),
        (TweedieDeviance(3), label, mean_tweedie_deviance(label, raw, power=3, sample_weight=weight)),
    ]
    for metric, labels, expected in cases:
        assert only(metric, raw, labels, weight=weight) == pytest.approx(expected, rel=1e-12), metric.name


def test_tweedie_meets_poisson_and_gamma(amounts):
    raw, label, _ = amounts
    assert only(TweedieDeviance(1), raw, label) == only(PoissonDeviance(), raw, label)
    assert only(TweedieDeviance(2), raw, label) == only(GammaDeviance(), raw, label)
    assert TweedieDeviance(1).accumulators(CHOICE) == PoissonDeviance().accumulators(CHOICE)


def test_deviances_of_large_values_that_differ_little():
    # Twice label * (d^2 / 2 - d^3 / 3 ...) with d = 1e-9: d^2 * label = 1e-9. scikit-learn says 0 or 2.4e-7.
    assert only(PoissonDeviance(), [1e9 + 1], [1e9]) == pytest.approx(1e-9 * (1 - 1e-9 / 3), rel=1e-12)
    assert only(GammaDeviance(), [1e9 + 1], [1e9]) == pytest.approx(1e-18, rel=1e-8)


def test_losses_equal_to_scikit_learn_and_scipy(amounts):
    raw, label, weight = amounts
    for quantile in (0.1, 0.5, 0.9):
        expected = mean_pinball_loss(label, raw, alpha=quantile, sample_weight=weight)
        assert only(Pinball(quantile), raw, label, weight=weight) == pytest.approx(expected, rel=1e-13)
    for delta in (0.5, 1, 30.0):
        expected = np.average(scipy_huber(delta, raw - label), weights=weight)
        assert only(Huber(delta), raw, label, weight=weight) == pytest.approx(expected, rel=1e-13)
    expected = np.average(np.logaddexp(raw - label, label - raw) - np.log(2), weights=weight)
    assert only(LogCosh(), raw, label, weight=weight) == pytest.approx(expected, rel=1e-13)


def test_losses_far_out():
    assert only(LogCosh(), [1e30], [0.0]) == 1e30
    assert only(Huber(), [1e30], [0.0]) == 1e30
    assert only(Huber(1e-200), [1e-3], [0.0]) == 0.0  # below 2^-128
    for metric in (Pinball(), Huber(), LogCosh()):
        assert only(metric, [1e308], [-1e308]) is Undefined.OVERFLOW


@pytest.mark.parametrize("metric", DEVIANCES)
@pytest.mark.parametrize(("raw", "label"), [(0.0, 1.0), (-1.0, 1.0), (1.0, -1.0)])
def test_one_row_outside_the_domain_makes_a_deviance_undefined(metric, raw, label):
    assert only(metric, [1.0, raw], [1.0, label]) is Undefined.OUTSIDE_DOMAIN


def test_labels_of_zero_depend_on_the_power():
    for metric in (GammaDeviance(), TweedieDeviance(2), TweedieDeviance(2.5)):
        assert only(metric, [1.0], [0.0]) is Undefined.OUTSIDE_DOMAIN
    assert only(PoissonDeviance(), [1.5], [0.0]) == 3.0


def test_without_the_bucket_that_is_outside_the_domain_it_is_known():
    block = make_block([1.0, -1.0, 1.0], [1.0, 1.0, 2.0], probability=False)
    result = evaluate(PoissonDeviance(), block, choice=CHOICE)
    assert np.isnan(result.without[0, 0])
    assert np.isfinite(result.without[0, 1])


@pytest.mark.parametrize("metric", EVERY)
def test_perfect_and_empty(metric):
    assert only(metric, [1.5, 2.5, 1e9], [1.5, 2.5, 1e9]) == 0.0
    assert only(metric, [], []) is Undefined.NO_ROWS


@pytest.mark.parametrize("metric", [TweedieDeviance(1.2), TweedieDeviance(3), Pinball(0.5), Huber(0.25)])
def test_with_parameters_they_keep_the_laws(metric):
    check_metric(metric, bounds=(0.0, np.inf))


@pytest.mark.parametrize("metric", DEVIANCES)
def test_on_rows_of_their_domain_deviances_keep_the_laws(metric):
    block = random_block(np.random.default_rng(0), 300, "real", probability=False)
    block = replace(block, raw=np.abs(block.raw) + 0.01, label=np.abs(block.label) + 0.01)
    for choice in CHOICES[:2]:
        case = Case(metric, choice, block, (0.0, np.inf), counts_rows=False, ordered=False)
        assert np.isfinite(case.evaluate(case.states(block)).value[:5]).all()
        for law in LAWS:
            law(case)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (
            lambda: TweedieDeviance(0),
            "The 'power' of the metric 'tweedie_deviance' is 0; expected a number from 1 to 3 (for 0 use 'mse').",
        ),
        (lambda: Pinball(1), "The 'quantile' of the metric 'pinball' is 1; expected a number above 0 and below 1."),
        (lambda: Huber(-1), "The 'delta' of the metric 'huber' is -1; expected a number above 0."),
        (lambda: Huber(np.nan), "The 'delta' of the metric 'huber' is nan; expected a number above 0."),
    ],
)
def test_wrong_parameters(made, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        made()
