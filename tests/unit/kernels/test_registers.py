"""Registers keep the longest run of leading zeros of their hashes, plus one."""

from __future__ import annotations

import numpy as np

from assay.kernels.registers import NUM_REGISTERS, RANK_BITS, raise_registers


def registers_of(hashes: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
    registers = np.zeros(NUM_REGISTERS, np.int64)
    raise_registers(hashes, np.ones(len(hashes), np.bool_) if chosen is None else chosen, registers)
    return registers


def test_by_hand() -> None:
    registers = registers_of(np.array([0, (1 << 52) | (1 << 51), (1 << 52) | 1], np.uint64))
    assert registers[:3].tolist() == [53, 52, 0]


def test_what_is_not_chosen_is_not_seen() -> None:
    registers = registers_of(np.array([0, 1 << 52], np.uint64), np.array([False, True]))
    assert registers[:2].tolist() == [0, 53]


def test_against_the_definition() -> None:
    hashes = np.random.default_rng(3).integers(0, 2**64, 20_000, np.uint64, endpoint=False)
    hashes[::7] >>= np.uint64(30)
    expected = np.zeros(NUM_REGISTERS, np.int64)
    for one in hashes.tolist():
        register, rest = one >> RANK_BITS, one & ((1 << RANK_BITS) - 1)
        expected[register] = max(expected[register], RANK_BITS - rest.bit_length() + 1)
    assert registers_of(hashes).tolist() == expected.tolist()


def test_compiled_or_not_is_the_same() -> None:
    hashes = np.random.default_rng(4).integers(0, 2**64, 500, np.uint64, endpoint=False)
    plain = np.zeros(NUM_REGISTERS, np.int64)
    raise_registers.py_func(hashes, np.ones(500, np.bool_), plain)
    assert plain.tolist() == registers_of(hashes).tolist()
