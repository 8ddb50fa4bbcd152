"""Sums over the rows of a task with sets of labels: wrong labels, sets that are right, the ranking of labels.

Axes: n rows, C labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.kernels.classes import label_mistakes, label_ranking_precisions
from assay.kernels.elementary import UNIT
from assay.metrics.class_rows import outputs_of, targets_of
from assay.metrics.sums import BoundedSum
from assay.records import Block


@dataclass(frozen=True, slots=True)
class Mistakes:
    """How many labels of a row are wrong."""

    threshold: float

    def __call__(self, block: Block) -> NDArray[np.int64]:
        outputs = outputs_of(block)
        mistakes = label_mistakes(targets_of(block, len(outputs)), outputs, np.float32(self.threshold))
        return np.asarray(mistakes)


@dataclass(frozen=True, slots=True)
class RightSets:
    """One for a row without a wrong label, else 0."""

    threshold: float

    def __call__(self, block: Block) -> NDArray[np.int64]:
        return np.asarray((Mistakes(self.threshold)(block) == 0) * np.int64(UNIT))


def label_ranking_units(block: Block) -> NDArray[np.int64]:
    outputs = outputs_of(block)
    targets = targets_of(block, len(outputs))
    by_row = np.ascontiguousarray(targets.T), np.ascontiguousarray(outputs.T)
    return np.asarray(label_ranking_precisions(*by_row))


LABEL_RANKING_SUM = BoundedSum("label_ranking_precision.v1", label_ranking_units)


def mistakes_sum(threshold: float) -> BoundedSum:
    """Wrong labels, each a whole unit of the sum rather than one of 2^32: there may be many in a row."""
    return BoundedSum(f"label_mistakes(threshold={threshold!r}).v1", Mistakes(threshold))


def right_sets_sum(threshold: float) -> BoundedSum:
    """The weight of the rows without a wrong label."""
    return BoundedSum(f"label_sets(threshold={threshold!r}).v1", RightSets(threshold))
