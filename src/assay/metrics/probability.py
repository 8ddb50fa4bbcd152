"""How good probabilities are, row by row and in total: proper scores and calibration in the large."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from assay.kernels.elementary import log
from assay.metrics.pooled import Counts, PooledMetric, Reasons, bounded_total, divide, one_class
from assay.metrics.sums import BRIER_SUM, LOG_LOSS_SUM, PROBABILITY_SUM, SUPPORT
from assay.protocols import Accumulator, Direction
from assay.records import Floats, State, StateChoice, Undefined


def entropy(positive: Floats, weight: Floats) -> Floats:
    """Entropy, in nats, of a 0/1 label whose share of ones is positive / weight; 0 for one class, NaN without weight.

    >>> entropy(np.array([1.0, 0.0]), np.array([2.0, 5.0])).round(4).tolist()
    [0.6931, 0.0]
    """
    rates = np.stack([divide(positive, weight), divide(weight - positive, weight)])
    logs = log(np.where(rates > 0, rates, 1.0).reshape(-1)).reshape(rates.shape)
    return np.asarray(-(rates * logs).sum(axis=0)) + 0.0  # + 0.0: no negative zero


@dataclass(frozen=True)
class LogLoss(PooledMetric):
    """Mean of -ln p(label), in nats; probabilities are clipped to [2^-24, 1 - 2^-24]."""

    name: ClassVar[str] = "log_loss"
    description: ClassVar[str] = "mean negative log-likelihood, in nats; probabilities clipped to [2^-24, 1 - 2^-24]"
    needs_probability: ClassVar[bool] = True
    direction: ClassVar[Direction] = "lower"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, LOG_LOSS_SUM)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return divide(bounded_total(states, LOG_LOSS_SUM), counts.weight), []


@dataclass(frozen=True)
class NormalisedEntropy(PooledMetric):
    """Log loss over the entropy of the base rate: 1 for a model that predicts the base rate alone.

    He et al., "Practical Lessons from Predicting Clicks on Ads at Facebook", 2014. Undefined for a single class.
    """

    name: ClassVar[str] = "normalised_entropy"
    description: ClassVar[str] = "log loss over that of the constant base rate; below 1 is better than the base rate"
    needs_probability: ClassVar[bool] = True
    direction: ClassVar[Direction] = "lower"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, LOG_LOSS_SUM)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        mean = divide(bounded_total(states, LOG_LOSS_SUM), counts.weight)
        return divide(mean, entropy(counts.positive, counts.weight)), [(one_class(counts), Undefined.ONE_CLASS)]


@dataclass(frozen=True)
class Brier(PooledMetric):
    """Mean of (p - label)^2."""

    name: ClassVar[str] = "brier"
    description: ClassVar[str] = "mean squared error of the probability"
    needs_probability: ClassVar[bool] = True
    direction: ClassVar[Direction] = "lower"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, BRIER_SUM)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return divide(bounded_total(states, BRIER_SUM), counts.weight), []


@dataclass(frozen=True)
class CalibrationRatio(PooledMetric):
    """Sum of probabilities over the sum of labels: 1 when right in total, above 1 when too high."""

    name: ClassVar[str] = "calibration_ratio"
    description: ClassVar[str] = "sum of probabilities over sum of labels; 1 is right in total"
    needs_probability: ClassVar[bool] = True
    direction: ClassVar[Direction] = 1.0

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, PROBABILITY_SUM)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        ratio = divide(bounded_total(states, PROBABILITY_SUM), counts.positive)
        return ratio, [(counts.positive == 0, Undefined.NO_POSITIVES)]
