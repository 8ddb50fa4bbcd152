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

from assay.kernels.elementary import log
from assay.kernels.ranking import average_precisions, roc_areas
from assay.metrics.pooled import Counts, Floats, divide, support_of
from assay.metrics.ranking_states import Entries, Ranking, ranking_state
from assay.metrics.sums import SUPPORT
from assay.protocols import Accumulator, Direction
from assay.records import Curve, LabelKind, Replicates, State, StateChoice, Undefined

MOST_COARSE_BOUND = 0.05
"""Where the histogram behind the leave-one-out values knows the metric less closely than this, there is no interval."""


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


def average_precision(entries: Entries, num_buckets: int = 1) -> Floats:
    """[1 + B]: average precision in steps of distinct scores, then without each bucket; NaN without positives.

    >>> weight = np.array([[1, 0], [1, 1], [0, 1]])
    >>> average_precision(Entries(np.arange(3), np.zeros(3, np.int64), weight)).round(4).tolist()
    [0.8333, nan]
    """
    return np.asarray(average_precisions(*entries, num_buckets))


def average_precision_bound(weight: NDArray[np.int64]) -> float:
    """The same for average precision: in each bin [m, 2] the positives may come first, or last one by one.

    First, they gain p (t + p) / (t + p + f) with t true and f false positives before; last, at least the integral of
    (t + s) / (t + s + f + n) over s from 0 to p.
    """
    negative, positive = weight[::-1].astype(np.float64).T
    true, false = np.cumsum(positive), np.cumsum(negative)
    total = float(true[-1]) if len(true) else 0.0
    if not total:
        return 0.0
    value = divide(positive * true, true + false)
    best = divide(positive * true, true + false - negative)
    before = true - positive + false
    ratio = divide(positive, before)
    worst = positive - np.where(false > 0, false * _log1p(np.where(before > 0, ratio, 1.0)), 0.0)
    gap = max(np.nansum(best - value), np.nansum(value - worst))
    return float(gap / total)


def _log1p(x: Floats) -> Floats:
    """ln(1 + x) without losing small x, and with the same bits everywhere (Kahan's correction)."""
    shifted = 1.0 + x
    return np.where(shifted == 1.0, x, log(shifted) * divide(x, shifted - 1.0))


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
    def areas(self, entries: Entries, num_buckets: int) -> Floats:
        """The value, then the values without each bucket: [1 + B]."""

    @abstractmethod
    def bound(self, weight: NDArray[np.int64]) -> float:
        """How far the value over bins [m, 2] can be from that over the scores in them."""

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
        by_bucket = None if ranking.buckets is None else self.areas(ranking.buckets, num_buckets)
        if ranking.fine is None and by_bucket is not None:
            return _SliceValue(float(by_bucket[0]), 0.0, by_bucket[1:], None)
        assert ranking.fine is not None
        value = float(self.areas(ranking.fine, 1)[0])
        bound = 0.0 if ranking.exact else self.bound(ranking.fine.weight)
        if ranking.buckets is None or by_bucket is None:
            return _SliceValue(value, bound, np.full(num_buckets, np.nan), Undefined.OVER_BUDGET)
        resolved = self.bound(_bins_of(ranking.buckets)) <= MOST_COARSE_BOUND
        without = by_bucket[1:] + (value - by_bucket[0])
        return _SliceValue(value, bound, without, None if resolved else Undefined.RESOLUTION)


@dataclass(frozen=True)
class AUC(RankingMetric):
    """Area under the ROC curve: the chance that a positive row scores above a negative one, ties counting one half.

    Undefined for one class. On binned states the bound is half the share of pairs that fall in one bin.
    """

    name: ClassVar[str] = "auc"
    description: ClassVar[str] = "area under the ROC curve; ties count one half"

    def areas(self, entries: Entries, num_buckets: int) -> Floats:
        return roc_auc(entries, num_buckets)

    def bound(self, weight: NDArray[np.int64]) -> float:
        return roc_auc_bound(weight)

    def reason(self, counts: Counts, one: int) -> Undefined | None:
        one_class = counts.positive[one, 0] == 0 or counts.negative[one, 0] == 0
        return Undefined.ONE_CLASS if one_class else None


@dataclass(frozen=True)
class AveragePrecision(RankingMetric):
    """Sum over distinct scores, from the highest, of the recall gained times the precision there; not interpolated.

    Undefined without positives. On binned states the bound is from the best and worst order inside each bin.
    """

    name: ClassVar[str] = "average_precision"
    description: ClassVar[str] = "average precision, in steps of distinct scores"

    def areas(self, entries: Entries, num_buckets: int) -> Floats:
        return average_precision(entries, num_buckets)

    def bound(self, weight: NDArray[np.int64]) -> float:
        return average_precision_bound(weight)

    def reason(self, counts: Counts, one: int) -> Undefined | None:
        return Undefined.NO_POSITIVES if counts.positive[one, 0] == 0 else None
