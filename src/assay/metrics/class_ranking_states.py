"""The states behind the order of rows by the scores of each class or label, one against the rest.

Axes: n rows, S slices, K slices that keep buckets, B buckets, C classes or labels. Weights have a last axis of
negative, positive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.classes import count_bins
from assay.kernels.keys import NUM_OCTAVES, probability_bins, raw_bins
from assay.metrics.additive import AdditiveState
from assay.metrics.class_rows import actual_classes, outputs_of, targets_of
from assay.metrics.ranking_states import Entries, ExactRanking, occupied
from assay.metrics.sums import num_bucketed
from assay.records import Block, Bucketed, LabelKind, Sizes, State, StateChoice
from assay.states import ints

SLICE_BITS, BUCKET_BITS = 5, 3
"""Mantissa bits of the bins behind the values of slices other than 0, and behind those without a bucket."""
MOST_BITS = 12
"""Of slice 0: 4 MiB a class."""
MOST_SLICES_OF_CLASSES = 1 << 20
"""An exact ranking numbers slices and classes together."""


class ClassRankings(NamedTuple):
    """What is known of the C classes in one slice."""

    fine: tuple[Entries, ...] | None  # [C] for the values, all in bucket 0; None: `buckets` gives them as well
    buckets: tuple[Entries, ...]  # [C] for the leave-one-out values; empty where no buckets are kept


@dataclass(frozen=True, slots=True)
class ExactClassRanking:
    """Every distinct (slice, class, bucket, score): an `ExactRanking` whose slices are slice * C + class."""

    num_classes: int
    label_kind: LabelKind

    @property
    def identity(self) -> str:
        return f"class_ranking({self.label_kind}={self.num_classes},{ExactRanking().identity}).v1"

    def zero(self, sizes: Sizes) -> State:
        if sizes.num_slices * self.num_classes > MOST_SLICES_OF_CLASSES:
            raise ValueError(
                f"{self.num_classes} classes in {sizes.num_slices} slices are too many for an exact ranking; their "
                f"product may be at most {MOST_SLICES_OF_CLASSES}."
            )
        return ExactRanking().zero(sizes)

    def update(self, state: State, block: Block) -> State:
        outputs, size = outputs_of(block, self.num_classes), self.num_classes
        positive = [_positive(block, number, self) for number in range(size)]
        slices = block.slices[:, None, :] * size + np.arange(size, dtype=np.int32)[:, None]
        every = replace(
            block,
            ranking=outputs.reshape(-1) + np.float32(0),  # -0.0 + 0.0 is 0.0
            positive=np.concatenate(positive).astype(np.uint8) if positive else block.positive[:0],
            weight=np.tile(block.weight, size),
            slices=slices.reshape(len(slices), -1),
            bucket=np.tile(block.bucket, size),
        )
        return ExactRanking().update(state, every)

    def merge(self, left: State, right: State) -> State:
        return ExactRanking().merge(left, right)

    def subtract(self, whole: State, part: State) -> State:
        return ExactRanking().subtract(whole, part)

    def num_bytes(self, sizes: Sizes, rows: int | None) -> int:
        return self.num_classes * ExactRanking().num_bytes(sizes, rows)

    def of(self, state: State, num_slices: int) -> list[ClassRankings]:
        """What the state says of each slice."""
        size = self.num_classes
        every = [one.buckets for one in ExactRanking().of(state, num_slices * size)]
        return [ClassRankings(None, tuple(every[i : i + size])) for i in range(0, len(every), size)]


@dataclass(frozen=True, slots=True)
class BinnedClassRanking(AdditiveState):
    """Histograms over log-spaced bins: overall [C, bins, 2] of slice 0, slices [C, S, bins, 2] of the others with 5
    mantissa bits (slice 0 stays empty), buckets [C, K, B, bins, 2] with 3.

    Probabilities are binned where the output has them, else raw scores.
    """

    num_classes: int
    label_kind: LabelKind
    bucketed: Bucketed
    bits: int

    @property
    def identity(self) -> str:
        form = f"bits={self.bits},buckets={self.bucketed}"
        return f"class_ranking({self.label_kind}={self.num_classes},{form}).v1"

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        kept = num_bucketed(sizes.num_slices, self.bucketed)
        fine, coarse = NUM_OCTAVES << SLICE_BITS, NUM_OCTAVES << BUCKET_BITS
        return {
            "overall": (self.num_classes, NUM_OCTAVES << self.bits, 2),
            "slices": (self.num_classes, sizes.num_slices, fine, 2),
            "buckets": (self.num_classes, kept, sizes.num_buckets, coarse, 2),
        }

    def update(self, state: State, block: Block) -> State:
        overall, slices, buckets = (ints(state, name) for name in ("overall", "slices", "buckets"))
        bins = raw_bins if block.probability is None else probability_bins
        shift, bucket_shift = self.bits - SLICE_BITS, self.bits - BUCKET_BITS
        weight, where, bucket = block.weight, block.slices, block.bucket
        for number, scores in enumerate(outputs_of(block, self.num_classes)):
            place, positive = bins(scores + np.float32(0), self.bits), _positive(block, number, self)
            cells = overall[number], slices[number], buckets[number]
            count_bins(place, shift, bucket_shift, positive, weight, where, bucket, *cells)
        return state

    def of(self, state: State, num_slices: int) -> list[ClassRankings]:
        """What the state says of each slice."""
        overall, slices, buckets = (ints(state, name) for name in ("overall", "slices", "buckets"))
        rankings = []
        for one in range(num_slices):
            fine = tuple(occupied(histogram[:, None]) for histogram in (slices[:, one] if one else overall))
            kept = buckets[:, one] if one < buckets.shape[1] else buckets[:0, 0:1]
            rankings.append(ClassRankings(fine, tuple(occupied(cells.swapaxes(0, 1)) for cells in kept)))
        return rankings


ClassRankingState = ExactClassRanking | BinnedClassRanking


def class_ranking_state(choice: StateChoice, label_kind: LabelKind) -> ClassRankingState:
    """The form of state that the plan chose."""
    if choice.exact_ranking:
        return ExactClassRanking(len(choice.classes), label_kind)
    return BinnedClassRanking(len(choice.classes), label_kind, choice.bucketed, min(choice.ranking_bits, MOST_BITS))


def _positive(block: Block, number: int, state: ClassRankingState) -> NDArray[np.bool_]:
    """Which rows [n] are of one class, or have one label."""
    if state.label_kind == "labels":
        return np.asarray(targets_of(block, state.num_classes)[number] != 0)
    return np.asarray(actual_classes(block, state.num_classes) == number)
