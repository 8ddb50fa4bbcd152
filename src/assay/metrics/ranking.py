"""How well scores order the rows: area under the ROC curve, and average precision.

Axes: S slices, B buckets, m distinct scores or bins. On exact states values are exact; on binned ones they come with a
rigorous bound, and the leave-one-out values are those of a coarser histogram, moved so as to agree with the value.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.elementary import log1p
from assay.kernels.ranking import average_precisions, roc_areas
from assay.metrics.described import DescribedMetric
from assay.metrics.pooled import Counts, support_of
from assay.metrics.ranking_states import Entries, Ranking, ranking_state
from assay.metrics.sums import SUPPORT
from assay.metrics.sweep import curves_of
from assay.protocols import Accumulator, Direction
from assay.records import Curve, Floats, Replicates, State, StateChoice, Undefined

MOST_COARSE_BOUND = 0.05
"""Where the histogram behind the leave-one-out values knows the AUC less closely than this, there is no interval."""
MOST_RELATIVE_GAP = 0.02
"""The same for average precision, as the gap of its value in that histogram from its value.

Measured at the 11 bits that a run takes where it may (5 of the histogram by bucket), as the share of the standard error
of exact states, middle 90 % of worlds: within the gap 0.97 to 1.01 with 20 positives, 0.95 to 1.01 with 200, 0.99 to
1.01 with 2,200; outside, in 3 to 13 % of worlds with few positives, as little as 0.7. At 7 bits (3 by bucket) hardly
any world with 20 positives is within, and 200 give 0.88 to 1.02."""


def roc_auc(entries: Entries, num_buckets: int = 1) -> Floats:
    """[1 + B]: the area under the ROC curve, ties counting one half, then without each bucket; NaN for one class.

    >>> weight = np.array([[1, 0], [1, 1], [0, 1]])
    >>> roc_auc(Entries(np.arange(3), np.zeros(3, np.int64), weight)).tolist()
    [0.875, nan]
    """
    return np.asarray(roc_areas(*entries, num_buckets))


def roc_auc_bound(weight: NDArray[np.int64]) -> float:
    """How far the area over bins [m, 2] can be from that over the scores in them: half the share of pairs that tie."""
    negative, positive = weight.astype(np.float64).T
    pairs = negative.sum() * positive.sum()
    return float(0.5 * (negative * positive).sum() / pairs) if pairs else 0.0


def average_precision(entries: Entries, num_buckets: int = 1, mixed: bool = False) -> Floats:
    """[1 + B]: average precision in steps of distinct scores, then without each bucket; NaN without positives.

    mixed: the keys are bins; rows are taken to be evenly mixed in a bin rather than tied.

    >>> weight = np.array([[1, 0], [1, 1], [0, 1]])
    >>> average_precision(Entries(np.arange(3), np.zeros(3, np.int64), weight)).round(4).tolist()
    [0.8333, nan]
    """
    return np.asarray(average_precisions(*entries, num_buckets, mixed))


def average_precision_bound(weight: NDArray[np.int64], value: float) -> float:
    """How far `value` can be from the average precision over the scores in bins [m, 2]: positives come first or last.

    First, those of a bin gain p (t + p) / (t + p + f), with t true and f false positives before; last and one by one,
    at least the integral of (t + s) / (t + s + f + n) over s from 0 to p.
    """
    negative, positive = weight[::-1].astype(np.float64).T
    true, false = np.cumsum(positive), np.cumsum(negative)
    total = float(positive.sum())
    if total == 0.0:
        return 0.0
    best = _shares(positive * true, true + false - negative).sum()
    before = true - positive + false  # what precedes the first positive that comes last
    lost = false * log1p(_shares(positive, before))
    return float(max(best / total - value, value - (total - lost.sum()) / total, 0.0))


def _shares(part: Floats, whole: Floats) -> Floats:
    """part / whole [m], 0 where the whole is 0."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole != 0.0)


def ties(entries: Entries) -> NDArray[np.int64]:
    """The weight [m, 2] of each distinct key, over all buckets."""
    starts = np.flatnonzero(np.diff(entries.key, prepend=entries.key[:1] - 1))
    return np.add.reduceat(entries.weight, starts, axis=0) if len(starts) else entries.weight


def one_class_reason(counts: Counts, one: int) -> Undefined | None:
    """The reason where slice `one` has rows of one class alone."""
    both = counts.positive[one, 0] > 0 and counts.negative[one, 0] > 0
    return None if both else Undefined.ONE_CLASS


def no_positives_reason(counts: Counts, one: int) -> Undefined | None:
    """The reason where slice `one` has no positive rows."""
    return None if counts.positive[one, 0] > 0 else Undefined.NO_POSITIVES


class _SliceValue(NamedTuple):
    value: float
    reason: Undefined | None
    bound: float
    without: Floats  # [B]
    interval_reason: Undefined | None


