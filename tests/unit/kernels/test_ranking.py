"""Areas against scikit-learn, over all entries and with each bucket taken out by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from assay.kernels.entries import collect
from assay.kernels.ranking import average_precisions, cumulate, mixed_gain, roc_areas

NUM_BUCKETS = 5
FORMS = pytest.mark.parametrize("form", ["compiled", "plain"])


def of(kernel, form):
    return kernel if form == "compiled" else kernel.py_func


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
    options = (False,) if kernel is average_precisions else ()
    areas = of(kernel, form)(*entries(score, bucket, label, weight), NUM_BUCKETS, *options)
    for one, area in enumerate(areas):
        kept = bucket != one - 1
        expected = reference(label[kept], score[kept], sample_weight=weight[kept])
        assert area == pytest.approx(expected, rel=1e-13, abs=1e-13)


@FORMS
def test_one_class_left_is_nan(form):
    key, bucket, weight = np.array([1, 2]), np.array([0, 1]), np.array([[1, 0], [0, 1]])
    np.testing.assert_equal(of(roc_areas, form)(key, bucket, weight, 2), [1.0, np.nan, np.nan])
    np.testing.assert_equal(of(average_precisions, form)(key, bucket, weight, 2, False), [1.0, 1.0, np.nan])


def test_no_entries_are_nan():
    nothing = np.zeros(0, np.int64)
    assert np.isnan(roc_areas(nothing, nothing, np.zeros((0, 2), np.int64), 2)).all()
    assert np.isnan(average_precisions(nothing, nothing, np.zeros((0, 2), np.int64), 2, False)).all()


@FORMS
@pytest.mark.parametrize("before", [(0.0, 0.0), (5.0, 7.0), (0.0, 3.0), (4.0, 0.0)])
@pytest.mark.parametrize("negative", [0.0, 12.0])
def test_a_mixed_bin_adds_the_mean_precision_over_it(form, before, negative):
    positive, steps = 3.0, (np.arange(200_000) + 0.5) / 200_000
    true, rows_before = before[0] + positive * steps, sum(before) + (positive + negative) * steps
    expected = positive * (true / rows_before).mean()
    assert of(mixed_gain, form)(*before, positive, negative, 0.0) == pytest.approx(expected, rel=1e-6)


@FORMS
@pytest.mark.parametrize("before", [(50.0, 70.0), (0.0, 30.0), (400.0, 0.0)])
@pytest.mark.parametrize("negative", [0, 4])
def test_a_mixed_bin_of_rows_adds_the_mean_over_their_orders(form, before, negative):
    """3 positives among the negatives, in every order; rows that weigh 1 each."""
    true, false = before
    gains = []
    for places in combinations(range(3 + negative), 3):
        gains.append(sum((true + i + 1) / (true + false + place + 1) for i, place in enumerate(places)))
    assert of(mixed_gain, form)(*before, 3.0, float(negative), 1.0) == pytest.approx(np.mean(gains), rel=1e-2)
    integral = of(mixed_gain, form)(*before, 3.0, float(negative), 0.0)
    assert abs(of(mixed_gain, form)(*before, 3.0, float(negative), 1.0) - np.mean(gains)) <= abs(
        integral - np.mean(gains)
    )


@FORMS
def test_rows_of_a_bin_are_as_heavy_as_all_weights_allow(form):
    """Weights of 2 and 4 are rows of 2, or of 1 with twice the weight."""
    key, bucket = np.arange(2), np.zeros(2, np.int64)
    once, twice = (
        of(average_precisions, form)(key, bucket, times * np.array([[3, 2], [1, 4]]), 1, True)[0] for times in (1, 2)
    )
    assert once == twice
    assert once == pytest.approx((mixed_gain(0.0, 0.0, 4.0, 1.0, 2.0) + mixed_gain(4.0, 1.0, 2.0, 3.0, 2.0)) / 6)


@FORMS
@pytest.mark.parametrize("without", [-1, 0, 3])
def test_what_is_at_or_above_each_key(form, without):
    score, bucket, label, weight = rows(seed=5)
    keys, true, false = of(cumulate, form)(*entries(score, bucket, label, weight), without)
    kept = bucket != without
    assert keys.tolist() == np.unique(score[kept])[::-1].tolist()
    assert true[0] == false[0] == 0.0
    for key, positive, negative in zip(keys, true[1:], false[1:], strict=True):
        at_least = kept & (score >= key)
        assert positive == (weight * label)[at_least].sum()
        assert negative == (weight * (1 - label))[at_least].sum()
