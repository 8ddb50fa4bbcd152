"""Metrics of probabilities after recalibration, and of how they would have to be recalibrated; overall slice alone.

Here are formulas; what they are formulas of is in `recalibration.py`, which also names the axes. S slices, B buckets.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from assay.kernels.elementary import CLIP, log
from assay.kernels.logistic import logistic_fit, logistic_shift
from assay.metrics import parameters
from assay.metrics.calibration import DEFAULT_BINS
from assay.metrics.described import DescribedMetric
from assay.metrics.parse import canonical
from assay.metrics.pooled import divide, support_of
from assay.metrics.recalibration import BUCKET_BINS, HALF_BINS, METHODS, Cells, cross_fit, lacks_class, logit_bins
from assay.metrics.sums import SUPPORT
from assay.protocols import Accumulator, Direction
from assay.records import Floats, Replicates, State, StateChoice, Undefined
from assay.spec.names import offer
from assay.states import ints

DEFAULT_METHOD = "isotonic"
MOST_RELATIVE_GAP, MOST_GAP = 0.05, 0.05
"""Where coarse bins do not give the value within this share of it, there is no interval. Measured: at a gap of 0.3 %
the standard error of the log loss is within 2 % of that of fine bins, at one of 3 % that of the slope within 3 %.
Numbers in log-odds may be 0; for them a gap of 0.05 will do as well."""


class Values(NamedTuple):
    """A metric of all rows, then of the replicates."""

    values: Floats  # [R]
    undefined: Undefined | None = None  # why the first is undefined; R is then 1


def undefined(why: Undefined) -> Values:
    return Values(np.full(1, np.nan), why)


@dataclass(frozen=True)
class OverallMetric(DescribedMetric):
    """A metric of the overall slice alone: the value from fine bins by half, its replicates from coarse ones by bucket.

    Replicates are moved so as to agree with the value; where coarse bins do not, there is no interval (resolution).
    """

    needs_probability: ClassVar[bool] = True
    direction: ClassVar[Direction] = "lower"
    in_log_odds: ClassVar[bool] = False
    smooth: ClassVar[bool] = True  # else there is no interval

    @abstractmethod
    def of_groups(self, groups: Cells, replicated: bool) -> Values:
        """groups: weight [G, F, 2] by bucket (replicated) or by half, not all 0."""

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, HALF_BINS, BUCKET_BINS) if self._replicated(choice) else (SUPPORT, HALF_BINS)

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        rows = support_of(states).rows
        num_slices, num_buckets = rows.shape[0], rows.shape[1] - 1
        value, without = np.full(num_slices, np.nan), np.full((num_slices, num_buckets), np.nan)
        reason: list[Undefined | None] = [Undefined.OVER_BUDGET if some else Undefined.NO_ROWS for some in rows[:, 0]]
        interval_reason: list[Undefined | None] = [Undefined.OVER_BUDGET] * num_slices
        if rows[0, 0]:
            fine = self.of_groups(ints(states[HALF_BINS.identity], "weight")[0], replicated=False)
            value[0], reason[0] = fine.values[0], fine.undefined
        if not self.smooth:
            interval_reason[0] = Undefined.NOT_SMOOTH
        elif reason[0] is None and self._replicated(choice):
            coarse = self.of_groups(ints(states[BUCKET_BINS.identity], "weight")[0], replicated=True)
            interval_reason[0] = None if self._agrees(coarse, value[0]) else Undefined.RESOLUTION
            without[0] = coarse.values[1:] + (value[0] - coarse.values[0]) if coarse.undefined is None else np.nan
        return Replicates(value, tuple(reason), without, tuple(interval_reason), np.zeros(num_slices))

    def _replicated(self, choice: StateChoice) -> bool:
        return self.smooth and choice.bucketed != "none"

    def _agrees(self, coarse: Values, value: float) -> bool:
        most = max(MOST_RELATIVE_GAP * abs(value), MOST_GAP if self.in_log_odds else 0.0)
        return coarse.undefined is None and bool(abs(coarse.values[0] - value) <= most)


@dataclass(frozen=True)
class RecalibratedMetric(OverallMetric):
    """A metric of recalibrated probabilities, cross-fitted: fitted on one half of the clusters, applied to the other.

    method: isotonic, any function that never decreases, and never worse with much data; or platt, a line in log-odds,
    for few positives. Undefined in slices other than `overall`, for a single class, where a half of the clusters has
    no row of a class, and with platt where the scores separate the classes.
    """

    method: str = DEFAULT_METHOD
    word: ClassVar[str]

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(
                f"The 'method' of the metric {self.word!r} is {self.method!r}{offer(str(self.method), METHODS)}"
            )

    @property
    def name(self) -> str:
        return canonical(self.word, {"method": self.method}, {"method": DEFAULT_METHOD})

    @abstractmethod
    def of(self, probability: Floats, weight: Floats) -> Floats:
        """The values [R] of probabilities [R, m] of rows of weight [R, m, 2] (negative, positive)."""

    def of_groups(self, groups: Cells, replicated: bool) -> Values:
        fit = cross_fit(groups, self.method, replicated)
        if fit.undefined is not None:
            return undefined(fit.undefined)
        num_replicates = len(fit.probability)
        weight = fit.weight.reshape(num_replicates, -1, 2).astype(np.float64)
        return Values(self.of(fit.probability.reshape(num_replicates, -1), weight))


@dataclass(frozen=True)
class RecalibratedLogLoss(RecalibratedMetric):
    """Log loss, in nats, after cross-fitted recalibration; probabilities are clipped to [2^-24, 1 - 2^-24].

    What remains of `log_loss` is what the order of the rows costs; the difference is what miscalibration costs.
    """

    word: ClassVar[str] = "recalibrated_log_loss"
    description: ClassVar[str] = "log loss after recalibration on the other half of the clusters"

    def of(self, probability: Floats, weight: Floats) -> Floats:
        likelihood = np.clip(np.stack([1.0 - probability, probability], axis=-1), CLIP, 1.0 - CLIP)
        loss = -log(likelihood.reshape(-1)).reshape(likelihood.shape)
        return divide((weight * loss).sum(axis=(1, 2)), weight.sum(axis=(1, 2)))


@dataclass(frozen=True)
class RecalibratedBrier(RecalibratedMetric):
    """Mean of (p - label)^2 after cross-fitted recalibration, 0 to 1."""

    word: ClassVar[str] = "recalibrated_brier"
    description: ClassVar[str] = "Brier score after recalibration on the other half of the clusters"

    def of(self, probability: Floats, weight: Floats) -> Floats:
        error = np.stack([probability, 1.0 - probability], axis=-1)
        return divide((weight * error * error).sum(axis=(1, 2)), weight.sum(axis=(1, 2)))


@dataclass(frozen=True)
class RecalibratedECE(RecalibratedMetric):
    """Expected calibration error in equal-width bins after cross-fitted recalibration: what of it cannot be mended so.

    0 to 1. Noise of the fit and of the bins leaves it above 0. It has no interval: a change of the fit moves many rows
    from one bin to the next, which the jackknife cannot bear.
    """

    bins: int = DEFAULT_BINS
    smooth: ClassVar[bool] = False
    word: ClassVar[str] = "recalibrated_ece"
    description: ClassVar[str] = "expected calibration error after recalibration on the other half of the clusters"

    def __post_init__(self) -> None:
        RecalibratedMetric.__post_init__(self)
        parameters.bins(self.word, self.bins)

    @property
    def name(self) -> str:
        given: dict[str, int | str] = {"bins": self.bins, "method": self.method}
        return canonical(self.word, given, {"bins": DEFAULT_BINS, "method": DEFAULT_METHOD})

    def of(self, probability: Floats, weight: Floats) -> Floats:
        known = ~np.isnan(probability).any(axis=1)
        place = np.minimum((np.nan_to_num(probability) * self.bins).astype(np.int64), self.bins - 1)
        gap = np.zeros((len(probability), self.bins))
        np.add.at(gap, (np.arange(len(gap))[:, None], place), probability * weight.sum(axis=2) - weight[..., 1])
        return np.where(known, divide(np.abs(gap).sum(axis=1), weight.sum(axis=(1, 2))), np.nan)


@dataclass(frozen=True)
class CalibrationSlope(OverallMetric):
    """The slope a of logit P(positive) = a logit p + b, fitted by likelihood: 1 when log-odds have the right spread.

    Below 1 the probabilities are too extreme, above 1 too timid. From scores in bins of 1/128 octave. Undefined in
    slices other than `overall`, for a single class, where the scores separate the classes, or all lie in one bin.
    Cox, "Two Further Applications of a Model for Binary Regression", 1958.
    """

    name: ClassVar[str] = "calibration_slope"
    description: ClassVar[str] = "slope of the label's log-odds on the predicted ones; 1 is right, below 1 too extreme"
    direction: ClassVar[Direction] = 1.0
    nonnegative: ClassVar[bool] = False
    in_log_odds: ClassVar[bool] = True

    def of_groups(self, groups: Cells, replicated: bool) -> Values:
        bins = logit_bins(groups, replicated)
        if lacks_class(bins.weight[0]):
            return undefined(Undefined.ONE_CLASS)
        if len(bins.logits) == 1:
            return undefined(Undefined.RESOLUTION)
        first = logistic_fit(bins.logits, bins.weight[0], np.zeros(2))
        if np.isnan(first).any():
            return undefined(Undefined.SEPARATED)
        slopes = [logistic_fit(bins.logits, one, first)[0] for one in bins.weight[1:]]
        return Values(np.array([first[0], *slopes]))


@dataclass(frozen=True)
class CalibrationIntercept(OverallMetric):
    """The number b in logit P(positive) = logit p + b, fitted by likelihood: 0 when right in total, above 0 too low.

    Calibration in the large, in log-odds. From scores in bins of 1/128 octave. Undefined in slices other than `overall`
    and for a single class.
    """

    name: ClassVar[str] = "calibration_intercept"
    description: ClassVar[str] = "what to add to the predicted log-odds to be right in total; 0 is right"
    direction: ClassVar[Direction] = 0.0
    nonnegative: ClassVar[bool] = False
    in_log_odds: ClassVar[bool] = True

    def of_groups(self, groups: Cells, replicated: bool) -> Values:
        bins = logit_bins(groups, replicated)
        if lacks_class(bins.weight[0]):
            return undefined(Undefined.ONE_CLASS)
        return Values(np.array([logistic_shift(bins.logits, one) for one in bins.weight]))
