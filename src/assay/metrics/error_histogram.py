"""Histograms of the size of errors, by the float32 bits of it.

Lives here: the state. Not here: quantiles of it (`error_quantile.py`). Axes: n rows, K slices that keep buckets,
m entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.entries import collect, combine
from assay.kernels.scatter import add_counts
from assay.metrics.regression import errors
from assay.metrics.sums import num_bucketed
from assay.records import Block, Bucketed, Sizes, State
from assay.states import ints

BIN_SHIFT, BUCKET_SHIFT = 16, 17
"""Low bits of float32 that a bin does not tell apart: 128 bins an octave, and 64 by bucket."""
INFINITE = 0x7F800000
"""The bits of float32 infinity: of every error that is larger than its largest number."""
ENTRY_BYTES = 24
KEY_BITS = 32
KEY_MASK = (1 << KEY_BITS) - 1
_BUCKET_BITS = 10
_SLICE_SHIFT = KEY_BITS + _BUCKET_BITS
_MOST_CELLS_PER_ROW = 4  # of a table of entries; above it, sorting is faster

Codes = tuple[NDArray[np.int64], NDArray[np.int64]]
"""codes [m] and weight [m, 2] of entries."""


@dataclass(frozen=True, slots=True)
class ErrorHistogram:
    """Weight by size of |prediction - label|, of too low and other predictions apart.

    errors: entries by slice and bin, whose half width is at most 2^-8 of its values. buckets: those of the first K
    slices by bucket and wider bin. Where `exact`, bins are float32 values, `errors` keeps the buckets of the first K
    slices, and there are no others. Entries are codes [m], strictly increasing, with weights [m, 2]; a code is
    slice << 42 | bucket << 32 | float32 bits, of which the low ones are 0.
    """

    exact: bool
    bucketed: Bucketed

    @property
    def identity(self) -> str:
        return f"error_histogram(exact={self.exact},buckets={self.bucketed}).v1"

    @property
    def shift(self) -> int:
        return 0 if self.exact else BIN_SHIFT

    def zero(self, sizes: Sizes) -> State:
        if sizes.num_buckets > 1 << _BUCKET_BITS:
            raise ValueError(f"There are {sizes.num_buckets} buckets; quantiles take at most {1 << _BUCKET_BITS}.")
        return {**_none("errors"), **_none("buckets")}

    def update(self, state: State, block: Block) -> State:
        rows = ErrorRows.of(block)
        dimensions = {"all": len(block.slices), "overall": 1, "none": 0}[self.bucketed]
        nowhere = np.zeros_like(block.bucket)
        if self.exact:
            parts = [rows.listed(one, block.bucket, 0) for one in block.slices[:dimensions]]
            parts += [rows.listed(one, nowhere, 0) for one in block.slices[dimensions:]]
            return _combined(state, {**_entries("errors", *_joined(parts)), **_none("buckets")}, 1)
        fine = [rows.collected(one, nowhere, BIN_SHIFT) for one in block.slices]
        wide = [rows.collected(one, block.bucket, BUCKET_SHIFT) for one in block.slices[:dimensions]]
        return _combined(state, {**_entries("errors", *_joined(fine)), **_entries("buckets", *_joined(wide))}, 1)

    def merge(self, left: State, right: State) -> State:
        return _combined(left, right, 1)

    def subtract(self, whole: State, part: State) -> State:
        return _combined(whole, part, -1)

    def num_bytes(self, sizes: Sizes, rows: int | None) -> int:
        kept = num_bucketed(sizes.num_slices, self.bucketed) * sizes.num_buckets
        if self.exact:
            entries, by_bucket = (sizes.num_slices + kept) * (INFINITE + 1), 0
        else:
            entries, by_bucket = (one * (INFINITE + 1) for one in (sizes.num_slices, kept))
            entries, by_bucket = (entries >> BIN_SHIFT) + sizes.num_slices, (by_bucket >> BUCKET_SHIFT) + kept
        if rows is not None:
            most = rows * sizes.num_dimensions
            entries, by_bucket = min(entries, most), min(by_bucket, most)
        return (entries + by_bucket) * ENTRY_BYTES

    def of(self, state: State, num_slices: int) -> list[SliceErrors]:
        """What the state says of each slice."""
        errors, buckets = _by_slice(state, "errors", num_slices), _by_slice(state, "buckets", num_slices)
        kept = num_bucketed(num_slices, self.bucketed)
        by_bucket = [*(errors if self.exact else buckets)[:kept], *[None] * (num_slices - kept)]
        return [SliceErrors(_all_buckets(fine), known) for fine, known in zip(errors, by_bucket, strict=True)]


class Entries(NamedTuple):
    """Entries of one slice, in the order of their codes, which are without the slice."""

    code: NDArray[np.int64]  # [m]
    weight: NDArray[np.int64]  # [m]


class SliceErrors(NamedTuple):
    fine: Entries
    by_bucket: Entries | None  # None where the slice keeps no buckets


@dataclass(frozen=True, slots=True)
class ErrorRows:
    """The rows of a block, to be added up by slice, bucket and bin."""

    bits: NDArray[np.int32]  # [n] float32 of the absolute error
    sign: NDArray[np.int32]  # [n] 1 where the prediction is not below the label
    weight: NDArray[np.int64]  # [n]

    @classmethod
    def of(cls, block: Block) -> ErrorRows:
        error = errors(block)
        with np.errstate(over="ignore"):  # what is too large for float32 lies in the last bin
            bits = np.abs(error).astype(np.float32).view(np.int32)
        return cls(bits, (error >= 0.0).astype(np.int32), block.weight)

    def collected(self, slices: NDArray[np.int32], bucket: NDArray[np.int32], shift: int) -> Codes:
        """The entries of one dimension, counted in a table where that is not much larger than the rows."""
        if not len(self.bits):
            return self.listed(slices, bucket, shift)
        key = self.bits >> shift
        present, used = np.flatnonzero(np.bincount(slices)), np.flatnonzero(np.bincount(key))
        num_places = (int(bucket.max()) + 1) * len(used)
        if len(present) * num_places > _MOST_CELLS_PER_ROW * len(key):
            return self.listed(slices, bucket, shift)
        rank = np.searchsorted(used, np.arange(int(used[-1]) + 1)).astype(np.int32)
        place = np.asarray(2 * (bucket * np.int32(len(used)) + rank[key]) + self.sign, np.int32)
        cells = np.zeros((int(present[-1]) + 1, 2 * num_places), np.int64)
        add_counts(self.weight, slices[None], place, cells)
        weight = cells.reshape(len(cells), num_places, 2)
        where, at = np.nonzero(weight.any(axis=2))
        code = (where << _SLICE_SHIFT) | (at // len(used) << KEY_BITS) | (used[at % len(used)] << shift)
        return code, weight[where, at]

    def listed(self, slices: NDArray[np.int32], bucket: NDArray[np.int32], shift: int) -> Codes:
        """The same by sorting the rows."""
        weight = np.zeros((len(self.bits), 2), np.int64)
        weight[np.arange(len(self.bits)), self.sign] = self.weight
        code = (slices.astype(np.int64) << _SLICE_SHIFT) | (bucket.astype(np.int64) << KEY_BITS)
        return collect(code | (self.bits >> shift << shift), weight)


def _joined(parts: Sequence[Codes]) -> Codes:
    """The entries of several dimensions, which have no slice in common."""
    codes = np.concatenate([np.zeros(0, np.int64), *(code for code, _ in parts)])
    order = np.argsort(codes, kind="stable")
    return codes[order], np.concatenate([np.zeros((0, 2), np.int64), *(weight for _, weight in parts)])[order]


def _none(name: str) -> State:
    return _entries(name, np.zeros(0, np.int64), np.zeros((0, 2), np.int64))


def _entries(name: str, codes: NDArray[np.int64], weight: NDArray[np.int64]) -> State:
    return {f"{name}_codes": codes, f"{name}_weight": weight}


def _combined(left: State, right: State, sign: int) -> State:
    result: State = {}
    for name in ("errors", "buckets"):
        codes, weight = f"{name}_codes", f"{name}_weight"
        one, other = (ints(left, codes), ints(left, weight)), (ints(right, codes), ints(right, weight))
        result |= _entries(name, *combine(*one, *other, sign))
    return result


def _by_slice(state: State, name: str, num_slices: int) -> list[Entries]:
    codes, weight = ints(state, f"{name}_codes"), ints(state, f"{name}_weight").sum(axis=1)
    edges = np.searchsorted(codes, np.arange(num_slices + 1, dtype=np.int64) << _SLICE_SHIFT)
    rest = codes & ((1 << _SLICE_SHIFT) - 1)
    return [Entries(rest[i:j], weight[i:j]) for i, j in pairwise(edges)]


def _all_buckets(entries: Entries) -> Entries:
    """By key alone."""
    key, place = np.unique(entries.code & KEY_MASK, return_inverse=True)
    weight = np.zeros(len(key), np.int64)
    np.add.at(weight, place, entries.weight)
    return Entries(key, weight)
