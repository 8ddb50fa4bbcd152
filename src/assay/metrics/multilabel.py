"""A set of labels for each row: sets that are right, and the ranking of labels.

A row is predicted to have the labels whose score is at least the threshold (compared as float32, as scores are). Not
here: precision, recall and F1 (`label_averages.py`, `one_label.py`). Axes: S slices, B buckets, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from assay.kernels.elementary import UNIT
from assay.metrics.at_threshold import AtThreshold
from assay.metrics.label_sums import LABEL_RANKING_SUM, mistakes_sum, right_sets_sum
from assay.metrics.pooled import Counts, PooledMetric, Reasons, bounded_total, divide
from assay.metrics.sums import SUPPORT
from assay.protocols import Accumulator, Direction
from assay.records import Floats, LabelKind, State, StateChoice


@dataclass(frozen=True)
class LabelRankingAveragePrecision(PooledMetric):
    """Mean over rows of the mean, over the labels a row has, of the share of its labels among all that rank as high.

    A label ranks as high as another when its score is at least that one's. In (0, 1]; a row that has no label, or all
    of them, counts 1. Tsoumakas, Katakis, Vlahavas, "Mining Multi-label Data", 2010.
    """

    name: ClassVar[str] = "label_ranking_average_precision"
    description: ClassVar[str] = "mean over a row's labels of the precision of the labels down to it"
    label_kind: ClassVar[LabelKind | None] = "labels"
    needs_outputs: ClassVar[bool] = True
    direction: ClassVar[Direction] = "higher"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, LABEL_RANKING_SUM)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return divide(bounded_total(states, LABEL_RANKING_SUM), counts.weight), []


@dataclass(frozen=True)
class ThresholdMean(AtThreshold, PooledMetric):
    """A mean over rows of what the threshold says of their labels."""

    label_kind: ClassVar[LabelKind | None] = "labels"


@dataclass(frozen=True)
class SubsetAccuracy(ThresholdMean):
    """Share of rows, by weight, whose set of labels is predicted exactly."""

    word: ClassVar[str] = "subset_accuracy"
    description: ClassVar[str] = "share of rows whose set of labels is predicted exactly"
    direction: ClassVar[Direction] = "higher"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, right_sets_sum(self.threshold))

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return divide(bounded_total(states, right_sets_sum(self.threshold)), counts.weight), []


@dataclass(frozen=True)
class HammingLoss(ThresholdMean):
    """Share, by weight, of the pairs of a row and a label that are predicted wrong."""

    word: ClassVar[str] = "hamming_loss"
    description: ClassVar[str] = "share of the pairs of a row and a label that are predicted wrong"
    direction: ClassVar[Direction] = "lower"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, mistakes_sum(self.threshold))

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        mistakes = bounded_total(states, mistakes_sum(self.threshold)) * UNIT  # whole labels
        return divide(mistakes, counts.weight * len(choice.classes)), []
