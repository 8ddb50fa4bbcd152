"""Accumulators that are plain sums over rows, by slice and bucket.

Axes: n rows, S slices, B buckets. `contributions` and `values` are functions of a block at module level, so that an
accumulator can be pickled and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from assay.kernels.elementary import UNIT, log_losses
from assay.kernels.scatter import DOUBLE_LIMBS, add_counts, add_doubles, add_products
from assay.metrics.additive import AdditiveState
from assay.records import Block, Bucketed, Sizes, State
from assay.states import carry, ints

BOUNDED_UNIT = 1.0 / UNIT
"""The unit of a BoundedSum."""


@dataclass(frozen=True, slots=True)
class Support(AdditiveState):
    """How many rows there are and what they weigh: rows, weight [S, B, 2], the last axis being negative, positive.

    Weights are integers and stay below 2^63 for 10^11 rows of the largest weight.
    """

    identity: ClassVar[str] = "support.v1"

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        return dict.fromkeys(("rows", "weight"), (sizes.num_slices, sizes.num_buckets, 2))

    def update(self, state: State, block: Block) -> State:
        place = by_class(block.bucket, block)
        rows, weight = ints(state, "rows"), ints(state, "weight")
        add_counts(np.ones_like(block.weight), block.slices, place, rows.reshape(len(rows), -1))
        add_counts(block.weight, block.slices, place, weight.reshape(len(weight), -1))
        return state


SUPPORT = Support()


@dataclass(frozen=True, slots=True)
class BoundedSum(AdditiveState):
    """The exact weighted sum of integer contributions, |q| < 2^37 in units of 2^-32: sum [S, B, 2 limbs]."""

    identity: str
    contributions: Callable[[Block], NDArray[np.int64]]  # [n]
    limbs: ClassVar[frozenset[str]] = frozenset({"sum"})

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        return {"sum": (sizes.num_slices, sizes.num_buckets, 2)}

    def update(self, state: State, block: Block) -> State:
        add_products(self.contributions(block), block.weight, block.slices, block.bucket, ints(state, "sum"))
        return state


@dataclass(frozen=True, slots=True)
class DoubleSum(AdditiveState):
    """The exact weighted sum of doubles below 2^127: sum [S, B, 10 limbs] in units of 2^-128.

    overflow [S, B] counts the rows that are larger; the sum is then undefined.
    """

    identity: str
    values: Callable[[Block], NDArray[np.float64]]  # [n]
    limbs: ClassVar[frozenset[str]] = frozenset({"sum"})

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        cells = (sizes.num_slices, sizes.num_buckets)
        return {"sum": (*cells, DOUBLE_LIMBS), "overflow": cells}

    def update(self, state: State, block: Block) -> State:
        limbs, overflow = ints(state, "sum"), ints(state, "overflow")
        add_doubles(self.values(block), block.weight, block.slices, block.bucket, limbs, overflow)
        return {"sum": carry(limbs), "overflow": overflow}


def num_bucketed(num_slices: int, bucketed: Bucketed) -> int:
    """How many slices, from the first, keep the buckets of a costly state."""
    return {"all": num_slices, "overall": 1, "none": 0}[bucketed]


def by_class(place: NDArray[np.int32], block: Block) -> NDArray[np.int32]:
    """The place [n] of each row in cells with a last axis of negative, positive."""
    return np.asarray(2 * place + block.positive, np.int32)


def probability_of(block: Block) -> NDArray[np.float32]:
    """The block's probabilities [n], where the caller has made sure that the output has them."""
    if block.probability is None:
        raise ValueError("A metric needs a probability, and the output is a plain score; declare what the output `is`.")
    return block.probability


def to_units(value: NDArray[np.float64]) -> NDArray[np.int64]:
    """Values [n] below 32 in magnitude as integers in units of 2^-32, rounded half to even."""
    return np.rint(value * UNIT).astype(np.int64)


def log_loss_units(block: Block) -> NDArray[np.int64]:
    return np.asarray(log_losses(probability_of(block), block.positive))


def brier_units(block: Block) -> NDArray[np.int64]:
    error = probability_of(block).astype(np.float64) - block.positive
    return to_units(error * error)


def probability_units(block: Block) -> NDArray[np.int64]:
    return to_units(probability_of(block).astype(np.float64))


def score_values(block: Block) -> NDArray[np.float64]:
    return block.raw if block.probability is None else block.probability.astype(np.float64)


def absolute_errors(block: Block) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):  # infinity is counted as overflow
        return np.abs(block.raw - block.label)


def squared_errors(block: Block) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):  # infinity is counted as overflow
        error = block.raw - block.label
        return error * error


LOG_LOSS_SUM = BoundedSum("log_loss(clip=2^-24).v1", log_loss_units)
BRIER_SUM = BoundedSum("brier.v1", brier_units)
PROBABILITY_SUM = BoundedSum("probability_sum.v1", probability_units)
SCORE_SUM = DoubleSum("score_sum.v1", score_values)
ABSOLUTE_ERROR_SUM = DoubleSum("absolute_error.v1", absolute_errors)
SQUARED_ERROR_SUM = DoubleSum("squared_error.v1", squared_errors)
