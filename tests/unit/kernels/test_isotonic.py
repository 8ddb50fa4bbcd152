"""Isotonic regression against scikit-learn, compiled and as plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from assay.kernels.isotonic import isotonic_fit

FORMS = pytest.mark.parametrize("fit", [isotonic_fit, isotonic_fit.py_func], ids=["compiled", "plain"])


def reference(x, weight, grain=0.0):
    """scikit-learn on one row per bin and class, with the grain at either end that lacks the class."""
    used = np.flatnonzero(weight.sum(axis=1))
    weight = weight.astype(float)
    weight[used[0], 1] = weight[used[0], 1] or grain
    weight[used[-1], 0] = weight[used[-1], 0] or grain
    rows = weight.reshape(-1) > 0
    label = np.tile([0, 1], len(x))[rows]
    fitted = IsotonicRegression(out_of_bounds="clip").fit(np.repeat(x, 2)[rows], label, weight.reshape(-1)[rows])
    return fitted.predict(x)


@FORMS
@pytest.mark.parametrize("grain", [0.0, 0.5])
def test_equal_to_scikit_learn(fit, grain):
    rng = np.random.default_rng(0)
    for _ in range(100):
        num_bins = rng.integers(1, 50)
        x, weight = np.sort(rng.random(num_bins)), rng.integers(0, 5, (num_bins, 2)) * (rng.random((num_bins, 1)) < 0.7)
        if weight.any():
            np.testing.assert_allclose(fit(x, weight, grain), reference(x, weight, grain), atol=1e-12)


@FORMS
def test_by_hand(fit):
    x = np.array([0.1, 0.2, 0.3, 0.5, 0.6])
    weight = np.array([[3, 0], [1, 1], [2, 1], [0, 0], [0, 2]])  # the second and third violate: 2 of 5
    assert fit(x, weight, 0.0).tolist() == [0.0, 0.4, 0.4, pytest.approx(0.8), 1.0]
    assert fit(x, weight, 1.0).tolist() == [0.25, 0.4, 0.4, pytest.approx(0.4 + 2 / 3 * (2 / 3 - 0.4)), 2 / 3]


@FORMS
def test_a_grain_keeps_fits_of_separated_classes_from_being_certain(fit):
    fitted = fit(np.array([0.1, 0.2, 0.8, 0.9]), np.array([[5, 0], [2, 0], [0, 3], [0, 1]]), 1.0)
    assert fitted.tolist() == [1 / 8, 1 / 8, 4 / 5, 4 / 5]


@FORMS
def test_no_weight_is_nan_and_one_bin_is_its_share(fit):
    assert np.isnan(fit(np.array([0.1, 0.2]), np.zeros((2, 2), np.int64), 1.0)).all()
    assert fit(np.array([0.1, 0.2, 0.3]), np.array([[0, 0], [3, 1], [0, 0]]), 1.0).tolist() == [0.25] * 3
