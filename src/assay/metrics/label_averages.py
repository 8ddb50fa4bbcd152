"""Precision, recall and F1 averaged over labels, at a threshold. All are over the labels where the value is defined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from assay.metrics.at_threshold import DEFAULT_THRESHOLD
from assay.metrics.averages import AverageMetric
from assay.metrics.class_formulas import Average, Quantity
from assay.metrics.counts_metric import LabelCountsMetric
from assay.metrics.parse import canonical
from assay.records import Undefined


@dataclass(frozen=True)
class LabelAverage(LabelCountsMetric, AverageMetric):
    """An average over labels."""

    def curve(self, quantity: Quantity) -> str:
        return canonical(f"label_{quantity}", {"threshold": self.threshold}, {"threshold": DEFAULT_THRESHOLD})


@dataclass(frozen=True)
class PrecisionAverage(LabelAverage):
    quantity: ClassVar[Quantity] = "precision"
    reason: ClassVar[Undefined] = Undefined.NOTHING_PREDICTED


@dataclass(frozen=True)
class RecallAverage(LabelAverage):
    quantity: ClassVar[Quantity] = "recall"
    reason: ClassVar[Undefined] = Undefined.NO_POSITIVES


@dataclass(frozen=True)
class F1Average(LabelAverage):
    quantity: ClassVar[Quantity] = "f1"
    reason: ClassVar[Undefined] = Undefined.NO_POSITIVES


@dataclass(frozen=True)
class MacroPrecision(PrecisionAverage):
    """Mean of the labels' precisions, over the labels that are predicted at all."""

    word: ClassVar[str] = "macro_precision"
    average: ClassVar[Average] = "macro"
    description: ClassVar[str] = "mean of the labels' precisions"


@dataclass(frozen=True)
class MacroRecall(RecallAverage):
    """Mean of the labels' recalls, over the labels that some row has."""

    word: ClassVar[str] = "macro_recall"
    average: ClassVar[Average] = "macro"
    description: ClassVar[str] = "mean of the labels' recalls"


@dataclass(frozen=True)
class MacroF1(F1Average):
    """Mean of the labels' F1, over the labels that some row has or is predicted to have."""

    word: ClassVar[str] = "macro_f1"
    average: ClassVar[Average] = "macro"
    description: ClassVar[str] = "mean of the labels' F1"


@dataclass(frozen=True)
class MicroPrecision(PrecisionAverage):
    """Precision of all pairs of a row and a label together."""

    word: ClassVar[str] = "micro_precision"
    average: ClassVar[Average] = "micro"
    description: ClassVar[str] = "precision of all labels together"


@dataclass(frozen=True)
class MicroRecall(RecallAverage):
    """Recall of all pairs of a row and a label together."""

    word: ClassVar[str] = "micro_recall"
    average: ClassVar[Average] = "micro"
    description: ClassVar[str] = "recall of all labels together"


@dataclass(frozen=True)
class MicroF1(F1Average):
    """F1 of all pairs of a row and a label together."""

    word: ClassVar[str] = "micro_f1"
    average: ClassVar[Average] = "micro"
    description: ClassVar[str] = "F1 of all labels together"


@dataclass(frozen=True)
class WeightedPrecision(PrecisionAverage):
    """Mean of the labels' precisions by the weight of their rows, over the labels that are predicted at all."""

    word: ClassVar[str] = "weighted_precision"
    average: ClassVar[Average] = "weighted"
    description: ClassVar[str] = "mean of the labels' precisions, by the weight of the rows that have them"


@dataclass(frozen=True)
class WeightedRecall(RecallAverage):
    """Mean of the labels' recalls by the weight of their rows, over the labels that some row has."""

    word: ClassVar[str] = "weighted_recall"
    average: ClassVar[Average] = "weighted"
    description: ClassVar[str] = "mean of the labels' recalls, by the weight of the rows that have them"


@dataclass(frozen=True)
class WeightedF1(F1Average):
    """Mean of the labels' F1 by the weight of their rows, over the labels that some row has or is predicted to have."""

    word: ClassVar[str] = "weighted_f1"
    average: ClassVar[Average] = "weighted"
    description: ClassVar[str] = "mean of the labels' F1, by the weight of the rows that have them"
