"""Precision, recall, F1 and share of one class by name; those of one label are in `one_label.py`."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from assay.metrics.class_formulas import Quantity, per_class
from assay.metrics.counts_metric import CountsMetric
from assay.metrics.parse import canonical
from assay.metrics.pooled import divide
from assay.protocols import Accumulator, Direction
from assay.records import Floats, StateChoice, Undefined
from assay.spec.names import nearest, offer

MOST_LISTED = 20
"""With more classes than that, a refusal does not list them."""


@dataclass(frozen=True)
class OneOfSeveral(CountsMetric):
    """What metrics of one class and of one label share."""

    what: ClassVar[str]
    """"class" or "label"."""
    quantity: ClassVar[Quantity]

    @property
    @abstractmethod
    def chosen(self) -> str:
        """The name of the class or label."""

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        self.number(choice)
        return CountsMetric.accumulators(self, choice)

    def formula(self, counts: Floats, weight: Floats, choice: StateChoice) -> Floats:
        return per_class(self.quantity, counts[..., self.number(choice), :])

    def number(self, choice: StateChoice) -> int:
        """The number of the class. ValueError, naming the nearest one, when there is none of that name."""
        return class_number(choice, self.chosen, self.what)


def class_number(choice: StateChoice, name: str, what: str) -> int:
    """The number of the class of that name. ValueError, naming the nearest one, when there is none."""
    known = choice.classes
    if name not in known:
        many = len(known) > MOST_LISTED and nearest(name, known) is None
        end = f"; there are {len(known)}, from {known[0]!r} to {known[-1]!r}." if many else offer(name, known)
        raise ValueError(f"There is no {what} {name!r}{end}")
    return known.index(name)


@dataclass(frozen=True)
class OneClass(OneOfSeveral):
    """A metric of one class by name: `recall(class=cat)`, `recall(class='two words')`."""

    class_: str
    word: ClassVar[str]
    what: ClassVar[str] = "class"

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_", str(self.class_))  # a class may be named like a number

    @property
    def name(self) -> str:
        return canonical(self.word, {"class": self.class_}, {"class": None})

    @property
    def chosen(self) -> str:
        return self.class_


@dataclass(frozen=True)
class Precision(OneClass):
    """Share of rows of the class, by weight, among those predicted to be."""

    word: ClassVar[str] = "precision"
    quantity: ClassVar[Quantity] = "precision"
    description: ClassVar[str] = "share of rows of a class among those predicted to be"
    reason: ClassVar[Undefined] = Undefined.NOTHING_PREDICTED


@dataclass(frozen=True)
class Recall(OneClass):
    """Share of the rows of the class, by weight, that are predicted to be."""

    word: ClassVar[str] = "recall"
    quantity: ClassVar[Quantity] = "recall"
    description: ClassVar[str] = "share of the rows of a class that are predicted to be"
    reason: ClassVar[Undefined] = Undefined.NO_POSITIVES


@dataclass(frozen=True)
class F1(OneClass):
    """Harmonic mean of precision and recall of the class; undefined where no row is or is predicted to be of it."""

    word: ClassVar[str] = "f1"
    quantity: ClassVar[Quantity] = "f1"
    description: ClassVar[str] = "harmonic mean of precision and recall of a class"
    reason: ClassVar[Undefined] = Undefined.NO_POSITIVES


@dataclass(frozen=True)
class PositiveRate(OneClass):
    """Weight of the rows of the class over the weight of all rows."""

    word: ClassVar[str] = "positive_rate"
    description: ClassVar[str] = "share of the rows of a class, by weight"
    direction: ClassVar[Direction] = None

    def formula(self, counts: Floats, weight: Floats, choice: StateChoice) -> Floats:
        return divide(counts[..., self.number(choice), 0], weight)
