"""How well scores order the rows: area under the ROC curve and average precision.

Axes: S slices, B buckets, m distinct scores or bins. On exact states values are exact; on binned ones they come with a
rigorous bound, and the leave-one-out values are those of a coarser histogram, moved so as to agree with the value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.elementary import log1p
from assay.kernels.ranking import average_precisions, roc_areas
from assay.metrics.pooled import Counts, Floats, divide, support_of
from assay.metrics.ranking_states import Entries, Ranking, ranking_state
from assay.metrics.sums import SUPPORT
from assay.protocols import Accumulator, Direction
from assay.records import Curve, LabelKind, Replicates, State, StateChoice, Undefined

MOST_COARSE_BOUND = 0.05
"""Where the histogram behind the leave-one-out values knows the AUC less closely than this, there is no interval."""
MOST_RELATIVE_GAP = 0.02
"""The same for average precision, as the gap of its value in that histogram from its value. Measured: within it the
standard error comes to 0.94-1.02 of that of exact states, with 100 positives or more; outside to as little as 0.7."""


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
    best = np.nansum(divide(positive * true, true + false - negative))
    before = true - positive + false  # what precedes the first positive that comes last
    lost = false * log1p(np.nan_to_num(divide(positive, before)))
    return float(max(best / total - value, value - (total - lost.sum()) / total, 0.0))


def _bins_of(entries: Entries) -> NDArray[np.int64]:
    """The weight [m, 2] of each distinct key, over all buckets."""
    starts = np.flatnonzero(np.concatenate([[True], entries.key[1:] != entries.key[:-1]]))
    return np.add.reduceat(entries.weight, starts, axis=0)


class _SliceValue(NamedTuple):
    value: float
    bound: float
    without: Floats  # [B]
    interval_reason: Undefined | None


@dataclass(frozen=True)
class RankingMetric(ABC):
    """What the two metrics share: from the state's rankings to replicates."""

    name: ClassVar[str]
    description: ClassVar[str]
    label_kind: ClassVar[LabelKind | None] = "binary"
    needs_probability: ClassVar[bool] = False
    direction: ClassVar[Direction] = "higher"
    nonnegative: ClassVar[bool] = True

    @abstractmethod
    def areas(self, entries: Entries, num_buckets: int, exact: bool) -> Floats:
        """The value, then the values without each bucket: [1 + B]. exact: keys are scores, not bins."""

    @abstractmethod
    def bound(self, weight: NDArray[np.int64], value: float) -> float:
        """How far the value over bins [m, 2] can be from that over the scores in them."""

    @abstractmethod
    def agrees(self, coarse: float, value: float) -> bool:
        """The value of the histogram by bucket is near enough to the value for its replicates to be taken."""

    @abstractmethod
    def reason(self, counts: Counts, one: int) -> Undefined | None:
        """Why the metric is undefined in slice `one`, which has rows."""

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, ranking_state(choice))

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        counts, form = support_of(states), ranking_state(choice)
        num_slices, num_buckets = counts.rows.shape[0], counts.rows.shape[1] - 1
        unknown = _SliceValue(np.nan, 0.0, np.full(num_buckets, np.nan), None)
        reasons, values = [], []
        for one, ranking in enumerate(form.of(states[form.identity], num_slices)):
            reasons.append(self.reason(counts, one) if counts.rows[one, 0] else Undefined.NO_ROWS)
            values.append(self._evaluate(ranking, num_buckets) if reasons[-1] is None else unknown)
        value, bound, without = (np.array([one[i] for one in values]) for i in (0, 1, 2))
        return Replicates(value, tuple(reasons), without, tuple(one.interval_reason for one in values), bound)

    def curves(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> tuple[Curve, ...]:
        return ()

    def _evaluate(self, ranking: Ranking, num_buckets: int) -> _SliceValue:
        if ranking.fine is None:
            areas = self.areas(ranking.buckets, num_buckets, exact=True)
            return _SliceValue(float(areas[0]), 0.0, areas[1:], None)
        value = float(self.areas(ranking.fine, 1, ranking.exact)[0])
        bound = 0.0 if ranking.exact else self.bound(ranking.fine.weight, value)
        if not ranking.kept:
            return _SliceValue(value, bound, np.full(num_buckets, np.nan), Undefined.OVER_BUDGET)
        areas = self.areas(ranking.buckets, num_buckets, exact=False)
        resolved = roc_auc_bound(_bins_of(ranking.buckets)) <= MOST_COARSE_BOUND and self.agrees(areas[0], value)
        return _SliceValue(value, bound, areas[1:] + (value - areas[0]), None if resolved else Undefined.RESOLUTION)


@dataclass(frozen=True)
class AUC(RankingMetric):
    """Area under the ROC curve: the chance that a positive row scores above a negative one, ties counting one half.

    Undefined for one class. On binned states the bound is half the share of pairs that fall in one bin.
    """

    name: ClassVar[str] = "auc"
    description: ClassVar[str] = "area under the ROC curve; ties count one half"

    def areas(self, entries: Entries, num_buckets: int, exact: bool) -> Floats:
        return roc_auc(entries, num_buckets)

    def bound(self, weight: NDArray[np.int64], value: float) -> float:
        return roc_auc_bound(weight)

    def agrees(self, coarse: float, value: float) -> bool:
        return abs(coarse - value) <= MOST_COARSE_BOUND

    def reason(self, counts: Counts, one: int) -> Undefined | None:
        one_class = counts.positive[one, 0] == 0 or counts.negative[one, 0] == 0
        return Undefined.ONE_CLASS if one_class else None


@dataclass(frozen=True)
class AveragePrecision(RankingMetric):
    """Sum over distinct scores, from the highest, of the recall gained times the precision there; not interpolated.

    Undefined without positives. On binned states rows are taken to be evenly mixed inside a bin, and the bound is from
    the best and the worst order there.
    """

    name: ClassVar[str] = "average_precision"
    description: ClassVar[str] = "average precision, in steps of distinct scores"

    def areas(self, entries: Entries, num_buckets: int, exact: bool) -> Floats:
        return average_precision(entries, num_buckets, mixed=not exact)

    def bound(self, weight: NDArray[np.int64], value: float) -> float:
        return average_precision_bound(weight, value)

    def agrees(self, coarse: float, value: float) -> bool:
        return abs(coarse - value) <= MOST_RELATIVE_GAP * value

    def reason(self, counts: Counts, one: int) -> Undefined | None:
        return Undefined.NO_POSITIVES if counts.positive[one, 0] == 0 else None
