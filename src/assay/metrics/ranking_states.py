"""The states behind all metrics of the order of scores: every distinct score, or a histogram with a bound.

Axes: n rows, S slices, K slices that keep buckets, B buckets, m entries. Weights are int64 with a last axis of
negative, positive. An entry's code is slice << 42 | bucket << 32 | order-preserving key of the float32 score, or bin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.errors import DataError
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

LEAST_BITS, MOST_BITS = 7, 23
"""Mantissa bits that the bins of slice 0 may have."""
MOST_DENSE_BITS = 12
"""With more bits, histograms hold only the bins that are occupied."""
MOST_DISTINCT = 4096
"""A binned state also keeps every distinct score while there are at most so many of them, all slices together."""
_SAMPLE = 1024
"""Rows of a block whose scores are looked at for those that float32 does not tell apart."""
_LEAST_SAMPLE, _MOST_LOST = 32, 0.9
SLICE_BITS = 5
DISTINCT_BY_SLICE_BITS = {SLICE_BITS: MOST_DISTINCT, 3: 256, 2: 32}
"""Mantissa bits of the other slices -> how many distinct scores are kept beside: forms for ever smaller budgets."""


class Entries(NamedTuple):
    """Sorted scores of one slice, by increasing key; ties stand together."""

    key: NDArray[np.int64]  # [m]
    bucket: NDArray[np.int64]  # [m]
    weight: NDArray[np.int64]  # [m, 2]


NOTHING = Entries(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2), np.int64))


class Ranking(NamedTuple):
    """What a ranking metric needs of one slice."""

    fine: Entries | None  # for the value, all in bucket 0; None: `buckets` gives it as well
    buckets: Entries  # for the leave-one-out values; empty where no buckets are kept
    bits: int | None  # mantissa bits of the bins that are the keys of the value; None: they are scores
    kept: bool = True  # the slice keeps buckets

    @property
    def exact(self) -> bool:
        return self.bits is None


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
        check_told_apart(block)
        keys = float_keys(block.ranking).astype(np.int64)
        keys |= block.bucket.astype(np.int64) << KEY_BITS
        return _combine(state, _collected((block.slices.astype(np.int64) << _SLICE_SHIFT) | keys, block))

    def merge(self, left: State, right: State) -> State:
        return _combine(left, right)

    def subtract(self, whole: State, part: State) -> State:
        return _combine(whole, part, sign=-1)

    def num_bytes(self, sizes: Sizes, rows: int | None) -> int:
        if rows is None:
            raise ValueError("Every distinct score can only be kept where the number of rows is known.")
        return rows * sizes.num_dimensions * ENTRY_BYTES

    def of(self, state: State, num_slices: int) -> list[Ranking]:
        """What the state says of each of the first slices."""
        return [Ranking(None, _by_key(entries), bits=None) for entries in _by_slice(state, num_slices)]


class _Level(NamedTuple):
    """One of the histograms of a binned state: of slice 0 or of the others, in all or by bucket."""

    name: str
    bits: int
    whole: bool  # of slice 0
    by_bucket: bool

    @property
    def num_bins(self) -> int:
        return NUM_OCTAVES << self.bits


@dataclass(frozen=True, slots=True)
class BinnedRanking:
    """Histograms over log-spaced bins of the score, finer where there are fewer of them.

    overall [1, bins, 2] of slice 0, and its buckets [1, B, bins, 2]; slices [S, bins, 2] of the others (slice 0 stays
    empty), and slice_buckets [S, B, bins, 2]. Probabilities are binned where the output has them (also a logit's), else
    raw scores. With more than 12 bits each is sparse instead, codes [m] and weight [m, 2] of the bins that are
    occupied: "overall.codes", "overall.weight", and so on.

    While all rows together have at most `most_distinct` (4,096) distinct scores, also codes [m] and weight [m, 2] of
    them, with bucket 0; past that they are dropped for good and coarse [1] is 1. Since a union of states is past it
    whenever a part is, this too depends on the rows alone.
    """

    bucketed: Bucketed
    bits: int = LEAST_BITS
    slice_bits: int = SLICE_BITS

    @property
    def identity(self) -> str:
        slices = "" if self.slice_bits == SLICE_BITS else f",slices={self.slice_bits}"
        return f"binned_ranking(bits={self.bits},buckets={self.bucketed}{slices}).v1"

    @property
    def most_distinct(self) -> int:
        return DISTINCT_BY_SLICE_BITS[self.slice_bits]

    @property
    def sparse(self) -> bool:
        return self.bits > MOST_DENSE_BITS

    def zero(self, sizes: Sizes) -> State:
        if self.sparse and sizes.num_buckets > MOST_BUCKETS:
            raise ValueError(f"There are {sizes.num_buckets} buckets; ranking metrics take at most {MOST_BUCKETS}.")
        state: State = {"coarse": np.zeros(1, np.int64), **no_entries()}
        for level in self._levels():
            if self.sparse:
                state |= _named(level.name, no_entries())
            else:
                state[level.name] = np.zeros((*self._shape(level, sizes), 2), np.int64)
        return state

    def update(self, state: State, block: Block) -> State:
        check_told_apart(block)
        state = self._update_bins(state, block)
        if state["coarse"][0]:
            return state
        place, keys = distinct(float_keys(block.ranking), self.most_distinct)
        if len(keys) > self.most_distinct:
            return {**state, **no_entries(), "coarse": np.ones(1, np.int64)}
        return self._limited({**state, **_combine(state, _dense_entries(block, place, keys))})

    def merge(self, left: State, right: State) -> State:
        coarse = left["coarse"] | right["coarse"]
        entries = no_entries() if coarse[0] else _combine(left, right)
        return self._limited({**left, **self._add(left, right, 1), "coarse": coarse, **entries})

    def subtract(self, whole: State, part: State) -> State:
        """The inverse of merge, but for the exact entries, which a coarse `whole` no longer has."""
        coarse = whole["coarse"].copy()
        entries = no_entries() if coarse[0] else _combine(whole, part, sign=-1)
        return {**whole, **self._add(whole, part, -1), "coarse": coarse, **entries}

    def num_bytes(self, sizes: Sizes, rows: int | None) -> int:
        entries = self.most_distinct * sizes.num_slices
        if rows is not None:
            entries = min(entries, rows * sizes.num_dimensions)
        return 8 + entries * ENTRY_BYTES + sum(self._level_bytes(level, sizes, rows) for level in self._levels())

    def of(self, state: State, num_slices: int) -> list[Ranking]:
        """What the state says of each of the first slices."""
        exact = not state["coarse"][0]
        entries = _by_slice(state, num_slices)
        overall, slices, buckets, slice_buckets = self._levels()
        binned = [self._entries(state, level, num_slices) for level in (overall, slices)]
        by_bucket = [self._entries(state, level, num_slices) for level in (buckets, slice_buckets)]
        kept = num_bucketed(num_slices, self.bucketed)
        rankings = []
        for one in range(num_slices):
            of, bits = min(one, 1), slices.bits if one else overall.bits
            fine = entries[one] if exact else binned[of][one]
            rankings.append(Ranking(fine, by_bucket[of][one], None if exact else bits, one < kept))
        return rankings

    def _limited(self, state: State) -> State:
        """The state without its entries if they have become too many."""
        if np.searchsorted(state["codes"], 1 << _SLICE_SHIFT) <= self.most_distinct:
            return state
        return {**state, **no_entries(), "coarse": np.ones(1, np.int64)}

    def _levels(self) -> tuple[_Level, _Level, _Level, _Level]:
        """Bits as measured in docs/decisions/0005; those of a sparse form keep the distances of the largest dense."""
        finer = max(self.bits - MOST_DENSE_BITS, 0)
        return (
            _Level("overall", self.bits, whole=True, by_bucket=False),
            _Level("slices", self.slice_bits + finer, whole=False, by_bucket=False),
            _Level("buckets", max(3, min(self.bits - 6, 5)) + finer, whole=True, by_bucket=True),
            _Level("slice_buckets", 3 + finer, whole=False, by_bucket=True),
        )

    def _shape(self, level: _Level, sizes: Sizes) -> tuple[int, ...]:
        """Of a dense histogram, apart from the last axis."""
        num_slices = 1 if level.whole else sizes.num_slices
        if not level.by_bucket:
            return num_slices, level.num_bins
        kept = self.bucketed == "all" or (level.whole and self.bucketed == "overall")
        return num_slices if kept else 0, sizes.num_buckets, level.num_bins

    def _level_bytes(self, level: _Level, sizes: Sizes, rows: int | None) -> int:
        bins = math.prod(self._shape(level, sizes))
        if not self.sparse:
            return bins * 2 * 8
        dimensions = len(self._dimensions(level, np.empty((sizes.num_dimensions, 0), np.int32)))
        return ENTRY_BYTES * (bins if rows is None else min(bins, rows * dimensions))

    def _dimensions(self, level: _Level, slices: NDArray[np.int32]) -> NDArray[np.int32]:
        """The rows of slices [D, n] that a histogram counts."""
        if level.by_bucket and self.bucketed != "all" and not (level.whole and self.bucketed == "overall"):
            return slices[:0]
        return slices[:1] if level.whole else slices[1:]

    def _update_bins(self, state: State, block: Block) -> State:
        if block.probability is None:
            fine = raw_bins(block.ranking, self.bits)
        else:
            fine = probability_bins(block.probability, self.bits)
        changed = dict(state)
        for level in self._levels():
            dimensions, place = self._dimensions(level, block.slices), fine >> (self.bits - level.bits)
            if not len(dimensions):
                continue
            if self.sparse:
                bucket = block.bucket.astype(np.int64) if level.by_bucket else np.int64(0)
                codes = (dimensions.astype(np.int64) << _SLICE_SHIFT) | (bucket << KEY_BITS) | place
                added = _collected(codes, block)
                changed |= _named(level.name, _combine(_unnamed(level.name, state), added))
            else:
                cells = ints(state, level.name)
                place = block.bucket * level.num_bins + place if level.by_bucket else place
                add_counts(block.weight, dimensions, by_class(place, block), cells.reshape(len(cells), -1))
        return changed

    def _add(self, left: State, right: State, sign: int) -> State:
        """The histograms of `left + sign * right`."""
        if not self.sparse:
            return {level.name: left[level.name] + sign * right[level.name] for level in self._levels()}
        added: State = {}
        for level in self._levels():
            ours, theirs = (_unnamed(level.name, one) for one in (left, right))
            added |= _named(level.name, _combine(ours, theirs, sign))
        return added

    def _entries(self, state: State, level: _Level, num_slices: int) -> list[Entries]:
        """The occupied bins of each slice; none of those that the histogram does not have."""
        if self.sparse:
            return [_by_key(one) for one in _by_slice(_unnamed(level.name, state), num_slices)]
        cells = ints(state, level.name)
        by_bucket = cells.swapaxes(1, 2) if level.by_bucket else cells[:, :, None]
        return [occupied(one) for one in by_bucket[:num_slices]] + [NOTHING] * (num_slices - len(cells))


def check_told_apart(block: Block) -> None:
    """DataError where float32, in which rows are ranked, makes ties of nearly all that plain scores tell apart.

    So it is with scores such as 1e9 + p, or beyond 3.4e38. Of probabilities those next to 1 tie; that is how they are
    stored. Looks at 1,024 rows of the block, evenly spread.
    """
    if block.probability is not None or block.outputs is not None:
        return
    step = max(len(block.raw) // _SAMPLE, 1)
    scores, ranked = block.raw[::step][:_SAMPLE], block.ranking[::step][:_SAMPLE]
    if np.array_equal(scores, ranked):
        return
    num_scores, num_ranked = len(np.unique(scores)), len(np.unique(ranked))
    if num_scores >= _LEAST_SAMPLE and num_ranked <= (1.0 - _MOST_LOST) * num_scores:
        raise DataError(
            f"Rows are ranked by their scores in float32, which leaves {num_ranked} of {num_scores} distinct scores "
            f"from {scores.min():.12g} to {scores.max():.12g}; take their common offset away, or scale them."
        )


RankingState = ExactRanking | BinnedRanking


def ranking_state(choice: StateChoice) -> RankingState:
    """The form of state that the plan chose."""
    if choice.exact_ranking:
        return ExactRanking()
    return BinnedRanking(choice.bucketed, choice.ranking_bits, choice.slice_bits)


def no_entries() -> State:
    return _entries(np.zeros(0, np.int64), np.zeros((0, 2), np.int64))


def _entries(codes: NDArray[np.int64], weight: NDArray[np.int64]) -> State:
    return {"codes": codes, "weight": weight}


def _collected(codes: NDArray[np.int64], block: Block) -> State:
    """The entries of a block's rows, from their codes [D, n]."""
    weight = np.zeros((len(block.weight), 2), np.int64)
    weight[np.arange(len(weight)), block.positive] = block.weight
    return _entries(*collect(codes.reshape(-1), np.tile(weight, (len(codes), 1))))


def _named(name: str, entries: State) -> State:
    return {f"{name}.{field}": entries[field] for field in ("codes", "weight")}


def _unnamed(name: str, state: State) -> State:
    return {field: state[f"{name}.{field}"] for field in ("codes", "weight")}


def _combine(left: State, right: State, sign: int = 1) -> State:
    codes, weight = combine(
        ints(left, "codes"), ints(left, "weight"), ints(right, "codes"), ints(right, "weight"), sign
    )
    return {"codes": codes, "weight": weight}


def _dense_entries(block: Block, place: NDArray[np.int32], keys: NDArray[np.uint32]) -> State:
    """Entries of all slices, counted in a table of slices x distinct keys: no row is sorted."""
    order = np.argsort(keys)
    rank = np.empty(len(keys), np.int32)
    rank[order] = np.arange(len(keys), dtype=np.int32)
    num_slices = int(block.slices.max(initial=0)) + 1
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


def _by_key(entries: Entries) -> Entries:
    """Entries that stand by bucket, by increasing key."""
    order = np.argsort(entries.key, kind="stable")
    return Entries(entries.key[order], entries.bucket[order], entries.weight[order])


def occupied(histogram: NDArray[np.int64]) -> Entries:
    """The occupied cells of a histogram [bins, B, 2]."""
    key, bucket = np.nonzero(histogram[..., 0] | histogram[..., 1])
    return Entries(key, bucket, histogram[key, bucket])
