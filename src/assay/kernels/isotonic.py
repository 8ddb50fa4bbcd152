"""Isotonic regression of the share of positives on ordered bins.

Axes: M bins by increasing score; weight [M, 2] is of negatives, positives.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.kernels.compiled import kernel


@kernel
def isotonic_fit(x: NDArray[np.float64], weight: NDArray[np.int64], grain: float) -> NDArray[np.float64]:
    """[M] the never decreasing function nearest to the shares of positives, by weighted squares; NaN without weight.

    Pool adjacent violators. Where the lowest bin that has weight has no positive, `grain` of one is added, and as much
    of a negative to the highest bin if it has none, so that with a grain above 0 no fitted value is 0 or 1. A bin
    without weight has what lies between its neighbours with weight, linearly in x (increasing), or what the nearest one
    has at either end.
    """
    num_bins = len(x)
    occupied = np.empty(num_bins, np.int64)
    count = 0
    for i in range(num_bins):
        if weight[i, 0] + weight[i, 1] > 0:
            occupied[count] = i
            count += 1
    fitted = np.full(num_bins, np.nan)
    if count == 0:
        return fitted
    mass, positive, size = np.empty(count), np.empty(count), np.empty(count, np.int64)  # of the blocks so far
    top = -1
    for k in range(count):
        i = occupied[k]
        top += 1
        positive[top] = weight[i, 1] + (grain if k == 0 and weight[i, 1] == 0 else 0.0)
        mass[top] = positive[top] + weight[i, 0] + (grain if k == count - 1 and weight[i, 0] == 0 else 0.0)
        size[top] = 1
        while top > 0 and positive[top - 1] * mass[top] >= positive[top] * mass[top - 1]:
            positive[top - 1] += positive[top]
            mass[top - 1] += mass[top]
            size[top - 1] += size[top]
            top -= 1
    k = 0
    for block in range(top + 1):
        for _ in range(size[block]):
            fitted[occupied[k]] = positive[block] / mass[block]
            k += 1
    k = 0  # the first bin with weight at or after i
    for i in range(num_bins):
        if k < count and occupied[k] < i:
            k += 1
        if k == count:
            fitted[i] = fitted[occupied[count - 1]]
        elif k == 0:
            fitted[i] = fitted[occupied[0]]
        elif occupied[k] != i:
            low, high = occupied[k - 1], occupied[k]
            share = (x[i] - x[low]) / (x[high] - x[low])
            fitted[i] = fitted[low] + share * (fitted[high] - fitted[low])
    return fitted
