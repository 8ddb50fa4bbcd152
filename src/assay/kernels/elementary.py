"""Logarithm, exponential, sigmoid and softmax with the same bits on every machine.

numpy and libm choose code by CPU and differ in the last bits. These use IEEE + - * / and bit moves alone, with the
polynomials of fdlibm (Sun Microsystems, 1993), and are within one unit in the last place. Never compile them with
`fastmath`: it would let the compiler contract and reorder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.kernels.compiled import kernel

LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
INVERSE_LN2 = 1.44269504088896338700
SQRT2 = 1.4142135623730951
SMALLEST_NORMAL = 2.2250738585072014e-308
TWO_54 = 18014398509481984.0
EXPONENT_BIAS = 1023
MANTISSA_BITS = 52
MANTISSA_MASK = 0x000FFFFFFFFFFFFF
ONE_BITS = 0x3FF0000000000000
LARGEST_EXPONENT = 709.782712893384
SMALLEST_EXPONENT = -745.1332191019412

UNIT = 4294967296.0
"""Contributions are integers in units of 2^-32."""
CLIP = 2.0**-24
"""Log loss clips probabilities to [2^-24, 1 - 2^-24]: float32 holds no number closer to 1."""


@kernel
def dlog(x: float) -> float:
    """Natural logarithm; -inf for 0, NaN for less, NaN and infinity pass through."""
    scaling = 0
    if not SMALLEST_NORMAL <= x < np.inf:
        if x == 0.0:
            return -np.inf
        if not 0.0 < x < np.inf:
            return x if x > 0.0 else np.nan
        x *= TWO_54
        scaling = 54
    bits = np.float64(x).view(np.int64)
    exponent = (bits >> MANTISSA_BITS) - EXPONENT_BIAS - scaling
    mantissa = np.int64((bits & MANTISSA_MASK) | ONE_BITS).view(np.float64)
    if mantissa > SQRT2:
        mantissa *= 0.5
        exponent += 1
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (0.3999999999940941908 + w * (0.2222219843214978396 + w * 0.1531383769920937332))
    odd = 0.2857142874366239149 + w * (0.1818357216161805012 + w * 0.1479819860511658591)
    r = z * (0.6666666666666735130 + w * odd) + even
    h = 0.5 * f * f
    k = float(exponent)
    return k * LN2_HIGH - ((h - (s * (h + r) + k * LN2_LOW)) - f)


@kernel
def dlog1p(x: float) -> float:
    """ln(1 + x) for x >= 0, without losing small x (Kahan's correction)."""
    shifted = 1.0 + x
    return x if shifted == 1.0 else dlog(shifted) * (x / (shifted - 1.0))


@kernel
def dexp(x: float) -> float:
    """e to the power x; infinity above 709.78, 0 below -745.13, NaN passes through."""
    if not SMALLEST_EXPONENT <= x <= LARGEST_EXPONENT:
        if x > 0.0:
            return np.inf
        return 0.0 if x < 0.0 else x
    k = np.int64(np.floor(x * INVERSE_LN2 + 0.5))
    high = x - k * LN2_HIGH
    low = k * LN2_LOW
    r = high - low
    t = r * r
    tail = 6.61375632143793436117e-05 + t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08)
    c = r - t * (1.66666666666666019037e-01 + t * (-2.77777777770155933842e-03 + t * tail))
    y = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    half = k >> 1
    # In two steps: 2^k itself may be no normal number.
    first = np.int64((half + EXPONENT_BIAS) << MANTISSA_BITS).view(np.float64)
    second = np.int64((k - half + EXPONENT_BIAS) << MANTISSA_BITS).view(np.float64)
    return y * first * second


@kernel
def dsigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), without overflow."""
    e = dexp(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e)


@kernel
def log(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """`dlog` of each element of x [n]."""
    result = np.empty(len(x), np.float64)
    for i in range(len(x)):
        result[i] = dlog(x[i])
    return result


@kernel
def log1p(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """`dlog1p` of each element of x [n]."""
    result = np.empty(len(x), np.float64)
    for i in range(len(x)):
        result[i] = dlog1p(x[i])
    return result


@kernel
def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """`dsigmoid` of each element of x [n]."""
    result = np.empty(len(x), np.float64)
    for i in range(len(x)):
        result[i] = dsigmoid(x[i])
    return result


@kernel
def softmax(scores: NDArray[np.float64]) -> NDArray[np.float32]:
    """[n, C] the probability of each class from scores [n, C]: exp of each over the sum of all, in the classes' order.

    The row's largest score is taken off first, so that finite scores give finite probabilities that sum to 1. A row
    with a NaN or an infinite score gives NaN.
    """
    num_rows, num_classes = scores.shape
    result = np.empty((num_rows, num_classes), np.float32)
    shifted = np.empty(num_classes, np.float64)
    for i in range(num_rows):
        largest, total = -np.inf, 0.0
        for k in range(num_classes):
            largest = scores[i, k] if not scores[i, k] <= largest else largest
        for k in range(num_classes):
            shifted[k] = dexp(scores[i, k] - largest) if abs(scores[i, k]) < np.inf else np.nan
            total += shifted[k]
        for k in range(num_classes):
            result[i, k] = np.float32(shifted[k] / total)
    return result


@kernel
def log_losses(probability: NDArray[np.float32], positive: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Log loss of each row in units of 2^-32, rounded to nearest; the probability clipped to [2^-24, 1 - 2^-24]."""
    result = np.empty(len(probability), np.int64)
    for i in range(len(probability)):
        likelihood = abs((1.0 - positive[i]) - np.float64(probability[i]))
        likelihood = likelihood if likelihood > CLIP else CLIP  # min and max of numba are three times slower
        likelihood = likelihood if likelihood < 1.0 - CLIP else 1.0 - CLIP
        result[i] = np.int64(np.floor(-dlog(likelihood) * UNIT + 0.5))
    return result
