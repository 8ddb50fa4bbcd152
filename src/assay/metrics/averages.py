"""Precision, recall and F1 averaged over classes: macro (plain mean), micro (all counts together), weighted (by rows).

Those over labels are in `label_averages.py`. All are over the classes where the value is defined.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from assay.metrics.class_formulas import Average, Quantity, average_of, class_curves
from assay.metrics.counts_metric import CountsMetric
from assay.records import Curve, Floats, State, StateChoice, Undefined


@dataclass(frozen=True)
class AverageMetric(CountsMetric):
    """What averages over classes and over labels share. Subclasses say of which quantity, and how."""

    quantity: ClassVar[Quantity]
    average: ClassVar[Average]

    def formula(self, counts: Floats, weight: Floats, choice: StateChoice) -> Floats:
        return average_of(self.quantity, self.average, counts)

    def curve(self, quantity: Quantity) -> str:
        """The name of the curve that shows a quantity of each class."""
        return f"class_{quantity}"

    def curves(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> tuple[Curve, ...]:
        """`class_precision` and `class_recall` (of labels `label_...`): the values of the classes, by number."""
        shown: tuple[Quantity, ...] = ("precision", "recall")
        names = {quantity: self.curve(quantity) for quantity in shown}
        return class_curves(states[self.counts(choice).identity], weight_unit, names)


@dataclass(frozen=True)
class ClassAverage(AverageMetric):
    """An average over classes."""

    @property
    def name(self) -> str:
        return f"{self.average}_{self.quantity}"


@dataclass(frozen=True)
class PrecisionAverage(ClassAverage):
    quantity: ClassVar[Quantity] = "precision"
    reason: ClassVar[Undefined] = Undefined.NOTHING_PREDICTED


@dataclass(frozen=True)
class RecallAverage(ClassAverage):
    quantity: ClassVar[Quantity] = "recall"


@dataclass(frozen=True)
class F1Average(ClassAverage):
    quantity: ClassVar[Quantity] = "f1"


@dataclass(frozen=True)
class MacroPrecision(PrecisionAverage):
    """Mean of the classes' precisions, over the classes that are predicted at all."""

    average: ClassVar[Average] = "macro"
    description: ClassVar[str] = "mean of the classes' precisions"


@dataclass(frozen=True)
class MacroRecall(RecallAverage):
    """Mean of the classes' recalls, over the classes that have rows."""

    average: ClassVar[Average] = "macro"
    description: ClassVar[str] = "mean of the classes' recalls"


@dataclass(frozen=True)
class MacroF1(F1Average):
    """Mean of the classes' F1, over the classes that have rows or are predicted."""

    average: ClassVar[Average] = "macro"
    description: ClassVar[str] = "mean of the classes' F1"


@dataclass(frozen=True)
class MicroPrecision(PrecisionAverage):
    """Share of rows predicted right among those predicted to be of any class; accuracy where that is all rows."""

    average: ClassVar[Average] = "micro"
    description: ClassVar[str] = "precision of all classes together"


@dataclass(frozen=True)
class MicroRecall(RecallAverage):
    """Share of rows predicted right: accuracy."""

    average: ClassVar[Average] = "micro"
    description: ClassVar[str] = "recall of all classes together"


@dataclass(frozen=True)
class MicroF1(F1Average):
    """Harmonic mean of the micro precision and recall."""

    average: ClassVar[Average] = "micro"
    description: ClassVar[str] = "F1 of all classes together"


@dataclass(frozen=True)
class WeightedPrecision(PrecisionAverage):
    """Mean of the classes' precisions by the weight of their rows, over the classes that are predicted at all."""

    average: ClassVar[Average] = "weighted"
    description: ClassVar[str] = "mean of the classes' precisions, by the weight of their rows"


@dataclass(frozen=True)
class WeightedRecall(RecallAverage):
    """Mean of the classes' recalls by the weight of their rows: accuracy."""

    average: ClassVar[Average] = "weighted"
    description: ClassVar[str] = "mean of the classes' recalls, by the weight of their rows"


@dataclass(frozen=True)
class WeightedF1(F1Average):
    """Mean of the classes' F1 by the weight of their rows."""

    average: ClassVar[Average] = "weighted"
    description: ClassVar[str] = "mean of the classes' F1, by the weight of their rows"
