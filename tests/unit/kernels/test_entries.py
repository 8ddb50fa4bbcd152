"""Entry lists against plain dictionaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from assay.kernels.entries import collect, combine, distinct

FORMS = pytest.mark.parametrize("form", ["compiled", "plain"])


def of(kernel, form):
    return kernel if form == "compiled" else kernel.py_func


@FORMS
def test_distinct_gives_each_key_its_place(form):
    keys = np.random.default_rng(0).integers(0, 2**32, 50, np.uint32)[np.random.default_rng(1).integers(0, 50, 400)]
    place, unique = of(distinct, form)(keys, 64)
    assert (unique[place] == keys).all()
    assert unique.tolist() == list(dict.fromkeys(keys.tolist()))


@FORMS
def test_distinct_stops_past_the_limit(form):
    _, unique = of(distinct, form)(np.arange(10, dtype=np.uint32), 10)
    assert len(unique) == 10
    _, unique = of(distinct, form)(np.arange(1000, dtype=np.uint32), 10)
    assert len(unique) == 11


def test_distinct_of_nothing():
    place, unique = distinct(np.zeros(0, np.uint32), 4)
    assert len(place) == len(unique) == 0


def random_entries(rng, size):
    codes = np.unique(rng.integers(0, 40, size))
    return codes, rng.integers(0, 3, (len(codes), 2)) + np.array([1, 0])


@FORMS
@pytest.mark.parametrize("sizes", [(20, 20), (0, 5), (5, 0), (0, 0)])
def test_combine_adds_and_subtracts(form, sizes):
    rng = np.random.default_rng(2)
    left, right = (random_entries(rng, size) for size in sizes)
    codes, weight = of(combine, form)(*left, *right, 1)
    for column in (0, 1):
        expected = Counter(dict(zip(left[0].tolist(), left[1][:, column].tolist(), strict=True)))
        expected.update(dict(zip(right[0].tolist(), right[1][:, column].tolist(), strict=True)))
        assert dict(zip(codes.tolist(), weight[:, column].tolist(), strict=True)) == dict(expected)
    assert (np.diff(codes) > 0).all()
    back = of(combine, form)(codes, weight, *right, -1)
    assert back[0].tolist() == left[0].tolist()
    assert back[1].tolist() == left[1].tolist()


def test_collect_sums_repeats():
    codes, weight = collect(np.array([5, 2, 5]), np.array([[1, 0], [0, 2], [0, 4]]))
    assert codes.tolist() == [2, 5]
    assert weight.tolist() == [[0, 2], [1, 4]]
    assert len(collect(np.zeros(0, np.int64), np.zeros((0, 2), np.int64))[0]) == 0
