"""Sums over rows that have a value, and moments of exact sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from assay.metrics.terms import (
    TermSum,
    integers,
    objects,
    pooled_terms,
    product_terms,
    quotient,
    spread,
    square_terms,
)
from assay.records import Sizes
from assay.testing import make_block

SIZES = Sizes(1, 64)


def raw_terms(block):
    return (block.raw,)


def raw_squares(block):
    return square_terms(block.raw)


def updated(accumulator, values, **kwargs):
    block = make_block(values, np.zeros(len(values)), probability=False, **kwargs)
    return {accumulator.identity: accumulator.update(accumulator.zero(SIZES), block)}


def test_rows_without_a_value_do_not_enter():
    sums = TermSum("test", raw_terms)
    read = pooled_terms(updated(sums, [1.0, np.nan, 4.0], weight=[3, 100, 1]), sums)
    assert (read.rows[0, 0], read.weight[0, 0], read.mean[0, 0]) == (2, 4, 7 / 4)
    assert read.rows[0, :5].tolist() == [2, 1, 2, 1, 2]
    none = pooled_terms(updated(sums, [np.nan]), sums)
    assert (none.rows[0, 0], np.isnan(none.mean[0, 0])) == (0, True)


def test_infinite_is_overflow_and_not_missing():
    sums = TermSum("test", raw_terms)
    read = pooled_terms(updated(sums, [1.0, np.inf, 1e39]), sums)
    assert (read.rows[0, 0], read.overflow[0, 0], read.overflow[0, 1], read.overflow[0, 64]) == (3, True, True, True)


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e12, 1e15])
def test_variance_of_exact_sums_is_that_of_fractions(offset):
    rng = np.random.default_rng(1)
    values, weight = offset + rng.normal(size=200), rng.integers(1, 1000, 200)
    first, second = TermSum("first", raw_terms), TermSum("second", raw_squares)
    states = updated(first, values, weight=weight) | updated(second, values, weight=weight)
    one, two = pooled_terms(states, first), pooled_terms(states, second)
    pooled_weight = objects(one.weight)
    variance = quotient(
        spread(pooled_weight, integers(one.limbs), integers(two.limbs)), pooled_weight * pooled_weight * (1 << 256)
    )
    exact, weights = [Fraction(one) for one in values.tolist()], weight.tolist()
    mean = sum(w * x for w, x in zip(weights, exact, strict=True)) / sum(weights)
    expected = sum(w * (x - mean) ** 2 for w, x in zip(weights, exact, strict=True)) / sum(weights)
    assert variance[0, 0] == pytest.approx(float(expected), rel=1e-15)


def test_sums_past_2_to_the_53():
    sums = TermSum("test", raw_terms)
    states = updated(sums, [2.0**53, 1.0, 1.0, -(2.0**53)])
    assert pooled_terms(states, sums).mean[0, 0] == 0.5
    heavy = updated(sums, np.ones(3), weight=[1 << 26, 1 << 26, 1])
    assert pooled_terms(heavy, sums).weight[0, 0] == (1 << 27) + 1


def test_integers_and_quotients():
    assert integers(np.array([[7, 0, 0], [(1 << 32) - 1, (1 << 32) - 1, -1], [0, 0, 1]])).tolist() == [7, -1, 1 << 64]
    huge = np.array([1 << 3000, 1, -(1 << 3000), 3], np.object_)
    with np.errstate(all="raise"):
        result = quotient(huge, np.array([1, 0, 1, 2], np.object_))
    assert result[[0, 2, 3]].tolist() == [np.inf, -np.inf, 1.5]
    assert np.isnan(result[1])


def test_products_of_both_signs():
    high, low = product_terms(np.array([3.0, -1e9]), np.array([2.0, 1e9 + 1]))
    assert [Fraction(a) + Fraction(b) for a, b in zip(high, low, strict=True)] == [6, -1000000001000000000]
