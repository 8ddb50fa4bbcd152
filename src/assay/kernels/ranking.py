"""Area under the ROC curve and average precision of sorted entries, with and without each bucket.

Axes: m entries, B buckets. An entry is (key, bucket, weight[2]: negatives, positives); entries come by increasing key,
and those of equal key (tied scores, or one bin) stand together in any order of buckets, each bucket at most once.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def average_precisions(
    key: NDArray[np.int64], bucket: NDArray[np.int64], weight: NDArray[np.int64], num_buckets: int
) -> NDArray[np.float64]:
    """[1 + B]: the average precision of all entries, then without each bucket; NaN where positives have no weight.

    The sum over distinct keys, from the highest, of the recall gained times the precision there (no interpolation).
    """
    result = np.full(1 + num_buckets, np.nan)
    for b in range(1 + num_buckets):
        true, predicted, total = 0.0, 0.0, 0.0
        end = len(key)
        while end > 0:
            start = end
            gained = 0.0
            while start > 0 and key[start - 1] == key[end - 1]:
                start -= 1
                if bucket[start] != b - 1:
                    gained += weight[start, 1]
                    predicted += weight[start, 0] + weight[start, 1]
            true += gained
            if gained > 0.0:
                total += gained * (true / predicted)
            end = start
        if true > 0.0:
            result[b] = total / true
    return result
