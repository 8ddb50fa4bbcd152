"""What a variant changes, not how good it is: its predictions beside the baseline's, on the rows that both have.

A row where the baseline has no score does not enter; where none enters there is no baseline to compare with. The score
is the probability where the output has one, else the raw score. Axes: n rows, S slices, B buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from assay.kernels.scatter import add_counts
from assay.metrics.additive import AdditiveState
from assay.metrics.pooled import Counts, PooledMetric, Reasons, divide
from assay.metrics.rare import unless_rare
from assay.metrics.sums import SUPPORT, score_values
from assay.metrics.terms import (
    Terms,
    TermSum,
    common_spread,
    integers,
    objects,
    pooled_terms,
    product_terms,
    quotient,
    spread,
    square_terms,
)
from assay.metrics.threshold import ThresholdMetric, predicted_positive
from assay.protocols import Accumulator, Direction
from assay.records import Block, Floats, LabelKind, Replicates, Sizes, State, StateChoice, Undefined
from assay.states import ints, pooled


def reference_of(block: Block) -> NDArray[np.float64]:
    """The baseline's score [n], NaN where it has none."""
    return np.full(len(block.raw), np.nan) if block.reference is None else block.reference


def common_scores(block: Block) -> NDArray[np.float64]:
    """The variant's score [n], NaN where the baseline has none."""
    return np.where(np.isnan(reference_of(block)), np.nan, score_values(block))


def score_terms(block: Block) -> Terms:
    return (common_scores(block),)


def reference_terms(block: Block) -> Terms:
    return (reference_of(block),)


def score_square_terms(block: Block) -> Terms:
    return square_terms(common_scores(block))


def reference_square_terms(block: Block) -> Terms:
    return square_terms(reference_of(block))


def product_with_reference(block: Block) -> Terms:
    return product_terms(score_values(block), reference_of(block))


def difference_terms(block: Block) -> Terms:
    return score_values(block), -reference_of(block)


def distance_terms(block: Block) -> Terms:
    """The larger score and minus the smaller: their exact sum is |score - baseline's|."""
    score, reference = score_values(block), reference_of(block)
    return np.maximum(score, reference), -np.minimum(score, reference)


COMMON_SCORE_SUM = TermSum("agreement_score.v1", score_terms)
REFERENCE_SUM = TermSum("agreement_reference.v1", reference_terms)
COMMON_SCORE_SQUARES = TermSum("agreement_score_squares.v1", score_square_terms)
REFERENCE_SQUARES = TermSum("agreement_reference_squares.v1", reference_square_terms)
REFERENCE_PRODUCTS = TermSum("agreement_products.v1", product_with_reference)
REFERENCE_DIFFERENCE_SUM = TermSum("agreement_differences.v1", difference_terms)
REFERENCE_DISTANCE_SUM = TermSum("agreement_distances.v1", distance_terms)


@dataclass(frozen=True, slots=True)
class Flips(AdditiveState):
    """Weight of the rows that both have scored: weight [S, B, 2], the last axis being same, other decision.

    threshold: of scores; None: the decision is the number of a class.
    """

    threshold: float | None

    @property
    def identity(self) -> str:
        return f"flips(threshold={self.threshold!r}).v1"

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        return {"weight": (sizes.num_slices, sizes.num_buckets, 2)}

    def update(self, state: State, block: Block) -> State:
        reference, weight = reference_of(block), ints(state, "weight")
        place = np.asarray(2 * block.bucket + self._flipped(block, reference), np.int32)
        known = block.weight * ~np.isnan(reference)
        add_counts(known, block.slices, place, weight.reshape(len(weight), -1))
        return state

    def _flipped(self, block: Block, reference: NDArray[np.float64]) -> NDArray[np.bool_]:
        if self.threshold is None:
            return np.asarray(block.raw != reference)
        threshold = self.threshold if block.probability is None else float(np.float32(self.threshold))
        return np.asarray(predicted_positive(block, self.threshold) != (reference >= threshold))


def flip_share(states: Mapping[str, State], flips: Flips) -> tuple[Floats, Reasons]:
    """The share of the weight with another decision, pooled."""
    weight = pooled(ints(states[flips.identity], "weight")).astype(np.float64)
    return divide(weight[..., 1], weight.sum(axis=2)), [(weight.sum(axis=2) == 0.0, Undefined.NO_BASELINE)]


def unless_few_flips(known: Replicates, states: Mapping[str, State], flips: Flips) -> Replicates:
    """Without an interval where rows that flip, or rows that do not, are in too few buckets."""
    weight = pooled(ints(states[flips.identity], "weight")).astype(np.float64)
    return unless_rare(known, weight[..., 0], weight[..., 1])


