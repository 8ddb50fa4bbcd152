"""Decisions at a threshold: a row is predicted positive when its score is at least the threshold.

The score is the probability where the output has one, else the raw score. Axes: S slices, B buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.scatter import add_counts
from assay.metrics import parameters
from assay.metrics.additive import AdditiveState
from assay.metrics.at_threshold import DEFAULT_THRESHOLD, AtThreshold
from assay.metrics.parse import canonical
from assay.metrics.pooled import Counts, PooledMetric, Reasons, divide, one_class, support_of
from assay.metrics.rare import unless_rare
from assay.metrics.sums import SUPPORT, by_class
from assay.protocols import Accumulator, Direction
from assay.records import Block, Floats, Replicates, Sizes, State, StateChoice, Undefined
from assay.states import ints, pooled

DEFAULT_BETA = 2.0
DEFAULT_FALSE_POSITIVE, DEFAULT_FALSE_NEGATIVE = 1.0, 5.0
"""What an error costs."""


@dataclass(frozen=True, slots=True)
class Confusion(AdditiveState):
    """Weights of the rows predicted positive: predicted [S, B, 2], the last axis being false, true positives."""

    threshold: float

    @property
    def identity(self) -> str:
        return f"confusion(threshold={self.threshold!r}).v1"

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        return {"predicted": (sizes.num_slices, sizes.num_buckets, 2)}

    def update(self, state: State, block: Block) -> State:
        weight = block.weight * predicted_positive(block, self.threshold)
        predicted = ints(state, "predicted")
        place = by_class(block.bucket, block)
        add_counts(weight, block.slices, place, predicted.reshape(len(predicted), -1))
        return state


def predicted_positive(block: Block, threshold: float) -> NDArray[np.bool_]:
    """[n] score >= threshold. Probabilities are float32, so the threshold is too: 0.7 is not below 0.7."""
    if block.probability is None:
        return block.raw >= threshold
    return block.probability >= np.float32(threshold)


class Cells(NamedTuple):
    """The confusion matrix by weight, pooled: each [S, 1 + B]."""

    true_positive: Floats
    false_positive: Floats
    true_negative: Floats
    false_negative: Floats


def accuracy(cells: Cells) -> Floats:
    """Share of rows predicted right; NaN without rows."""
    right = cells.true_positive + cells.true_negative
    return divide(right, right + cells.false_positive + cells.false_negative)


def precision(cells: Cells) -> Floats:
    """Share of positives among rows predicted positive; NaN where none is."""
    return divide(cells.true_positive, cells.true_positive + cells.false_positive)


def recall(cells: Cells) -> Floats:
    """Share of rows predicted positive among the positives; NaN without positives."""
    return divide(cells.true_positive, cells.true_positive + cells.false_negative)


def f1(cells: Cells) -> Floats:
    """Harmonic mean of precision and recall, 2 TP / (2 TP + FP + FN); NaN where no row is or is predicted positive."""
    twice = 2.0 * cells.true_positive
    return divide(twice, twice + cells.false_positive + cells.false_negative)


def f_beta(cells: Cells, beta: float) -> Floats:
    """(1 + beta^2) TP / ((1 + beta^2) TP + beta^2 FN + FP); NaN where no row is or is predicted positive."""
    recalled = beta * beta
    right = (1.0 + recalled) * cells.true_positive
    return divide(right, right + recalled * cells.false_negative + cells.false_positive)


def matthews(cells: Cells) -> Floats:
    """Correlation of the prediction with the label, both 0 or 1; NaN where either is the same for all rows."""
    true_positive, false_positive, true_negative, false_negative = cells
    predicted = np.sqrt(true_positive + false_positive) * np.sqrt(true_negative + false_negative)
    labelled = np.sqrt(true_positive + false_negative) * np.sqrt(true_negative + false_positive)
    covariance = true_positive * true_negative - false_positive * false_negative
    return np.clip(divide(covariance, predicted * labelled), -1.0, 1.0)  # rounding alone leaves the range


def specificity(cells: Cells) -> Floats:
    """Share of rows predicted negative among the negatives; NaN without negatives."""
    return divide(cells.true_negative, cells.true_negative + cells.false_positive)


def expected_cost(cells: Cells, false_positive: float, false_negative: float) -> Floats:
    """Mean cost of a row when each error has its price; NaN without rows."""
    cost = false_positive * cells.false_positive + false_negative * cells.false_negative
    return divide(cost, sum(cells[1:], cells.true_positive))


@dataclass(frozen=True)
class ThresholdMetric(AtThreshold, PooledMetric):
    """What metrics at a threshold share."""

    direction: ClassVar[Direction] = "higher"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, Confusion(self.threshold))

    def cells(self, states: Mapping[str, State], counts: Counts) -> Cells:
        predicted = pooled(ints(states[Confusion(self.threshold).identity], "predicted"))
        rest = pooled(ints(states[SUPPORT.identity], "weight")) - predicted  # of integers, so that nothing is lost
        (false_positive, true_positive), (true_negative, false_negative) = (
            (cells[..., 0].astype(np.float64), cells[..., 1].astype(np.float64)) for cells in (predicted, rest)
        )
        return Cells(true_positive, false_positive, true_negative, false_negative)

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        known = PooledMetric.evaluate(self, states, choice, weight_unit)
        return unless_rare(known, *self.events(self.cells(states, support_of(states))))

    def events(self, cells: Cells) -> tuple[Floats, Floats]:
        """What must both be seen in enough buckets for an interval of the value, by weight: rows right and wrong."""
        right = cells.true_positive + cells.true_negative
        return right, cells.false_positive + cells.false_negative


@dataclass(frozen=True)
class Accuracy(ThresholdMetric):
    """(TP + TN) / all, by weight: the share of rows on their side of the threshold, 0 to 1."""

    word: ClassVar[str] = "accuracy"
    description: ClassVar[str] = "share of rows on the right side of the threshold"

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return accuracy(self.cells(states, counts)), []


@dataclass(frozen=True)
class Precision(ThresholdMetric):
    """TP / (TP + FP), by weight, 0 to 1; undefined where no row is at or above the threshold."""

    word: ClassVar[str] = "precision"
    description: ClassVar[str] = "share of positives among rows at or above the threshold"

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        value = precision(self.cells(states, counts))
        return value, [(np.isnan(value), Undefined.NOTHING_PREDICTED)]

    def events(self, cells: Cells) -> tuple[Floats, Floats]:
        return cells.true_positive, cells.false_positive


@dataclass(frozen=True)
class Recall(ThresholdMetric):
    """TP / (TP + FN), by weight, 0 to 1; undefined without positives."""

    word: ClassVar[str] = "recall"
    description: ClassVar[str] = "share of positives that are at or above the threshold"

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        value = recall(self.cells(states, counts))
        return value, [(np.isnan(value), Undefined.NO_POSITIVES)]

    def events(self, cells: Cells) -> tuple[Floats, Floats]:
        return cells.true_positive, cells.false_negative


@dataclass(frozen=True)
class F1(ThresholdMetric):
    """2 TP / (2 TP + FP + FN), by weight, 0 to 1; undefined where no row is and none is predicted positive."""

    word: ClassVar[str] = "f1"
    description: ClassVar[str] = "harmonic mean of precision and recall at the threshold"

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        value = f1(self.cells(states, counts))
        return value, [(np.isnan(value), Undefined.NO_POSITIVES)]

    def events(self, cells: Cells) -> tuple[Floats, Floats]:
        return cells.true_positive, cells.false_positive + cells.false_negative


@dataclass(frozen=True)
class FBeta(ThresholdMetric):
    """Weighted harmonic mean of precision and recall, in which recall counts beta times as much as precision.

    (1 + beta^2) P R / (beta^2 P + R), 0 to 1. Undefined where no row is and none is predicted positive.
    van Rijsbergen, "Information Retrieval", 1979.
    """

    beta: float = DEFAULT_BETA
    word: ClassVar[str] = "f_beta"
    description: ClassVar[str] = "mean of precision and recall at the threshold; recall counts beta times as much"

    def __post_init__(self) -> None:
        ThresholdMetric.__post_init__(self)
        object.__setattr__(self, "beta", parameters.positive(self.word, "beta", self.beta))

    @property
    def name(self) -> str:
        parameters = {"beta": self.beta, "threshold": self.threshold}
        return canonical(self.word, parameters, {"beta": DEFAULT_BETA, "threshold": DEFAULT_THRESHOLD})

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        value = f_beta(self.cells(states, counts), self.beta)
        return value, [(np.isnan(value), Undefined.NO_POSITIVES)]

    def events(self, cells: Cells) -> tuple[Floats, Floats]:
        return cells.true_positive, cells.false_positive + cells.false_negative


@dataclass(frozen=True)
class Matthews(ThresholdMetric):
    """Correlation of the prediction with the label: 1 when all rows are right, 0 by chance, -1 when all are wrong.

    Undefined, where scikit-learn says 0, for a single class and where all rows fall on one side of the threshold.
    Matthews, "Comparison of the predicted and observed secondary structure of T4 phage lysozyme", 1975.
    """

    word: ClassVar[str] = "matthews"
    description: ClassVar[str] = "correlation of the decision at the threshold with the label, -1 to 1"
    nonnegative: ClassVar[bool] = False

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        cells = self.cells(states, counts)
        nothing = cells.true_positive + cells.false_positive == 0
        return matthews(cells), [(one_class(counts), Undefined.ONE_CLASS), (nothing, Undefined.NOTHING_PREDICTED)]


@dataclass(frozen=True)
class BalancedAccuracy(ThresholdMetric):
    """Mean of recall and specificity, 0 to 1; one half for a decision that does not look at the row.

    Undefined for a single class, of which scikit-learn reports the accuracy.
    """

    word: ClassVar[str] = "balanced_accuracy"
    description: ClassVar[str] = "mean of recall and specificity at the threshold"

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        cells = self.cells(states, counts)
        return 0.5 * (recall(cells) + specificity(cells)), [(one_class(counts), Undefined.ONE_CLASS)]


@dataclass(frozen=True)
class Specificity(ThresholdMetric):
    """Share of the negatives that are below the threshold, 0 to 1; undefined without negatives."""

    word: ClassVar[str] = "specificity"
    description: ClassVar[str] = "share of negatives that are below the threshold"

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return specificity(self.cells(states, counts)), [(counts.negative == 0, Undefined.ONE_CLASS)]

    def events(self, cells: Cells) -> tuple[Floats, Floats]:
        return cells.true_negative, cells.false_positive


@dataclass(frozen=True)
class FalsePositiveRate(ThresholdMetric):
    """Share of the negatives that are at or above the threshold, 0 to 1; undefined without negatives."""

    word: ClassVar[str] = "false_positive_rate"
    description: ClassVar[str] = "share of negatives that are at or above the threshold"
    direction: ClassVar[Direction] = "lower"

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        value = divide(self.cells(states, counts).false_positive, counts.negative)
        return value, [(counts.negative == 0, Undefined.ONE_CLASS)]

    def events(self, cells: Cells) -> tuple[Floats, Floats]:
        return cells.true_negative, cells.false_positive


@dataclass(frozen=True)
class ExpectedCost(ThresholdMetric):
    """Mean cost of a row, by weight: `false_positive` for each one, `false_negative` for each one, else nothing.

    With costs that are true, the best threshold of a calibrated probability is
    false_positive / (false_positive + false_negative): Elkan, "The Foundations of Cost-Sensitive Learning", 2001.
    """

    false_positive: float = DEFAULT_FALSE_POSITIVE
    false_negative: float = DEFAULT_FALSE_NEGATIVE
    word: ClassVar[str] = "expected_cost"
    description: ClassVar[str] = "mean cost of a row for the errors at the threshold"
    direction: ClassVar[Direction] = "lower"

    def __post_init__(self) -> None:
        ThresholdMetric.__post_init__(self)
        for name in ("false_positive", "false_negative"):
            object.__setattr__(self, name, parameters.cost(self.word, name, getattr(self, name)))

    @property
    def name(self) -> str:
        defaults = {
            "false_positive": DEFAULT_FALSE_POSITIVE,
            "false_negative": DEFAULT_FALSE_NEGATIVE,
            "threshold": DEFAULT_THRESHOLD,
        }
        return canonical(self.word, {name: getattr(self, name) for name in defaults}, defaults)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return expected_cost(self.cells(states, counts), self.false_positive, self.false_negative), []
