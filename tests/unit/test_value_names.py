"""One name for equal values, whatever their type."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from assay.value_names import is_list, items_of, names_of, numbers_of


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (pa.array([3, None]), ["3", None]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([3.0, -0.0, 0.1, float("nan"), 1e20]), ["3", "0", "0.1", None, "1e+20"]),
        (pa.array([0.1, 3.0], pa.float32()), ["0.1", "3"]),
        (pa.array([0.5], pa.float16()), ["0.5"]),
        (pa.array([Decimal("3.00"), Decimal("0.50")]), ["3", "0.5"]),
        (pa.array(["a"]).dictionary_encode(), ["a"]),
        (pa.array([datetime.date(2013, 1, 31)]), ["2013-01-31"]),
        (pa.array([datetime.datetime(2013, 1, 31, 8, 30), datetime.datetime(2013, 1, 31)]),
         ["2013-01-31T08:30:00", "2013-01-31"]),
        (pa.array([3_600_000_000_000], pa.timestamp("ns", "Asia/Tokyo")), ["1970-01-01T01:00:00+00:00"]),
        (pa.array([datetime.time(8, 30)]), ["08:30:00"]),
        (pa.nulls(1), [None]),
    ],
)  # fmt: skip
def test_values_have_one_name(values: pa.Array, names: list[str | None]) -> None:
    assert names_of(values, "data.slices (x)").to_pylist() == names


NAN = float("nan")


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2, 1, None, 7]),
        pa.array([2.0, 1.0, NAN, 7.0]),
        pa.array([2, 1, None, 7], pa.float16()),
        pa.array(["2", "1", None, "7"]),
        pa.array(["2", "1", None, "7"], pa.string_view()),
        pa.array(["2", "1", None, "7"]).dictionary_encode(),
        pa.array([Decimal("2.0"), Decimal("1.0"), None, Decimal("7.0")]),
        pa.chunked_array([[2, 1], [None, 7]]),
        pa.chunked_array([pa.array(["2", "1"]).dictionary_encode(), pa.array([None, "7"]).dictionary_encode()]),
    ],
)
def test_values_are_numbered_by_their_names_whatever_holds_them(values: pa.Array):
    found = numbers_of(values, ["1", "2", "3"], "data.label")
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [1, 0, NAN, -1])


def test_nulls_and_nothing_are_numbered_too():
    np.testing.assert_array_equal(numbers_of(pa.nulls(2), ["a"], "data.label"), [NAN, NAN])
    assert numbers_of(pa.array([], pa.string()), ["a"], "data.label").shape == (0,)
    assert numbers_of(pa.chunked_array([], pa.string()), ["a"], "data.label").shape == (0,)


def test_more_values_than_a_narrow_code_holds():
    values = pa.array([str(i) for i in range(128)] + [None])
    narrow = values.cast(pa.dictionary(pa.int8(), pa.string()))
    np.testing.assert_array_equal(numbers_of(narrow, [str(i) for i in range(128)], "x"), [*range(128), NAN])


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2)])
def test_items_of_lists_know_their_rows(kind: pa.DataType):
    column = pa.chunked_array([pa.array([[0, 0], [1, 2], None], kind), pa.array([[3, 4]], kind)]).slice(1)
    items = items_of(column)
    assert (items.values.to_pylist(), items.rows.tolist()) == ([1, 2, 3, 4], [0, 0, 2, 2])
    assert items.missing.tolist() == [False, True, False]
    assert is_list(kind)
    assert not is_list(pa.int64())
