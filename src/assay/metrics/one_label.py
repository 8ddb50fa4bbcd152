"""Precision, recall, F1 and share of one label by name, at a threshold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from assay.metrics.at_threshold import DEFAULT_THRESHOLD
from assay.metrics.class_counts import ClassCounts, LabelCounts
from assay.metrics.class_formulas import Quantity
from assay.metrics.counts_metric import LabelCountsMetric
from assay.metrics.one_class import OneOfSeveral
from assay.metrics.parse import canonical
from assay.metrics.pooled import divide
from assay.protocols import Direction
from assay.records import Floats, LabelKind, StateChoice, Undefined


@dataclass(frozen=True)
class OneLabel(OneOfSeveral, LabelCountsMetric):
    """A metric of one label by name: `recall(label=cat)`, `recall(label='two words', threshold=0.3)`."""

    label: str = field(kw_only=True)
    what: ClassVar[str] = "label"

    def __post_init__(self) -> None:
        LabelCountsMetric.__post_init__(self)
        object.__setattr__(self, "label", str(self.label))  # a label may be named like a number

    @property
    def name(self) -> str:
        defaults = {"label": None, "threshold": DEFAULT_THRESHOLD}
        return canonical(self.word, {"label": self.label, "threshold": self.threshold}, defaults)

    @property
    def chosen(self) -> str:
        return self.label


@dataclass(frozen=True)
class Precision(OneLabel):
    """Share of rows that have the label, by weight, among those predicted to."""

    word: ClassVar[str] = "precision"
    quantity: ClassVar[Quantity] = "precision"
    description: ClassVar[str] = "share of rows that have a label among those predicted to"
    reason: ClassVar[Undefined] = Undefined.NOTHING_PREDICTED


@dataclass(frozen=True)
class Recall(OneLabel):
    """Share of the rows that have the label, by weight, that are predicted to."""

    word: ClassVar[str] = "recall"
    quantity: ClassVar[Quantity] = "recall"
    description: ClassVar[str] = "share of the rows that have a label that are predicted to"
    reason: ClassVar[Undefined] = Undefined.NO_POSITIVES


@dataclass(frozen=True)
class F1(OneLabel):
    """Harmonic mean of precision and recall of the label; undefined where no row has it or is predicted to."""

    word: ClassVar[str] = "f1"
    quantity: ClassVar[Quantity] = "f1"
    description: ClassVar[str] = "harmonic mean of precision and recall of a label"
    reason: ClassVar[Undefined] = Undefined.NO_POSITIVES


@dataclass(frozen=True)
class PositiveRate(OneOfSeveral):
    """Weight of the rows that have the label over the weight of all rows: `positive_rate(label=cat)`."""

    label: str
    what: ClassVar[str] = "label"
    description: ClassVar[str] = "share of the rows that have a label, by weight"
    label_kind: ClassVar[LabelKind | None] = "labels"
    direction: ClassVar[Direction] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", str(self.label))  # a label may be named like a number

    @property
    def name(self) -> str:
        return canonical("positive_rate", {"label": self.label}, {"label": None})

    @property
    def chosen(self) -> str:
        return self.label

    def counts(self, choice: StateChoice) -> ClassCounts:
        return LabelCounts(len(choice.classes), choice.bucketed, DEFAULT_THRESHOLD)

    def formula(self, counts: Floats, weight: Floats, choice: StateChoice) -> Floats:
        return divide(counts[..., self.number(choice), 0], weight)
