"""Metrics that are formulas of counts by class or label: from states to replicates.

Not here: the formulas (`class_formulas.py`). Axes: S slices, B buckets, C classes or labels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from assay.metrics.at_threshold import AtThreshold
from assay.metrics.class_counts import ClassCounts, LabelCounts
from assay.metrics.described import DescribedMetric
from assay.metrics.pooled import support_of
from assay.metrics.sums import SUPPORT
from assay.protocols import Accumulator, Direction
from assay.records import Floats, LabelKind, Replicates, State, StateChoice, Undefined
from assay.states import ints


@dataclass(frozen=True)
class CountsMetric(DescribedMetric):
    """A metric that is a formula of counts by class. Subclasses give the formula and say what is particular to them."""

    label_kind: ClassVar[LabelKind | None] = "class"
    direction: ClassVar[Direction] = "higher"
    reason: ClassVar[Undefined] = Undefined.ZERO_DENOMINATOR  # why a value is undefined where there are rows

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def formula(self, counts: Floats, weight: Floats, choice: StateChoice) -> Floats:
        """The values [...] of counts [..., C, 3] and the weight of all rows [...]; NaN where undefined."""

    def counts(self, choice: StateChoice) -> ClassCounts:
        """The accumulator of the counts."""
        return ClassCounts(len(choice.classes), choice.bucketed)

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, self.counts(choice))

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        """Slice by slice, so that no array of slices x buckets x classes is made."""
        support, state = support_of(states), states[self.counts(choice).identity]
        total, buckets = ints(state, "weight"), ints(state, "buckets")
        result = np.full(support.rows.shape, np.nan)
        for one in range(len(total)):
            counts = total[one][None]
            if one < len(buckets):
                counts = np.concatenate([counts, counts - buckets[one]])
            weight = support.weight[one, : len(counts)]
            result[one, : len(counts)] = self.formula(counts.astype(np.float64), weight, choice)
        return with_reasons(result, support.rows[:, 0], len(buckets), self.reason)


@dataclass(frozen=True)
class LabelCountsMetric(AtThreshold, CountsMetric):
    """The same of counts by label at a threshold."""

    label_kind: ClassVar[LabelKind | None] = "labels"

    def counts(self, choice: StateChoice) -> ClassCounts:
        return LabelCounts(len(choice.classes), choice.bucketed, self.threshold)


def with_reasons(pooled: Floats, rows: NDArray[np.int64], num_kept: int, reason: Undefined) -> Replicates:
    """Exact replicates from pooled values [S, 1 + B], of which the first slices alone kept their buckets."""
    pooled = np.where(rows[:, None] == 0, np.nan, pooled)
    unknown = [Undefined.NO_ROWS if not count else reason for count in rows]
    reasons = tuple(why if lost else None for why, lost in zip(unknown, np.isnan(pooled[:, 0]), strict=True))
    over = (None,) * num_kept + (Undefined.OVER_BUDGET,) * (len(pooled) - num_kept)
    return Replicates(pooled[:, 0], reasons, pooled[:, 1:], over, np.zeros(len(pooled)))
