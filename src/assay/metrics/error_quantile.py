"""Quantiles of the absolute error, from histograms of its float32 bits.

The jackknife is inconsistent for quantiles, whose leave-one-out values hardly move. So the share of errors at or below
the quantile, a mean, is jackknifed; Woodruff's interval turns its standard error into one of the quantile; and the
leave-one-out values are those of the linearised quantile. docs/decisions/0006-intervals-of-quantiles.md says why.

Axes: n rows, B buckets, m entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from assay.metrics import parameters
from assay.metrics.described import DescribedMetric
from assay.metrics.error_histogram import (
    BUCKET_SHIFT,
    INFINITE,
    KEY_BITS,
    KEY_MASK,
    Entries,
    ErrorHistogram,
    SliceErrors,
)
from assay.metrics.losses import DEFAULT_QUANTILE
from assay.metrics.parse import canonical
from assay.metrics.pooled import divide, support_of
from assay.metrics.sums import SUPPORT
from assay.protocols import Accumulator, Direction
from assay.records import Floats, LabelKind, Replicates, State, StateChoice, Undefined

LEAST_KNOWN = 0.25
"""Where wider bins show less of the variance of a share than this, there is no interval."""
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Cumulated:
    """The errors of one slice that has rows, as a distribution function over bins."""

    code: NDArray[np.int64]  # [m] float32 bits of the least value of each bin
    upto: NDArray[np.int64]  # [m] weight at or below the bin
    shift: int

    @property
    def weight(self) -> int:
        return int(self.upto[-1])

    def place(self, share: float) -> int:
        """The first bin at or below which there is this share of the weight."""
        return min(int(np.searchsorted(self.upto, share * self.weight)), len(self.code) - 1)

    def edges(self, place: int) -> tuple[float, float]:
        """The least value of a bin, and the least of the next one (the same value where bins are values)."""
        code = int(self.code[place])
        after = code + (1 << self.shift) if self.shift else code
        low, high = np.array([code, after], np.int32).view(np.float32).tolist()
        return low, high

    def value(self, place: int) -> float:
        """The middle of a bin; 0 for the one of 0."""
        low, high = self.edges(place)
        return 0.0 if low == 0.0 else 0.5 * (low + high)

    def bound(self, place: int) -> float:
        """How far what lies in a bin can be from its middle, the rounding to float32 included."""
        low, high = self.edges(place)
        return high if low == 0.0 else 0.5 * (high - low) + high * 2.0**-24


class _SliceQuantile(NamedTuple):
    value: float
    bound: float
    without: Floats  # [B]
    reason: Undefined | None
    interval_reason: Undefined | None


@dataclass(frozen=True)
class ErrorQuantile(DescribedMetric):
    """The q-quantile of |prediction - label|: the least value that a share q of the weight does not exceed.

    In the label's unit. Exact (but for rounding to float32) on exact states, else the middle of a bin, within 2^-8 of
    its value. No interpolation between values. Undefined where it is above 3.4e38. Intervals: Woodruff, "Confidence
    Intervals for Medians and Other Position Measures", 1952; there is none where a limit would lie beyond all errors.
    """

    q: float = DEFAULT_QUANTILE
    description: ClassVar[str] = "quantile of the absolute error, in the label's unit"
    label_kind: ClassVar[LabelKind | None] = "real"
    direction: ClassVar[Direction] = "lower"

    def __post_init__(self) -> None:
        parameters.share("error_quantile", "q", self.q)

    @property
    def name(self) -> str:
        return canonical("error_quantile", {"q": self.q}, {"q": DEFAULT_QUANTILE})

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, _histogram(choice))

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        rows = support_of(states).rows
        occupied = rows[:, 1:] < rows[:, :1]  # without such a bucket there are fewer rows
        histogram = _histogram(choice)
        slices = histogram.of(states[histogram.identity], len(rows))
        found = [
            _quantile(self.q, one, histogram.shift, has_rows) for one, has_rows in zip(slices, occupied, strict=True)
        ]
        return Replicates(
            np.array([one.value for one in found]),
            tuple(one.reason for one in found),
            np.array([one.without for one in found]).reshape(occupied.shape),
            tuple(one.interval_reason for one in found),
            np.array([one.bound for one in found]),
        )


def _histogram(choice: StateChoice) -> ErrorHistogram:
    return ErrorHistogram(choice.exact_ranking, choice.bucketed)


def _quantile(q: float, errors: SliceErrors, shift: int, occupied: NDArray[np.bool_]) -> _SliceQuantile:
    """occupied: [B]."""
    unknown = np.full(len(occupied), np.nan)
    if not len(errors.fine.code):
        return _SliceQuantile(np.nan, 0.0, unknown, Undefined.NO_ROWS, None)
    cumulated = Cumulated(errors.fine.code, np.cumsum(errors.fine.weight), shift)
    place = cumulated.place(q)
    if cumulated.code[place] >= INFINITE:
        return _SliceQuantile(np.nan, 0.0, unknown, Undefined.OVERFLOW, None)
    value, bound = cumulated.value(place), cumulated.bound(place)
    if errors.by_bucket is None:
        return _SliceQuantile(value, bound, unknown, None, Undefined.OVER_BUDGET)
    shares, known = shares_without(cumulated, place, errors.by_bucket, len(occupied))
    if known < LEAST_KNOWN:
        return _SliceQuantile(value, bound, unknown, None, Undefined.RESOLUTION)
    half = half_width_of_share(shares, occupied) / np.sqrt(known)
    width = woodruff_width(cumulated, q, half)
    if isinstance(width, Undefined):
        return _SliceQuantile(value, bound, unknown, None, width)
    slope = 0.5 * width / (half * np.sqrt(known)) if half else 0.0
    share = cumulated.upto[place] / cumulated.weight
    return _SliceQuantile(value, bound, value - (shares - share) * slope, None, None)


class Shares(NamedTuple):
    """The share of the weight at or below a bin."""

    without: Floats  # [B] when one bucket is left out; NaN when nothing is left
    known: float  # how much of the share's variance these show; 1 where the bins by bucket are as fine


def shares_without(cumulated: Cumulated, place: int, by_bucket: Entries, num_buckets: int) -> Shares:
    """A bucket's errors in the wider bin around the place are split as those of all buckets together are.

    That hides the variance of the split: of a wider bin with a share c of all weight, a part r of it below, c r (1 - r)
    out of F (1 - F), where F is the share at or below the place.
    """
    shift = BUCKET_SHIFT if cumulated.shift else 0
    wide = cumulated.code >> shift
    first, last = np.searchsorted(wide, wide[place]), np.searchsorted(wide, wide[place], side="right") - 1
    before = int(cumulated.upto[first - 1]) if first else 0
    upto, weight, inside = int(cumulated.upto[place]), cumulated.weight, int(cumulated.upto[last]) - before
    split = (upto - before) / inside
    bucket, key = by_bucket.code >> KEY_BITS, (by_bucket.code & KEY_MASK) >> shift
    part = np.where(key < wide[place], 1.0, np.where(key == wide[place], split, 0.0))
    below = np.bincount(bucket, part * by_bucket.weight, num_buckets)
    total = np.bincount(bucket, by_bucket.weight.astype(np.float64), num_buckets)
    without = divide(np.asarray(upto - below, np.float64), np.asarray(weight - total, np.float64))
    variance, hidden = upto * (weight - upto) / weight**2, inside * split * (1.0 - split) / weight
    return Shares(without, 1.0 - hidden / variance if hidden else 1.0)


def half_width_of_share(shares: Floats, occupied: NDArray[np.bool_]) -> float:
    """Half the width of the jackknife's 95 % interval of a share, from its leave-one-out values [B]."""
    used = shares[occupied]
    count = len(used)
    variance = (count - 1) / count * float(((used - used.mean()) ** 2).sum())
    return float(np.sqrt(variance) * stdtrit(max(count - 1, 1), 0.5 + _CONFIDENCE / 2))


def woodruff_width(cumulated: Cumulated, q: float, half: float) -> float | Undefined:
    """The width of the quantile's interval, from the shares q - half to q + half; or why there is none.

    It goes from the lower edge of a bin to the upper edge of another, so it is never finer than the bins; 0 where so
    many errors are equal that both limits are the same value.
    """
    if np.isnan(half):
        return Undefined.ONE_CLUSTER_DECIDES
    if not 0.0 < q - half <= q + half < 1.0:
        return Undefined.FEW_BEYOND
    low, high = cumulated.place(q - half), cumulated.place(q + half)
    if cumulated.code[high] >= INFINITE:
        return Undefined.OVERFLOW
    return cumulated.edges(high)[1] - cumulated.edges(low)[0]
