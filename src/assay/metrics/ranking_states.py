"""The states behind AUC and average precision: every distinct score, or a histogram with a bound.

Axes: n rows, S slices, K slices that keep buckets, B buckets, m entries. Weights are int64 with a last axis of
negative, positive. An entry's code is slice << 42 | bucket << 32 | order-preserving key of the float32 score.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.entries import collect, combine, distinct
from assay.kernels.keys import NUM_OCTAVES, float_keys, probability_bins, raw_bins
from assay.kernels.scatter import add_counts
from assay.metrics.sums import by_class, num_bucketed
from assay.records import Block, Bucketed, Sizes, State, StateChoice
from assay.states import ints

KEY_BITS = 32
BUCKET_BITS = 10
_SLICE_SHIFT = KEY_BITS + BUCKET_BITS
MOST_BUCKETS = 1 << BUCKET_BITS
ENTRY_BYTES = 24

OVERALL_BITS, SLICE_BITS, BUCKET_BIN_BITS = 7, 5, 3
"""Mantissa bits of the bins: of slice 0, of the other slices, of the buckets."""
MOST_DISTINCT = 4096
"""A binned state also keeps every distinct score while there are at most so many of them, all slices together."""


class Entries(NamedTuple):
    """Sorted scores of one slice, by increasing key; ties stand together."""

    key: NDArray[np.int64]  # [m]
    bucket: NDArray[np.int64]  # [m]
    weight: NDArray[np.int64]  # [m, 2]


class Ranking(NamedTuple):
    """What a ranking metric needs of one slice."""

    fine: Entries | None  # for the value, all in bucket 0; None: `buckets` gives it as well
    buckets: Entries  # for the leave-one-out values; empty where no buckets are kept
    exact: bool  # the keys that give the value are scores, not bins
    kept: bool = True  # the slice keeps buckets


@dataclass(frozen=True, slots=True)
class ExactRanking:
    """Every distinct (slice, bucket, score): codes [m] strictly increasing, weight [m, 2]."""

    @property
    def identity(self) -> str:
        return "exact_ranking.v1"

    def zero(self, sizes: Sizes) -> State:
        if sizes.num_buckets > MOST_BUCKETS:
            raise ValueError(f"There are {sizes.num_buckets} buckets; ranking metrics take at most {MOST_BUCKETS}.")
        return no_entries()

    def update(self, state: State, block: Block) -> State:
        keys = float_keys(block.ranking).astype(np.int64)
        keys |= block.bucket.astype(np.int64) << KEY_BITS
        codes = (block.slices.astype(np.int64) << _SLICE_SHIFT) | keys
        weight = np.zeros((len(block.weight), 2), np.int64)
        weight[np.arange(len(weight)), block.positive] = block.weight
        return _combine(state, _entries(*collect(codes.reshape(-1), np.tile(weight, (len(codes), 1)))))

    def merge(self, left: State, right: State) -> State:
        return _combine(left, right)

    def subtract(self, whole: State, part: State) -> State:
        return _combine(whole, part, sign=-1)

    def num_bytes(self, sizes: Sizes, rows: int | None) -> int:
        if rows is None:
            raise ValueError("Every distinct score can only be kept where the number of rows is known.")
        return rows * sizes.num_dimensions * ENTRY_BYTES

    def of(self, state: State, num_slices: int) -> list[Ranking]:
        """What the state says of each slice."""
        rankings = []
        for entries in _by_slice(state, num_slices):
            order = np.argsort(entries.key, kind="stable")
            ordered = Entries(entries.key[order], entries.bucket[order], entries.weight[order])
            rankings.append(Ranking(None, ordered, exact=True))
        return rankings


@dataclass(frozen=True, slots=True)
class BinnedRanking:
    """Histograms over log-spaced bins of the score, finer where there are fewer of them.

    overall [1, bins, 2], slices [S, bins, 2] (slice 0 empty), buckets [K, B, bins, 2]; probabilities are binned where
    the output has them (also a logit's), else raw scores. While all rows together have at most 4,096 distinct scores,
    also codes [m] and weight [m, 2] of them, with bucket 0; past that they are dropped for good and coarse [1] is 1.
    Since a union of states is past it whenever a part is, this too depends on the rows alone.
    """

    bucketed: Bucketed

    @property
    def identity(self) -> str:
        return f"binned_ranking(buckets={self.bucketed}).v1"

    def zero(self, sizes: Sizes) -> State:
        kept = num_bucketed(sizes.num_slices, self.bucketed)
        return {
            "overall": np.zeros((1, NUM_OCTAVES << OVERALL_BITS, 2), np.int64),
            "slices": np.zeros((sizes.num_slices, NUM_OCTAVES << SLICE_BITS, 2), np.int64),
            "buckets": np.zeros((kept, sizes.num_buckets, NUM_OCTAVES << BUCKET_BIN_BITS, 2), np.int64),
            "coarse": np.zeros(1, np.int64),
            **no_entries(),
        }

    def update(self, state: State, block: Block) -> State:
        self._update_bins(state, block)
        if state["coarse"][0]:
            return state
        place, keys = distinct(float_keys(block.ranking), MOST_DISTINCT)
        if len(keys) > MOST_DISTINCT:
            return {**state, **no_entries(), "coarse": np.ones(1, np.int64)}
        return _limited({**state, **_combine(state, _dense_entries(block, place, keys, len(state["slices"])))})

    def _update_bins(self, state: State, block: Block) -> None:
        if block.probability is None:
            fine = raw_bins(block.ranking, OVERALL_BITS)
        else:
            fine = probability_bins(block.probability, OVERALL_BITS)
        overall, slices, buckets = (ints(state, name) for name in ("overall", "slices", "buckets"))
        coarse = block.bucket * (NUM_OCTAVES << BUCKET_BIN_BITS) + (fine >> (OVERALL_BITS - BUCKET_BIN_BITS))
        bucketed = {"all": block.slices, "overall": block.slices[:1], "none": block.slices[:0]}[self.bucketed]
        for cells, dimensions, place in (
            (overall, block.slices[:1], fine),
            (slices, block.slices[1:], fine >> (OVERALL_BITS - SLICE_BITS)),
            (buckets, bucketed, coarse),
        ):
            if len(dimensions):
                add_counts(block.weight, dimensions, by_class(place, block), cells.reshape(len(cells), -1))

    def merge(self, left: State, right: State) -> State:
        bins = {name: left[name] + right[name] for name in ("overall", "slices", "buckets")}
        coarse = left["coarse"] | right["coarse"]
        entries = no_entries() if coarse[0] else _combine(left, right)
        return _limited({**bins, "coarse": coarse, **entries})

    def subtract(self, whole: State, part: State) -> State:
        """The inverse of merge, but for the exact entries, which a coarse `whole` no longer has."""
        bins = {name: whole[name] - part[name] for name in ("overall", "slices", "buckets")}
        coarse = whole["coarse"].copy()
        entries = no_entries() if coarse[0] else _combine(whole, part, sign=-1)
        return {**bins, "coarse": coarse, **entries}

    def num_bytes(self, sizes: Sizes, rows: int | None) -> int:
        entries = MOST_DISTINCT * sizes.num_slices
        if rows is not None:
            entries = min(entries, rows * sizes.num_dimensions)
        kept = num_bucketed(sizes.num_slices, self.bucketed)
        per_octave = (1 << OVERALL_BITS) + (sizes.num_slices << SLICE_BITS)
        per_octave += (kept * sizes.num_buckets) << BUCKET_BIN_BITS
        return per_octave * NUM_OCTAVES * 2 * 8 + 8 + entries * ENTRY_BYTES

    def of(self, state: State, num_slices: int) -> list[Ranking]:
        """What the state says of each slice."""
        exact = not state["coarse"][0]
        entries = _by_slice(state, num_slices)
        rankings = []
        for one in range(num_slices):
            histogram = ints(state, "slices")[one] if one else ints(state, "overall")[0]
            fine = entries[one] if exact else _occupied(histogram[:, None])
            kept = one < len(state["buckets"])
            by_bucket = ints(state, "buckets")[one] if kept else np.zeros((0, 0, 2), np.int64)
            rankings.append(Ranking(fine, _occupied(by_bucket.swapaxes(0, 1)), exact, kept))
        return rankings


RankingState = ExactRanking | BinnedRanking


def ranking_state(choice: StateChoice) -> RankingState:
    """The form of state that the plan chose."""
    return ExactRanking() if choice.exact_ranking else BinnedRanking(choice.bucketed)


def no_entries() -> State:
    return _entries(np.zeros(0, np.int64), np.zeros((0, 2), np.int64))


def _entries(codes: NDArray[np.int64], weight: NDArray[np.int64]) -> State:
    return {"codes": codes, "weight": weight}


def _combine(left: State, right: State, sign: int = 1) -> State:
    codes, weight = combine(
        ints(left, "codes"), ints(left, "weight"), ints(right, "codes"), ints(right, "weight"), sign
    )
    return {"codes": codes, "weight": weight}


def _limited(state: State) -> State:
    """The state without its entries if they have become too many."""
    if np.searchsorted(state["codes"], 1 << _SLICE_SHIFT) <= MOST_DISTINCT:
        return state
    return {**state, **no_entries(), "coarse": np.ones(1, np.int64)}


def _dense_entries(block: Block, place: NDArray[np.int32], keys: NDArray[np.uint32], num_slices: int) -> State:
    """Entries of all slices, counted in a table of slices x distinct keys: no row is sorted."""
    order = np.argsort(keys)
    rank = np.empty(len(keys), np.int32)
    rank[order] = np.arange(len(keys), dtype=np.int32)
    cells = np.zeros((num_slices, 2 * len(keys)), np.int64)
    if len(keys):
        add_counts(block.weight, block.slices, by_class(rank[place], block), cells)
    weight = cells.reshape(num_slices, len(keys), 2)
    used = np.nonzero(weight.any(axis=2))
    codes = (used[0].astype(np.int64) << _SLICE_SHIFT) | keys[order].astype(np.int64)[used[1]]
    return _entries(codes, weight[used])


def _by_slice(state: State, num_slices: int) -> list[Entries]:
    codes, weight = ints(state, "codes"), ints(state, "weight")
    edges = np.searchsorted(codes, np.arange(num_slices + 1, dtype=np.int64) << _SLICE_SHIFT)
    key = codes & ((1 << KEY_BITS) - 1)
    bucket = (codes >> KEY_BITS) & (MOST_BUCKETS - 1)
    return [Entries(key[i:j], bucket[i:j], weight[i:j]) for i, j in pairwise(edges)]


def _occupied(histogram: NDArray[np.int64]) -> Entries:
    """The occupied cells of a histogram [bins, B, 2]."""
    key, bucket = np.nonzero(histogram.any(axis=2))
    return Entries(key, bucket, histogram[key, bucket])
