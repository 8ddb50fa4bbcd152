"""One of several classes: right or wrong, proper scores, agreement beyond chance.

The predicted class is the one with the highest score (of equal ones the lowest number), or the one the output names. A
row whose predicted class is none of the classes is wrong, and is predicted to be of no class. Not here: precision,
recall and F1 (`averages.py`, `one_class.py`). Axes: S slices, B buckets, C classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from assay.metrics.class_formulas import average_of
from assay.metrics.class_sums import CLASS_BRIER_SUM, CLASS_LOG_LOSS_SUM, RIGHT_SUM, top_sum
from assay.metrics.confusion_matrix import ConfusionMatrix
from assay.metrics.counts_metric import CountsMetric
from assay.metrics.pooled import Counts, PooledMetric, Reasons, bounded_total, divide, support_of
from assay.metrics.rare import unless_rare
from assay.metrics.sums import SUPPORT, BoundedSum
from assay.protocols import Accumulator, Direction
from assay.records import Curve, Floats, LabelKind, Replicates, State, StateChoice

# ---- means of rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassMean(PooledMetric):
    """A mean over rows of a task with classes."""

    label_kind: ClassVar[LabelKind | None] = "class"

    @abstractmethod
    def of_rows(self) -> BoundedSum:
        """The accumulator of the sum over rows."""

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, self.of_rows())

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return divide(bounded_total(states, self.of_rows()), counts.weight), []


class ClassShare(ClassMean):
    """The share of rows that something holds of."""

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        known = super().evaluate(states, choice, weight_unit)
        these = bounded_total(states, self.of_rows())
        return unless_rare(known, these, support_of(states).weight - these)


@dataclass(frozen=True)
class Accuracy(ClassShare):
    """Share of rows, by weight, whose class is predicted; in [0, 1]."""

    name: ClassVar[str] = "accuracy"
    description: ClassVar[str] = "share of rows whose class is predicted"
    direction: ClassVar[Direction] = "higher"

    def of_rows(self) -> BoundedSum:
        return RIGHT_SUM


@dataclass(frozen=True)
class TopAccuracy(ClassShare):
    """Share of rows whose class is among the k with the highest scores; in [0, 1].

    A class's rank is 1 + the number of classes that score higher + the number of those that score the same and have a
    lower number. An output that is a predicted class alone has no ranks.

    >>> TopAccuracy(5).name
    'top_accuracy@5'
    """

    k: int
    description: ClassVar[str] = "share of rows whose class is among the k with the highest scores"
    direction: ClassVar[Direction] = "higher"
    needs_outputs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 1:
            raise ValueError(f"The 'k' of the metric 'top_accuracy' is {self.k!r}; expected 1 or more.")

    @property
    def name(self) -> str:
        return f"top_accuracy@{self.k}"

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        """ValueError where every class is among the k best, so that the metric would be 1 for any scores."""
        if 0 < len(choice.classes) <= self.k:
            raise ValueError(
                f"Each of {len(choice.classes):,} classes is among the {self.k} best; expected a smaller k."
            )
        return super().accumulators(choice)

    def of_rows(self) -> BoundedSum:
        return top_sum(self.k)


@dataclass(frozen=True)
class LogLoss(ClassMean):
    """Mean of -ln p(class), in nats; probabilities are clipped to [2^-24, 1 - 2^-24]."""

    name: ClassVar[str] = "log_loss"
    description: ClassVar[str] = "mean negative log-likelihood, in nats; probabilities clipped to [2^-24, 1 - 2^-24]"
    needs_probability: ClassVar[bool] = True
    needs_outputs: ClassVar[bool] = True
    direction: ClassVar[Direction] = "lower"

    def of_rows(self) -> BoundedSum:
        return CLASS_LOG_LOSS_SUM


@dataclass(frozen=True)
class Brier(ClassMean):
    """Mean over rows of the sum over classes of (p - 1 for the row's class, else 0)^2; in [0, 2].

    Brier, "Verification of Forecasts Expressed in Terms of Probability", 1950. With two classes it is twice the Brier
    score of one of them.
    """

    name: ClassVar[str] = "brier"
    description: ClassVar[str] = "mean squared error of the probabilities, summed over classes"
    needs_probability: ClassVar[bool] = True
    needs_outputs: ClassVar[bool] = True
    direction: ClassVar[Direction] = "lower"

    def of_rows(self) -> BoundedSum:
        return CLASS_BRIER_SUM


@dataclass(frozen=True)
class ErrorRate(ClassShare):
    """Share of rows, by weight, in another cell of the confusion matrix than the diagonal: 1 - accuracy.

    The matrix is the curve `confusion`: a point for each cell that has rows, x its class, y the predicted one.
    """

    name: ClassVar[str] = "error_rate"
    description: ClassVar[str] = "share of rows whose class is not predicted; its curve is the confusion matrix"
    direction: ClassVar[Direction] = "lower"

    def of_rows(self) -> BoundedSum:
        return RIGHT_SUM

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, RIGHT_SUM, ConfusionMatrix(len(choice.classes)))

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return divide(counts.weight - bounded_total(states, RIGHT_SUM), counts.weight), []

    def curves(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> tuple[Curve, ...]:
        matrix = ConfusionMatrix(len(choice.classes))
        return matrix.curves(states[matrix.identity], weight_unit)


# ---- of the whole table ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BalancedAccuracy(CountsMetric):
    """Mean of the classes' recalls, over the classes that have rows: the macro recall."""

    name: ClassVar[str] = "balanced_accuracy"
    description: ClassVar[str] = "mean of the classes' recalls: accuracy as if all classes were equally frequent"

    def formula(self, counts: Floats, weight: Floats, choice: StateChoice) -> Floats:
        return average_of("recall", "macro", counts)


@dataclass(frozen=True)
class CohensKappa(CountsMetric):
    """(accuracy - chance) / (1 - chance), where chance is the agreement of independent labels and predictions.

    Cohen, "A Coefficient of Agreement for Nominal Scales", 1960. At most 1; 0 is chance. Undefined where all rows are
    of one class and predicted to be.
    """

    name: ClassVar[str] = "cohens_kappa"
    description: ClassVar[str] = "agreement of labels and predictions beyond chance; 0 is chance, 1 is perfect"
    nonnegative: ClassVar[bool] = False

    def formula(self, counts: Floats, weight: Floats, choice: StateChoice) -> Floats:
        actual, predicted, both = (counts[..., i] for i in range(3))
        chance = (actual * predicted).sum(axis=-1)  # of whole numbers: no agreement beyond chance is exactly 0
        return divide(weight * both.sum(axis=-1) - chance, weight * weight - chance)


@dataclass(frozen=True)
class Matthews(CountsMetric):
    """Correlation of labels and predictions as indicators of the classes; in [-1, 1], 0 is chance.

    Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient", 2004. Undefined where all
    rows are of one class, or are predicted to be.
    """

    name: ClassVar[str] = "matthews"
    description: ClassVar[str] = "correlation of labels and predictions over all classes (Matthews, Gorodkin)"
    nonnegative: ClassVar[bool] = False

    def formula(self, counts: Floats, weight: Floats, choice: StateChoice) -> Floats:
        actual, predicted, both = (divide(counts[..., i], weight[..., None]) for i in range(3))
        none = divide(weight - counts[..., 1].sum(axis=-1), weight)  # predicted to be of no class
        spread = (actual * (1.0 - actual)).sum(axis=-1)
        predicted_spread = (predicted * (1.0 - predicted)).sum(axis=-1) + none * (1.0 - none)
        covariance = (both - actual * predicted).sum(axis=-1)
        correlation = divide(covariance, np.sqrt(spread) * np.sqrt(predicted_spread))
        return np.clip(correlation, -1.0, 1.0)  # rounding alone can leave the range
