"""What metrics of your own are made of: the accumulators behind assay's metrics, and what makes values of states.

A metric that names an accumulator of equal identity as another one shares its state: it costs nothing to update.
docs/metrics-of-your-own.md has an example.
"""

from __future__ import annotations

from assay.metrics.additive import AdditiveState
from assay.metrics.agreement import (
    COMMON_SCORE_SQUARES,
    COMMON_SCORE_SUM,
    REFERENCE_DIFFERENCE_SUM,
    REFERENCE_DISTANCE_SUM,
    REFERENCE_PRODUCTS,
    REFERENCE_SQUARES,
    REFERENCE_SUM,
    Flips,
)
from assay.metrics.calibration import BinWeights, Calibration
from assay.metrics.class_counts import ClassCounts, LabelCounts
from assay.metrics.class_ranking_states import BinnedClassRanking, ExactClassRanking, class_ranking_state
from assay.metrics.class_sums import CLASS_BRIER_SUM, CLASS_LOG_LOSS_SUM, RIGHT_SUM, top_sum
from assay.metrics.confusion_matrix import ConfusionMatrix
from assay.metrics.error_histogram import ErrorHistogram
from assay.metrics.intervals_of_outputs import INSIDE_SUM, WIDTH_SUM, interval_score_sum
from assay.metrics.label_sums import LABEL_RANKING_SUM, mistakes_sum, right_sets_sum
from assay.metrics.losses import LOG_COSH_SUM, deviance_sum, huber_sum, pinball_sum
from assay.metrics.parse import canonical
from assay.metrics.pooled import (
    Counts,
    PooledMetric,
    Reasons,
    bounded_total,
    divide,
    double_mean,
    replicates,
    support_of,
)
from assay.metrics.ranking_states import BinnedRanking, ExactRanking, ranking_state
from assay.metrics.recalibration import BUCKET_BINS, HALF_BINS, BucketBins, HalfBins
from assay.metrics.regression import (
    DIFFERENCE_SUM,
    ERROR_SQUARES,
    ERROR_SUM,
    LABEL_SQUARES,
    LABEL_SUM,
    RELATIVE_ERROR_SUM,
    SYMMETRIC_ERROR_SUM,
)
from assay.metrics.score_buckets import ScoreBins, ScoreGaps
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
from assay.metrics.terms import TermSum, pooled_terms
from assay.metrics.threshold import Confusion
from assay.metrics.thresholds import FORMS, ScoreForms
from assay.states import carry, ints, pooled, pooled_limbs

__all__ = [
    "ABSOLUTE_ERROR_SUM",
    "BRIER_SUM",
    "BUCKET_BINS",
    "CLASS_BRIER_SUM",
    "CLASS_LOG_LOSS_SUM",
    "COMMON_SCORE_SQUARES",
    "COMMON_SCORE_SUM",
    "DIFFERENCE_SUM",
    "ERROR_SQUARES",
    "ERROR_SUM",
    "FORMS",
    "HALF_BINS",
    "INSIDE_SUM",
    "LABEL_RANKING_SUM",
    "LABEL_SQUARES",
    "LABEL_SUM",
    "LOG_COSH_SUM",
    "LOG_LOSS_SUM",
    "PROBABILITY_SUM",
    "REFERENCE_DIFFERENCE_SUM",
    "REFERENCE_DISTANCE_SUM",
    "REFERENCE_PRODUCTS",
    "REFERENCE_SQUARES",
    "REFERENCE_SUM",
    "RELATIVE_ERROR_SUM",
    "RIGHT_SUM",
    "SCORE_SUM",
    "SQUARED_ERROR_SUM",
    "SUPPORT",
    "SYMMETRIC_ERROR_SUM",
    "WIDTH_SUM",
    "AdditiveState",
    "BinWeights",
    "BinnedClassRanking",
    "BinnedRanking",
    "BoundedSum",
    "BucketBins",
    "Calibration",
    "ClassCounts",
    "Confusion",
    "ConfusionMatrix",
    "Counts",
    "DoubleSum",
    "ErrorHistogram",
    "ExactClassRanking",
    "ExactRanking",
    "Flips",
    "HalfBins",
    "LabelCounts",
    "PooledMetric",
    "Reasons",
    "ScoreBins",
    "ScoreForms",
    "ScoreGaps",
    "Support",
    "TermSum",
    "bounded_total",
    "canonical",
    "carry",
    "class_ranking_state",
    "deviance_sum",
    "divide",
    "double_mean",
    "huber_sum",
    "interval_score_sum",
    "ints",
    "mistakes_sum",
    "pinball_sum",
    "pooled",
    "pooled_limbs",
    "pooled_terms",
    "ranking_state",
    "replicates",
    "right_sets_sum",
    "support_of",
    "top_sum",
]
