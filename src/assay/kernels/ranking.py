"""Areas under the curves of sorted entries, with and without each bucket, and the curves themselves.

Axes: m entries, B buckets. An entry is (key, bucket, weight[2]: negatives, positives); entries come by increasing key,
and those of equal key (tied scores, or one bin) stand together in any order of buckets, each bucket at most once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.kernels.compiled import kernel
from assay.kernels.elementary import dlog1p


@kernel
def roc_areas(
    key: NDArray[np.int64], bucket: NDArray[np.int64], weight: NDArray[np.int64], num_buckets: int
) -> NDArray[np.float64]:
    """[1 + B]: the area over all entries, then without each bucket; NaN where one class has no weight.

    Without bucket b the pairs are all pairs, less those with a positive in b, less those with a negative in b, plus
    those with both in b; so one pass does for all buckets. Ties count one half.
    """
    negatives, positives = np.zeros(1 + num_buckets), np.zeros(1 + num_buckets)
    for i in range(len(key)):
        for b in (0, 1 + bucket[i]):
            negatives[b] += weight[i, 0]
            positives[b] += weight[i, 1]
    won = np.zeros(1 + num_buckets)  # pairs in the right order: all; those with a member in b, less those within b
    below, above = np.zeros(1 + num_buckets), positives[0]
    start = 0
    while start < len(key):
        end = start
        group_negative = group_positive = 0.0
        while end < len(key) and key[end] == key[start]:
            group_negative += weight[end, 0]
            group_positive += weight[end, 1]
            end += 1
        above -= group_positive
        won[0] += group_positive * (below[0] + 0.5 * group_negative)
        for i in range(start, end):
            b = 1 + bucket[i]
            negative, positive = float(weight[i, 0]), float(weight[i, 1])
            won[b] += positive * (below[0] + 0.5 * group_negative) + negative * (above + 0.5 * group_positive)
            won[b] -= positive * (below[b] + 0.5 * negative)
            below[b] += negative
        below[0] += group_negative
        start = end
    result = np.full(1 + num_buckets, np.nan)
    for b in range(1 + num_buckets):
        pairs = (positives[0] - positives[b]) * (negatives[0] - negatives[b]) if b else positives[0] * negatives[0]
        if pairs > 0.0:
            result[b] = (won[0] - won[b] if b else won[0]) / pairs
    return result


@kernel
def cumulate(
    key: NDArray[np.int64], bucket: NDArray[np.int64], weight: NDArray[np.int64], without: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """The distinct keys [k] from the highest, and the positive and negative weight [k + 1] at or above each.

    The weights start with 0: nothing is above the highest key. without: a bucket that is left out; -1 for none.
    """
    keys = np.empty(len(key), np.int64)
    true, false = np.zeros(len(key) + 1), np.zeros(len(key) + 1)
    positive = negative = np.int64(0)
    count = 0
    for i in range(len(key) - 1, -1, -1):
        if bucket[i] != without:
            positive += weight[i, 1]
            negative += weight[i, 0]
            if count == 0 or keys[count - 1] != key[i]:
                keys[count] = key[i]
                count += 1
            true[count] = positive
            false[count] = negative
    return keys[:count].copy(), true[: count + 1].copy(), false[: count + 1].copy()


@kernel
def average_precisions(
    key: NDArray[np.int64], bucket: NDArray[np.int64], weight: NDArray[np.int64], num_buckets: int, mixed: bool
) -> NDArray[np.float64]:
    """[1 + B]: the average precision of all entries, then without each bucket; NaN where positives have no weight.

    The sum over distinct keys, from the highest, of the recall gained times the precision there. mixed: equal keys are
    bins of scores that may differ; positives and negatives are taken to be evenly mixed in a bin rather than tied, and
    a positive row to weigh the greatest common divisor of all: without weights, 1.
    """
    result = np.full(1 + num_buckets, np.nan)
    divisor = np.int64(0)
    for i in range(len(key)):
        rest = weight[i, 1]
        while rest != 0:
            divisor, rest = rest, divisor % rest
    unit = float(divisor)
    for b in range(1 + num_buckets):
        true, false, total = 0.0, 0.0, 0.0
        end = len(key)
        while end > 0:
            start = end
            positive, negative = 0.0, 0.0
            while start > 0 and key[start - 1] == key[end - 1]:
                start -= 1
                if bucket[start] != b - 1:
                    negative += weight[start, 0]
                    positive += weight[start, 1]
            if positive > 0.0 and mixed:
                total += mixed_gain(true, false, positive, negative, unit)
            elif positive > 0.0:
                total += positive * ((true + positive) / (true + positive + false + negative))
            true += positive
            false += negative
            end = start
        if true > 0.0:
            result[b] = total / true
    return result


@kernel
def mixed_gain(true: float, false: float, positive: float, negative: float, unit: float) -> float:
    """What a bin adds when its rows are evenly mixed, after `true` and `false` positives.

    Its positive rows weigh `unit` each, and so many negatives come before each of them as between any two. The sum of
    unit * (true + s) / (true + false + s c) over s = unit, 2 unit, ... `positive`, with c = 1 + negative / (positive +
    unit), as an integral over the cells about them.
    """
    c = 1.0 + negative / (positive + unit)
    before = true + false
    if before == 0.0:
        return positive / c
    return (positive + (true - before / c) * dlog1p(c * positive / (before + 0.5 * c * unit))) / c
