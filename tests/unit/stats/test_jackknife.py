"""The jackknife against a loop written from the definition, and scipy's t distribution."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from assay.records import Replicates, Undefined
from assay.stats.jackknife import (
    Basis,
    Intervals,
    combine,
    critical,
    difference,
    intervals,
    one_sided,
    standard_errors,
    two_sided,
)

B = 64


def replicates_of_mean(values: np.ndarray, buckets: np.ndarray) -> tuple[Replicates, np.ndarray]:
    """One slice: the mean of values [n] in buckets [n], its leave-one-out means and the occupied buckets."""
    without = np.array([[values[buckets != b].mean() for b in range(B)]])
    occupied = np.array([[bool((buckets == b).any()) for b in range(B)]])
    return Replicates(np.array([values.mean()]), (None,), without, (None,), np.zeros(1)), occupied


def constant(value: float, without: np.ndarray, **changes: object) -> Replicates:
    fields = {"reason": (None,), "interval_reason": (None,), "error_bound": np.zeros(1)} | changes
    return Replicates(value=np.array([value]), without=without, **fields)


def test_standard_error_is_the_definition_over_the_occupied_buckets():
    random = np.random.default_rng(1)
    buckets = random.integers(0, 50, 400)  # 14 of the 64 buckets stay empty
    replicates, occupied = replicates_of_mean(random.normal(size=400), buckets)

    error, degrees = standard_errors(replicates.without, occupied)

    kept = [float(replicates.without[0, b]) for b in range(B) if occupied[0, b]]
    mean = math.fsum(kept) / len(kept)
    variance = (len(kept) - 1) / len(kept) * math.fsum((one - mean) ** 2 for one in kept)
    assert len(kept) == 50
    assert degrees.tolist() == [49]
    assert error[0] == pytest.approx(math.sqrt(variance), rel=1e-12)


def test_interval_of_one_row_a_bucket_is_the_textbook_t_interval():
    values = np.random.default_rng(2).normal(3.0, 2.0, B)
    replicates, occupied = replicates_of_mean(values, np.arange(B))

    interval = intervals(replicates, Basis(occupied)).at(0)

    low, high = stats.t.interval(0.95, B - 1, loc=values.mean(), scale=stats.sem(values))
    assert interval.low == pytest.approx(low, rel=1e-12)
    assert interval.high == pytest.approx(high, rel=1e-12)
    assert interval.standard_error == pytest.approx(stats.sem(values), rel=1e-12)
    assert interval.degrees == B - 1
    assert interval.undefined is None


def test_slices_are_independent_of_one_another():
    random = np.random.default_rng(3)
    parts = [replicates_of_mean(random.normal(size=300), random.integers(0, B, 300)) for _ in range(3)]
    stacked = Replicates(
        np.concatenate([one.value for one, _ in parts]),
        (None,) * 3,
        np.concatenate([one.without for one, _ in parts]),
        (None,) * 3,
        np.zeros(3),
    )

    together = intervals(stacked, Basis(np.concatenate([occupied for _, occupied in parts])))

    assert [together.at(s) for s in range(3)] == [intervals(one, Basis(occupied)).at(0) for one, occupied in parts]


def test_p_values_are_those_of_a_one_sample_t_test():
    values = np.random.default_rng(4).normal(0.2, 1.0, B)
    replicates, occupied = replicates_of_mean(values, np.arange(B))
    shown = intervals(replicates, Basis(occupied))

    above, below = one_sided(shown.value, shown.standard_error, shown.degrees)

    assert two_sided(shown)[0] == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue, rel=1e-9)
    assert above[0] == pytest.approx(stats.ttest_1samp(values, 0.0, alternative="greater").pvalue, rel=1e-9)
    assert below[0] == pytest.approx(stats.ttest_1samp(values, 0.0, alternative="less").pvalue, rel=1e-9)


@pytest.mark.parametrize(
    ("value", "closed", "above", "below", "both"),
    [(0.5, True, 0, 1, 0), (-0.5, True, 1, 0, 0), (0.0, True, 0, 1, 1), (0.0, False, 1, 0, 1)],
)
def test_without_error_claims_on_equal_states_are_certain(value, closed, above, below, both):
    sure = Basis(np.ones((1, B), bool), certain=np.ones(1, bool))
    shown = intervals(constant(value, np.full((1, B), value)), sure)

    p_above, p_below = one_sided(shown.value, shown.standard_error, shown.degrees, closed)

    assert shown.at(0)[:4] == (value, 0.0, value, value)
    assert (p_above[0], p_below[0], two_sided(shown)[0]) == (above, below, both)


def test_equal_leave_one_out_values_have_an_exact_zero_error_whatever_their_sum_rounds_to():
    error, _ = standard_errors(np.full((1, B), 0.1), np.ones((1, B), bool))

    assert error[0] == 0.0


def test_below_10_occupied_buckets_there_is_no_interval_and_below_40_it_says_what_the_buckets_hold():
    occupied = np.arange(B)[None, :] < np.array([[9], [10], [39], [10], [39], [40], [40]])
    alone = np.array([True, True, True, False, False, True, False])
    varied = np.random.default_rng(5).normal(size=(7, B))
    replicates = Replicates(np.zeros(7), (None,) * 7, varied, (None,) * 7, np.zeros(7))

    shown = intervals(replicates, Basis(occupied, alone=alone))

    assert shown.undefined == (Undefined.TOO_FEW_CLUSTERS, *(None,) * 6)
    assert shown.method == (
        None,
        *("leave-one-cluster-out",) * 2,
        *("few clusters",) * 2,
        *("jackknife",) * 2,
    )
    assert np.isnan(shown.low).tolist() == [True, *[False] * 6]
    assert shown.degrees.tolist() == [8, 9, 38, 9, 38, 39, 39]
    assert np.isnan(two_sided(shown)).tolist() == [True, *[False] * 6]


def test_leave_one_cluster_out_is_the_textbook_t_interval_over_clusters():
    values = np.random.default_rng(21).normal(3.0, 2.0, 12)
    replicates, occupied = replicates_of_mean(values, np.arange(12))

    interval = intervals(replicates, Basis(occupied, alone=np.ones(1, bool))).at(0)

    low, high = stats.t.interval(0.95, 11, loc=values.mean(), scale=stats.sem(values))
    assert (interval.low, interval.high) == (pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12))


# ---- no variation ----------------------------------------------------------------------------------------------------


def test_a_metric_that_is_the_same_without_any_bucket_has_a_value_and_no_interval():
    shown = intervals(constant(1.0, np.full((1, B), 1.0)), Basis(np.ones((1, B), bool)))

    assert shown.undefined == (Undefined.NO_VARIATION,)
    assert shown.method == (None,)
    assert shown.value.tolist() == [1.0]
    assert np.isnan([shown.low[0], shown.high[0], shown.standard_error[0], two_sided(shown)[0]]).all()
    above, below = one_sided(shown.value, shown.standard_error, shown.degrees)
    assert np.isnan([above[0], below[0]]).all()


def test_variation_in_the_last_digits_is_rounding_and_no_variation():
    random = np.random.default_rng(22)
    noisy = 0.3 + random.integers(-2, 3, (1, B)) * 2.0**-54

    assert intervals(constant(0.3, noisy), Basis(np.ones((1, B), bool))).undefined == (Undefined.NO_VARIATION,)
    small = constant(0.3, 0.3 + random.normal(size=(1, B)) * 1e-12)
    assert intervals(small, Basis(np.ones((1, B), bool))).undefined == (None,)


def test_a_difference_is_rounded_as_its_parts_are():
    random = np.random.default_rng(23)
    parts = [constant(one, one + random.integers(-2, 3, (1, B)) * 2.0**-50) for one in (10.3, 10.2)]
    contrast, everywhere = difference(*parts), np.ones((1, B), bool)

    assert intervals(contrast, Basis(everywhere)).undefined == (None,)
    of_parts = Basis(everywhere, magnitude=parts[0].value)
    assert intervals(contrast, of_parts).undefined == (Undefined.NO_VARIATION,)


def test_two_that_differ_in_a_few_buckets_alone_have_no_interval():
    few = np.where(np.arange(B) < 9, 0.25, 0.5)[None]  # what nine rows on two sides of a threshold make of an accuracy
    everywhere, mask = np.ones((1, B), bool), np.ones(1, bool)

    assert intervals(constant(0.5, few), Basis(everywhere, alike=mask)).undefined == (Undefined.HARDLY_DIFFERENT,)
    assert intervals(constant(0.5, few), Basis(everywhere, alike=~mask)).undefined == (None,)
    equal = constant(0.0, np.zeros((1, B)))
    assert intervals(equal, Basis(everywhere, alike=mask)).undefined == (Undefined.NO_VARIATION,)
    assert intervals(equal, Basis(everywhere, alike=mask, certain=mask)).undefined == (None,)


# ---- two clusters ----------------------------------------------------------------------------------------------------


def crossed(first: np.ndarray, second: np.ndarray, both: np.ndarray) -> tuple[Replicates, Basis]:
    everywhere = np.ones((1, B), bool)
    replicates = constant(0.0, first[None], others=(second[None], both[None]))
    return replicates, Basis(everywhere, others=(everywhere, everywhere))


def errors_of(*several: np.ndarray) -> list[float]:
    return [float(standard_errors(one[None], np.ones((1, B), bool))[0][0]) for one in several]


def test_two_way_adds_both_variances_and_takes_that_of_the_pair_away():
    first, second, both = np.random.default_rng(24).normal(size=(3, B)) * np.array([[3.0], [2.0], [1.0]])

    shown = intervals(*crossed(first, second, both))

    one, two, three = errors_of(first, second, both)
    assert shown.standard_error[0] == pytest.approx(math.sqrt(one**2 + two**2 - three**2), rel=1e-12)
    assert shown.method == ("two-way",)


@pytest.mark.parametrize("scales", [(3.0, 1.0, 2.0), (1.0, 3.0, 2.0), (1.0, 1.0, 5.0)])
def test_two_way_is_never_surer_than_the_less_sure_of_the_two(scales):
    several = np.random.default_rng(25).normal(size=(3, B)) * np.array(scales)[:, None]

    shown = intervals(*crossed(*several))

    assert shown.standard_error[0] == max(errors_of(*several)[:2])


def test_two_way_has_the_degrees_of_freedom_of_the_smaller_family_and_needs_ten_of_each():
    several = np.random.default_rng(26).normal(size=(3, 1, B))
    replicates = constant(0.0, several[0], others=(several[1], several[2]))
    everywhere, fourteen, nine = (np.arange(B)[None] < size for size in (B, 14, 9))

    assert intervals(replicates, Basis(everywhere, others=(fourteen, everywhere))).degrees.tolist() == [13]
    assert intervals(replicates, Basis(fourteen, others=(everywhere, everywhere))).degrees.tolist() == [13]
    few = intervals(replicates, Basis(everywhere, others=(nine, everywhere)))
    assert (few.undefined, few.method) == ((Undefined.TOO_FEW_CLUSTERS,), (None,))


def simulated(random: np.random.Generator, users: int, days: int, rows: int) -> tuple[Intervals, Intervals]:
    """The mean, by user alone and by user and day, of rows of mean 0 with effects of both."""
    user, day = random.integers(0, users, rows), random.integers(0, days, rows)
    values = random.normal(0, 1, users)[user] + random.normal(0, 0.7, days)[day] + random.normal(0, 1, rows)
    pairs = random.integers(0, B, (users, days))[user, day]
    several = [replicates_of_mean(values, buckets) for buckets in (user % B, day % B, pairs)]
    (first, occupied), *others = several
    two_way = replace(first, others=tuple(one.without for one, _ in others))
    basis = Basis(occupied, others=tuple(one for _, one in others))
    return intervals(first, Basis(occupied)), intervals(two_way, basis)


def test_where_users_and_days_both_have_effects_two_way_intervals_hold_the_truth_and_those_of_users_do_not():
    random = np.random.default_rng(27)
    holds = np.zeros(2)
    for _ in range(400):
        for way, shown in enumerate(simulated(random, users=200, days=30, rows=1500)):
            holds[way] += shown.low[0] <= 0.0 <= shown.high[0]

    by_user, two_way = holds / 400
    assert by_user < 0.8
    assert 0.92 <= two_way <= 0.98


@pytest.mark.parametrize("lost", [np.nan, np.inf])
def test_a_bucket_that_decides_whether_the_metric_exists_takes_the_interval_away(lost):
    without = np.random.default_rng(6).normal(size=(1, B))
    without[0, 7] = lost
    occupied = np.ones((1, B), bool)

    assert intervals(constant(0.0, without), Basis(occupied)).undefined == (Undefined.ONE_CLUSTER_DECIDES,)
    occupied[0, 7] = False
    assert intervals(constant(0.0, without), Basis(occupied)).undefined == (None,)


def test_reasons_come_in_order_value_then_state_then_clusters_then_classes():
    without = np.full((1, B), np.nan)
    many, one = np.ones((1, B), bool), np.eye(1, B, dtype=bool)
    over_budget = {"interval_reason": (Undefined.OVER_BUDGET,)}

    no_value = constant(np.nan, without, reason=(Undefined.ONE_CLASS,), **over_budget)
    assert intervals(no_value, Basis(one, many[:, 0])).undefined == (Undefined.ONE_CLASS,)
    assert intervals(constant(0.5, without, **over_budget), Basis(one, many[:, 0])).undefined == (
        Undefined.OVER_BUDGET,
    )
    assert intervals(constant(0.5, without), Basis(one, many[:, 0])).undefined == (Undefined.TOO_FEW_CLUSTERS,)
    assert intervals(constant(0.5, without), Basis(many, many[:, 0])).undefined == (Undefined.TOO_FEW_POSITIVES,)


def test_difference_pairs_the_buckets():
    random = np.random.default_rng(7)
    noise, buckets = random.normal(size=600), random.integers(0, B, 600)
    gain = random.normal(0.1, 0.01, 600)
    baseline, occupied = replicates_of_mean(noise, buckets)
    candidate, _ = replicates_of_mean(noise + gain, buckets)
    directly, _ = replicates_of_mean(gain, buckets)

    paired = intervals(difference(candidate, baseline), Basis(occupied)).at(0)

    assert paired.low == pytest.approx(intervals(directly, Basis(occupied)).at(0).low, rel=1e-9)
    assert paired.standard_error < intervals(candidate, Basis(occupied)).at(0).standard_error / 20


def test_a_metric_minus_itself_is_exactly_zero_with_p_1():
    random = np.random.default_rng(8)
    replicates, occupied = replicates_of_mean(random.normal(size=600), random.integers(0, B, 600))

    shown = intervals(difference(replicates, replicates), Basis(occupied, certain=np.ones(1, bool)))

    assert shown.at(0) == (0.0, 0.0, 0.0, 0.0, B - 1, None)
    assert two_sided(shown).tolist() == [1.0]


def test_combine_carries_reasons_of_any_part_and_leaves_the_parts_alone():
    fine = constant(2.0, np.full((1, B), 3.0))
    lost = constant(np.nan, np.full((1, B), 1.0), reason=(Undefined.FAILED,), interval_reason=(Undefined.RESOLUTION,))

    result = combine(lambda x: x, [fine], np.ones(1))
    result.value[0] = 9.0
    both = combine(np.subtract, [fine, lost], np.zeros(1))

    assert fine.value.tolist() == [2.0]
    assert both.reason == (Undefined.FAILED,)
    assert both.interval_reason == (Undefined.RESOLUTION,)
    assert math.isnan(both.value[0])


def test_infinity_minus_infinity_is_undefined_not_nan_without_a_reason():
    infinite = constant(np.inf, np.full((1, B), np.inf))

    assert difference(infinite, infinite).reason == (Undefined.OVERFLOW,)


def test_error_bounds_of_a_difference_add_up():
    part = constant(0.5, np.full((1, B), 0.5), error_bound=np.array([0.001]))

    assert difference(part, part).error_bound.tolist() == [0.002]


def test_no_slices_and_no_occupied_bucket():
    error, degrees = standard_errors(np.empty((0, B)), np.empty((0, B), bool))
    assert (error.shape, degrees.shape) == ((0,), (0,))

    error, degrees = standard_errors(np.zeros((1, B)), np.zeros((1, B), bool))
    assert np.isnan(error).tolist() == [True]
    assert degrees.tolist() == [0]


def test_critical_is_the_upper_t_quantile():
    assert critical(0.025, 63) == pytest.approx(stats.t.isf(0.025, 63), rel=1e-12)
