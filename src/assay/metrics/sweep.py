"""A threshold swept from the highest score to the lowest: what is at or above it, and the curves that this draws.

Lives here: arithmetic on sweeps. Not here: metrics (`ranking_curves.py`, `top_of_ranking.py`, `thresholds.py`).
Axes: k distinct scores or bins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.ranking import cumulate
from assay.metrics.ranking_states import Entries, ranking_state
from assay.metrics.sums import SUPPORT
from assay.records import Curve, Floats, State, StateChoice
from assay.states import ints

MOST_POINTS = 500
"""Points of one curve."""


class Sweep(NamedTuple):
    """The weight at or above each distinct key, from the highest; before the first there is nothing."""

    key: NDArray[np.int64]  # [k]
    true: Floats  # [k + 1] of the positives
    false: Floats  # [k + 1] of the negatives

    @property
    def positives(self) -> float:
        return float(self.true[-1])

    @property
    def negatives(self) -> float:
        return float(self.false[-1])

    @property
    def predicted(self) -> Floats:
        """[k + 1] of all rows."""
        return self.true + self.false


def sweep(entries: Entries, without: int = -1) -> Sweep:
    """The sweep over all entries, or over those that are not in bucket `without`.

    >>> weight = np.array([[1, 0], [1, 1], [0, 1]])
    >>> sweep(Entries(np.arange(3), np.zeros(3, np.int64), weight)).true.tolist()
    [0.0, 1.0, 2.0, 2.0]
    """
    return Sweep(*cumulate(*entries, without))


def between(x: float, xs: Floats, ys: Floats) -> float:
    """y at x on the straight line between neighbours. xs [k + 1] do not decrease; x is at least the first, and below
    the last unless the last is alone with its value. Beyond 2^53 a small step may be lost, and x1 equal x0."""
    after = min(int(np.searchsorted(xs, x, side="right")), len(xs) - 1)
    x0, x1, y0, y1 = (float(one) for one in (xs[after - 1], xs[after], ys[after - 1], ys[after]))
    return y0 + (y1 - y0) * min((x - x0) / (x1 - x0), 1.0) if x1 > x0 else y1


# ---- curves ----------------------------------------------------------------------------------------------------------


def curves_of(
    names: tuple[str, ...], states: Mapping[str, State], choice: StateChoice, weight_unit: float
) -> tuple[Curve, ...]:
    """Curves of all rows (roc, pr, gains), as far as they are defined; at most 500 points each.

    roc: share of the negatives and of the positives at or above a score. pr: recall and precision there. gains: share
    of all rows there, and recall. Where scores are binned, points lie on the edges of bins.
    """
    form = ranking_state(choice)
    (ranking,) = form.of(states[form.identity], 1)
    swept = sweep(ranking.buckets if ranking.fine is None else ranking.fine)
    counted = np.array_equal(
        ints(states[SUPPORT.identity], "rows"), ints(states[SUPPORT.identity], "weight") * weight_unit
    )  # then all rows weigh 1
    return tuple(_curve(name, swept, weight_unit, counted) for name in names if _defined(name, swept))


def _defined(name: str, swept: Sweep) -> bool:
    return swept.positives > 0 and (name != "roc" or swept.negatives > 0)


def _curve(name: str, swept: Sweep, weight_unit: float, counted: bool) -> Curve:
    recall, predicted = swept.true / swept.positives, swept.predicted
    share = predicted / predicted[-1]
    first = 1 if name == "pr" else 0  # there is no precision before the first score
    if name == "roc":
        x, y = swept.false / swept.negatives, recall
    elif name == "pr":
        x, y = recall, np.divide(swept.true, predicted, out=np.zeros(len(predicted)), where=predicted > 0)
    else:
        x, y = share, recall
    kept = first + _spread((x + recall if name == "roc" else share + recall)[first:])
    weight = predicted[kept] * weight_unit
    rows = weight.astype(np.int64) if counted else None
    return Curve(name, 0, x[kept], y[kept], rows, weight, swept.true[kept] * weight_unit)


def _spread(way: Floats) -> NDArray[np.int64]:
    """Positions in `way` (not decreasing), at most 500: the last before each of equal steps, the first and the last."""
    if len(way) <= MOST_POINTS:
        return np.arange(len(way))
    steps = np.linspace(way[0], way[-1], MOST_POINTS)
    return np.unique(np.concatenate([[0], np.searchsorted(way, steps[1:], side="right") - 1]))
