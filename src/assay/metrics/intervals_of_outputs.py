"""Outputs that are intervals for a real label: how often they hold it, how wide they are, and both in one score.

Bounds and labels are float64. No lower bound here is above the upper one: that is an error of the model's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.elementary import UNIT
from assay.metrics import parameters
from assay.metrics.parse import canonical
from assay.metrics.pooled import Counts, PooledMetric, Reasons, bounded_total, divide
from assay.metrics.regression import mean_of_every_row
from assay.metrics.sums import SUPPORT, BoundedSum
from assay.metrics.terms import Terms, TermSum
from assay.protocols import Accumulator, Direction
from assay.records import Block, Floats, LabelKind, State, StateChoice

DEFAULT_ALPHA = 0.05


class Bounds(NamedTuple):
    """[n] each."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def bounds_of(block: Block) -> Bounds:
    """The block's intervals, where the caller has made sure that the output is one."""
    if block.outputs is None or len(block.outputs) != 2:
        raise ValueError("A metric needs a lower and an upper bound; declare that the output `is` an interval.")
    return Bounds(*block.outputs.astype(np.float64, copy=False))


def inside_units(block: Block) -> NDArray[np.int64]:
    lower, upper = bounds_of(block)
    return np.where((lower <= block.label) & (block.label <= upper), np.int64(UNIT), np.int64(0))


def width_terms(block: Block) -> Terms:
    lower, upper = bounds_of(block)
    return upper, -lower


@dataclass(frozen=True, slots=True)
class ScoreTerms:
    """Width, and 2 / alpha times the distance of the label from the interval."""

    alpha: float

    def __call__(self, block: Block) -> Terms:
        lower, upper = bounds_of(block)
        with np.errstate(over="ignore"):  # infinity is counted as overflow
            outside = np.maximum(np.maximum(lower - block.label, block.label - upper), 0.0)
            return upper, -lower, 2.0 / self.alpha * outside


INSIDE_SUM = BoundedSum("interval_inside.v1", inside_units)
WIDTH_SUM = TermSum("interval_width.v1", width_terms)


def interval_score_sum(alpha: float) -> TermSum:
    """The sum of the scores of intervals of that alpha."""
    return TermSum(f"interval_score(alpha={alpha!r}).v1", ScoreTerms(alpha))


@dataclass(frozen=True)
class MeanOfIntervals(PooledMetric):
    """What the two means share."""

    label_kind: ClassVar[LabelKind | None] = "real"
    needs_interval: ClassVar[bool] = True

    @abstractmethod
    def accumulator(self) -> TermSum:
        """The sum behind it."""

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, self.accumulator())

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return mean_of_every_row(states, self.accumulator(), counts)


@dataclass(frozen=True)
class IntervalCoverage(PooledMetric):
    """Share of labels inside their interval, bounds included: ideally 1 - alpha."""

    alpha: float = DEFAULT_ALPHA
    description: ClassVar[str] = "share of labels inside the predicted interval; right at 1 - alpha"
    label_kind: ClassVar[LabelKind | None] = "real"
    needs_interval: ClassVar[bool] = True

    def __post_init__(self) -> None:
        parameters.share("interval_coverage", "alpha", self.alpha)

    @property
    def name(self) -> str:
        return canonical("interval_coverage", {"alpha": self.alpha}, {"alpha": DEFAULT_ALPHA})

    @property
    def direction(self) -> Direction:  # type: ignore[override] # a constant in the class elsewhere; here by alpha
        return 1.0 - self.alpha

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, INSIDE_SUM)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return divide(bounded_total(states, INSIDE_SUM), counts.weight), []


@dataclass(frozen=True)
class IntervalWidth(MeanOfIntervals):
    """Mean width of the predicted intervals, in the label's unit. Only to be read together with the coverage."""

    name: ClassVar[str] = "interval_width"
    description: ClassVar[str] = "mean width of the predicted interval, in the label's unit"
    direction: ClassVar[Direction] = "lower"

    def accumulator(self) -> TermSum:
        return WIDTH_SUM


@dataclass(frozen=True)
class IntervalScore(MeanOfIntervals):
    """Mean of the width plus 2 / alpha times the distance of the label from the interval, in the label's unit.

    Least, in expectation, for the central 1 - alpha interval of the truth, so it weighs width and coverage as one
    should. Gneiting, Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", 2007, section 6.2.
    """

    alpha: float = DEFAULT_ALPHA
    description: ClassVar[str] = "width of the predicted interval and its misses in one proper score"
    direction: ClassVar[Direction] = "lower"

    def __post_init__(self) -> None:
        parameters.share("interval_score", "alpha", self.alpha)

    @property
    def name(self) -> str:
        return canonical("interval_score", {"alpha": self.alpha}, {"alpha": DEFAULT_ALPHA})

    def accumulator(self) -> TermSum:
        return interval_score_sum(self.alpha)
