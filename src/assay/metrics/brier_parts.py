"""The parts of the Brier score in equal-width bins of the probability.

    brier = reliability - resolution + uncertainty + within bins

holds exactly, for any bins, but that a part within bins of less than 2^-30 is told as 0. Murphy, "A New Vector
Partition of the Probability Score", 1973, for forecasts that are equal in a bin; Stephenson, Coelho, Jolliffe, "Two
Extra Components in the Brier Score Decomposition", 2008, for what is left. Axes: S slices, B buckets, M bins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from assay.metrics.calibration import BinnedMetric, BinSums
from assay.metrics.noise import jackknife_bias, occupied_of, unless_noise
from assay.metrics.pooled import Counts, PooledMetric, Reasons, bounded_total, divide, support_of
from assay.metrics.sums import BRIER_SUM, SUPPORT
from assay.protocols import Accumulator, Direction
from assay.records import Floats, Replicates, State, StateChoice

GRAIN = 2.0**-30
"""So much of the part inside bins is the rounding, row by row to 2^-32, of the sums that it is a difference of."""


def reliability(sums: BinSums) -> Floats:
    """Mean, by weight, of the squared distance of a bin's mean probability from its share of positives."""
    return divide(np.nan_to_num(divide(sums.gap * sums.gap, sums.weight)).sum(axis=-1), sums.weight.sum(axis=-1))


def resolution(sums: BinSums) -> Floats:
    """Mean, by weight, of the squared distance of a bin's share of positives from that of all rows."""
    total = sums.weight.sum(axis=-1)
    base = divide(sums.positive.sum(axis=-1), total)
    distance = np.nan_to_num(divide(sums.positive, sums.weight) - base[..., None])
    return divide((sums.weight * distance * distance).sum(axis=-1), total)


def uncertainty(positive: Floats, weight: Floats) -> Floats:
    """r (1 - r), with r the share of positives; NaN without weight."""
    rate = divide(positive, weight)
    return rate * (1.0 - rate)


@dataclass(frozen=True)
class BrierReliability(BinnedMetric):
    """Sum over bins of w (mean p - share of positives)^2 / W: what miscalibration costs. 0 to 1, 0 is best.

    Biased upward by noise, as `ece` is: about bins * brier / rows. Where that is much of it, the value has no interval;
    a difference of two models has.
    """

    word: ClassVar[str] = "brier_reliability"
    description: ClassVar[str] = "part of the Brier score that miscalibration costs"

    def of_bins(self, sums: BinSums) -> Floats:
        return reliability(sums)

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        known, occupied = BinnedMetric.evaluate(self, states, choice, weight_unit), occupied_of(support_of(states).rows)
        return unless_noise(known, jackknife_bias(known, occupied), occupied)


@dataclass(frozen=True)
class BrierResolution(BinnedMetric):
    """Sum over bins of w (share of positives - that of all rows)^2 / W: what telling rows apart gains. 0 to 1/4."""

    word: ClassVar[str] = "brier_resolution"
    description: ClassVar[str] = "part of the Brier score that telling rows apart gains"
    direction: ClassVar[Direction] = "higher"

    def of_bins(self, sums: BinSums) -> Floats:
        return resolution(sums)


@dataclass(frozen=True)
class BrierUncertainty(PooledMetric):
    """r (1 - r), with r the share of positives: the Brier score of the base rate. 0 to 1/4. No model changes it."""

    name: ClassVar[str] = "brier_uncertainty"
    description: ClassVar[str] = "Brier score of the constant base rate"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT,)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return uncertainty(counts.positive, counts.weight), []


@dataclass(frozen=True)
class BrierWithinBins(BinnedMetric):
    """What bins hide: the variance of probabilities in a bin less twice their covariance with the label there.

    Sum over rows of w ((p - mean p)^2 - 2 (p - mean p) (label - share of positives)) / W, means being those of the
    row's bin. Below 0 where probabilities also tell the rows of a bin apart; 0 where those of a bin are equal.
    """

    word: ClassVar[str] = "brier_within_bins"
    description: ClassVar[str] = "part of the Brier score inside bins, that the other parts leave out"
    direction: ClassVar[Direction] = None
    nonnegative: ClassVar[bool] = False

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (*BinnedMetric.accumulators(self, choice), BRIER_SUM)

    def of_bins(self, sums: BinSums) -> Floats:
        return reliability(sums) - resolution(sums)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        between, reasons = BinnedMetric.formula(self, states, counts, choice)
        brier = divide(bounded_total(states, BRIER_SUM), counts.weight)
        value = brier - (between + uncertainty(counts.positive, counts.weight))
        return np.where(np.abs(value) <= GRAIN, 0.0, value), reasons
