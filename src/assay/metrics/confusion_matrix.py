"""The confusion matrix of many classes, as the list of its cells that have rows. Axes: m cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.kernels.entries import collect, combine
from assay.kernels.scatter import add_counts
from assay.metrics.class_rows import actual_classes, predicted_classes
from assay.records import Block, Curve, Sizes, State
from assay.states import ints

MOST_CLASSES = 1 << 20
_CLASS_BITS = 21
_SLICE_SHIFT = 2 * _CLASS_BITS
_ENTRY_BYTES = 3 * 8
_TABLE_CELLS = 1 << 16  # a table of this size costs less than sorting, whatever the number of rows


@dataclass(frozen=True, slots=True)
class ConfusionMatrix:
    """The cells that have rows: codes [m] increasing, and rows, weight [m].

    A code is slice << 42 | class << 21 | predicted class + 1, with 0 for a prediction that is none of the classes.
    """

    num_classes: int

    @property
    def identity(self) -> str:
        return f"confusion_matrix(classes={self.num_classes}).v1"

    def zero(self, sizes: Sizes) -> State:
        if self.num_classes > MOST_CLASSES or sizes.num_slices >= 1 << (63 - _SLICE_SHIFT):
            raise ValueError(
                f"A confusion matrix of {self.num_classes} classes in {sizes.num_slices} slices is too large; "
                f"it takes at most {MOST_CLASSES} classes."
            )
        return {name: np.zeros(0, np.int64) for name in ("codes", "rows", "weight")}

    def update(self, state: State, block: Block) -> State:
        actual = actual_classes(block, self.num_classes).astype(np.int64)
        predicted = predicted_classes(block, self.num_classes).astype(np.int64)
        num_slices = int(block.slices.max(initial=0)) + 1
        if num_slices * self.num_classes * (self.num_classes + 1) <= max(_TABLE_CELLS, block.slices.size):
            return self.merge(state, self._tabled(block, actual, predicted, num_slices))
        codes = (block.slices.astype(np.int64) << _SLICE_SHIFT) | (actual << _CLASS_BITS) | (predicted + 1)
        both = np.stack([np.ones_like(block.weight), block.weight], axis=1)
        codes, both = collect(codes.reshape(-1), np.tile(both, (len(codes), 1)))
        return self.merge(state, {"codes": codes, "rows": both[:, 0], "weight": both[:, 1]})

    def _tabled(self, block: Block, actual: NDArray[np.int64], predicted: NDArray[np.int64], num_slices: int) -> State:
        """The block's cells, by way of a table of all of them: no row is sorted."""
        table = np.zeros((2, num_slices, self.num_classes, self.num_classes + 1), np.int64)
        place = (actual * (self.num_classes + 1) + predicted + 1).astype(np.int32)
        for cells, counted in zip(table, (np.ones_like(block.weight), block.weight), strict=True):
            add_counts(counted, block.slices, place, cells.reshape(num_slices, -1))
        one, a, p = np.nonzero(table[0])
        codes = (one.astype(np.int64) << _SLICE_SHIFT) | (a.astype(np.int64) << _CLASS_BITS) | p
        return {"codes": codes, "rows": table[0, one, a, p], "weight": table[1, one, a, p]}

    def merge(self, left: State, right: State) -> State:
        return _combine(left, right, 1)

    def subtract(self, whole: State, part: State) -> State:
        return _combine(whole, part, -1)

    def num_bytes(self, sizes: Sizes, rows: int | None) -> int:
        cells = sizes.num_slices * self.num_classes * (self.num_classes + 1)
        return _ENTRY_BYTES * (cells if rows is None else min(cells, rows * sizes.num_dimensions))

    def curves(self, state: State, weight_unit: float) -> tuple[Curve, ...]:
        """One `confusion` curve per slice with rows: class (x) and predicted class (y; -1: none of them) of each cell.

        The positive weight of a cell is its weight where the two are the same, else 0.
        """
        codes, rows, weight = (ints(state, name) for name in ("codes", "rows", "weight"))
        slices, mask = codes >> _SLICE_SHIFT, (1 << _CLASS_BITS) - 1
        curves = []
        for one in np.unique(slices):
            chosen = slices == one
            actual, predicted = (codes[chosen] >> _CLASS_BITS) & mask, (codes[chosen] & mask) - 1
            real = weight[chosen] * weight_unit
            x, y = actual.astype(np.float64), predicted.astype(np.float64)
            curves.append(Curve("confusion", int(one), x, y, rows[chosen], real, np.where(x == y, real, 0.0)))
        return tuple(curves)


def _combine(left: State, right: State, sign: int) -> State:
    pairs = [np.stack([ints(one, "rows"), ints(one, "weight")], axis=1) for one in (left, right)]
    codes, both = combine(ints(left, "codes"), pairs[0], ints(right, "codes"), pairs[1], sign)
    return {"codes": codes, "rows": both[:, 0].copy(), "weight": both[:, 1].copy()}
