"""States that are sums: zeros of the declared shapes, bytes that are exact, and limbs that carry."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from assay.metrics.additive import AdditiveState
from assay.records import Sizes
from assay.states import num_bytes

SIZES = Sizes(num_slices=3, num_buckets=4)
CARRY = 1 << 32


class Counted(AdditiveState):
    limbs: ClassVar[frozenset[str]] = frozenset({"sum"})

    def shapes(self, sizes):
        return {"rows": (sizes.num_slices,), "sum": (sizes.num_slices, sizes.num_buckets, 2)}


def test_zero_and_its_bytes():
    zero = Counted().zero(SIZES)
    assert {name: (one.shape, one.dtype, one.any()) for name, one in zero.items()} == {
        "rows": ((3,), np.int64, False),
        "sum": ((3, 4, 2), np.int64, False),
    }
    assert Counted().num_bytes(SIZES, None) == Counted().num_bytes(SIZES, 7) == num_bytes(zero) == 8 * (3 + 24)


def test_limbs_carry_and_counts_do_not():
    one = {"rows": np.array([CARRY - 1]), "sum": np.array([[[CARRY - 1, 0]]])}
    twice = Counted().merge(one, one)
    assert (twice["rows"].tolist(), twice["sum"].tolist()) == ([2 * CARRY - 2], [[[CARRY - 2, 1]]])
    once = Counted().subtract(twice, one)
    assert (once["rows"].tolist(), once["sum"].tolist()) == ([CARRY - 1], [[[CARRY - 1, 0]]])
