"""Errors of a real prediction: the raw output against a real label, in float64.

Losses with a shape of their own (deviances, pinball, Huber) are in `losses.py`, quantiles in `error_quantile.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from assay.metrics.pooled import Counts, PooledMetric, Reasons, double_mean
from assay.metrics.sums import ABSOLUTE_ERROR_SUM, SQUARED_ERROR_SUM, SUPPORT, DoubleSum
from assay.metrics.terms import (
    UNITS_TO_ONE,
    Integers,
    Terms,
    TermSum,
    integers,
    objects,
    pooled_terms,
    quotient,
    spread,
    square_terms,
)
from assay.protocols import Accumulator, Direction
from assay.records import Block, Floats, LabelKind, State, StateChoice, Undefined
from assay.states import carry, ints, pooled

SCALED_FROM = 2.0**1000
"""From here on two magnitudes are scaled down before they are added."""


def errors(block: Block) -> NDArray[np.float64]:
    """prediction - label [n], rounded once; infinite where that is beyond the largest double."""
    with np.errstate(over="ignore"):  # infinity is counted as overflow
        return np.asarray(block.raw - block.label)


def difference_terms(block: Block) -> Terms:
    return block.raw, -block.label


def label_terms(block: Block) -> Terms:
    return (block.label,)


def label_square_terms(block: Block) -> Terms:
    return square_terms(block.label)


def error_terms(block: Block) -> Terms:
    return (errors(block),)


def error_square_terms(block: Block) -> Terms:
    return square_terms(errors(block))


def relative_error_terms(block: Block) -> Terms:
    """|prediction - label| / |label|; NaN where the label is 0."""
    zero = block.label == 0.0
    with np.errstate(over="ignore"):  # infinity is counted as overflow
        relative = np.abs(errors(block)) / np.abs(np.where(zero, 1.0, block.label))
    return (np.where(zero, np.nan, relative),)


def symmetric_errors(block: Block) -> NDArray[np.float64]:
    """2 |prediction - label| / (|prediction| + |label|); 0 where both are 0."""
    large = np.maximum(np.abs(block.raw), np.abs(block.label)) > SCALED_FROM
    scale = np.where(large, 0.25, 1.0)
    raw, label = block.raw * scale, block.label * scale
    total = np.abs(raw) + np.abs(label)
    return 2.0 * np.abs(raw - label) / np.where(total == 0.0, 1.0, total)


DIFFERENCE_SUM = TermSum("difference_sum.v1", difference_terms)
LABEL_SUM = TermSum("label_sum.v1", label_terms)
LABEL_SQUARES = TermSum("label_squares.v1", label_square_terms)
ERROR_SUM = TermSum("error_sum.v1", error_terms)
ERROR_SQUARES = TermSum("error_squares.v1", error_square_terms)
RELATIVE_ERROR_SUM = TermSum("relative_error.v1", relative_error_terms)
SYMMETRIC_ERROR_SUM = DoubleSum("symmetric_error.v1", symmetric_errors)


@dataclass(frozen=True)
class MeanError(PooledMetric):
    """What means of a double per row share."""

    accumulator: ClassVar[DoubleSum]
    label_kind: ClassVar[LabelKind | None] = "real"
    direction: ClassVar[Direction] = "lower"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, self.accumulator)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return double_mean(states, self.accumulator, counts)


@dataclass(frozen=True)
class MSE(MeanError):
    """Mean of (prediction - label)^2. Undefined where a squared error reaches 2^127."""

    name: ClassVar[str] = "mse"
    description: ClassVar[str] = "mean squared error, in the square of the label's unit"
    accumulator: ClassVar[DoubleSum] = SQUARED_ERROR_SUM


@dataclass(frozen=True)
class RMSE(MeanError):
    """Root of the mean squared error, in the label's unit. Undefined where a squared error reaches 2^127.

    Squares are kept to 2^-128: errors below 5e-12 or so in size lose digits, and below 2^-64 count as 0.
    """

    name: ClassVar[str] = "rmse"
    description: ClassVar[str] = "root mean squared error, in the label's unit"
    accumulator: ClassVar[DoubleSum] = SQUARED_ERROR_SUM

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        mean, reasons = double_mean(states, self.accumulator, counts)
        return np.sqrt(mean), reasons


@dataclass(frozen=True)
class MAE(MeanError):
    """Mean absolute error, in the label's unit. Undefined where an error reaches 2^127."""

    name: ClassVar[str] = "mae"
    description: ClassVar[str] = "mean absolute error, in the label's unit"
    accumulator: ClassVar[DoubleSum] = ABSOLUTE_ERROR_SUM


@dataclass(frozen=True)
class SMAPE(MeanError):
    """Mean of 2 |prediction - label| / (|prediction| + |label|), from 0 to 2; a row where both are 0 counts as 0.

    Makridakis, "Accuracy measures: theoretical and practical concerns", 1993. It is 2 wherever one of the two is 0.
    """

    name: ClassVar[str] = "smape"
    description: ClassVar[str] = "mean of 2 |prediction - label| / (|prediction| + |label|), from 0 to 2"
    accumulator: ClassVar[DoubleSum] = SYMMETRIC_ERROR_SUM