@dataclass(frozen=True)
class RankingMetric(DescribedMetric):
    """What metrics of the order of scores share: from the state's rankings to replicates."""

    direction: ClassVar[Direction] = "higher"
    drawn: ClassVar[tuple[str, ...]] = ()
    """Names of the curves that it draws."""

    @abstractmethod
    def values(self, entries: Entries, num_buckets: int, exact: bool, weight_unit: float) -> Floats:
        """The value, then the values without each bucket: [1 + B]. exact: keys are scores, not bins."""

    @abstractmethod
    def bound(self, fine: Entries, value: float, weight_unit: float) -> float:
        """How far the value over bins, all in bucket 0, can be from that over the scores in them."""

    @abstractmethod
    def agrees(self, coarse: float, value: float) -> bool:
        """The value of the histogram by bucket is near enough to the value for its replicates to be taken."""

    @abstractmethod
    def reason(self, counts: Counts, one: int) -> Undefined | None:
        """Why the metric is undefined in slice `one`, which has rows."""

    def unreached(self, ranking: Ranking) -> Undefined:
        """Why there is no value in spite of that."""
        return Undefined.ZERO_DENOMINATOR

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, ranking_state(choice))

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        counts, form = support_of(states), ranking_state(choice)
        num_slices, num_buckets = counts.rows.shape[0], counts.rows.shape[1] - 1
        found = []
        for one, ranking in enumerate(form.of(states[form.identity], num_slices)):
            reason = self.reason(counts, one) if counts.rows[one, 0] else Undefined.NO_ROWS
            known = reason is None
            found.append(self._evaluate(ranking, num_buckets, weight_unit) if known else _unknown(num_buckets, reason))
        return Replicates(
            value=np.array([one.value for one in found]),
            reason=tuple(one.reason for one in found),
            without=np.array([one.without for one in found]),
            interval_reason=tuple(one.interval_reason for one in found),
            error_bound=np.array([one.bound for one in found]),
        )

    def curves(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> tuple[Curve, ...]:
        return curves_of(self.drawn, states, choice, weight_unit) if self.drawn else ()

    def _evaluate(self, ranking: Ranking, num_buckets: int, weight_unit: float) -> _SliceValue:
        if ranking.fine is None:
            values = self.values(ranking.buckets, num_buckets, exact=True, weight_unit=weight_unit)
            if np.isnan(values[0]):
                return _unknown(num_buckets, self.unreached(ranking))
            return _SliceValue(float(values[0]), None, 0.0, values[1:], None)
        value = float(self.values(ranking.fine, 1, ranking.exact, weight_unit)[0])
        if np.isnan(value):
            return _unknown(num_buckets, self.unreached(ranking))
        bound = 0.0 if ranking.exact else self.bound(ranking.fine, value, weight_unit)
        if not ranking.kept:
            return _SliceValue(value, None, bound, np.full(num_buckets, np.nan), Undefined.OVER_BUDGET)
        values = self.values(ranking.buckets, num_buckets, exact=False, weight_unit=weight_unit)
        resolved = roc_auc_bound(ties(ranking.buckets)) <= MOST_COARSE_BOUND and self.agrees(values[0], value)
        moved = values[1:] + (value - values[0])
        return _SliceValue(value, None, bound, moved, None if resolved else Undefined.RESOLUTION)


def _unknown(num_buckets: int, reason: Undefined | None) -> _SliceValue:
    return _SliceValue(np.nan, reason, 0.0, np.full(num_buckets, np.nan), None)


@dataclass(frozen=True)
class AUC(RankingMetric):
    """Area under the ROC curve: the chance that a positive row scores above a negative one, ties counting one half.

    Undefined for one class. On binned states the bound is half the share of pairs that fall in one bin.
    """

    name: ClassVar[str] = "auc"
    description: ClassVar[str] = "area under the ROC curve; ties count one half"
    drawn: ClassVar[tuple[str, ...]] = ("roc",)

    def values(self, entries: Entries, num_buckets: int, exact: bool, weight_unit: float) -> Floats:
        return roc_auc(entries, num_buckets)

    def bound(self, fine: Entries, value: float, weight_unit: float) -> float:
        return roc_auc_bound(fine.weight)

    def agrees(self, coarse: float, value: float) -> bool:
        return abs(coarse - value) <= MOST_COARSE_BOUND

    def reason(self, counts: Counts, one: int) -> Undefined | None:
        return one_class_reason(counts, one)


@dataclass(frozen=True)
class Gini(AUC):
    """2 AUC - 1, from -1 to 1; 0 by chance. Undefined for one class. Also called Somers' D, or the accuracy ratio."""

    name: ClassVar[str] = "gini"
    description: ClassVar[str] = "2 AUC - 1"
    nonnegative: ClassVar[bool] = False

    def values(self, entries: Entries, num_buckets: int, exact: bool, weight_unit: float) -> Floats:
        return 2.0 * roc_auc(entries, num_buckets) - 1.0

    def bound(self, fine: Entries, value: float, weight_unit: float) -> float:
        return 2.0 * roc_auc_bound(fine.weight)

    def agrees(self, coarse: float, value: float) -> bool:
        return abs(coarse - value) <= 2.0 * MOST_COARSE_BOUND


@dataclass(frozen=True)
class AveragePrecision(RankingMetric):
    """Sum over distinct scores, from the highest, of the recall gained times the precision there; not interpolated.

    Undefined without positives. On binned states rows are taken to be evenly mixed inside a bin, and the bound is from
    the best and the worst order there.
    """

    name: ClassVar[str] = "average_precision"
    description: ClassVar[str] = "average precision, in steps of distinct scores"
    drawn: ClassVar[tuple[str, ...]] = ("pr",)

    def values(self, entries: Entries, num_buckets: int, exact: bool, weight_unit: float) -> Floats:
        return average_precision(entries, num_buckets, mixed=not exact)

    def bound(self, fine: Entries, value: float, weight_unit: float) -> float:
        return average_precision_bound(fine.weight, value)

    def agrees(self, coarse: float, value: float) -> bool:
        return abs(coarse - value) <= MOST_RELATIVE_GAP * value

    def reason(self, counts: Counts, one: int) -> Undefined | None:
        return no_positives_reason(counts, one)
