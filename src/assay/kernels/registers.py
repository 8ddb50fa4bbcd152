"""HyperLogLog registers: how many distinct hashes there are, nearly, in 4,096 small integers. Axes: n hashes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.kernels.compiled import kernel

NUM_REGISTERS = 4096
REGISTER_BITS = 12
RANK_BITS = 64 - REGISTER_BITS


@kernel
def raise_registers(hashes: NDArray[np.uint64], chosen: NDArray[np.bool_], registers: NDArray[np.int64]) -> None:
    """Let the registers [4096] see the hashes [n] that are chosen [n].

    The upper 12 bits of a hash name its register, which keeps the longest run of leading zeros in the other 52, and
    one more.
    """
    for i in range(len(hashes)):
        if chosen[i]:
            register = np.int64(hashes[i] >> np.uint64(RANK_BITS))
            rest = np.int64(hashes[i] & np.uint64((1 << RANK_BITS) - 1))
            seen = registers[register]
            # most hashes raise nothing: one comparison tells
            while seen <= RANK_BITS and rest < (1 << (RANK_BITS - seen)):
                seen += 1
            registers[register] = seen
