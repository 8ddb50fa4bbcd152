"""Decisions at a threshold: a row is predicted positive when its score is at least the threshold.

The score is the probability where the output has one, else the raw score. Axes: S slices, B buckets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.scatter import add_counts
from assay.metrics.parse import canonical
from assay.metrics.pooled import Counts, Floats, PooledMetric, Reasons, divide
from assay.metrics.sums import SUPPORT, by_class
from assay.protocols import Accumulator, Direction
from assay.records import Block, Sizes, State, StateChoice, Undefined
from assay.states import add_states, ints, pooled, subtract_states

DEFAULT_THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class Confusion:
    """Weights of the rows predicted positive: predicted [S, B, 2], the last axis being false, true positives."""

    threshold: float

    @property
    def identity(self) -> str:
        return f"confusion(threshold={self.threshold!r}).v1"

    def zero(self, sizes: Sizes) -> State:
        return {"predicted": np.zeros((sizes.num_slices, sizes.num_buckets, 2), np.int64)}

    def update(self, state: State, block: Block) -> State:
        weight = block.weight * predicted_positive(block, self.threshold)
        predicted = ints(state, "predicted")
        place = by_class(block.bucket, block)
        add_counts(weight, block.slices, place, predicted.reshape(len(predicted), -1))
        return state

    def merge(self, left: State, right: State) -> State:
        return add_states(left, right)

    def subtract(self, whole: State, part: State) -> State:
        return subtract_states(whole, part)

    def num_bytes(self, sizes: Sizes, rows: int | None) -> int:
        return sizes.num_slices * sizes.num_buckets * 2 * 8


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


@dataclass(frozen=True)
class ThresholdMetric(PooledMetric):
    """What the four metrics share."""

    threshold: float = DEFAULT_THRESHOLD
    word: ClassVar[str]
    direction: ClassVar[Direction] = "higher"

    def __post_init__(self) -> None:
        if not math.isfinite(self.threshold):
            raise ValueError(f"The 'threshold' of the metric {self.word!r} is {self.threshold!r}; expected a number.")
        object.__setattr__(self, "threshold", float(self.threshold))  # 1 and 1.0 are one metric

    @property
    def name(self) -> str:
        return canonical(self.word, {"threshold": self.threshold}, {"threshold": DEFAULT_THRESHOLD})

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, Confusion(self.threshold))

    def cells(self, states: Mapping[str, State], counts: Counts) -> Cells:
        predicted = pooled(ints(states[Confusion(self.threshold).identity], "predicted"))
        false_positive, true_positive = (predicted[..., i].astype(np.float64) for i in (0, 1))
        true_negative, false_negative = counts.negative - false_positive, counts.positive - true_positive
        return Cells(true_positive, false_positive, true_negative, false_negative)


@dataclass(frozen=True)
class Accuracy(ThresholdMetric):
    word: ClassVar[str] = "accuracy"
    description: ClassVar[str] = "share of rows on the right side of the threshold"

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return accuracy(self.cells(states, counts)), []


@dataclass(frozen=True)
class Precision(ThresholdMetric):
    word: ClassVar[str] = "precision"
    description: ClassVar[str] = "share of positives among rows at or above the threshold"

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        value = precision(self.cells(states, counts))
        return value, [(np.isnan(value), Undefined.NOTHING_PREDICTED)]


@dataclass(frozen=True)
class Recall(ThresholdMetric):
    word: ClassVar[str] = "recall"
    description: ClassVar[str] = "share of positives that are at or above the threshold"

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        value = recall(self.cells(states, counts))
        return value, [(np.isnan(value), Undefined.NO_POSITIVES)]


@dataclass(frozen=True)
class F1(ThresholdMetric):
    word: ClassVar[str] = "f1"
    description: ClassVar[str] = "harmonic mean of precision and recall at the threshold"

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        value = f1(self.cells(states, counts))
        return value, [(np.isnan(value), Undefined.NO_POSITIVES)]
