"""From sums by bucket to a value and its leave-one-bucket-out values.

Axes: S slices, B buckets. A pooled array is [S, 1 + B]: over all buckets, then without each one; so that one formula
gives the value and all its replicates.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.scatter import DOUBLE_UNIT_EXPONENT
from assay.metrics.described import DescribedMetric
from assay.metrics.sums import BOUNDED_UNIT, SUPPORT, BoundedSum, DoubleSum
from assay.records import Bools, Floats, Replicates, State, StateChoice, Undefined
from assay.states import ints, pooled, pooled_limbs

DOUBLE_UNIT = 2.0**DOUBLE_UNIT_EXPONENT

Reasons = Sequence[tuple[Bools, Undefined]]
"""Where a pooled value is undefined [S, 1 + B] and why; the first that holds is the reason."""


class Counts(NamedTuple):
    """Pooled support, each [S, 1 + B]; weights are in integer units."""

    rows: NDArray[np.int64]
    weight: Floats
    positive: Floats
    negative: Floats  # not weight - positive: of large weights a few negatives would be lost to rounding


def support_of(states: Mapping[str, State]) -> Counts:
    """The pooled state of `Support`."""
    state = states[SUPPORT.identity]
    rows, weight = pooled(ints(state, "rows")), pooled(ints(state, "weight"))
    total, positive, negative = (one.astype(np.float64) for one in (weight.sum(axis=2), weight[..., 1], weight[..., 0]))
    return Counts(rows.sum(axis=2), total, positive, negative)


def divide(numerator: Floats, denominator: Floats) -> Floats:
    """numerator / denominator, NaN where the denominator is 0."""
    result = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), np.nan)
    np.divide(numerator, denominator, out=result, where=denominator != 0)
    return result


def one_class(counts: Counts) -> Bools:
    """Where [S, 1 + B] all rows are of one class."""
    return np.asarray((counts.positive == 0) | (counts.negative == 0))


def bounded_total(states: Mapping[str, State], accumulator: BoundedSum) -> Floats:
    """The pooled sum [S, 1 + B] of a BoundedSum."""
    return pooled_limbs(ints(states[accumulator.identity], "sum"), BOUNDED_UNIT)


def double_mean(states: Mapping[str, State], accumulator: DoubleSum, counts: Counts) -> tuple[Floats, Reasons]:
    """The weighted mean of a DoubleSum, pooled; undefined where any value was too large to be summed."""
    state = states[accumulator.identity]
    overflow = pooled(ints(state, "overflow")) > 0
    total = pooled_limbs(ints(state, "sum"), DOUBLE_UNIT)
    return divide(total, counts.weight), [(overflow, Undefined.OVERFLOW)]


def replicates(value: Floats, reasons: Reasons) -> Replicates:
    """An exact metric's replicates from its pooled values [S, 1 + B]."""
    known = value.copy()
    for mask, _ in reasons:
        known[mask] = np.nan
    reason: list[Undefined | None] = [Undefined.ZERO_DENOMINATOR if lost else None for lost in np.isnan(known[:, 0])]
    for mask, why in reversed(reasons):
        for one in np.flatnonzero(mask[:, 0]):
            reason[one] = why
    return Replicates(known[:, 0], tuple(reason), known[:, 1:], (None,) * len(known), np.zeros(len(known)))


@dataclass(frozen=True)
class PooledMetric(DescribedMetric):
    """A metric that is a formula of pooled sums. Subclasses give the formula and say what is particular to them."""

    @abstractmethod
    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        """The pooled values [S, 1 + B] and where they are undefined, apart from slices without rows.

        choice: under which `states` were made, for a metric whose accumulators depend on it.
        """

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        counts = support_of(states)
        value, reasons = self.formula(states, counts, choice)
        return replicates(value, [(counts.rows == 0, Undefined.NO_ROWS), *reasons])