@dataclass(frozen=True)
class FlipRate(ThresholdMetric):
    """Share of rows that are on the other side of the threshold than the baseline's prediction.

    A row is on the upper side from the threshold on, so at 0.7 a probability of float32(0.7) is.
    """

    word: ClassVar[str] = "flip_rate"
    description: ClassVar[str] = "share of rows on the other side of the threshold than the baseline has them"
    label_kind: ClassVar[LabelKind | None] = None
    needs_baseline: ClassVar[bool] = True
    direction: ClassVar[Direction] = None

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, Flips(self.threshold))

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return flip_share(states, Flips(self.threshold))

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        known = PooledMetric.evaluate(self, states, choice, weight_unit)
        return unless_few_flips(known, states, Flips(self.threshold))


@dataclass(frozen=True)
class ClassFlipRate(PooledMetric):
    """Share of rows for which another class is predicted than by the baseline.

    Two predicted labels that are none of the classes count as the same.
    """

    name: ClassVar[str] = "flip_rate"
    description: ClassVar[str] = "share of rows for which another class is predicted than by the baseline"
    label_kind: ClassVar[LabelKind | None] = "class"
    needs_baseline: ClassVar[bool] = True

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, Flips(None))

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return flip_share(states, Flips(None))

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        return unless_few_flips(super().evaluate(states, choice, weight_unit), states, Flips(None))


@dataclass(frozen=True)
class MeanAgainstBaseline(PooledMetric):
    """What means of a term per row share."""

    accumulator: ClassVar[TermSum]
    label_kind: ClassVar[LabelKind | None] = None
    needs_baseline: ClassVar[bool] = True

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, self.accumulator)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        sums = pooled_terms(states, self.accumulator)
        return sums.mean, [(sums.rows == 0, Undefined.NO_BASELINE), (sums.overflow, Undefined.OVERFLOW)]


@dataclass(frozen=True)
class PredictionMeanDifference(MeanAgainstBaseline):
    """Mean of score - baseline's score, with its sign: by how much predictions rise on the whole. Exact."""

    name: ClassVar[str] = "prediction_mean_difference"
    description: ClassVar[str] = "mean of the prediction minus the baseline's, with its sign"
    nonnegative: ClassVar[bool] = False
    accumulator: ClassVar[TermSum] = REFERENCE_DIFFERENCE_SUM


@dataclass(frozen=True)
class PredictionAbsoluteDifference(MeanAgainstBaseline):
    """Mean of |score - baseline's score|: how much predictions move, whichever way. Exact."""

    name: ClassVar[str] = "prediction_absolute_difference"
    description: ClassVar[str] = "mean distance of the prediction from the baseline's"
    accumulator: ClassVar[TermSum] = REFERENCE_DISTANCE_SUM


@dataclass(frozen=True)
class PredictionCorrelation(PooledMetric):
    """Pearson's correlation of the score with the baseline's, from -1 to 1; exactly 1 for equal predictions.

    From exact moments, so right for any offset. Undefined where one of the two predicts a constant, and where a square
    reaches 2^127. Squares count down to 2^-128.
    """

    name: ClassVar[str] = "prediction_correlation"
    description: ClassVar[str] = "Pearson's correlation of the prediction with the baseline's"
    label_kind: ClassVar[LabelKind | None] = None
    needs_baseline: ClassVar[bool] = True
    nonnegative: ClassVar[bool] = False

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, COMMON_SCORE_SUM, REFERENCE_SUM, COMMON_SCORE_SQUARES, REFERENCE_SQUARES, REFERENCE_PRODUCTS)

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        read = [pooled_terms(states, one) for one in self.accumulators(choice)[1:] if isinstance(one, TermSum)]
        x, y, xx, yy, xy = (integers(one.limbs) for one in read)
        weight = objects(read[0].weight)
        common, one, other = common_spread(weight, x, y, xy), spread(weight, x, xx), spread(weight, y, yy)
        constant = np.asarray((one <= 0) | (other <= 0), np.bool_)
        share = np.minimum(quotient(common * common, np.where(constant, 0, one * other)), 1.0)  # bits below 2^-128
        overflow = np.logical_or.reduce([one.overflow for one in read])
        reasons = [
            (read[0].rows == 0, Undefined.NO_BASELINE),
            (overflow, Undefined.OVERFLOW),
            (constant, Undefined.CONSTANT),
        ]
        return np.where(np.asarray(common < 0, np.bool_), -1.0, 1.0) * np.sqrt(share), reasons
