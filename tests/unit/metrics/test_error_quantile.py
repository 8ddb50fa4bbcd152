"""Quantiles of the error against numpy, their bounds, and what their intervals are made of."""

from __future__ import annotations

import re

import numpy as np
import pytest

from assay.metrics.error_histogram import ErrorHistogram
from assay.metrics.error_quantile import ErrorQuantile
from assay.records import Sizes, StateChoice, Undefined
from assay.stats.jackknife import Basis, difference, intervals
from assay.testing import SIZES, evaluate, make_block, random_block

EXACT = StateChoice(exact_ranking=True, bucketed="all")
BINNED = StateChoice(exact_ranking=False, bucketed="all")
EVERYWHERE = Basis(np.ones((1, 64), np.bool_))


def of(errors, q=0.9, choice=EXACT, **kwargs):
    """The metric where the labels are 0."""
    block = make_block(errors, np.zeros(len(errors)), probability=False, **kwargs)
    return evaluate(ErrorQuantile(q), block, choice=choice)


@pytest.mark.parametrize("q", [0.01, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e9, 1e30])
def test_equal_to_numpy_within_the_bound(q, scale):
    errors = scale * np.exp(np.random.default_rng(0).normal(0.0, 2.0, 5000))
    expected = np.quantile(errors, q, method="inverted_cdf")
    exact, binned = of(errors, q), of(errors, q, BINNED)
    assert exact.value[0] == np.float32(expected)
    assert abs(exact.value[0] - expected) <= exact.error_bound[0] <= 2.0**-23 * expected
    assert abs(binned.value[0] - expected) <= binned.error_bound[0] <= 1.01 * 2.0**-8 * expected


def test_by_hand():
    assert of([1.0, -2.0, 3.0, -4.0], 0.5).value[0] == 2.0
    assert of([1.0, -2.0, 3.0, -4.0], 0.51).value[0] == 3.0
    assert of([1.0, -2.0, 3.0, -4.0], 0.5, weight=[1, 1, 1, 9]).value[0] == 4.0
    assert of([0.0, 0.0, 5.0], 0.5).value[0] == of([0.0, 0.0, 5.0], 0.5, BINNED).value[0] == 0.0


def test_unknown_is_said():
    assert of([]).reason == (Undefined.NO_ROWS,)
    assert of([1.0, 1e300]).reason == (Undefined.OVERFLOW,)
    assert of([1.0, 1e300], 0.5).value[0] == 1.0
    assert of(np.arange(200.0), 0.99).interval_reason == (Undefined.FEW_BEYOND,)
    assert of(np.arange(64.0), bucket=np.zeros(64)).interval_reason == (Undefined.ONE_CLUSTER_DECIDES,)


def test_slices_that_keep_no_buckets_have_no_interval():
    block = random_block(np.random.default_rng(0), 3000, "real", probability=False)
    choice = StateChoice(exact_ranking=False, bucketed="overall")
    result = evaluate(ErrorQuantile(), block, choice=choice, sizes=SIZES)
    assert result.interval_reason[0] is None
    assert result.interval_reason[1:5] == (Undefined.OVER_BUDGET,) * 4
    assert np.isfinite(result.value[:5]).all()
    assert result.reason[5] is Undefined.NO_ROWS


@pytest.mark.parametrize("choice", [EXACT, BINNED])
def test_the_interval_is_as_wide_as_that_of_the_asymptotic_formula(choice):
    errors = np.random.default_rng(0).exponential(1.0, 100_000)
    shown = intervals(of(errors, 0.9, choice), EVERYWHERE)
    error = np.sqrt(0.9 * 0.1 / 100_000) / 0.1  # sqrt(q (1 - q) / n) / density
    assert shown.standard_error[0] == pytest.approx(error, rel=0.25)  # of 64 buckets: 9 % is one standard error of it


