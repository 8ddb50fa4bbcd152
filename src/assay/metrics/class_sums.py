"""Sums over the rows of a task with several classes: right ones, ranks, log losses and squared errors. Axes: n rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.kernels.classes import class_log_losses, class_ranks, class_squares
from assay.kernels.elementary import UNIT
from assay.metrics.class_rows import actual_classes, outputs_of
from assay.metrics.sums import BoundedSum, probability_of, to_units
from assay.records import Block

LARGEST_SQUARES = 31.0
"""Of one row, that a sum takes; probabilities that sum to 1 come to 2 at most."""


def right_units(block: Block) -> NDArray[np.int64]:
    """One for a row whose class is predicted, else 0."""
    return np.asarray((block.raw == block.label) * np.int64(UNIT))


@dataclass(frozen=True, slots=True)
class TopUnits:
    """One for a row whose class is among the k best, else 0."""

    k: int

    def __call__(self, block: Block) -> NDArray[np.int64]:
        outputs = outputs_of(block)
        rank = class_ranks(outputs, actual_classes(block, len(outputs)))
        return np.asarray((rank <= self.k) * np.int64(UNIT))


def class_log_loss_units(block: Block) -> NDArray[np.int64]:
    outputs = _probabilities(block)
    return np.asarray(class_log_losses(outputs, actual_classes(block, len(outputs))))


def class_brier_units(block: Block) -> NDArray[np.int64]:
    outputs = _probabilities(block)
    squares = class_squares(outputs, actual_classes(block, len(outputs)))
    if squares.max(initial=0.0) > LARGEST_SQUARES:
        raise ValueError(
            f"The metric 'brier' was given a row whose squared errors sum to {squares.max():g}; expected probabilities "
            "that sum to 1 over the classes."
        )
    return to_units(squares)


def _probabilities(block: Block) -> NDArray[np.float32]:
    probability_of(block)  # its output has to be one
    return outputs_of(block)


RIGHT_SUM = BoundedSum("class_right.v1", right_units)
CLASS_LOG_LOSS_SUM = BoundedSum("class_log_loss(clip=2^-24).v1", class_log_loss_units)
CLASS_BRIER_SUM = BoundedSum("class_brier.v1", class_brier_units)


def top_sum(k: int) -> BoundedSum:
    """The weight of the rows whose class is among the k best."""
    return BoundedSum(f"class_top(k={k}).v1", TopUnits(k))
