"""The deterministic functions are accurate, and give the same bits compiled and as plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.special import softmax as scipy_softmax

from assay.kernels import elementary
from assay.kernels.elementary import CLIP, UNIT, dexp, dlog, dsigmoid, log, log_losses, sigmoid, softmax

ULP = 2.0**-52


def positives():
    rng = np.random.default_rng(0)
    spread = np.exp(rng.uniform(-740, 700, 3000))
    near_one = 1.0 + rng.uniform(-1e-3, 1e-3, 1000)
    return np.concatenate([spread, near_one, [5e-324, 2.2250738585072014e-308, 1.0, math.sqrt(2), 1.7e308]])


def exp(x):
    return np.array([dexp(one) for one in x])


def test_log_is_within_one_unit_in_the_last_place():
    x = positives()
    assert np.abs(log(x) - np.log(x)).max() <= ULP * 745
    np.testing.assert_allclose(log(x), np.log(x), rtol=2 * ULP, atol=0)


def test_exp_is_within_one_unit_in_the_last_place():
    x = np.concatenate([np.random.default_rng(1).uniform(-708, 709, 4000), [0.0, 1e-300, -1e-17, 709.78]])
    np.testing.assert_allclose(exp(x), np.exp(x), rtol=2 * ULP, atol=0)


def test_exp_of_tiny_results_rounds_once():
    x = np.linspace(-745, -708, 200)
    np.testing.assert_allclose(exp(x), np.exp(x), rtol=2 * ULP, atol=5e-324)


def test_sigmoid_agrees_with_scipy_and_is_symmetric():
    x = np.concatenate([np.random.default_rng(2).normal(0, 20, 4000), [-1e308, -800.0, 0.0, 800.0]])
    np.testing.assert_allclose(sigmoid(x), expit(x), rtol=4 * ULP, atol=5e-324)
    np.testing.assert_allclose(sigmoid(x) + sigmoid(-x), 1.0, rtol=ULP)


def test_sigmoid_of_ordered_logits_is_ordered_in_float32():
    x = np.sort(np.random.default_rng(3).normal(0, 8, 20_000).astype(np.float32))
    assert (np.diff(sigmoid(x.astype(np.float64)).astype(np.float32)) >= 0).all()


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        (dlog, 0.0, -math.inf),
        (dlog, -0.0, -math.inf),
        (dlog, -1.0, math.nan),
        (dlog, math.inf, math.inf),
        (dlog, math.nan, math.nan),
        (dlog, 1.0, 0.0),
        (dexp, 0.0, 1.0),
        (dexp, 710.0, math.inf),
        (dexp, -746.0, 0.0),
        (dexp, math.inf, math.inf),
        (dexp, -math.inf, 0.0),
        (dexp, math.nan, math.nan),
        (dsigmoid, 0.0, 0.5),
        (dsigmoid, -math.inf, 0.0),
        (dsigmoid, math.inf, 1.0),
        (dsigmoid, math.nan, math.nan),
    ],
)
def test_special_arguments(function, x, expected):
    for form in (function, function.py_func):
        np.testing.assert_equal(form(x), expected)


@pytest.mark.parametrize("name", ["dlog", "dexp", "dsigmoid"])
def test_compiled_and_plain_python_agree_to_the_bit(name):
    function = getattr(elementary, name)
    arguments = positives()[::20] if name == "dlog" else np.linspace(-50, 50, 251)
    for x in arguments:
        assert function(x) == function.py_func(float(x))


def test_log_losses_are_integers_in_units_of_two_to_the_minus_32():
    probability = np.array([0.5, 0.5, 0.25, 1.0, 0.0, 0.0], np.float32)
    positive = np.array([1, 0, 1, 1, 1, 0], np.uint8)
    expected = np.array(
        [math.log(2), math.log(2), math.log(4), -math.log1p(-CLIP), 24 * math.log(2), -math.log1p(-CLIP)]
    )
    units = log_losses(probability, positive)
    assert units.tolist() == np.rint(expected * UNIT).astype(int).tolist()
    assert log_losses.py_func(probability, positive).tolist() == units.tolist()


def test_softmax_agrees_with_scipy_and_sums_to_one():
    scores = np.random.default_rng(5).normal(0, 20, (500, 7))
    found = softmax(scores)
    assert (found.shape, found.dtype) == ((500, 7), np.float32)
    np.testing.assert_allclose(found, scipy_softmax(scores, axis=1), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1, dtype=np.float64), 1.0, atol=1e-6)
    np.testing.assert_array_equal(found[:20], softmax.py_func(scores[:20]))


def test_softmax_of_large_scores_neither_overflows_nor_vanishes():
    scores = np.array([[1e308, -1e308, 1e308], [-800.0, -800.0, -801.0], [0.0, 0.0, 0.0]])
    found = softmax(scores)
    assert found[0].tolist() == [0.5, 0.0, 0.5]
    np.testing.assert_allclose(found[1], scipy_softmax([0.0, 0.0, -1.0]), rtol=1e-6)
    assert found[2].tolist() == [np.float32(1 / 3)] * 3


def test_softmax_of_two_is_the_sigmoid_of_the_difference():
    logit = np.linspace(-30, 30, 61)
    found = softmax(np.stack([np.zeros(61), logit], axis=1))[:, 1]
    np.testing.assert_allclose(found, sigmoid(logit), rtol=1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_softmax_of_a_row_without_finite_scores_is_nan(bad):
    found = softmax(np.array([[1.0, bad, 2.0], [1.0, 1.0, 1.0]]))
    assert np.isnan(found[0]).all()
    assert not np.isnan(found[1]).any()
