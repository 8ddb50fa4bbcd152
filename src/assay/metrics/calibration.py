"""Calibration in equal-width bins of the probability: expected calibration error and the reliability curve.

Axes: S slices, K slices that keep buckets, B buckets, M bins. Bin m of M holds m / M <= p < (m + 1) / M, the last one
also p = 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.elementary import UNIT
from assay.kernels.scatter import add_counts, add_products
from assay.metrics.parse import canonical
from assay.metrics.pooled import Counts, Floats, PooledMetric, Reasons, divide
from assay.metrics.sums import BOUNDED_UNIT, SUPPORT, by_class, num_bucketed, probability_of, probability_units
from assay.protocols import Accumulator, Direction
from assay.records import Block, Bucketed, Curve, Replicates, Sizes, State, StateChoice, Undefined
from assay.states import add_states, carry, ints, subtract_states, to_float

DEFAULT_BINS = 32
MOST_BINS = 10_000
_LIMBS = frozenset({"probability", "gap"})


@dataclass(frozen=True, slots=True)
class Calibration:
    """By bin: rows, weight [S, M, 2] (negative, positive) and the sum of probabilities [S, M, 2 limbs].

    By bucket and bin the gap, sum of (p - label) [K, B, M, 2 limbs].
    """

    bins: int
    bucketed: Bucketed

    @property
    def identity(self) -> str:
        return f"calibration(bins={self.bins},buckets={self.bucketed}).v1"

    def zero(self, sizes: Sizes) -> State:
        by_bin = (sizes.num_slices, self.bins, 2)
        kept = num_bucketed(sizes.num_slices, self.bucketed)
        return {
            **{name: np.zeros(by_bin, np.int64) for name in ("rows", "weight", "probability")},
            "gap": np.zeros((kept, sizes.num_buckets, self.bins, 2), np.int64),
        }

    def update(self, state: State, block: Block) -> State:
        rows, weight, gap = (ints(state, name) for name in ("rows", "weight", "gap"))
        place = calibration_bins(probability_of(block), self.bins)
        place_and_class, units = by_class(place, block), probability_units(block)
        add_counts(np.ones_like(block.weight), block.slices, place_and_class, rows.reshape(len(rows), -1))
        add_counts(block.weight, block.slices, place_and_class, weight.reshape(len(rows), -1))
        add_products(units, block.weight, block.slices, place, ints(state, "probability"))
        if len(gap):
            cells = gap.reshape(len(gap), -1, 2)
            error = units - block.positive * np.int64(UNIT)
            dimensions = block.slices[:1] if self.bucketed == "overall" else block.slices
            add_products(error, block.weight, dimensions, block.bucket * self.bins + place, cells)
        return state

    def merge(self, left: State, right: State) -> State:
        return add_states(left, right, _LIMBS)

    def subtract(self, whole: State, part: State) -> State:
        return subtract_states(whole, part, _LIMBS)

    def num_bytes(self, sizes: Sizes, rows: int | None) -> int:
        kept = num_bucketed(sizes.num_slices, self.bucketed)
        return (3 * sizes.num_slices + kept * sizes.num_buckets) * self.bins * 2 * 8


def calibration_bins(probability: NDArray[np.float32], bins: int) -> NDArray[np.int32]:
    """The bin of each probability [n] in [0, 1]; exactly 1 falls in the last bin.

    >>> calibration_bins(np.array([0.0, 0.5, 1.0], np.float32), 2).tolist()
    [0, 1, 1]
    """
    return np.minimum((probability.astype(np.float64) * bins).astype(np.int32), np.int32(bins - 1))


def expected_calibration_error(gap: Floats, weight: Floats) -> Floats:
    """Sum over bins of |sum of p - sum of labels|, gap [..., M], over the weight [...]; NaN without weight."""
    return divide(np.abs(gap).sum(axis=-1), weight)


@dataclass(frozen=True)
class ECE(PooledMetric):
    """Expected calibration error: mean distance, by weight, of a bin's mean probability from its share of positives.

    Naeini, Cooper, Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", 2015. Biased upward by
    about sqrt(bins / rows).
    """

    bins: int = DEFAULT_BINS
    description: ClassVar[str] = "expected calibration error in equal-width bins"
    needs_probability: ClassVar[bool] = True
    direction: ClassVar[Direction] = "lower"

    def __post_init__(self) -> None:
        if not isinstance(self.bins, int) or not 1 <= self.bins <= MOST_BINS:
            raise ValueError(f"The 'bins' of the metric 'ece' are {self.bins!r}; expected 1 to {MOST_BINS}.")

    @property
    def name(self) -> str:
        return canonical("ece", {"bins": self.bins}, {"bins": DEFAULT_BINS})

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, Calibration(self.bins, choice.bucketed))

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        gaps = self._gaps(states, choice)
        value = np.full(counts.rows.shape, np.nan)
        value[:, 0] = expected_calibration_error(to_float(gaps.total, BOUNDED_UNIT), counts.weight[:, 0])
        kept = len(gaps.by_bucket)
        without = to_float(carry(gaps.total[:kept, None] - gaps.by_bucket), BOUNDED_UNIT)
        value[:kept, 1:] = expected_calibration_error(without, counts.weight[:kept, 1:])
        return value, []

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        pooled = PooledMetric.evaluate(self, states, choice, weight_unit)
        num_slices, kept = len(pooled.value), len(self._gaps(states, choice).by_bucket)
        reasons = (None,) * kept + (Undefined.OVER_BUDGET,) * (num_slices - kept)
        return replace(pooled, interval_reason=reasons)

    def curves(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> tuple[Curve, ...]:
        """One `reliability` curve per slice with rows: mean probability (x) and share of positives (y) of each bin that
        has rows."""
        state = self._state(states, choice)
        rows, weight = ints(state, "rows").sum(axis=2), ints(state, "weight").sum(axis=2).astype(np.float64)
        positive = ints(state, "weight")[..., 1].astype(np.float64)
        probability = to_float(ints(state, "probability"), BOUNDED_UNIT)
        curves = []
        for one in np.flatnonzero(rows.any(axis=1)):
            used = rows[one] > 0
            total, ones = weight[one, used], positive[one, used]
            x, y, counts = probability[one, used] / total, ones / total, rows[one, used]
            curves.append(Curve("reliability", int(one), x, y, counts, total * weight_unit, ones * weight_unit))
        return tuple(curves)

    def _state(self, states: Mapping[str, State], choice: StateChoice) -> State:
        return states[Calibration(self.bins, choice.bucketed).identity]

    def _gaps(self, states: Mapping[str, State], choice: StateChoice) -> _Gaps:
        state = self._state(states, choice)
        total = ints(state, "probability").copy()
        total[..., 1] -= state["weight"][..., 1]  # the upper limb counts in units of 1
        return _Gaps(total, ints(state, "gap"))


class _Gaps(NamedTuple):
    total: NDArray[np.int64]  # [S, M, 2 limbs]
    by_bucket: NDArray[np.int64]  # [K, B, M, 2 limbs]
