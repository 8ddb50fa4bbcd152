"""Benjamini and Hochberg's q-values: for looking through many slices, never for a verdict.

Benjamini, Hochberg, "Controlling the false discovery rate", 1995. Among the tests with a q-value of at most 0.05, about
5 % are expected to be false. That is weaker than what a gate promises (`holm.py`).
"""

from __future__ import annotations

import numpy as np

from assay.stats.holm import Floats


def q_values(p: Floats) -> Floats:
    """The least rate of false discoveries [m] at which each test is among the discoveries.

    p: [m]; NaN where there is no test: it has no q-value and does not count.

    >>> q_values(np.array([0.01, 0.04, 0.03, np.nan])).tolist()
    [0.03, 0.04, 0.04, nan]
    """
    known = np.flatnonzero(~np.isnan(p))
    falling = known[np.argsort(-p[known], kind="stable")]
    rates = p[falling] * len(known) / np.arange(len(known), 0, -1)
    adjusted = np.full(len(p), np.nan)
    adjusted[falling] = np.minimum(1.0, np.minimum.accumulate(rates))
    return adjusted
