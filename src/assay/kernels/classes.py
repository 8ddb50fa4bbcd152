"""Rows of several classes or labels: counting them, ranking a class among the others, and their losses.

Axes: n rows, D slicing dimensions, S slices, K slices that keep buckets (the first ones), B buckets, C classes or
labels, M and m bins, finer and coarser. Cells are changed in place; their axis of three is actual, predicted, both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.kernels.compiled import kernel
from assay.kernels.elementary import CLIP, UNIT, dlog


@kernel
def count_classes(
    actual: NDArray[np.int32],
    predicted: NDArray[np.int32],
    weight: NDArray[np.int64],
    slices: NDArray[np.int32],
    bucket: NDArray[np.int32],
    rows: NDArray[np.int64],
    cells: NDArray[np.int64],
    by_bucket: NDArray[np.int64],
) -> None:
    """rows, cells [S, C, 3] and by_bucket [K, B, C, 3] += each row's class and predicted class (-1: none), [n] each."""
    num_kept = by_bucket.shape[0]
    for d in range(slices.shape[0]):
        for i in range(slices.shape[1]):
            s, b, a, p, w = slices[d, i], bucket[i], actual[i], predicted[i], weight[i]
            rows[s, a, 0] += 1
            cells[s, a, 0] += w
            if p >= 0:
                rows[s, p, 1] += 1
                cells[s, p, 1] += w
                if p == a:
                    rows[s, a, 2] += 1
                    cells[s, a, 2] += w
            if s < num_kept:
                by_bucket[s, b, a, 0] += w
                if p >= 0:
                    by_bucket[s, b, p, 1] += w
                    if p == a:
                        by_bucket[s, b, a, 2] += w


@kernel
def count_labels(
    targets: NDArray[np.uint8],
    outputs: NDArray[np.float32],
    threshold: np.float32,
    weight: NDArray[np.int64],
    slices: NDArray[np.int32],
    bucket: NDArray[np.int32],
    rows: NDArray[np.int64],
    cells: NDArray[np.int64],
    by_bucket: NDArray[np.int64],
) -> None:
    """The same for rows that have any number of labels, targets [C, n]; predicted is outputs [C, n] >= threshold."""
    num_kept = by_bucket.shape[0]
    for c in range(targets.shape[0]):
        for d in range(slices.shape[0]):
            for i in range(slices.shape[1]):
                a, p = targets[c, i] != 0, outputs[c, i] >= threshold
                if not (a or p):
                    continue
                s, b, w = slices[d, i], bucket[i], weight[i]
                kept = s < num_kept
                if a:
                    rows[s, c, 0] += 1
                    cells[s, c, 0] += w
                    if kept:
                        by_bucket[s, b, c, 0] += w
                if p:
                    rows[s, c, 1] += 1
                    cells[s, c, 1] += w
                    if kept:
                        by_bucket[s, b, c, 1] += w
                if a and p:
                    rows[s, c, 2] += 1
                    cells[s, c, 2] += w
                    if kept:
                        by_bucket[s, b, c, 2] += w


@kernel
def count_bins(
    place: NDArray[np.int32],
    shift: int,
    bucket_shift: int,
    positive: NDArray[np.bool_],
    weight: NDArray[np.int64],
    slices: NDArray[np.int32],
    bucket: NDArray[np.int32],
    overall: NDArray[np.int64],
    cells: NDArray[np.int64],
    by_bucket: NDArray[np.int64],
) -> None:
    """overall [bins, 2] += weight [n] at place [n] in slice 0, cells [S, M, 2] at place >> shift in the others, and
    by_bucket [K, B, m, 2] at place >> bucket_shift. The last axis is negative, positive.
    """
    num_kept = by_bucket.shape[0]
    for d in range(slices.shape[0]):
        for i in range(slices.shape[1]):
            s, one = slices[d, i], np.int64(positive[i])
            if s == 0:
                overall[place[i], one] += weight[i]
            else:
                cells[s, place[i] >> shift, one] += weight[i]
            if s < num_kept:
                by_bucket[s, bucket[i], place[i] >> bucket_shift, one] += weight[i]


@kernel
def class_ranks(outputs: NDArray[np.float32], actual: NDArray[np.int32]) -> NDArray[np.int32]:
    """[n]: the rank of each row's class among its scores [C, n], from 1; of equal scores the lower class is first."""
    num_classes, num_rows = outputs.shape
    own = np.empty(num_rows, np.float32)
    for i in range(num_rows):
        own[i] = outputs[actual[i], i]
    rank = np.ones(num_rows, np.int32)
    for c in range(num_classes):
        for i in range(num_rows):
            rank[i] += np.int32((outputs[c, i] > own[i]) | ((outputs[c, i] == own[i]) & (c < actual[i])))
    return rank


@kernel
def class_log_losses(outputs: NDArray[np.float32], actual: NDArray[np.int32]) -> NDArray[np.int64]:
    """[n]: -ln of the probability [C, n] of each row's class, clipped to [2^-24, 1 - 2^-24], in units of 2^-32."""
    result = np.empty(len(actual), np.int64)
    for i in range(len(actual)):
        likelihood = float(outputs[actual[i], i])
        likelihood = likelihood if likelihood > CLIP else CLIP  # min and max of numba are three times slower
        likelihood = likelihood if likelihood < 1.0 - CLIP else 1.0 - CLIP
        result[i] = np.int64(np.floor(-dlog(likelihood) * UNIT + 0.5))
    return result


@kernel
def class_squares(outputs: NDArray[np.float32], actual: NDArray[np.int32]) -> NDArray[np.float64]:
    """[n]: the sum over classes of (probability - 1 for the row's class, else 0)^2."""
    num_classes, num_rows = outputs.shape
    result = np.zeros(num_rows)
    for c in range(num_classes):
        for i in range(num_rows):
            error = np.float64(outputs[c, i]) - np.float64(c == actual[i])
            result[i] += error * error
    return result


@kernel
def label_mistakes(
    targets: NDArray[np.uint8], outputs: NDArray[np.float32], threshold: np.float32
) -> NDArray[np.int64]:
    """[n]: of how many labels [C, n] it is wrong to say that the row has them when the score is >= threshold."""
    num_labels, num_rows = targets.shape
    result = np.zeros(num_rows, np.int64)
    for c in range(num_labels):
        for i in range(num_rows):
            result[i] += np.int64((targets[c, i] != 0) != (outputs[c, i] >= threshold))
    return result


@kernel
def label_ranking_precisions(targets: NDArray[np.uint8], outputs: NDArray[np.float32]) -> NDArray[np.int64]:
    """[n], in units of 2^-32: the mean, over the labels a row has, of the share of those among all labels that score
    as high or higher. 1 for a row that has no label, or all.

    targets, outputs [n, C]: a row's labels stand together.
    """
    num_rows, num_labels = targets.shape
    result = np.empty(num_rows, np.int64)
    for i in range(num_rows):
        num_relevant = 0
        for c in range(num_labels):
            num_relevant += targets[i, c] != 0
        if num_relevant == 0 or num_relevant == num_labels:
            result[i] = np.int64(UNIT)
            continue
        total = 0.0
        for c in range(num_labels):
            if targets[i, c] == 0:
                continue
            rank = relevant = 0
            for other in range(num_labels):
                if outputs[i, other] >= outputs[i, c]:
                    rank += 1
                    relevant += targets[i, other] != 0
            total += relevant / rank
        result[i] = np.int64(np.floor(total / num_relevant * UNIT + 0.5))
    return result
