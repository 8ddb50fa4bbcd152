"""Where two variants are the same for a metric, or nearly: in all buckets of a slice, or in all but a few.

Where they are twins, a difference is 0 whatever rows are drawn.

They are where they gave the same scores to the same rows (the digests in their ledgers); where the metric looks at
labels alone; and, for metrics of the order of rows of which every distinct score was kept, where it is the same: a
recalibrated model ranks as the one that it was made from. Anywhere else equal states prove nothing: two models that
never reach a threshold have the same counts until one of them does. Axes: S slices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assay.protocols import Accumulator
from assay.records import Bools, IntArray, Sizes, State

RANKINGS = ("exact_ranking.", "binned_ranking(")
"""How the identities begin of states that hold entries, `codes` and `weight`, sorted by slice, bucket and key."""
EVERY_SCORE = ("exact_ranking.",)
"""Of these, those that keep every score with its bucket."""
SLICE_SHIFT, KEY_BITS = 42, 32
"""Their codes have the slice in the bits from 42 on, the bucket below, and the key of the score in the last 32
(`metrics/ranking_states.py`)."""
_ENTRIES = ("codes", "weight")
COUNTED_BY_BUCKET = ("class_counts(", "label_counts(", "calibration(")
"""The same of states whose fields without buckets are the sums of what is also counted by bucket."""
DRAWN_ALONE = ("confusion_matrix(",)
"""The same of states that a curve comes from, and no value."""
LABELS_ALONE = ("support.",)
"""How the identities begin of states that no score enters."""


def states_suffice(accumulators: Sequence[Accumulator], left: Mapping[str, State], right: Mapping[str, State]) -> bool:
    """Whether equal states mean equal values on any rows: none of them depends on more than labels and order."""
    return all(
        one.identity.startswith(LABELS_ALONE)
        or (one.identity.startswith(RANKINGS) and _is_exact(left[one.identity]) and _is_exact(right[one.identity]))
        for one in accumulators
    )


def _is_exact(state: State) -> bool:
    """Every distinct score is kept."""
    return "coarse" not in state or not state["coarse"].any()


def same_slices(
    accumulators: Sequence[Accumulator], left: Mapping[str, State], right: Mapping[str, State], sizes: Sizes
) -> Bools:
    """[S] where two variants' states (by identity) of each of the accumulators are equal, or rank the rows alike; False
    where it cannot be told by slice."""
    same = np.ones(sizes.num_slices, np.bool_)
    for accumulator in accumulators:
        one, other = left[accumulator.identity], right[accumulator.identity]
        if not _equal(one, other):
            same &= _same(accumulator, one, other, sizes)
    return same


def buckets_that_differ(
    accumulators: Sequence[Accumulator], left: Mapping[str, State], right: Mapping[str, State], sizes: Sizes
) -> NDArray[np.int64]:
    """[S] buckets in which the states of two variants differ; all of them where it cannot be told by bucket.

    A difference rests on these alone: with three rows on which two models decide differently there are three at most.
    """
    differs = np.zeros((sizes.num_slices, sizes.num_buckets), np.bool_)
    for accumulator in accumulators:
        one, other = left[accumulator.identity], right[accumulator.identity]
        if accumulator.identity.startswith(DRAWN_ALONE) or _equal(one, other):
            continue
        if accumulator.identity.startswith(EVERY_SCORE):
            differs |= _buckets_of_entries(one, other, sizes)
        else:
            differs |= _buckets_of(accumulator, one, other, sizes)
    return np.asarray(differs.sum(axis=1), np.int64)


def _buckets_of(accumulator: Accumulator, left: State, right: State, sizes: Sizes) -> Bools:
    """[S, B], or [1, 1] True where it cannot be told."""
    slice_axes, bucket_axes = _slice_axes(accumulator, sizes), _grown_axes(accumulator, sizes, "num_buckets")
    differs = np.zeros((sizes.num_slices, sizes.num_buckets), np.bool_)
    sums_are_told = accumulator.identity.startswith(COUNTED_BY_BUCKET)
    for name, one in left.items():
        other, by_slice, by_bucket = right[name], slice_axes[name], bucket_axes[name]
        if one.shape == other.shape and np.array_equal(one, other):
            continue
        if sums_are_told and by_bucket is None:
            continue
        if one.shape != other.shape or by_slice is None or by_bucket is None:
            return np.ones((1, 1), np.bool_)
        apart = np.moveaxis(one != other, (by_slice, by_bucket), (0, 1))
        apart = apart.reshape(*apart.shape[:2], -1).any(axis=2)
        differs[: len(apart)] |= apart
        differs[len(apart) :] = True  # kept of `overall` alone
    return differs


def _buckets_of_entries(left: State, right: State, sizes: Sizes) -> Bools:
    """[S, B] where some score of one is not in the other, or of another weight."""
    differs = np.zeros((sizes.num_slices, sizes.num_buckets), np.bool_)
    for one, other in ((left, right), (right, left)):
        place = np.searchsorted(other["codes"], one["codes"])
        found = place < len(other["codes"])
        found[found] = other["codes"][place[found]] == one["codes"][found]
        found[found] = (other["weight"][place[found]] == one["weight"][found]).all(axis=1)
        apart = one["codes"][~found]
        differs[apart >> SLICE_SHIFT, (apart >> KEY_BITS) & ((1 << (SLICE_SHIFT - KEY_BITS)) - 1)] = True
    return differs


def _equal(left: State, right: State) -> bool:
    return all(np.array_equal(array, right[name]) for name, array in left.items())


def _same(accumulator: Accumulator, left: State, right: State, sizes: Sizes) -> Bools:
    """Of states that are not equal."""
    has_entries = accumulator.identity.startswith(RANKINGS)
    same = _same_entries(left, right, sizes.num_slices) if has_entries else np.ones(sizes.num_slices, np.bool_)
    fields = [name for name in left if not (has_entries and name in _ENTRIES)]
    axes = _slice_axes(accumulator, sizes)
    for name in fields:
        one, other = left[name], right[name]
        if np.array_equal(one, other):
            continue
        axis = axes[name]
        if one.shape != other.shape or axis is None:
            return np.zeros(sizes.num_slices, np.bool_)
        differs = np.moveaxis(one != other, axis, 0)
        same[: len(differs)] &= ~differs.reshape(len(differs), -1).any(axis=1)
    return same


def _slice_axes(accumulator: Accumulator, sizes: Sizes) -> dict[str, int | None]:
    """{field: its axis of slices}: the one that is longer with one slice more, or the first where it is of `overall`
    alone; None where there is neither."""
    grown = _grown_axes(accumulator, sizes, "num_slices")
    shapes = {name: array.shape for name, array in accumulator.zero(sizes).items()}
    return {
        name: 0 if axis is None and len(shapes[name]) > 1 and shapes[name][0] == 1 else axis
        for name, axis in grown.items()
    }


def _grown_axes(
    accumulator: Accumulator, sizes: Sizes, of: Literal["num_slices", "num_buckets"]
) -> dict[str, int | None]:
    """{field: the first axis that is longer where there is one slice, or bucket, more}; None where none is."""
    zero, longer = (accumulator.zero(replace(sizes, **{of: getattr(sizes, of) + more})) for more in (0, 1))
    axes: dict[str, int | None] = {}
    for name, array in zero.items():
        grown = [axis for axis, size in enumerate(array.shape) if longer[name].shape[axis] != size]
        axes[name] = grown[0] if grown else None
    return axes


def _same_entries(left: State, right: State, num_slices: int) -> Bools:
    edges = np.arange(num_slices + 1, dtype=np.int64) << SLICE_SHIFT
    same = np.ones(num_slices, np.bool_)
    cuts = [np.searchsorted(one["codes"], edges) for one in (left, right)]
    for at in range(num_slices):
        one, other = (slice(cut[at], cut[at + 1]) for cut in cuts)
        same[at] = np.array_equal(left["weight"][one], right["weight"][other]) and np.array_equal(
            _ranks(left["codes"][one]), _ranks(right["codes"][other])
        )
    return same


def _ranks(codes: IntArray) -> IntArray:
    """The codes [m] of one slice with the rank of each score among its distinct scores in place of the score."""
    distinct, rank = np.unique(codes & ((1 << KEY_BITS) - 1), return_inverse=True)
    ranked: IntArray = (codes >> KEY_BITS) * len(distinct) + rank
    return ranked
