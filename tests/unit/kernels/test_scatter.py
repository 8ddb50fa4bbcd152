"""Scattering adds exactly what exact arithmetic adds, compiled and as plain Python."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from assay.kernels.scatter import DOUBLE_LIMBS, add_counts, add_doubles, add_products

FORMS = pytest.mark.parametrize("form", ["compiled", "plain"])
SLICES = np.array([[0, 0, 0, 0], [1, 2, 1, 2]], np.int32)
PLACE = np.array([0, 1, 1, 0], np.int32)


def of(kernel, form):
    return kernel if form == "compiled" else kernel.py_func


def whole(limbs):
    return sum(int(limb) << (32 * i) for i, limb in enumerate(limbs))


@FORMS
def test_counts_go_to_every_dimension(form):
    cells = np.zeros((3, 2), np.int64)
    of(add_counts, form)(np.array([1, 2, 4, 8]), SLICES, PLACE, cells)
    assert cells.tolist() == [[9, 6], [1, 4], [8, 2]]


@FORMS
def test_products_are_exact_and_stay_canonical(form):
    rng = np.random.default_rng(0)
    quantity, weight = rng.integers(-(2**37) + 1, 2**37, 4), rng.integers(1, 2**26, 4, endpoint=True)
    cells = np.zeros((3, 2, 2), np.int64)
    for _ in range(3):
        of(add_products, form)(quantity, weight, SLICES, PLACE, cells)
    for s, m, rows in [(0, 0, [0, 3]), (0, 1, [1, 2]), (1, 0, [0]), (2, 1, [1])]:
        assert whole(cells[s, m]) == 3 * sum(int(quantity[i]) * int(weight[i]) for i in rows)
    assert ((cells[..., 0] >= 0) & (cells[..., 0] < 2**32)).all()


@FORMS
def test_doubles_are_exact_down_to_two_to_the_minus_128(form):
    rng = np.random.default_rng(1)
    value = rng.choice([-1.0, 1.0], 60) * np.exp2(rng.uniform(-70, 127, 60))
    value[:4] = [2.0**127 * (1 - 2.0**-53), -(2.0**-128), 0.0, -0.0]
    weight = rng.integers(1, 2**26, 60, endpoint=True)
    cells, overflow = np.zeros((1, 1, DOUBLE_LIMBS), np.int64), np.zeros((1, 1), np.int64)
    slices, place = np.zeros((1, 60), np.int32), np.zeros(60, np.int32)
    of(add_doubles, form)(value, weight, slices, place, cells, overflow)
    expected = sum(Fraction(float(v)) * int(w) for v, w in zip(value, weight, strict=True))
    assert Fraction(whole(cells[0, 0]), 2**128) == expected
    assert overflow.tolist() == [[0]]


@FORMS
def test_bits_below_the_unit_are_cut_off_row_by_row(form):
    value = np.array([1.75 * 2.0**-128, -1.75 * 2.0**-128, 2.0**-129, 5e-324])
    cells, overflow = np.zeros((3, 2, DOUBLE_LIMBS), np.int64), np.zeros((3, 2), np.int64)
    of(add_doubles, form)(value, np.ones(4, np.int64), SLICES, np.arange(4, dtype=np.int32) // 2, cells, overflow)
    assert [whole(one) for one in cells[1]] == [1, 0]
    assert [whole(one) for one in cells[2]] == [-1, 0]


@FORMS
def test_large_values_are_counted_not_added(form):
    value = np.array([2.0**127, np.inf, np.nan, -(2.0**200)])
    cells, overflow = np.zeros((3, 2, DOUBLE_LIMBS), np.int64), np.zeros((3, 2), np.int64)
    of(add_doubles, form)(value, np.full(4, 3), SLICES, PLACE, cells, overflow)
    assert not cells.any()
    assert overflow.tolist() == [[2, 2], [1, 1], [1, 1]]


def test_no_rows_change_nothing():
    cells = np.zeros((3, 2), np.int64)
    add_counts(np.zeros(0, np.int64), np.zeros((2, 0), np.int32), np.zeros(0, np.int32), cells)
    assert not cells.any()
