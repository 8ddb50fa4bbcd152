"""Errors of a real prediction: the raw output against a real label, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from assay.metrics.pooled import Counts, Floats, PooledMetric, Reasons, double_mean
from assay.metrics.sums import ABSOLUTE_ERROR_SUM, SQUARED_ERROR_SUM, SUPPORT
from assay.protocols import Accumulator, Direction
from assay.records import LabelKind, State, StateChoice


@dataclass(frozen=True)
class RMSE(PooledMetric):
    """Root of the mean squared error, in the label's unit. Undefined where a squared error reaches 2^127."""

    name: ClassVar[str] = "rmse"
    description: ClassVar[str] = "root mean squared error, in the label's unit"
    label_kind: ClassVar[LabelKind | None] = "real"
    direction: ClassVar[Direction] = "lower"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, SQUARED_ERROR_SUM)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        mean, reasons = double_mean(states, SQUARED_ERROR_SUM, counts)
        return np.sqrt(mean), reasons


@dataclass(frozen=True)
class MAE(PooledMetric):
    """Mean absolute error, in the label's unit. Undefined where an error reaches 2^127."""

    name: ClassVar[str] = "mae"
    description: ClassVar[str] = "mean absolute error, in the label's unit"
    label_kind: ClassVar[LabelKind | None] = "real"
    direction: ClassVar[Direction] = "lower"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, ABSOLUTE_ERROR_SUM)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return double_mean(states, ABSOLUTE_ERROR_SUM, counts)