@dataclass(frozen=True)
class MAPE(PooledMetric):
    """Mean of |prediction - label| / |label|, as a share: 0.1 is 10 %.

    Undefined where a row's label is 0, since its relative error is infinite; `where: label <> 0` leaves such rows out
    and counts them as filtered.
    """

    name: ClassVar[str] = "mape"
    description: ClassVar[str] = "mean of |prediction - label| / |label|, as a share; undefined where a label is 0"
    label_kind: ClassVar[LabelKind | None] = "real"
    direction: ClassVar[Direction] = "lower"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, RELATIVE_ERROR_SUM)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return mean_of_every_row(states, RELATIVE_ERROR_SUM, counts)


@dataclass(frozen=True)
class Bias(PooledMetric):
    """Mean of prediction - label, in the label's unit: negative where predictions are too low. 0 is right in total.

    Exact before the one rounding at its end, however large the values and however well they cancel. Undefined where a
    value reaches 2^127.
    """

    name: ClassVar[str] = "bias"
    description: ClassVar[str] = "mean of prediction - label, in the label's unit; 0 is right in total"
    label_kind: ClassVar[LabelKind | None] = "real"
    direction: ClassVar[Direction] = 0.0
    nonnegative: ClassVar[bool] = False

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, DIFFERENCE_SUM)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return mean_of_every_row(states, DIFFERENCE_SUM, counts)


@dataclass(frozen=True)
class ExplainedShare(PooledMetric):
    """What R2 and explained variance share: 1 - left / spread of the label, in exact integers, rounded once."""

    label_kind: ClassVar[LabelKind | None] = "real"
    direction: ClassVar[Direction] = "higher"
    nonnegative: ClassVar[bool] = False

    @abstractmethod
    def left(self, states: Mapping[str, State], weight: Integers) -> tuple[Integers, Reasons]:
        """weight * what the model leaves unexplained, in units of 2^-256."""

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        label, squares = pooled_terms(states, LABEL_SUM), pooled_terms(states, LABEL_SQUARES)
        weight = objects(label.weight)
        total = spread(weight, integers(label.limbs), integers(squares.limbs))
        left, reasons = self.left(states, weight)
        constant = np.asarray(total <= 0, np.bool_)
        value = quotient(total - left, np.where(constant, 0, total))
        overflow = (label.overflow | squares.overflow, Undefined.OVERFLOW)
        return value, [overflow, *reasons, (constant, Undefined.CONSTANT)]


@dataclass(frozen=True)
class R2(ExplainedShare):
    """Coefficient of determination, 1 - sum (prediction - label)^2 / sum (label - mean label)^2.

    At most 1; 0 for a model that predicts the mean, negative for a worse one. Undefined for a constant label, and where
    a square reaches 2^127. Exact for any offset of the labels: squares enter as they are, nothing is subtracted before
    the end. (Squares count down to 2^-128: labels below 1e-14 or so in size lose digits.)
    """

    name: ClassVar[str] = "r2"
    description: ClassVar[str] = "coefficient of determination; 1 is perfect, 0 is no better than the mean label"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, LABEL_SUM, LABEL_SQUARES, SQUARED_ERROR_SUM)

    def left(self, states: Mapping[str, State], weight: Integers) -> tuple[Integers, Reasons]:
        state = states[SQUARED_ERROR_SUM.identity]
        squares = integers(carry(pooled(ints(state, "sum"))))
        overflow = pooled(ints(state, "overflow")) > 0
        return weight * squares * UNITS_TO_ONE, [(overflow, Undefined.OVERFLOW)]


@dataclass(frozen=True)
class ExplainedVariance(ExplainedShare):
    """1 - variance of (prediction - label) / variance of the label: R2 of a model whose bias is forgiven.

    Range, undefined values and exactness as for `r2`.
    """

    name: ClassVar[str] = "explained_variance"
    description: ClassVar[str] = "share of the label's variance that is explained, a constant bias forgiven"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, LABEL_SUM, LABEL_SQUARES, ERROR_SUM, ERROR_SQUARES)

    def left(self, states: Mapping[str, State], weight: Integers) -> tuple[Integers, Reasons]:
        error, squares = pooled_terms(states, ERROR_SUM), pooled_terms(states, ERROR_SQUARES)
        left = spread(weight, integers(error.limbs), integers(squares.limbs))
        return left, [(error.overflow | squares.overflow, Undefined.OVERFLOW)]


def mean_of_every_row(states: Mapping[str, State], accumulator: TermSum, counts: Counts) -> tuple[Floats, Reasons]:
    """The mean of a TermSum whose rows must all have a value; undefined where one has none."""
    sums = pooled_terms(states, accumulator)
    outside = (sums.rows < counts.rows, Undefined.OUTSIDE_DOMAIN)
    return sums.mean, [outside, (sums.overflow, Undefined.OVERFLOW)]
