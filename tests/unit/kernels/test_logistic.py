"""Logistic regression on one number against scikit-learn, compiled and as plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from assay.kernels.logistic import logistic_fit, logistic_shift

START = np.zeros(2)
FORMS = pytest.mark.parametrize("fit", [logistic_fit, logistic_fit.py_func], ids=["compiled", "plain"])


def reference(x, weight):
    rows = weight.reshape(-1) > 0
    label = np.tile([0, 1], len(x))[rows]
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    model.fit(np.repeat(x, 2)[rows, None], label, weight.reshape(-1)[rows])
    return [model.coef_[0, 0], model.intercept_[0]]


def bins(seed, size=40):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.normal(-2.0, 2.0, size))
    rate = 1.0 / (1.0 + np.exp(-(0.5 * x - 1.0)))
    total = rng.integers(0, 200, size)
    positive = rng.binomial(total, rate)
    return x, np.stack([total - positive, positive], axis=1)


@FORMS
@pytest.mark.parametrize("seed", range(5))
def test_equal_to_scikit_learn(fit, seed):
    x, weight = bins(seed)
    np.testing.assert_allclose(fit(x, weight, START), reference(x, weight), rtol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_the_gradient_vanishes_wherever_it_begins(seed):
    rng = np.random.default_rng(seed)
    x, weight = bins(seed, 12)
    weight *= 10 ** rng.integers(0, 9, 2)  # also a base rate of 1e-9
    slope, intercept = logistic_fit(x, weight, START)
    total, positive = weight.sum(axis=1), weight[:, 1]
    error = total / (1.0 + np.exp(-(slope * x + intercept))) - positive
    assert abs(error.sum()) < 1e-9 * weight.sum(axis=0).min()
    assert abs((error * x).sum()) < 1e-8 * weight.sum(axis=0).min()
    again = logistic_fit(x, weight, np.array([1.0, -1.0]))
    np.testing.assert_allclose(again, [slope, intercept], rtol=1e-8, atol=1e-8)


@FORMS
@pytest.mark.parametrize(
    "weight",
    [
        [[4, 0], [3, 0], [0, 2]],  # separated
        [[0, 4], [1, 2], [3, 0]],  # the other way round, and they touch
        [[4, 0], [3, 0], [2, 0]],
        [[0, 4], [0, 0], [0, 1]],
        [[0, 0], [0, 0], [0, 0]],
    ],
)
def test_no_finite_fit_is_nan(fit, weight):
    assert np.isnan(fit(np.array([-1.0, 0.0, 2.0]), np.array(weight), START)).all()


@FORMS
def test_a_single_x_has_slope_0(fit):
    slope, intercept = fit(np.array([-1.0, 3.0]), np.array([[0, 0], [1, 3]]), START)
    assert (slope, intercept) == (0.0, pytest.approx(np.log(3)))


@pytest.mark.parametrize("shift", [logistic_shift, logistic_shift.py_func], ids=["compiled", "plain"])
def test_the_shift_makes_the_sum_right(shift):
    for seed in range(10):
        x, weight = bins(seed, 12)
        weight *= 10 ** np.random.default_rng(seed).integers(0, 9, 2)
        p = 1.0 / (1.0 + np.exp(-(x + shift(x, weight))))
        assert (p * weight.sum(axis=1)).sum() == pytest.approx(weight[:, 1].sum(), rel=1e-10)
    assert shift(np.array([2.0]), np.array([[1, 1]])) == pytest.approx(-2.0)
    assert np.isnan(shift(np.array([2.0, 3.0]), np.array([[1, 0], [5, 0]])))
