"""Rows as JSON, whatever their types."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from assay.row_sample import row_sample


def shown(values: pa.Array) -> Any:
    """The first value, out of JSON."""
    return json.loads(row_sample(pa.table({"x": values}), ["x"], [0]))[0]["x"]


def test_three_rows_at_most_in_the_order_asked_for() -> None:
    table = pa.table({"x": [1, 2, 3, 4, 5], "y": list("abcde")})
    assert row_sample(table, ["y", "x"], [4, 0, 2, 1]) == (
        '[{"y": "e", "x": 5}, {"y": "a", "x": 1}, {"y": "c", "x": 3}]'
    )


def test_columns_that_the_table_does_not_have_are_left_out() -> None:
    assert row_sample(pa.table({"x": [1]}), ["y", "x"], [0]) == '[{"x": 1}]'


@pytest.mark.parametrize(("columns", "rows"), [(["y"], [0]), ([], [0]), (["x"], [])])
def test_nothing_to_show_is_no_text(columns: list[str], rows: list[int]) -> None:
    assert row_sample(pa.table({"x": [1]}), columns, rows) == ""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([None], pa.int64()), None),
        (pa.array([True]), True),
        (pa.array([2**63], pa.uint64()), 2**63),
        (pa.array([0.5]), 0.5),
        (pa.array([float("nan")]), "nan"),
        (pa.array([float("-inf")]), "-inf"),
        (pa.array(["ü"]).dictionary_encode(), "ü"),
        (pa.array([b"\xff\x00"]), "b'\\xff\\x00'"),
        (pa.array([decimal.Decimal("1.50")]), "1.50"),
        (pa.array([datetime.date(2024, 2, 29)]), "2024-02-29"),
        (pa.array([1], pa.timestamp("us", "UTC")), "1970-01-01 00:00:00.000001+00:00"),
        (pa.array([2**62], pa.timestamp("s")), "<value out of range: 4611686018427387904>"),
        (pa.array([[2**62]], pa.list_(pa.timestamp("s"))), "a list<item: timestamp[s]>"),
        (pa.array([datetime.timedelta(seconds=90)]), "0:01:30"),
        (pa.array([[1.5, None, float("inf")]]), [1.5, None, "inf"]),
        (pa.array([{"a": [b"x"], "b": None}]), {"a": ["b'x'"], "b": None}),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), [["k", 1]]),
        (pa.array([[0.5, 1.0]], pa.list_(pa.float32(), 2)), [0.5, 1.0]),
        (pa.nulls(1), None),
    ],
)
def test_every_type_has_a_form(values: pa.Array, expected: object) -> None:
    assert shown(values) == expected


def test_what_is_long_is_cut() -> None:
    assert shown(pa.array(["x" * 200])) == "x" * 200
    assert shown(pa.array(["x" * 201])) == "x" * 200 + "..."
    assert shown(pa.array([b"x" * 10_000]))[:3] == "b'x"
    assert len(shown(pa.array([b"x" * 10_000]))) == 203
    assert shown(pa.array([[10] * 100])) == [10] * 100
    assert shown(pa.array([[10] * 101])) == [*[10] * 100, "..."]
    assert shown(pa.array([["x" * 300] * 4])) == ["x" * 200 + "...", "..."]
