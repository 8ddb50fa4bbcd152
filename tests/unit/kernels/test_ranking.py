"""Areas against scikit-learn, over all entries and with each bucket taken out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from assay.kernels.entries import collect
from assay.kernels.ranking import average_precisions, roc_areas

NUM_BUCKETS = 5
FORMS = pytest.mark.parametrize("form", ["compiled", "plain"])


def rows(seed):
    """Scores with ties inside and across buckets; bucket 4 stays empty."""
    rng = np.random.default_rng(seed)
    size = 150
    label = rng.integers(0, 2, size)
    score = np.where(rng.random(size) < 0.5, rng.integers(0, 8, size), rng.integers(0, 1000, size))
    return score, rng.integers(0, NUM_BUCKETS - 1, size), label, rng.integers(1, 9, size)


def entries(score, bucket, label, weight):
    codes, weights = collect(score * NUM_BUCKETS + bucket, np.stack([weight * (label == 0), weight * label], axis=1))
    return codes // NUM_BUCKETS, codes % NUM_BUCKETS, weights


@FORMS
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("kernel", "reference"), [(roc_areas, roc_auc_score), (average_precisions, average_precision_score)]
)
def test_areas_equal_scikit_learn_with_and_without_each_bucket(kernel, reference, seed, form):
    score, bucket, label, weight = rows(seed)
    areas = (kernel if form == "compiled" else kernel.py_func)(*entries(score, bucket, label, weight), NUM_BUCKETS)
    for one, area in enumerate(areas):
        kept = bucket != one - 1
        expected = reference(label[kept], score[kept], sample_weight=weight[kept])
        assert area == pytest.approx(expected, rel=1e-13, abs=1e-13)


@FORMS
def test_one_class_left_is_nan(form):
    key, bucket, weight = np.array([1, 2]), np.array([0, 1]), np.array([[1, 0], [0, 1]])
    areas = roc_areas if form == "compiled" else roc_areas.py_func
    precisions = average_precisions if form == "compiled" else average_precisions.py_func
    np.testing.assert_equal(areas(key, bucket, weight, 2), [1.0, np.nan, np.nan])
    np.testing.assert_equal(precisions(key, bucket, weight, 2), [1.0, 1.0, np.nan])


def test_no_entries_are_nan():
    nothing = np.zeros(0, np.int64)
    assert np.isnan(roc_areas(nothing, nothing, np.zeros((0, 2), np.int64), 2)).all()
    assert np.isnan(average_precisions(nothing, nothing, np.zeros((0, 2), np.int64), 2)).all()
