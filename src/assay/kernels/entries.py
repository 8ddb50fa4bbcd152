"""Sorted lists of distinct (code, negative weight, positive weight), the exact form of a ranking.

Axes: n rows, m entries. Codes are int64, strictly increasing; weights are int64 [m, 2]: negatives, positives.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.kernels.compiled import kernel

_TABLE_BITS = 14
_EMPTY = -1


@kernel
def distinct(keys: NDArray[np.uint32], limit: int) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """The distinct keys in order of appearance, and for each of the n keys its place among them.

    Stops once there are more than `limit` (at most 8,192) of them: then `limit + 1` keys are given back and the places
    mean nothing.
    """
    table = np.full(1 << _TABLE_BITS, _EMPTY, np.int32)
    unique = np.empty(limit + 1, np.uint32)
    place = np.zeros(len(keys), np.int32)
    count = 0
    for i in range(len(keys)):
        key = keys[i]
        slot = ((np.int64(key) * 1640531527) >> (32 - _TABLE_BITS)) & ((1 << _TABLE_BITS) - 1)
        while table[slot] != _EMPTY and unique[table[slot]] != key:
            slot = (slot + 1) & ((1 << _TABLE_BITS) - 1)
        if table[slot] == _EMPTY:
            table[slot] = count
            unique[count] = key
            count += 1
            if count > limit:
                break
        place[i] = table[slot]
    return place, unique[:count]


@kernel
def combine(
    left_codes: NDArray[np.int64],
    left_weight: NDArray[np.int64],
    right_codes: NDArray[np.int64],
    right_weight: NDArray[np.int64],
    sign: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """left + sign * right; entries whose two weights come to zero are left out."""
    size = len(left_codes) + len(right_codes)
    codes = np.empty(size, np.int64)
    weight = np.empty((size, 2), np.int64)
    i = j = count = 0
    while i < len(left_codes) or j < len(right_codes):
        take_left = j == len(right_codes) or (i < len(left_codes) and left_codes[i] <= right_codes[j])
        take_right = i == len(left_codes) or (j < len(right_codes) and right_codes[j] <= left_codes[i])
        code = left_codes[i] if take_left else right_codes[j]
        negative = positive = np.int64(0)
        if take_left:
            negative += left_weight[i, 0]
            positive += left_weight[i, 1]
            i += 1
        if take_right:
            negative += sign * right_weight[j, 0]
            positive += sign * right_weight[j, 1]
            j += 1
        if negative != 0 or positive != 0:
            codes[count] = code
            weight[count, 0] = negative
            weight[count, 1] = positive
            count += 1
    return codes[:count].copy(), weight[:count].copy()


def collect(codes: NDArray[np.int64], weight: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entries from codes [n] in any order, with repeats, and their weights [n, 2]."""
    if not len(codes):
        return codes, weight
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return ordered[starts], np.add.reduceat(weight[order], starts, axis=0)
