"""Exact sums over the rows that have a value, and what exact sums allow: moments that lose nothing to cancellation.

Axes: n rows, S slices, B buckets, L limbs. A pooled array is [S, 1 + B], as in `pooled.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.deviances import products
from assay.kernels.scatter import DOUBLE_LIMBS, DOUBLE_UNIT_EXPONENT, add_counts, add_doubles
from assay.metrics.additive import AdditiveState
from assay.records import Block, Bools, Floats, Sizes, State
from assay.states import carry, ints, pooled, to_float

Terms = tuple[Floats, ...]
"""[n] each: what a row enters is their exact sum; a row where one is NaN has no value."""
Integers = NDArray[np.object_]
"""Python integers of any size, in units of 2^-128."""

UNITS_TO_ONE = 1 << -DOUBLE_UNIT_EXPONENT


@dataclass(frozen=True, slots=True)
class TermSum(AdditiveState):
    """The exact weighted sum of the rows that have a value: sum [S, B, 10 limbs] in units of 2^-128.

    rows, weight [S, B]: of the rows that have a value. overflow [S, B] counts terms of 2^127 or more in magnitude; the
    sum is then undefined.
    """

    identity: str
    terms: Callable[[Block], Terms]
    limbs: ClassVar[frozenset[str]] = frozenset({"sum"})

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        cells = (sizes.num_slices, sizes.num_buckets)
        return {"rows": cells, "weight": cells, "overflow": cells, "sum": (*cells, DOUBLE_LIMBS)}

    def update(self, state: State, block: Block) -> State:
        terms = self.terms(block)
        known = ~np.isnan(terms[0])
        for one in terms[1:]:
            known &= ~np.isnan(one)
        weight, slices, bucket = block.weight, block.slices, block.bucket
        if not known.all():
            terms = tuple(one[known] for one in terms)
            weight, bucket, slices = weight[known], bucket[known], np.ascontiguousarray(slices[:, known])
        limbs, overflow = ints(state, "sum"), ints(state, "overflow")
        add_counts(np.ones_like(weight), slices, bucket, ints(state, "rows"))
        add_counts(weight, slices, bucket, ints(state, "weight"))
        for one in terms:
            add_doubles(one, weight, slices, bucket, limbs, overflow)
            limbs = carry(limbs)
        return {**state, "sum": limbs}


class Pooled(NamedTuple):
    """A TermSum read: each [S, 1 + B]."""

    limbs: NDArray[np.int64]  # [S, 1 + B, L] canonical
    rows: NDArray[np.int64]
    weight: NDArray[np.int64]
    overflow: Bools

    @property
    def mean(self) -> Floats:
        """NaN where no row has a value."""
        total = to_float(self.limbs, 2.0**DOUBLE_UNIT_EXPONENT)
        result = np.full(total.shape, np.nan)
        np.divide(total, self.weight, out=result, where=self.weight != 0)
        return result


def pooled_terms(states: Mapping[str, State], accumulator: TermSum) -> Pooled:
    """The state of a TermSum over all buckets, then without each."""
    state = states[accumulator.identity]
    limbs = carry(pooled(ints(state, "sum")))
    rows, weight, overflow = (pooled(ints(state, name)) for name in ("rows", "weight", "overflow"))
    return Pooled(limbs, rows, weight, overflow > 0)


def square_terms(value: Floats) -> Terms:
    """The squares of values [n], exactly, down to 2^-128."""
    return product_terms(value, value)


def product_terms(one: Floats, other: Floats) -> Terms:
    """The products of values [n], exactly, down to 2^-128."""
    high, low = products(one, other)
    return high, low


def integers(limbs: NDArray[np.int64]) -> Integers:
    """The sums [...] that canonical limbs [..., L] hold, as Python integers.

    >>> integers(np.array([[5, 0], [(1 << 32) - 1, -1]])).tolist()
    [5, -1]
    """
    count = limbs.shape[-1]
    low = np.ascontiguousarray(limbs[..., :-1], "<u4").reshape(-1, count - 1)
    top = limbs[..., -1].reshape(-1).tolist()
    result = np.empty(len(low), np.object_)
    for i, (row, sign) in enumerate(zip(low, top, strict=True)):
        result[i] = int.from_bytes(row.tobytes(), "little") + (sign << 32 * (count - 1))
    return result.reshape(limbs.shape[:-1])


def spread(weight: Integers, first: Integers, second: Integers) -> Integers:
    """weight * sum of squares - (sum)^2, exactly: weight^2 times the variance. In units of 2^-256.

    first, second: sums of values and of their squares, as `integers`; of products, see `common_spread`.
    """
    return common_spread(weight, first, first, second)


def common_spread(weight: Integers, first: Integers, other: Integers, product: Integers) -> Integers:
    """weight * sum of products - sum of one * sum of the other, exactly: weight^2 times the covariance."""
    result: Integers = weight * product * UNITS_TO_ONE - first * other
    return result


def quotient(numerator: Integers, denominator: Integers) -> Floats:
    """numerator / denominator of integers, correctly rounded; NaN where the denominator is 0."""
    pairs = zip(numerator.reshape(-1).tolist(), denominator.reshape(-1).tolist(), strict=True)
    values = [_divided(above, below) for above, below in pairs]
    return np.array(values, np.float64).reshape(numerator.shape)


def objects(array: NDArray[Any]) -> Integers:  # Any: of either integer width
    """An integer array as Python integers, so that nothing overflows."""
    return array.astype(np.object_)


def _divided(above: int, below: int) -> float:
    if below == 0:
        return float("nan")
    try:
        return above / below
    except OverflowError:  # beyond the largest double
        return float("-inf") if (above < 0) != (below < 0) else float("inf")
