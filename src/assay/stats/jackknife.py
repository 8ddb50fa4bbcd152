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

from assay.records import Interval, Replicates, Undefined

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MIN_BUCKETS = 40
"""Occupied buckets below which there is no interval: the t quantile and the standard error are too unsteady."""
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Intervals:
    """A 95 % interval per slice; `undefined` says why the value, or else only its interval, is unknown."""

    value: Floats  # [S], NaN where undefined
    standard_error: Floats  # [S], NaN where there is no interval
    low: Floats  # [S]
    high: Floats  # [S]
    degrees: NDArray[np.int64]  # [S] of freedom of the t distribution: occupied buckets - 1, at least 0
    undefined: tuple[Undefined | None, ...]  # length S

    def at(self, number: int) -> Interval:
        """The interval of one slice."""
        arrays = (self.value, self.standard_error, self.low, self.high)
        value, standard_error, low, high = (float(array[number]) for array in arrays)
        return Interval(value, standard_error, low, high, int(self.degrees[number]), self.undefined[number])


def combine(function: Callable[..., Any], parts: Sequence[Replicates], error_bound: Floats) -> Replicates:
    """A function of metrics as a metric of its own: applied to the values and to every leave-one-out value alike.

    `function` takes one array per part and works element by element (Any: of either shape). The result is undefined
    wherever a part is. `error_bound` [S] is the caller's, since it depends on the function.

    >>> one = Replicates(np.array([2.0]), (None,), np.array([[1.0, 3.0]]), (None,), np.zeros(1))
    >>> combine(lambda x, y: x * y, [one, one], np.zeros(1)).without.tolist()
    [[1.0, 9.0]]
    """
    with np.errstate(invalid="ignore", over="ignore"):
        value = np.array(function(*(part.value for part in parts)), np.float64)
        without = np.array(function(*(part.without for part in parts)), np.float64)
    reason = [_first(reasons) for reasons in zip(*(part.reason for part in parts), strict=True)]
    reason = [
        why or (Undefined.OVERFLOW if unknown else None) for why, unknown in zip(reason, np.isnan(value), strict=True)
    ]
    value[[why is not None for why in reason]] = np.nan
    interval_reason = tuple(_first(reasons) for reasons in zip(*(p.interval_reason for p in parts), strict=True))
    return Replicates(value, tuple(reason), without, interval_reason, error_bound)


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


def intervals(replicates: Replicates, occupied: Bools, few: Bools | None = None) -> Intervals:
    """95 % t intervals per slice.

    occupied: [S, B] buckets that hold rows. few: [S] slices where a class has too few rows for an interval (binary
    metrics); None: nowhere. There is no interval, and `undefined` says why, where the value is undefined, where the
    state does not allow one, below 40 occupied buckets, where `few` is true, and where the metric is undefined without
    some bucket.
    """
    error, degrees = standard_errors(replicates.without, occupied)
    too_few = np.zeros(len(error), np.bool_) if few is None else few
    undefined = tuple(
        value_reason or interval_reason or _no_interval(int(freedom), bool(sparse), float(one))
        for value_reason, interval_reason, freedom, sparse, one in zip(
            replicates.reason, replicates.interval_reason, degrees, too_few, error, strict=True
        )
    )
    error[[why is not None for why in undefined]] = np.nan
    half = error * stdtrit(np.maximum(degrees, 1), 0.5 + CONFIDENCE / 2)
    value = replicates.value
    return Intervals(value, error, value - half, value + half, degrees, undefined)


def two_sided(shown: Intervals) -> Floats:
    """p-value [S] of "the value is 0"; NaN without an interval; 1 for an exact 0, 0 for another value without error."""
    above, _ = one_sided(np.abs(shown.value), shown.standard_error, shown.degrees, closed=False)
    return np.minimum(1.0, 2.0 * above)


def one_sided(
    distance: Floats, error: Floats, degrees: NDArray[np.int64], closed: bool = True
) -> tuple[Floats, Floats]:
    """p-values [S] of the claims "the distance is above 0" and "below 0"; NaN where `error` is.

    Without error the claims are certain: p is 0 or 1, and a distance of exactly 0 counts as above when `closed`.
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


def _no_interval(degrees: int, few: bool, error: float) -> Undefined | None:
    if degrees + 1 < MIN_BUCKETS:
        return Undefined.TOO_FEW_CLUSTERS
    if few:
        return Undefined.TOO_FEW_POSITIVES
    return Undefined.ONE_CLUSTER_DECIDES if np.isnan(error) else None
