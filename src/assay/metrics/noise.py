"""Calibration that is only noise: a bin of a calibrated model is off by chance, and what is summed up is never below 0.

Such values are biased upward where rows are few, and an interval around one does not hold the truth. Two models have
about the same bias, so it is the value alone that goes without. Axes: S slices, K slices that keep buckets, B buckets,
M bins.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from assay.metrics.pooled import divide
from assay.records import Bools, Floats, Replicates, Undefined

LARGEST_NOISE = 0.75
"""The largest bias, in standard errors, with which the value has an interval."""
HIDDEN = 1.2
"""The noise that a gap already has hides some of the bias: none in bins that are far from calibrated; of calibrated
ones 0.33 of the 0.80 standard errors are left to see, so that a factor of 2.4 would be right. This lies between."""


def unless_noise(known: Replicates, bias: Floats, occupied: Bools) -> Replicates:
    """Without an interval of the value where its bias [K] is much of its standard error. occupied: [S, B]."""
    _, error = _bias_and_error(known, occupied)
    noise = np.zeros(len(error), np.bool_)
    noise[: len(bias)] = bias > LARGEST_NOISE * error[: len(bias)]
    return replace(known, alone=tuple(Undefined.BIASED if one else None for one in noise))


def jackknife_bias(known: Replicates, occupied: Bools) -> Floats:
    """[S] (B - 1) (mean of values without a bucket - value): all of a bias that shrinks as 1 / rows, as of squares.

    Quenouille, "Notes on bias in estimation", 1956.
    """
    return _bias_and_error(known, occupied)[0]


def absolute_bias(gap: Floats, by_bucket: Floats, weight: Floats) -> Floats:
    """[K] the bias of sum over bins of |gap| / weight. gap: [K, M], by_bucket: [K, B, M]; weight: [K].

    Of a bin whose gap is normal with mean g and standard error s, |gap| is too large by s (2 f(z) - 2 z (1 - F(z))),
    z = |g| / s. Standard errors are those of sums over buckets.
    """
    count = by_bucket.shape[1]
    error = by_bucket.std(axis=1) * count / np.sqrt(max(count - 1, 1))
    z = np.nan_to_num(divide(np.abs(gap), error))
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    raised = error * (2.0 * density - 2.0 * z * ndtr(-z))
    return np.nan_to_num(HIDDEN * divide(raised.sum(axis=1), weight))


def occupied_of(rows: NDArray[np.int64]) -> Bools:
    """[S, B] buckets with rows, from pooled rows [S, 1 + B]: without such a bucket there are fewer."""
    return np.asarray(rows[:, 1:] < rows[:, :1])


def _bias_and_error(known: Replicates, occupied: Bools) -> tuple[Floats, NDArray[np.float64]]:
    """[S] the jackknife's bias and standard error."""
    count = np.maximum(occupied.sum(axis=1), 1)
    raised = np.where(occupied, known.without - known.value[:, None], 0.0)
    mean = raised.sum(axis=1) / count
    squares = np.where(occupied, (raised - mean[:, None]) ** 2, 0.0).sum(axis=1)
    return (count - 1) * mean, np.sqrt(squares * (count - 1) / count)
