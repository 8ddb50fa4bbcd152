"""Precision, recall and F1 of each class, and their averages, by hand."""

from __future__ import annotations

import numpy as np

from assay.metrics.class_formulas import average_of, mean_of, per_class


def test_per_class():
    counts = np.array([[4.0, 2.0, 1.0], [0.0, 3.0, 0.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    expected = {
        "precision": [0.5, 0.0, np.nan, np.nan],
        "recall": [0.25, np.nan, 0.0, np.nan],
        "f1": [1 / 3, 0.0, 0.0, np.nan],
    }
    for quantity, values in expected.items():
        np.testing.assert_allclose(per_class(quantity, counts), values)


def test_averages_are_over_the_classes_that_are_defined():
    counts = np.array([[4.0, 2.0, 1.0], [0.0, 3.0, 0.0], [6.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert average_of("precision", "macro", counts) == 0.25
    assert average_of("recall", "macro", counts) == 0.125
    assert average_of("recall", "weighted", counts) == 0.1
    assert average_of("recall", "micro", counts) == 0.1
    assert average_of("precision", "micro", counts) == 0.2
    assert np.isnan(average_of("precision", "macro", counts[2:]))
    assert np.isnan(average_of("precision", "weighted", counts[1:2]))  # its only class weighs nothing


def test_mean_of_leading_axes():
    values = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(mean_of(values), [2.0, np.nan])
    np.testing.assert_array_equal(mean_of(values, np.array([[1.0, 5.0, 3.0]] * 2)), [2.5, np.nan])
