"""What the rows are, whatever a model makes of them: how many, how many positive, and the mean score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from assay.metrics.pooled import Counts, PooledMetric, Reasons, divide, double_mean, replicates, support_of
from assay.metrics.sums import SCORE_SUM, SUPPORT
from assay.protocols import Accumulator
from assay.records import Floats, LabelKind, Replicates, State, StateChoice


@dataclass(frozen=True)
class Count(PooledMetric):
    """Rows scored, whatever they weigh. 0 where there are none."""

    name: ClassVar[str] = "count"
    description: ClassVar[str] = "rows scored"
    label_kind: ClassVar[LabelKind | None] = None

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT,)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return counts.rows.astype(np.float64), []

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        return replicates(*self.formula(states, support_of(states), choice))


@dataclass(frozen=True)
class PositiveRate(PooledMetric):
    """Weight of the positive rows over the weight of all rows."""

    name: ClassVar[str] = "positive_rate"
    description: ClassVar[str] = "share of positive labels, by weight"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT,)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return divide(counts.positive, counts.weight), []


@dataclass(frozen=True)
class MeanScore(PooledMetric):
    """Weighted mean of the probability where the output has one, else of the raw score."""

    name: ClassVar[str] = "mean_score"
    description: ClassVar[str] = "mean of the probability, or of the raw score where there is no probability"
    label_kind: ClassVar[LabelKind | None] = None
    nonnegative: ClassVar[bool] = False

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, SCORE_SUM)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return double_mean(states, SCORE_SUM, counts)
