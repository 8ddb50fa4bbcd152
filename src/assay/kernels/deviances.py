"""Unit deviances, ln cosh and exact products of rows, with the same bits on every machine.

IEEE operations and the functions of `elementary.py` alone; series where the plain formula would cancel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.kernels.compiled import kernel
from assay.kernels.elementary import LN2_HIGH, LN2_LOW, dexp, dlog, dlog1p

SPLITTER = 134217729.0  # 2^27 + 1
MOST_SPLIT = 2.0**500


@kernel
def dpow(x: float, power: float) -> float:
    """x to a power, for x > 0, as exp(power * ln x): the relative error grows as |power * ln x|."""
    return dexp(power * dlog(x))


@kernel
def dgap(x: float, y: float) -> float:
    """x / y - 1 - ln(x / y) for x, y > 0: at least 0, and without cancellation where x is near y."""
    r = (x - y) / y
    if not -0.25 < r < 0.25:
        ratio = x / y
        return (ratio - 1.0) - dlog(ratio) if ratio < np.inf else np.inf
    s = r / (2.0 + r)
    w = s * s
    series = 0.0
    for odd in range(21, 1, -2):  # ln(1 + r) = 2 (s + s^3 / 3 + s^5 / 5 + ...)
        series = w * (1.0 / odd + series)
    return s * (r - 2.0 * series)


@kernel
def ddeviance(label: float, mean: float, power: float) -> float:
    """The unit deviance of Tweedie's family at a power from 1 to 3; NaN outside its domain.

    mean > 0; label > 0, or >= 0 where the power is below 2. Near its minimum, 0 at label = mean, by a series.
    """
    if not mean > 0.0 or not label >= 0.0 or (label == 0.0 and power >= 2.0):
        return np.nan
    if power == 2.0:
        return 2.0 * dgap(label, mean)
    rest = 2.0 - power
    if label == 0.0:
        return 2.0 * mean if power == 1.0 else 2.0 * dpow(mean, rest) / rest
    if power == 1.0:
        return 2.0 * label * dgap(mean, label)
    r = (mean - label) / label
    if not -0.125 < r < 0.125:
        ratio = mean / label
        whole = 1.0 / ((1.0 - power) * rest) - dpow(ratio, 1.0 - power) / (1.0 - power) + dpow(ratio, rest) / rest
    else:  # the integral of u^-power (u - 1) from 1 to 1 + r
        whole = 0.0
        term = r * r
        for k in range(30):
            whole += term / (k + 2)
            term *= -(power + k) / (k + 1) * r
    return 2.0 * dpow(label, rest) * whole if whole < np.inf else np.inf


@kernel
def dlogcosh(x: float) -> float:
    """ln cosh x: about x^2 / 2 near 0 and |x| - ln 2 far from it, without cancellation or overflow."""
    size = abs(x)
    if size >= 1.0:
        return (size - (LN2_HIGH + LN2_LOW)) + dlog1p(dexp(-2.0 * size))
    w = 0.25 * size * size
    sinh = 1.0  # of x / 2, over x / 2
    for n in range(14, 0, -2):
        sinh = 1.0 + w / (n * (n + 1.0)) * sinh
    return dlog1p(2.0 * w * sinh * sinh)  # ln(1 + 2 sinh^2(x / 2))


@kernel
def deviances(label: NDArray[np.float64], mean: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """`ddeviance` of each row [n]."""
    result = np.empty(len(label), np.float64)
    for i in range(len(label)):
        result[i] = ddeviance(label[i], mean[i], power)
    return result


@kernel
def log_coshes(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """`dlogcosh` of each element of x [n]."""
    result = np.empty(len(x), np.float64)
    for i in range(len(x)):
        result[i] = dlogcosh(x[i])
    return result


@kernel
def products(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(high, low) [n] whose exact sum is x * y: Dekker's product, with Veltkamp's splitting into halves of 26 bits.

    Exact while |x|, |y| < 2^500 and the product is no smaller than 2^-900; low is 0 where high is infinite.
    """
    high, low = np.empty(len(x), np.float64), np.empty(len(x), np.float64)
    for i in range(len(x)):
        a, b = x[i], y[i]
        product = a * b
        high[i] = product
        low[i] = 0.0
        if not abs(a) < MOST_SPLIT or not abs(b) < MOST_SPLIT:
            continue
        scaled_a, scaled_b = SPLITTER * a, SPLITTER * b
        a_high, b_high = scaled_a - (scaled_a - a), scaled_b - (scaled_b - b)
        a_low, b_low = a - a_high, b - b_high
        low[i] = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return high, low
