"""How well the scores of each class or label order the rows: area under the ROC curve, one against the rest.

Axes: S slices, B buckets, C classes or labels. On binned states values come with a rigorous bound, and the
leave-one-out values are those of a coarser histogram, moved so as to agree with the value.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from assay.metrics.class_formulas import mean_of
from assay.metrics.class_ranking_states import ClassRankings, ClassRankingState, class_ranking_state
from assay.metrics.described import DescribedMetric
from assay.metrics.pooled import support_of
from assay.metrics.ranking import MOST_COARSE_BOUND, roc_auc, roc_auc_bound, ties
from assay.metrics.ranking_states import Entries
from assay.metrics.sums import SUPPORT
from assay.protocols import Accumulator, Direction
from assay.records import Floats, LabelKind, Replicates, State, StateChoice, Undefined


class _Areas(NamedTuple):
    """What a slice's rankings come to, over all its classes."""

    values: Floats  # [1 + B] the value, then without each bucket
    bound: float


@dataclass(frozen=True)
class ClassAreas(DescribedMetric):
    """What the areas over several classes or labels share: from rankings to replicates."""

    name: ClassVar[str]
    label_kind: ClassVar[LabelKind | None] = "class"
    needs_outputs: ClassVar[bool] = True
    direction: ClassVar[Direction] = "higher"

    @abstractmethod
    def areas(self, rankings: tuple[Entries, ...], num_buckets: int) -> _Areas:
        """Over the classes' rankings [C]; NaN where undefined."""

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, self._state(choice))

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        rows, state = support_of(states).rows, self._state(choice)
        num_slices, num_buckets = rows.shape[0], rows.shape[1] - 1
        result, bound = np.full(rows.shape, np.nan), np.zeros(num_slices)
        reasons: list[Undefined | None] = [None] * num_slices
        interval_reasons: list[Undefined | None] = [None] * num_slices
        for one, rankings in enumerate(state.of(states[state.identity], num_slices)):
            if rankings.fine is None:
                result[one], bound[one] = self.areas(rankings.buckets, num_buckets).values, 0.0
            else:
                fine = self.areas(rankings.fine, 1)
                result[one, 0], bound[one] = fine.values[0], fine.bound
                result[one, 1:], interval_reasons[one] = self._without(rankings, fine.values[0], num_buckets)
            if np.isnan(result[one, 0]):
                reasons[one] = Undefined.ONE_CLASS if rows[one, 0] else Undefined.NO_ROWS
                bound[one] = 0.0
        return Replicates(result[:, 0], tuple(reasons), result[:, 1:], tuple(interval_reasons), bound)

    def _without(self, rankings: ClassRankings, value: float, num_buckets: int) -> tuple[Floats, Undefined | None]:
        if not rankings.buckets:
            return np.full(num_buckets, np.nan), Undefined.OVER_BUDGET
        coarse = self.areas(rankings.buckets, num_buckets)
        gap = value - coarse.values[0]
        resolved = coarse.bound <= MOST_COARSE_BOUND and not abs(gap) > MOST_COARSE_BOUND
        return coarse.values[1:] + gap, None if resolved else Undefined.RESOLUTION

    def _state(self, choice: StateChoice) -> ClassRankingState:
        return class_ranking_state(choice, self.label_kind or "class")


@dataclass(frozen=True)
class MacroAUC(ClassAreas):
    """Mean of the classes' areas under the ROC curve, each class against the rest, ties counting one half; in [0, 1].

    Over the classes that have rows and are not all rows; undefined where there is none. Hand and Till's pairwise mean
    (2001) is another number.
    """

    name: ClassVar[str] = "macro_auc"
    description: ClassVar[str] = "mean over classes of the area under the ROC curve, one against the rest"
    weighted: ClassVar[bool] = False

    def areas(self, rankings: tuple[Entries, ...], num_buckets: int) -> _Areas:
        every = np.array([roc_auc(entries, num_buckets) for entries in rankings]).reshape(-1, 1 + num_buckets).T
        weight = np.array([positives(entries, num_buckets) for entries in rankings]).reshape(every.T.shape).T
        bounds = np.array([roc_auc_bound(ties(entries)) for entries in rankings])
        bound = mean_of(np.where(np.isnan(every[0]), np.nan, bounds), weight[0] if self.weighted else None)
        return _Areas(mean_of(every, weight if self.weighted else None), float(np.nan_to_num(bound)))


@dataclass(frozen=True)
class WeightedAUC(MacroAUC):
    """The same mean, by the weight of each class's rows."""

    name: ClassVar[str] = "weighted_auc"
    description: ClassVar[str] = "mean over classes of the area under the ROC curve, by the weight of their rows"
    weighted: ClassVar[bool] = True


@dataclass(frozen=True)
class LabelMacroAUC(MacroAUC):
    """Mean of the labels' areas under the ROC curve, ties counting one half; in [0, 1].

    Over the labels that some rows have and some have not; undefined where there is none.
    """

    label_kind: ClassVar[LabelKind | None] = "labels"
    description: ClassVar[str] = "mean over labels of the area under the ROC curve"


@dataclass(frozen=True)
class LabelWeightedAUC(LabelMacroAUC):
    """The same mean, by the weight of the rows that have each label."""

    name: ClassVar[str] = "weighted_auc"
    description: ClassVar[str] = "mean over labels of the area under the ROC curve, by the weight of their rows"
    weighted: ClassVar[bool] = True


@dataclass(frozen=True)
class LabelMicroAUC(ClassAreas):
    """Area under the ROC curve of all pairs of a row and a label together, ties counting one half; in [0, 1]."""

    name: ClassVar[str] = "micro_auc"
    description: ClassVar[str] = "area under the ROC curve of all labels together"
    label_kind: ClassVar[LabelKind | None] = "labels"

    def areas(self, rankings: tuple[Entries, ...], num_buckets: int) -> _Areas:
        together = _together(rankings)
        return _Areas(roc_auc(together, num_buckets), roc_auc_bound(ties(together)))


def positives(entries: Entries, num_buckets: int) -> Floats:
    """[1 + B]: the weight of the positives of all entries, then without each bucket."""
    by_bucket = np.bincount(entries.bucket, minlength=num_buckets, weights=entries.weight[:, 1].astype(np.float64))
    total = by_bucket.sum()
    return np.concatenate([[total], total - by_bucket])


def _together(rankings: tuple[Entries, ...]) -> Entries:
    """One ranking of several: a bucket stands once under each key."""
    key, bucket = (np.concatenate([entries[i] for entries in rankings]) for i in (0, 1))
    weight = np.concatenate([entries.weight for entries in rankings])
    order = np.lexsort((bucket, key))
    key, bucket, weight = key[order], bucket[order], weight[order]
    starts = np.flatnonzero((np.diff(key, prepend=-1) != 0) | (np.diff(bucket, prepend=-1) != 0))
    return Entries(key[starts], bucket[starts], np.add.reduceat(weight, starts, axis=0) if len(starts) else weight)