def test_the_interval_is_never_finer_than_the_bins():
    errors = np.random.default_rng(0).uniform(1.9, 2.1, 100_000)
    shown = intervals(of(errors, 0.5, BINNED), EVERYWHERE)
    assert shown.high[0] - shown.low[0] >= 2.0**-7


def test_where_wider_bins_by_bucket_show_too_little_there_is_no_interval():
    errors = np.random.default_rng(0).uniform(1.0, 1.01, 10_000)
    assert of(errors, 0.5, BINNED).interval_reason == (Undefined.RESOLUTION,)
    assert of(errors, 0.5).interval_reason == (None,)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_what_wider_bins_hide_is_made_up_for(q):
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(30):
        errors = rng.uniform(0.0, 1.0, 20_000)
        exact, binned = (intervals(of(errors, q, choice), EVERYWHERE).standard_error[0] for choice in (EXACT, BINNED))
        ratios.append(binned / exact)
    assert 0.95 < np.median(ratios) < 1.8  # whole bins of 2^-7 are wider than the exact interval


def test_clusters_widen_it():
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(2000), 10)
    errors = rng.normal(size=2000)[user] + rng.normal(size=20_000)
    by_user = intervals(of(errors, 0.5, bucket=user % 64), EVERYWHERE).standard_error[0]
    by_row = intervals(of(errors, 0.5, bucket=rng.permutation(20_000) % 64), EVERYWHERE).standard_error[0]
    assert by_user > 1.3 * by_row


def test_a_paired_difference_is_narrower_than_two_intervals():
    rng = np.random.default_rng(0)
    one = rng.normal(size=20_000)
    other = one + 0.05 * rng.normal(size=20_000)
    first, second = of(one), of(other)
    pair = intervals(difference(second, first), EVERYWHERE)
    alone = intervals(first, EVERYWHERE)
    assert pair.standard_error[0] < 0.5 * alone.standard_error[0]
    assert pair.low[0] < np.quantile(abs(other), 0.9) - np.quantile(abs(one), 0.9) < pair.high[0]


@pytest.mark.parametrize("choice", [EXACT, BINNED])
@pytest.mark.parametrize("q", [0.5, 0.9])
def test_95_percent_intervals_hold_the_truth_about_95_times_in_a_hundred(choice, q):
    truth = {0.5: 0.6931471805599453, 0.9: 2.302585092994046}[q]  # of an exponential distribution
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        errors = rng.exponential(1.0, 2000)
        shown = intervals(of(errors, q, choice), EVERYWHERE)
        held += bool(shown.low[0] <= truth <= shown.high[0])
    assert 181 <= held <= 199  # 190 expected, three standard errors either way


def test_twins_differ_by_nothing():
    errors = np.random.default_rng(0).normal(size=1000)
    gap = difference(of(errors), of(errors.copy()))
    assert (gap.value[0], np.abs(gap.without).max()) == (0.0, 0.0)


def test_where_many_errors_are_equal_the_leave_one_out_values_are_too():
    result = of(np.ones(1000), 0.5)
    assert (result.value[0], set(result.without[0]), result.interval_reason) == (1.0, {1.0}, (None,))


def test_wrong_parameters():
    sentence = "The 'q' of the metric 'error_quantile' is 90; expected a number above 0 and below 1."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        ErrorQuantile(90)
    with pytest.raises(ValueError, match=re.escape("There are 2048 buckets; quantiles take at most 1024.")):
        evaluate(ErrorQuantile(), choice=EXACT, sizes=Sizes(1, 2048))


def test_many_slices_and_buckets_give_the_entries_of_few(monkeypatch):
    """Counting in a table and sorting the rows are two ways to the same bytes."""
    block = random_block(np.random.default_rng(1), 2000, "real", probability=False)
    histogram = ErrorHistogram(False, "all")
    states = []
    for most in (0, 10**9):
        monkeypatch.setattr("assay.metrics.error_histogram._MOST_CELLS_PER_ROW", most)
        states.append({name: one.tolist() for name, one in histogram.update(histogram.zero(SIZES), block).items()})
    assert states[0] == states[1]
