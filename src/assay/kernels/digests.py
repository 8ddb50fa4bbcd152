"""Order-free digests of scores: two variants of equal digests gave the same scores to the same rows.

Axes: n rows, K numbers of a row, D slicing dimensions, S slices. A row's hash is mixed with the bits of its numbers,
one after the other, and the hashes are added modulo 2^64: the order of rows does not matter, their number does.

The mixing is that of `hashing.splitmix64`, number by number instead of over arrays; a test holds the two together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.kernels.compiled import kernel

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@kernel
def add_digests(
    row_hash: NDArray[np.uint64], numbers: NDArray[np.float64], slices: NDArray[np.int32], cells: NDArray[np.uint64]
) -> None:
    """cells [S] += the digest of each row's numbers [K, n], in each of its slices [D, n]; -0.0 is as 0.0."""
    for i in range(len(row_hash)):
        mixed = row_hash[i]
        for k in range(numbers.shape[0]):
            mixed ^= np.uint64(np.float64(numbers[k, i] + 0.0).view(np.int64))
            mixed += _GAMMA
            mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
            mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
            mixed ^= mixed >> np.uint64(31)
        for d in range(slices.shape[0]):
            cells[slices[d, i]] += mixed
