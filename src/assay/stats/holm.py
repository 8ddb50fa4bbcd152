"""Holm's step-down correction for many tests.

Holm, "A simple sequentially rejective multiple test procedure", 1979. Strong control of the chance of any false claim,
whatever the dependence between tests. Members of the family that could not be tested count as p = 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def holm(p: Floats) -> Floats:
    """Adjusted p-values [m]: a test is significant at level alpha in its family when its adjusted p is at most alpha.

    p: [m], of all tests that were declared; NaN, for one that could not be tested, counts as 1.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    known = np.where(np.isnan(p), 1.0, p)
    order = np.argsort(known, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(known[order] * (len(p) - np.arange(len(p)))))
    return adjusted


def holm_beside(p: Floats, others: Floats) -> Floats:
    """What `holm` would make of each p [k], were it the only test in the family beside `others` [m - 1].

    Serves for the parts of a test whose p-value is the largest of its parts: the largest of the results is the
    adjusted p of the whole.

    >>> holm_beside(np.array([0.01, 0.04]), np.array([0.03])).tolist()
    [0.02, 0.06]
    """
    size = len(others) + 1
    known = np.where(np.isnan(p), 1.0, p)
    ranked = np.sort(np.where(np.isnan(others), 1.0, others))
    floors = np.concatenate([[0.0], np.maximum.accumulate(ranked * (size - np.arange(len(ranked))))])
    rank = np.searchsorted(ranked, known)
    adjusted: Floats = np.minimum(1.0, np.maximum(floors[rank], known * (size - rank)))
    return adjusted
