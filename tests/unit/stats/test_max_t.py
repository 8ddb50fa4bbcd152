"""The largest |t| of a family, against all redraws there are; and what the intervals promise, by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import assay
from assay.stats.max_t import critical_value, effective_degrees, half_widths

CHANCE = np.random.default_rng(5)


def leave_one_out(buckets: np.ndarray) -> np.ndarray:
    """[V, B] means without each bucket."""
    return (buckets.sum(axis=1, keepdims=True) - buckets) / (buckets.shape[1] - 1)


def everywhere(without: np.ndarray) -> np.ndarray:
    return np.ones(without.shape, bool)


def all_redraws(buckets: np.ndarray) -> np.ndarray:
    """The largest |t| of each of the B^B redraws, by the textbook's formula; infinite where one bucket is all."""
    centred = buckets - buckets.mean(axis=1, keepdims=True)
    number = buckets.shape[1]
    redrawn = centred[:, np.array(list(itertools.product(range(number), repeat=number)))]  # [V, R, B]
    error = redrawn.std(axis=2, ddof=1) / math.sqrt(number)
    t = np.divide(redrawn.mean(axis=2), error, out=np.full(error.shape, np.inf), where=error > 1e-9)
    return np.abs(t).max(axis=0)


def test_one_redraw_in_20_of_all_there_are_exceeds_it() -> None:
    buckets = CHANCE.normal(size=(3, 7)) + CHANCE.normal(size=(1, 7))

    without = leave_one_out(buckets)

    largest = all_redraws(buckets)  # 823,543 of them
    assert (largest > critical_value(without, everywhere(without))).mean() == pytest.approx(0.05, abs=0.007)


def test_one_variant_has_about_the_quantile_of_t() -> None:
    without = leave_one_out(CHANCE.normal(size=(1, 64)))

    assert critical_value(without, everywhere(without)) == pytest.approx(stats.t.ppf(0.975, 63), rel=0.05)


def test_variants_that_are_one_count_once() -> None:
    one = leave_one_out(CHANCE.normal(size=(1, 64)))
    copies = np.concatenate([one, 3.0 * one, 7.0 - one])

    assert critical_value(copies, everywhere(copies)) == pytest.approx(critical_value(one, everywhere(one)), rel=1e-12)


def test_more_variants_need_more() -> None:
    without = leave_one_out(CHANCE.normal(size=(200, 64)))

    few, many = (critical_value(without[:number], everywhere(without[:number])) for number in (2, 200))

    assert few < many
    assert many == pytest.approx(stats.t.ppf(1 - 0.025 / 200, 63), rel=0.05)  # independent: near Bonferroni's


def test_the_same_states_give_the_same_digits() -> None:
    bucket = np.arange(64.0)
    without = np.array([bucket % 7, (bucket * 5) % 11])

    assert critical_value(without, everywhere(without)) == 2.314745463048681


def test_empty_buckets_take_no_part() -> None:
    without = leave_one_out(CHANCE.normal(size=(2, 64)))
    occupied = everywhere(without)
    occupied[:, 50:] = False
    other = without.copy()
    other[:, 50:] = np.nan

    assert critical_value(without, occupied) == critical_value(other, occupied)
    assert critical_value(without, occupied) != critical_value(without, everywhere(without))


def test_variants_without_a_t_take_no_part() -> None:
    one = leave_one_out(CHANCE.normal(size=(1, 64)))
    unknown, constant = np.full((1, 64), np.nan), np.full((1, 64), 0.25)
    several = np.concatenate([unknown, one, constant])

    assert critical_value(several, everywhere(several)) == critical_value(one, everywhere(one))
    assert math.isnan(critical_value(constant, everywhere(constant)))


def test_half_widths_are_between_the_plain_ones_and_the_most_that_each_needs() -> None:
    plain = stats.t.ppf(0.975, 63)
    errors, degrees, most = np.array([2.0, 0.0, np.nan]), np.array([63, 63, 63]), np.array([3.5, 3.5, 3.5])

    np.testing.assert_allclose(half_widths(3.0, errors, degrees, most), [6.0, 0.0, np.nan])
    np.testing.assert_allclose(half_widths(1.5, errors, degrees, most), [2.0 * plain, 0.0, np.nan])
    np.testing.assert_allclose(half_widths(math.inf, errors, degrees, most), [7.0, 0.0, np.nan])
    np.testing.assert_allclose(half_widths(math.nan, errors, degrees, most), [7.0, 0.0, np.nan])


def test_effective_degrees_of_freedom_say_how_many_buckets_count() -> None:
    heavy = np.concatenate([np.tile([10.0, -10.0], 5), np.zeros(54)])[None]  # 2 x 1000^2 / (10 x 100^2 - 1000^2 / 64)
    single = np.array([[1.0] + [0.0] * 63])
    normal = CHANCE.normal(size=(200, 64))
    constant = np.ones((1, 64))

    degrees = [
        effective_degrees(leave_one_out(one), everywhere(one)).mean() for one in (heavy, single, normal, constant)
    ]

    np.testing.assert_allclose(degrees[:2], [2.0 / (1 / 10 - 1 / 64), 2.098], rtol=1e-3)
    assert 55 < degrees[2] <= 63
    assert degrees[3] == 63


def test_a_single_bucket_that_decides_makes_it_infinite() -> None:
    """Without that bucket, as in one redraw of 3, there is no spread left."""
    without = leave_one_out(np.array([[1.0] + [0.0] * 63]))

    assert critical_value(without, everywhere(without)) == math.inf


def test_all_intervals_hold_at_once_in_about_19_of_20_worlds() -> None:
    chance = np.random.default_rng(9)
    held = 0
    for _ in range(100):
        buckets = 0.6 * chance.standard_t(8, (1, 64)) + 0.8 * chance.standard_t(8, (10, 64))
        t = buckets.mean(axis=1) / (buckets.std(axis=1, ddof=1) / 8.0)
        without = leave_one_out(buckets)
        held += np.abs(t).max() <= critical_value(without, everywhere(without))
    assert 0.91 <= held / 100 <= 0.98


def test_where_no_difference_has_an_interval_there_are_no_simultaneous_ones() -> None:
    frame = pa.table({"y": [0, 1, 0, 1], "old": [0.1, 0.6, 0.3, 0.4], "new": [0.2, 0.5, 0.4, 0.7]})
    found = assay.evaluate(frame, label="y", scores=["old", "new"], baseline="old", metrics=["auc"])
    assert found.comparisons["undefined"].to_pylist() == ["too few clusters"]
    assert found.comparisons["simultaneous_low"].to_pylist() == [None]
