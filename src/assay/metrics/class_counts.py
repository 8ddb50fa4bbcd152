"""Counts of rows by class or label: the state behind precision, recall, F1 and all that is made of them.

Axes: n rows, S slices, K slices that keep buckets, B buckets, C classes or labels. Counts have a last axis of three:
actual, predicted, both (weight of the rows that are of the class, are predicted to be, and are both).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assay.kernels.classes import count_classes, count_labels
from assay.metrics.additive import AdditiveState
from assay.metrics.class_rows import actual_classes, outputs_of, predicted_classes, targets_of
from assay.metrics.sums import num_bucketed
from assay.records import Block, Bucketed, Sizes, State
from assay.states import ints


@dataclass(frozen=True, slots=True)
class ClassCounts(AdditiveState):
    """rows, weight [S, C, 3] and buckets [K, B, C, 3], the latter two by weight."""

    num_classes: int
    bucketed: Bucketed

    @property
    def identity(self) -> str:
        return f"class_counts(classes={self.num_classes},buckets={self.bucketed}).v1"

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        by_slice = (sizes.num_slices, self.num_classes, 3)
        kept = num_bucketed(sizes.num_slices, self.bucketed)
        return {"rows": by_slice, "weight": by_slice, "buckets": (kept, sizes.num_buckets, self.num_classes, 3)}

    def update(self, state: State, block: Block) -> State:
        actual, predicted = actual_classes(block, self.num_classes), predicted_classes(block, self.num_classes)
        rows, weight, buckets = (ints(state, name) for name in ("rows", "weight", "buckets"))
        count_classes(actual, predicted, block.weight, block.slices, block.bucket, rows, weight, buckets)
        return state


@dataclass(frozen=True, slots=True)
class LabelCounts(ClassCounts):
    """The same where a row may have several labels; it is predicted to have those that score at least `threshold`."""

    threshold: float

    @property
    def identity(self) -> str:
        shape = f"labels={self.num_classes},buckets={self.bucketed}"
        return f"label_counts(threshold={self.threshold!r},{shape}).v1"

    def update(self, state: State, block: Block) -> State:
        targets, outputs = targets_of(block, self.num_classes), outputs_of(block, self.num_classes)
        rows, weight, buckets = (ints(state, name) for name in ("rows", "weight", "buckets"))
        threshold, slices = np.float32(self.threshold), block.slices
        count_labels(targets, outputs, threshold, block.weight, slices, block.bucket, rows, weight, buckets)
        return state
