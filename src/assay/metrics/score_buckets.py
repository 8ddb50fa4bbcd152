"""Calibration in bins of equal mass, cut after the pass from a fine histogram of the probability.

Axes: S slices, K slices that keep buckets, B buckets, F fine bins (log-spaced in min(p, 1 - p)), M bins of equal mass.

A fine bin is never split, nor are ties, so a bin of equal mass is a range of scores with its exact sums. What the
histogram's width costs is only where the cuts are: they lie on edges of fine bins, of which there are 128 an octave in
slice 0 and 16 in others. Where scores are closer together than that, fewer and less equal bins are left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.elementary import UNIT
from assay.kernels.keys import NUM_OCTAVES, probability_bins
from assay.kernels.scatter import add_counts, add_products
from assay.metrics import parameters
from assay.metrics.additive import AdditiveState
from assay.metrics.calibration import expected_calibration_error
from assay.metrics.described import DescribedMetric
from assay.metrics.noise import absolute_bias, occupied_of, unless_noise
from assay.metrics.parse import canonical
from assay.metrics.pooled import Counts, support_of
from assay.metrics.sums import BOUNDED_UNIT, SUPPORT, by_class, num_bucketed, probability_of, probability_units
from assay.protocols import Accumulator, Direction
from assay.records import Block, Bucketed, Curve, Floats, Replicates, Sizes, State, StateChoice, Undefined
from assay.states import carry, ints, to_float

OVERALL_BITS, SLICE_BITS = 7, 4
"""Mantissa bits of the fine bins: of slice 0; of the other slices and of the buckets."""
DEFAULT_MASS_BINS = 15


@dataclass(frozen=True, slots=True)
class ScoreBins(AdditiveState):
    """By fine bin: rows, weight and the sum of probabilities, each [S, F, 2].

    rows and weight are of negatives, positives; the sum has 2 limbs. S is 1 where only the overall slice is kept.
    """

    bits: int
    slices: Literal["overall", "all"]
    limbs: ClassVar[frozenset[str]] = frozenset({"probability"})

    @property
    def identity(self) -> str:
        return f"score_bins(bits={self.bits},slices={self.slices}).v1"

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        shape = (num_bucketed(sizes.num_slices, self.slices), NUM_OCTAVES << self.bits, 2)
        return dict.fromkeys(("rows", "weight", "probability"), shape)

    def update(self, state: State, block: Block) -> State:
        rows, weight = ints(state, "rows"), ints(state, "weight")
        place = probability_bins(probability_of(block), self.bits)
        place_and_class = by_class(place, block)
        dimensions = block.slices[:1] if self.slices == "overall" else block.slices
        add_counts(np.ones_like(block.weight), dimensions, place_and_class, rows.reshape(len(rows), -1))
        add_counts(block.weight, dimensions, place_and_class, weight.reshape(len(weight), -1))
        add_products(probability_units(block), block.weight, dimensions, place, ints(state, "probability"))
        return state


@dataclass(frozen=True, slots=True)
class ScoreGaps(AdditiveState):
    """By bucket and fine bin the gap, sum of (p - label) [K, B, F, 2 limbs]."""

    bits: int
    bucketed: Bucketed
    limbs: ClassVar[frozenset[str]] = frozenset({"gap"})

    @property
    def identity(self) -> str:
        return f"score_gaps(bits={self.bits},buckets={self.bucketed}).v1"

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        kept = num_bucketed(sizes.num_slices, self.bucketed)
        return {"gap": (kept, sizes.num_buckets, NUM_OCTAVES << self.bits, 2)}

    def update(self, state: State, block: Block) -> State:
        gap = ints(state, "gap")
        if len(gap):
            place = block.bucket * (NUM_OCTAVES << self.bits) + probability_bins(probability_of(block), self.bits)
            error = probability_units(block) - block.positive * np.int64(UNIT)
            dimensions = block.slices[:1] if self.bucketed == "overall" else block.slices
            add_products(error, block.weight, dimensions, place, gap.reshape(len(gap), -1, 2))
        return state


FINE = ScoreBins(OVERALL_BITS, "overall")
COARSE = ScoreBins(SLICE_BITS, "all")


def equal_mass_starts(weight: NDArray[np.int64], bins: int) -> NDArray[np.int64]:
    """Where each bin of equal mass begins among fine bins of weight [F]: increasing, at most `bins`, the first at 0.

    A fine bin goes to the bin of equal mass that its middle falls in, by cumulative weight; a bin of equal mass that no
    middle falls in does not exist. Empty where there is no weight.

    >>> equal_mass_starts(np.array([1, 1, 0, 1, 1]), 2).tolist()
    [0, 3]
    >>> equal_mass_starts(np.array([0, 8, 1, 1]), 4).tolist()
    [0, 2]
    """
    occupied = np.flatnonzero(weight)
    mass = weight[occupied].astype(np.float64)
    above = np.cumsum(mass)
    if not len(mass):
        return occupied
    bin_of = ((above - 0.5 * mass) * bins / above[-1]).astype(np.int64)
    starts = occupied[np.flatnonzero(np.diff(bin_of, prepend=-1))]
    starts[0] = 0
    return starts


class MassBins(NamedTuple):
    """The bins of equal mass of one slice that have rows, in the order of scores."""

    starts: NDArray[np.int64]  # [M] the first fine bin of each
    gap: NDArray[np.int64]  # [M, 2 limbs] sum of (p - label), canonical
    probability: Floats  # [M] sum of p
    weight: NDArray[np.int64]  # [M, 2] negative, positive
    rows: NDArray[np.int64]  # [M]


def mass_bins(state: State, one: int, bins: int) -> MassBins:
    """The bins of slice `one` of a ScoreBins state."""
    weight, probability = ints(state, "weight")[one], ints(state, "probability")[one]
    starts = equal_mass_starts(weight.sum(axis=1), bins)
    sums, weights = carry(reduced(probability, starts)), reduced(weight, starts)
    gap = sums.copy()
    gap[:, 1] -= weights[:, 1]  # the upper limb counts in units of 1
    rows = reduced(ints(state, "rows")[one], starts).sum(axis=1)
    return MassBins(starts, gap, to_float(sums, BOUNDED_UNIT), weights, rows)


def reduced(cells: NDArray[np.int64], starts: NDArray[np.int64], axis: int = 0) -> NDArray[np.int64]:
    """Cells summed along one axis from each start to the next; none where there are no starts."""
    if not len(starts):
        return np.take(cells, starts, axis=axis)
    return np.add.reduceat(cells, starts, axis=axis)


@dataclass(frozen=True)
class ECEMass(DescribedMetric):
    """Expected calibration error in bins of equal weight, which resolve scores wherever they lie.

    Sum over bins of |sum of w (p - label)| / W, 0 to 1. Ties are never split, nor are scores within 1/128 of an octave
    of min(p, 1 - p) (1/16 in slices): where scores are closer together, there are fewer bins. The value is that of the
    bins which the curve `bias_by_score` shows, exactly. Intervals come from bins of 1/16 octave, and there is none
    (resolution) where less than half as many bins of equal mass can be cut there. Biased upward, by about
    sqrt(bins / rows); where that is much of it, the value has no interval, a difference of two models has.
    Nixon et al., "Measuring Calibration in Deep Learning", 2019 (adaptive calibration error).
    """

    bins: int = DEFAULT_MASS_BINS
    description: ClassVar[str] = "expected calibration error in bins of equal weight"
    needs_probability: ClassVar[bool] = True
    direction: ClassVar[Direction] = "lower"

    def __post_init__(self) -> None:
        parameters.bins("ece_mass", self.bins)

    @property
    def name(self) -> str:
        return canonical("ece_mass", {"bins": self.bins}, {"bins": DEFAULT_MASS_BINS})

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, FINE, COARSE, ScoreGaps(SLICE_BITS, choice.bucketed))

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        counts = support_of(states)
        by_bucket = ints(states[ScoreGaps(SLICE_BITS, choice.bucketed).identity], "gap")
        num_slices, columns = counts.rows.shape
        value, without = np.full(num_slices, np.nan), np.full((num_slices, columns - 1), np.nan)
        bias = np.zeros(num_slices)
        reasons: list[Undefined | None] = [None] * num_slices
        interval_reasons: list[Undefined | None] = [None] * num_slices
        for one in range(num_slices):
            if counts.rows[one, 0] == 0:
                reasons[one] = Undefined.NO_ROWS
                continue
            bins, coarse = self._bins(states, one), mass_bins(states[COARSE.identity], one, self.bins)
            value[one] = _error(bins.gap, counts.weight[one, 0])
            if one >= len(by_bucket):
                interval_reasons[one] = Undefined.OVER_BUDGET
                continue
            gap = to_float(carry(coarse.gap), BOUNDED_UNIT)
            parts = to_float(carry(reduced(by_bucket[one], coarse.starts, axis=1)), BOUNDED_UNIT)
            bias[one] = absolute_bias(gap[None], parts[None], counts.weight[one : one + 1, 0])[0]
            shift = value[one] - _error(coarse.gap, counts.weight[one, 0])
            without[one] = _without(coarse, by_bucket[one], counts, one) + shift
            resolved = 2 * len(coarse.starts) >= len(bins.starts)
            interval_reasons[one] = None if resolved else Undefined.RESOLUTION
        known = Replicates(value, tuple(reasons), without, tuple(interval_reasons), np.zeros(num_slices))
        return unless_noise(known, bias, occupied_of(counts.rows))

    def curves(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> tuple[Curve, ...]:
        """One curve `bias_by_score` per slice with rows: for each bin of equal mass its mean probability (x) and by how
        much that is above its share of positives (y)."""
        curves = []
        for one in np.flatnonzero(support_of(states).rows[:, 0]):
            bins = self._bins(states, int(one))
            total, positive = bins.weight.sum(axis=1).astype(np.float64), bins.weight[:, 1].astype(np.float64)
            x, y = bins.probability / total, to_float(bins.gap, BOUNDED_UNIT) / total
            curves.append(
                Curve("bias_by_score", int(one), x, y, bins.rows, total * weight_unit, positive * weight_unit)
            )
        return tuple(curves)

    def _bins(self, states: Mapping[str, State], one: int) -> MassBins:
        return mass_bins(states[(COARSE if one else FINE).identity], one, self.bins)


def _error(gap: NDArray[np.int64], weight: float) -> float:
    return float(expected_calibration_error(to_float(gap, BOUNDED_UNIT), np.asarray(weight)))


def _without(coarse: MassBins, by_bucket: NDArray[np.int64], counts: Counts, one: int) -> Floats:
    """[B] the error without each bucket, of the same bins; by_bucket: [B, F, 2 limbs]."""
    left = carry(coarse.gap - reduced(by_bucket, coarse.starts, axis=1))
    return expected_calibration_error(to_float(left, BOUNDED_UNIT), counts.weight[one, 1:])
