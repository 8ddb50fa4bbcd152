"""Delete-one-bucket jackknife: from a metric's leave-one-out values to intervals and p-values.

Lives here: the arithmetic on replicates. Not here: how replicates are made (metrics) and what is done about many tests
(`holm.py`). Axes: S slices, B buckets. The method, and why 64 buckets: docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from assay.records import Interval, IntervalMethod, Replicates, Undefined

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MIN_BUCKETS = 10
"""Occupied buckets below which there is no interval: the t quantile and the standard error are too unsteady."""
MANY_BUCKETS = 40
"""Occupied buckets below which an interval is labelled, by what the buckets hold."""
ROUNDING = 2.0**-46
"""A standard error below this share of the values is made of their rounding: leave-one-out values that differ in the
last few bits of 53, 64 of them."""
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Basis:
    """What is known of the rows behind replicates, by slice: on it depends which intervals there can be."""

    occupied: Bools  # [S, B] buckets that hold rows
    few: Bools | None = None  # [S] a class has too few rows for an interval; None: nowhere
    alone: Bools | None = None  # [S] each bucket holds one cluster; None: nowhere
    others: tuple[Bools, ...] = ()  # occupied buckets of the second cluster, then of both; () with one
    certain: Bools | None = None  # [S] no error is no accident there: both sides have the same states; None: nowhere
    alike: Bools | None = None  # [S] both sides differ in fewer than `MIN_BUCKETS` buckets; None: nowhere
    magnitude: Floats | None = None  # [S] of the values that the contrast is made of, beside its own; None: no larger


@dataclass(frozen=True, slots=True)
class Intervals:
    """A 95 % interval per slice; `undefined` says why the value, or else only its interval, is unknown."""

    value: Floats  # [S], NaN where undefined
    standard_error: Floats  # [S], NaN where there is no interval
    low: Floats  # [S]
    high: Floats  # [S]
    degrees: NDArray[np.int64]  # [S] of freedom of the t distribution: occupied buckets - 1, at least 0
    undefined: tuple[Undefined | None, ...]  # length S
    method: tuple[IntervalMethod | None, ...] = ()  # length S, None where there is no interval; () where not said

    def at(self, number: int) -> Interval:
        """The interval of one slice."""
        arrays = (self.value, self.standard_error, self.low, self.high)
        value, standard_error, low, high = (float(array[number]) for array in arrays)
        return Interval(value, standard_error, low, high, int(self.degrees[number]), self.undefined[number])


def combine(function: Callable[..., Any], parts: Sequence[Replicates], error_bound: Floats) -> Replicates:
    """A function of metrics as a metric of its own: applied to the values and to every leave-one-out value alike.

    `function` takes one array per part and works element by element (Any: of either shape). The result is undefined
    wherever a part is. `error_bound` [S] is the caller's, since it depends on the function. What bars a value alone
    from an interval does not bar a function of several, in which it cancels.

    >>> one = Replicates(np.array([2.0]), (None,), np.array([[1.0, 3.0]]), (None,), np.zeros(1))
    >>> combine(lambda x, y: x * y, [one, one], np.zeros(1)).without.tolist()
    [[1.0, 9.0]]
    """
    with np.errstate(invalid="ignore", over="ignore"):
        value = np.array(function(*(part.value for part in parts)), np.float64)
        without = np.array(function(*(part.without for part in parts)), np.float64)
        views = zip(*(part.others for part in parts), strict=True)
        others = tuple(np.array(function(*view), np.float64) for view in views)
    reason = [_first(reasons) for reasons in zip(*(part.reason for part in parts), strict=True)]
    reason = [
        why or (Undefined.OVERFLOW if unknown else None) for why, unknown in zip(reason, np.isnan(value), strict=True)
    ]
    value[[why is not None for why in reason]] = np.nan
    interval_reason = tuple(_first(reasons) for reasons in zip(*(p.interval_reason for p in parts), strict=True))
    alone = parts[0].alone if len(parts) == 1 else ()
    return Replicates(value, tuple(reason), without, interval_reason, error_bound, others, alone)


def difference(candidate: Replicates, baseline: Replicates) -> Replicates:
    """candidate - baseline on the same rows, paired: bucket by bucket."""
    return combine(np.subtract, (candidate, baseline), candidate.error_bound + baseline.error_bound)


def standard_errors(without: Floats, occupied: Bools) -> tuple[Floats, NDArray[np.int64]]:
    """Jackknife standard error [S] and degrees of freedom [S] over the occupied buckets of each slice.

    With B' occupied buckets the variance is (B' - 1) / B' times the sum of squared deviations from the mean of the
    leave-one-out values. NaN with fewer than 2 occupied buckets, or where an occupied bucket's value is not finite.
    Exactly 0 where all of them are equal.
    """
    if not without.shape[0]:
        return np.empty(0), np.empty(0, np.int64)
    count = occupied.sum(axis=1)
    # Measured from one of the values, so that equal values give an exact zero and large ones lose no digits.
    origin = np.take_along_axis(without, occupied.argmax(axis=1)[:, None], axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        offset = np.where(occupied, without - origin, 0.0)
        mean = offset.sum(axis=1) / np.maximum(count, 1)
        squares = np.where(occupied, (offset - mean[:, None]) ** 2, 0.0).sum(axis=1)
        error = np.sqrt(squares * (count - 1) / np.maximum(count, 1))
    error[(count < 2) | ~np.isfinite(error)] = np.nan
    return error, np.maximum(count - 1, 0).astype(np.int64)


def intervals(replicates: Replicates, basis: Basis) -> Intervals:
    """95 % t intervals per slice.

    There is none, and `undefined` says why, where the value is undefined, where the state does not allow one, below 10
    occupied buckets, where a class has too few rows, where the metric is undefined without some bucket, and where it is
    the same without any (unless that is `certain`) or, between two variants, in nearly all. With two clusters see
    `_two_way`.
    """
    error, degrees = standard_errors(replicates.without, basis.occupied)
    if basis.others:
        error, degrees = _two_way(replicates, basis, error, degrees)
    error = _rounded(error, replicates.value, basis.magnitude)
    nowhere = np.zeros(len(error), np.bool_)
    few = nowhere if basis.few is None else basis.few
    certain = nowhere if basis.certain is None else basis.certain
    alike = nowhere if basis.alike is None else basis.alike
    undefined = tuple(
        value_reason
        or interval_reason
        or _no_interval(int(freedom), bool(sparse), float(one), bool(sure), bool(near))
        or alone
        for value_reason, interval_reason, freedom, sparse, one, sure, near, alone in zip(
            replicates.reason,
            replicates.interval_reason,
            degrees,
            few,
            error,
            certain,
            alike,
            replicates.alone or (None,) * len(error),
            strict=True,
        )
    )
    error[[why is not None for why in undefined]] = np.nan
    half = error * stdtrit(np.maximum(degrees, 1), 0.5 + CONFIDENCE / 2)
    value = replicates.value
    return Intervals(value, error, value - half, value + half, degrees, undefined, _methods(basis, degrees, undefined))


def _two_way(
    replicates: Replicates, basis: Basis, first: Floats, first_degrees: NDArray[np.int64]
) -> tuple[Floats, NDArray[np.int64]]:
    """Standard error and degrees of freedom where rows depend on one another through either of two clusters.

    The variance is V_first + V_second - V_both (Cameron, Gelbach, Miller, "Robust inference with multiway clustering",
    2011), and at least the larger of V_first and V_second: the difference of estimates may come out too small, or below
    0. Degrees of freedom are those of the smaller family.
    """
    errors = [first, *(_each(replicates, basis, view)[0] for view in (0, 1))]
    second_degrees = _each(replicates, basis, 0)[1]
    by_first, by_second, by_both = (error**2 for error in errors)
    variance = np.maximum(by_first + by_second - by_both, np.maximum(by_first, by_second))
    return np.sqrt(variance), np.minimum(first_degrees, second_degrees)


def _each(replicates: Replicates, basis: Basis, view: int) -> tuple[Floats, NDArray[np.int64]]:
    return standard_errors(replicates.others[view], basis.others[view])


def _rounded(error: Floats, value: Floats, magnitude: Floats | None) -> Floats:
    """The standard error, 0 where it is below the digits of the values."""
    size = np.abs(value) + (0.0 if magnitude is None else np.abs(magnitude))
    return np.where(np.isfinite(size) & (error <= ROUNDING * size), 0.0, error)


def _methods(
    basis: Basis, degrees: NDArray[np.int64], undefined: Sequence[Undefined | None]
) -> tuple[IntervalMethod | None, ...]:
    alone = np.zeros(len(degrees), np.bool_) if basis.alone is None else basis.alone
    return tuple(
        _method(bool(basis.others), int(freedom), bool(one)) if why is None else None
        for freedom, one, why in zip(degrees, alone, undefined, strict=True)
    )


def _method(two_way: bool, degrees: int, alone: bool) -> IntervalMethod:
    if two_way:
        return "two-way"
    if degrees + 1 >= MANY_BUCKETS:
        return "jackknife"
    return "leave-one-cluster-out" if alone else "few clusters"


def two_sided(shown: Intervals) -> Floats:
    """p-value [S] of "the value is 0"; NaN without an interval; 1 for an exact 0, 0 for another value without error."""
    above, _ = one_sided(np.abs(shown.value), shown.standard_error, shown.degrees, closed=False)
    return np.minimum(1.0, 2.0 * above)


def one_sided(
    distance: Floats, error: Floats, degrees: NDArray[np.int64], closed: bool = True
) -> tuple[Floats, Floats]:
    """p-values [S] of the claims "the distance is above 0" and "below 0"; NaN where `error` is.

    Without error, which `intervals` leaves to those of equal states, the claims are certain: p is 0 or 1, and a
    distance of exactly 0 counts as above when `closed`.
    """
    certain = error == 0.0
    t = np.divide(distance, error, out=np.full(len(error), np.nan), where=error > 0.0)
    freedom = np.maximum(degrees, 1)
    above = (distance > 0.0) | ((distance == 0.0) & closed)
    p_above = np.where(certain, np.where(above, 0.0, 1.0), stdtr(freedom, -t))
    p_below = np.where(certain, np.where(above, 1.0, 0.0), stdtr(freedom, t))
    return p_above, p_below


def critical(alpha: float, degrees: int) -> float:
    """The t quantile that a one-sided test at level alpha must reach."""
    return float(stdtrit(degrees, 1.0 - alpha))


def _first(reasons: Sequence[Undefined | None]) -> Undefined | None:
    return next((reason for reason in reasons if reason is not None), None)


def _no_interval(degrees: int, few: bool, error: float, certain: bool, alike: bool) -> Undefined | None:
    if degrees + 1 < MIN_BUCKETS:
        return Undefined.TOO_FEW_CLUSTERS
    if few:
        return Undefined.TOO_FEW_POSITIVES
    if np.isnan(error):
        return Undefined.ONE_CLUSTER_DECIDES
    if certain:
        return None
    if error == 0:
        return Undefined.NO_VARIATION
    return Undefined.HARDLY_DIFFERENT if alike else None
