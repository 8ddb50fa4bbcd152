"""Logistic regression of a 0/1 label on one number, by Newton's method, with the same bits on every machine.

Axes: M bins; weight [M, 2] is of negatives, positives; x [M] increasing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.kernels.compiled import kernel
from assay.kernels.elementary import dexp, dlog, dlog1p, dsigmoid

MOST_STEPS = 100
SHORTEST = 2.0**-40
"""A step is halved until the loss is lower, but not below this."""
CONVERGED, NEAR = 1e-24, 1e-6
"""What a step promises to lower twice the loss by, for a unit of weight of the rarer class: so little that the fit
stands; so little that Newton's step is taken without a look at the loss, of which rounding leaves no digit there."""


@kernel
def logistic_fit(x: NDArray[np.float64], weight: NDArray[np.int64], start: NDArray[np.float64]) -> NDArray[np.float64]:
    """[slope, intercept] of the greatest likelihood; both NaN where there is none.

    There is none for one class, and where the classes are separated: no negative lies above a positive, or none below.
    Where all weight is at one x the slope is 0.

    start: [slope, intercept] to begin with, which only changes how long it takes.
    """
    positives, negatives, moment = 0.0, 0.0, 0.0
    first = np.array([-1, -1])
    last = np.array([-1, -1])
    for i in range(len(x)):
        negatives += weight[i, 0]
        positives += weight[i, 1]
        moment += x[i] * (weight[i, 0] + weight[i, 1])
        for one in range(2):
            if weight[i, one] > 0:
                first[one] = i if first[one] < 0 else first[one]
                last[one] = i
    result = np.full(2, np.nan)
    if positives == 0.0 or negatives == 0.0:
        return result
    if min(first[0], first[1]) == max(last[0], last[1]):
        result[0] = 0.0
        result[1] = dlog(positives / negatives)
        return result
    if last[0] <= first[1] or last[1] <= first[0]:
        return result
    total = positives + negatives
    center = moment / total
    slope, level = start[0], start[1] + start[0] * center  # level: the log-odds at the center
    terms = loss_terms(x, weight, slope, level, center)
    rarer = min(positives, negatives)
    for _ in range(MOST_STEPS):
        determinant = terms[3] * terms[5] - terms[4] * terms[4]
        if not determinant > 0.0:
            return result
        step_slope = (terms[5] * terms[1] - terms[4] * terms[2]) / determinant
        step_level = (terms[3] * terms[2] - terms[4] * terms[1]) / determinant
        promised = step_slope * terms[1] + step_level * terms[2]
        length = 1.0
        tried = loss_terms(x, weight, slope - step_slope, level - step_level, center)
        while promised > NEAR * rarer and tried[0] > terms[0] - 0.1 * length * promised and length > SHORTEST:
            length *= 0.5
            tried = loss_terms(x, weight, slope - length * step_slope, level - length * step_level, center)
        slope -= length * step_slope
        level -= length * step_level
        terms = tried
        if promised <= CONVERGED * rarer:
            result[0] = slope
            result[1] = level - slope * center
            return result
    return result


@kernel
def loss_terms(
    x: NDArray[np.float64], weight: NDArray[np.int64], slope: float, level: float, center: float
) -> NDArray[np.float64]:
    """[6]: the log loss, its derivatives by slope and level, then the second ones: slope twice, both, level twice."""
    terms = np.zeros(6)
    for i in range(len(x)):
        negative, positive = float(weight[i, 0]), float(weight[i, 1])
        total = negative + positive
        if total == 0.0:
            continue
        away = x[i] - center
        z = slope * away + level
        e = dexp(-abs(z))
        nearer, farther = 1.0 / (1.0 + e), e / (1.0 + e)  # 1 - p would lose the digits of a small one
        p, q = (nearer, farther) if z >= 0.0 else (farther, nearer)
        terms[0] += total * dlog1p(e) + (negative * z if z >= 0.0 else -positive * z)
        error = negative * p - positive * q
        curvature = total * p * q
        terms[1] += error * away
        terms[2] += error
        terms[3] += curvature * away * away
        terms[4] += curvature * away
        terms[5] += curvature
    return terms


@kernel
def logistic_shift(x: NDArray[np.float64], weight: NDArray[np.int64]) -> float:
    """The number to add to every x so that the sigmoids sum to the positives; NaN for one class.

    That is the intercept of the greatest likelihood when the slope is 1.
    """
    positives, negatives, low, high = 0.0, 0.0, np.inf, -np.inf
    for i in range(len(x)):
        negatives += weight[i, 0]
        positives += weight[i, 1]
        if weight[i, 0] + weight[i, 1] > 0:
            low, high = min(low, x[i]), max(high, x[i])
    if positives == 0.0 or negatives == 0.0:
        return np.nan
    rate = dlog(positives / negatives)
    below, above = rate - high, rate - low  # the shift lies between
    shift = 0.5 * (below + above)
    for _ in range(MOST_STEPS):
        excess, curvature = 0.0, 0.0
        for i in range(len(x)):
            p, q = dsigmoid(x[i] + shift), dsigmoid(-x[i] - shift)
            excess += weight[i, 0] * p - weight[i, 1] * q
            curvature += (weight[i, 0] + weight[i, 1]) * p * q
        if excess > 0.0:
            above = min(above, shift)
        else:
            below = max(below, shift)
        following = shift - excess / curvature if curvature > 0.0 else 0.5 * (below + above)
        if not below < following < above:
            following = 0.5 * (below + above)
        if abs(following - shift) <= 1e-14 * (1.0 + abs(shift)):
            return following
        shift = following
    return shift
