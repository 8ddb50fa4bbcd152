"""The accumulators behind assay's metrics, for use in metrics of your own.

A metric that names an accumulator of equal identity as another one shares its state: it costs nothing to update.
"""

from __future__ import annotations

from assay.metrics.calibration import Calibration
from assay.metrics.ranking_states import BinnedRanking, ExactRanking, ranking_state
from assay.metrics.sums import (
    ABSOLUTE_ERROR_SUM,
    BRIER_SUM,
    LOG_LOSS_SUM,
    PROBABILITY_SUM,
    SCORE_SUM,
    SQUARED_ERROR_SUM,
    SUPPORT,
    BoundedSum,
    DoubleSum,
    Support,
)
from assay.metrics.threshold import Confusion

__all__ = [
    "ABSOLUTE_ERROR_SUM",
    "BRIER_SUM",
    "LOG_LOSS_SUM",
    "PROBABILITY_SUM",
    "SCORE_SUM",
    "SQUARED_ERROR_SUM",
    "SUPPORT",
    "BinnedRanking",
    "BoundedSum",
    "Calibration",
    "Confusion",
    "DoubleSum",
    "ExactRanking",
    "Support",
    "ranking_state",
]
