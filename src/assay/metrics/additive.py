"""States that are sums: what every accumulator shares whose arrays start at zero and are added.

Not here: what is added (`sums.py`, `terms.py`, and beside the metrics), and states that are lists of entries.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from assay.records import Sizes, State
from assay.states import add_states, subtract_states

_INT_BYTES = 8


class AdditiveState(ABC):
    """An accumulator of int64 arrays of fixed shapes. Subclasses say which, and how rows enter them."""

    __slots__ = ()
    limbs: ClassVar[frozenset[str]] = frozenset()
    """The arrays whose last axis is limbs: they carry."""

    @abstractmethod
    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        """The shape of each array."""

    def zero(self, sizes: Sizes) -> State:
        return {name: np.zeros(shape, np.int64) for name, shape in self.shapes(sizes).items()}

    def merge(self, left: State, right: State) -> State:
        return add_states(left, right, self.limbs)

    def subtract(self, whole: State, part: State) -> State:
        return subtract_states(whole, part, self.limbs)

    def num_bytes(self, sizes: Sizes, rows: int | None) -> int:
        """Exact, however many rows there are."""
        return _INT_BYTES * sum(math.prod(shape) for shape in self.shapes(sizes).values())
