"""Adding rows into the cells of states, for all slicing dimensions in one call.

Axes: n rows, D slicing dimensions, S slices, M places within a slice (a bucket, a bin, a class, or a cross of them),
L limbs. Row i goes to cells[slices[d, i], place[i]] for each d. Cells are changed in place; weights are at
least 0 and at most 2^26.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.kernels.compiled import kernel

LIMB_BITS = 32
LIMB_MASK = 0xFFFFFFFF
DOUBLE_LIMBS = 10
DOUBLE_UNIT_EXPONENT = -128
"""`add_doubles` counts in units of 2^-128; bits below it are cut off, row by row."""
OVERFLOW_EXPONENT = 127
"""A double of 2^127 or more in magnitude is counted as overflow instead of being added."""

_BIAS_AND_POINT = 1075  # a double is mantissa * 2^(stored exponent - 1075)


@kernel
def add_counts(
    weight: NDArray[np.int64], slices: NDArray[np.int32], place: NDArray[np.int32], cells: NDArray[np.int64]
) -> None:
    """cells [S, M] += weight [n]."""
    for d in range(slices.shape[0]):
        for i in range(slices.shape[1]):
            cells[slices[d, i], place[i]] += weight[i]


@kernel
def add_products(
    quantity: NDArray[np.int64],
    weight: NDArray[np.int64],
    slices: NDArray[np.int32],
    place: NDArray[np.int32],
    cells: NDArray[np.int64],
) -> None:
    """cells [S, M, 2] += quantity [n] * weight [n], exactly; |quantity| < 2^37. Canonical limbs stay canonical."""
    for d in range(slices.shape[0]):
        for i in range(slices.shape[1]):
            product = quantity[i] * weight[i]
            s, m = slices[d, i], place[i]
            low = cells[s, m, 0] + (product & LIMB_MASK)
            cells[s, m, 0] = low & LIMB_MASK
            cells[s, m, 1] += (product >> LIMB_BITS) + (low >> LIMB_BITS)


@kernel
def add_doubles(
    value: NDArray[np.float64],
    weight: NDArray[np.int64],
    slices: NDArray[np.int32],
    place: NDArray[np.int32],
    cells: NDArray[np.int64],
    overflow: NDArray[np.int64],
) -> None:
    """cells [S, M, 10] += value [n] * weight [n] in units of 2^-128, exactly; the caller carries afterwards.

    Values of 2^127 or more in magnitude (and NaN) are counted by row in overflow [S, M] instead. Limbs may leave their
    canonical range by the call's 2^30 rows at most.
    """
    for d in range(slices.shape[0]):
        for i in range(slices.shape[1]):
            s, m = slices[d, i], place[i]
            bits = np.float64(value[i]).view(np.int64)
            exponent = (bits >> 52) & 0x7FF
            if exponent >= 1023 + OVERFLOW_EXPONENT:
                overflow[s, m] += 1
                continue
            mantissa = bits & 0x000FFFFFFFFFFFFF
            if exponent > 0:
                mantissa |= 1 << 52
            shift = (exponent if exponent > 0 else 1) - _BIAS_AND_POINT - DOUBLE_UNIT_EXPONENT
            if shift < 0:
                mantissa = mantissa >> min(-shift, 63)
                shift = 0
            limb, rest = shift >> 5, shift & 31
            low = (mantissa & LIMB_MASK) << rest
            high = ((mantissa >> LIMB_BITS) << rest) + (low >> LIMB_BITS)
            sign = -1 if bits < 0 else 1
            for piece in (low & LIMB_MASK, high & LIMB_MASK, high >> LIMB_BITS):
                product = piece * weight[i]
                cells[s, m, limb] += sign * (product & LIMB_MASK)
                cells[s, m, limb + 1] += sign * (product >> LIMB_BITS)
                limb += 1
