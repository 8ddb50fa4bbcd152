"""The threshold of metrics that have one: what it may be, and what it says in a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from assay.metrics import parameters
from assay.metrics.described import DescribedMetric
from assay.metrics.parse import canonical

DEFAULT_THRESHOLD = 0.5


@dataclass(frozen=True)
class AtThreshold(DescribedMetric):
    """A metric of decisions at a threshold. Subclasses say of what."""

    threshold: float = DEFAULT_THRESHOLD
    word: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", parameters.finite(self.word, "threshold", self.threshold))

    @property
    def needs_probability(self) -> bool:  # type: ignore[override] # a constant in the class elsewhere; here by threshold
        """One half is the middle of probabilities; of plain scores it means nothing."""
        return self.threshold == DEFAULT_THRESHOLD

    @property
    def name(self) -> str:
        return canonical(self.word, {"threshold": self.threshold}, {"threshold": DEFAULT_THRESHOLD})
