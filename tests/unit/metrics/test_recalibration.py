"""Cross-fitted calibrators against scikit-learn, by halves of the buckets."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from assay.kernels.keys import NUM_OCTAVES, probability_bins
from assay.metrics.recalibration import (
    BUCKET_BINS,
    COARSE_BITS,
    FINE_BITS,
    HALF_BINS,
    bin_probabilities,
    cross_fit,
)
from assay.records import Sizes, Undefined
from assay.testing import make_block

SIZES = Sizes(1, 64)


def rows(size=3000, seed=0):
    """Scores in the middle of their coarse bins, too high and too extreme; both ends have both classes."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(-1.0, 1.0, size)
    label = (rng.random(size) < 1 / (1 + np.exp(-log_odds))).astype(int)
    p = (1 / (1 + np.exp(-(1.5 * log_odds + 1.0)))).astype(np.float32)
    score = bin_probabilities(NUM_OCTAVES << COARSE_BITS)[probability_bins(p, COARSE_BITS)].astype(np.float32)
    order, both = np.argsort(score), np.arange(64) % 2
    for ends in (order[:64], order[-64:]):
        score[ends], label[ends] = score[ends[0]], both
    return score, label, rng.integers(1, 9, size), rng.integers(0, 64, size)


def isotonic_reference(score, label, weight, at):
    return IsotonicRegression(out_of_bounds="clip").fit(score, label, weight).predict(at)


def platt_reference(score, label, weight, at):
    x, at = (np.log(p / (1 - p))[:, None] for p in (score, at))
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(x, label, weight)
    return model.predict_proba(at)[:, 1]


REFERENCES = pytest.mark.parametrize(
    ("method", "reference"), [("isotonic", isotonic_reference), ("platt", platt_reference)]
)


def cells(accumulator, block):
    return accumulator.update(accumulator.zero(SIZES), block)["weight"][0]


def state_of(score, label, **kwargs):
    return cells(HALF_BINS, make_block(score, label, **kwargs))


def test_scores_in_the_middle_of_bins_stay_there():
    for bits in (COARSE_BITS, FINE_BITS):
        middle = bin_probabilities(NUM_OCTAVES << bits)
        assert (np.diff(middle) >= 0).all()
        some = np.exp2(np.random.default_rng(0).uniform(-20, -1, 1000)).astype(np.float32)
        for p in (some, 1 - some[some > 1e-4]):
            place = probability_bins(p, bits)
            assert (np.abs(middle[place] - p) <= 0.5001 * 2.0**-bits * np.minimum(p, 1 - p)).all()


@REFERENCES
def test_equal_to_scikit_learn_with_and_without_a_bucket(method, reference):
    score, label, weight, bucket = rows()
    fit = cross_fit(cells(BUCKET_BINS, make_block(score, label, weight=weight, bucket=bucket)), method, replicated=True)
    assert fit.undefined is None
    assert fit.probability.shape[0] == 65
    p = score.astype(float)
    at = np.unique(p)
    for left_out in (None, 6, 7):
        one = 0 if left_out is None else 1 + left_out
        for half in (0, 1):
            train = (bucket % 2 != half) & (bucket != left_out)
            expected = reference(p[train], label[train], weight[train], at)
            np.testing.assert_allclose(fit.probability[one, half], expected, atol=1e-6)
            test = (bucket % 2 == half) & (bucket != left_out)
            parts = [test & (label == one_class) for one_class in (0, 1)]
            by_class = [np.bincount(np.searchsorted(at, p[part]), weight[part], len(at)) for part in parts]
            np.testing.assert_array_equal(fit.weight[one, half], np.stack(by_class, axis=1))


@REFERENCES
def test_halves_alone_give_the_same(method, reference):
    score, label, weight, bucket = rows()
    block = make_block(score, label, weight=weight, bucket=bucket)
    fit = cross_fit(cells(HALF_BINS, block), method, replicated=False)
    p = score.astype(float)
    assert fit.probability.shape == (1, 2, len(np.unique(p)))
    for half in (0, 1):
        train = bucket % 2 != half
        expected = reference(p[train], label[train], weight[train], np.unique(p))
        # The middle of a fine bin is not the score, which the line in log-odds minds a little.
        np.testing.assert_allclose(fit.probability[0, half], expected, atol=2e-3)


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_what_cannot_be_fitted(method):
    for label in (0, 1):
        assert cross_fit(state_of([0.2, 0.8], [label, label]), method, False).undefined is Undefined.ONE_CLASS
    one_half = state_of([0.2, 0.8, 0.4], [0, 1, 1], bucket=[4, 4, 6])
    assert cross_fit(one_half, method, False).undefined is Undefined.TOO_FEW_CLUSTERS
    one_class_in_a_half = state_of([0.2, 0.8, 0.4], [0, 1, 1], bucket=[4, 4, 5])
    assert cross_fit(one_class_in_a_half, method, False).undefined is Undefined.TOO_FEW_POSITIVES


def test_separated_scores_have_no_line_but_a_function():
    state = state_of([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 1])
    assert cross_fit(state, "platt", False).undefined is Undefined.SEPARATED
    fit = cross_fit(state, "isotonic", False)
    share = 2.0**-14 * 4 / (1 + 2.0**-14 * 4)  # a grain of the other class in each bin of weight 1
    assert fit.probability[0].tolist() == [[share, 1 - share]] * 2


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_constant_scores_become_the_base_rate_of_the_other_half(method):
    fit = cross_fit(state_of([0.7] * 8, [0, 1, 0, 1, 0, 0, 1, 0]), method, False)
    assert fit.probability[0] == pytest.approx(np.array([[0.5], [0.25]]))


def test_a_replicate_that_cannot_be_fitted_is_unknown():
    score, label, bucket = [0.2, 0.8, 0.8, 0.2, 0.2, 0.8], [0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 4]
    fit = cross_fit(cells(BUCKET_BINS, make_block(score, label, bucket=bucket)), "isotonic", replicated=True)
    unknown = np.isnan(fit.probability).any(axis=(1, 2))
    assert np.flatnonzero(unknown).tolist() == [2]  # without bucket 1 the odd half has no rows
    assert not np.isnan(fit.probability[1:][3:]).any()
