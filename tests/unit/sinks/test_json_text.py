"""Values as JSON, read back by another implementation."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.sinks.json_text import json_texts, json_type
from assay.sinks.jsonl import json_lines


@given(st.lists(st.none() | st.text()))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_texts_come_back(values: list[str | None]) -> None:
    assert [json.loads(text) for text in json_texts(pa.array(values, pa.string())).to_pylist()] == values


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_doubles_come_back_to_the_bit(values: list[float | None]) -> None:
    read = [json.loads(text) for text in json_texts(pa.array(values, pa.float64())).to_pylist()]
    assert list(map(repr, read)) == list(map(repr, values))


def test_single_floats_have_their_own_digits() -> None:
    values = np.array([0.1, 1 / 3, 3.4028235e38, 1e-45, 16777216.0], np.float32)
    texts = json_texts(pa.array(values)).to_pylist()
    assert texts[0] == "0.1"
    np.testing.assert_array_equal(np.array([json.loads(text) for text in texts], np.float32), values)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (2**63 - 1, pa.int64(), "9223372036854775807"),
        (2**64 - 1, pa.uint64(), "18446744073709551615"),
        (True, pa.bool_(), "true"),
        (3.0, pa.float64(), "3.0"),
        (-0.0, pa.float64(), "-0.0"),
        (float("nan"), pa.float32(), '"NaN"'),
        (float("inf"), pa.float64(), '"Infinity"'),
        (float("-inf"), pa.float64(), '"-Infinity"'),
        (Decimal("12.30"), pa.decimal128(20, 2), '"12.30"'),
        (date(2013, 1, 31), pa.date32(), '"2013-01-31"'),
        (time(8, 30, 0, 5), pa.time64("us"), '"08:30:00.000005"'),
        (datetime(2013, 1, 31, 8, 30), pa.timestamp("s"), '"2013-01-31T08:30:00"'),
        (datetime(2013, 1, 31, 8, 30), pa.timestamp("us", "UTC"), '"2013-01-31T08:30:00.000000Z"'),
        (timedelta(seconds=2), pa.duration("ms"), "2000"),
        (None, pa.null(), "null"),
        ('a\u0001"\\\u2028é\U0001f600', pa.large_string(), '"a\\u0001\\"\\\\\u2028é\U0001f600"'),
        ([], pa.list_(pa.int32()), "[]"),
        ([[1.5], None, []], pa.list_(pa.list_(pa.float32())), "[[1.5],null,[]]"),
        ([1.0, 2.0], pa.list_(pa.float32(), 2), "[1.0,2.0]"),
        ({"a": None, 'b"': "x"}, pa.struct([("a", pa.int8()), ('b"', pa.string())]), '{"a":null,"b\\"":"x"}'),
        ([("k", 1), ("k", None)], pa.map_(pa.string(), pa.int8()), '[{"key":"k","value":1},{"key":"k","value":null}]'),
        ("x", pa.dictionary(pa.int8(), pa.string()), '"x"'),
        ([{"d": "x"}], pa.list_(pa.struct([("d", pa.dictionary(pa.int8(), pa.string()))])), '[{"d":"x"}]'),
    ],
)
def test_the_form_of_each_type(value: object, kind: pa.DataType, text: str) -> None:
    stored = json_type(kind)
    assert stored is not None
    column = pa.concat_arrays([_array(value, kind), pa.nulls(1, kind)]).slice(0, 2)
    assert json_texts(column.cast(stored)).to_pylist() == [text, "null"]
    assert json_texts(column.cast(stored).slice(1)).to_pylist() == ["null"]


def _array(value: object, kind: pa.DataType) -> pa.Array:
    return pa.array([value], kind)


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.binary(4), pa.list_(pa.binary()), pa.struct([("a", pa.binary())])]
)
def test_bytes_have_no_form(kind: pa.DataType) -> None:
    assert json_type(kind) is None


def test_lines_hold_every_column_of_a_slice() -> None:
    table = pa.table({"id": [1, 2, 3], "ta\tg": [["a"], None, ["b", None]], "s": [{"x": 1}, None, {"x": None}]})
    lines = json_lines(table.slice(1)).decode().splitlines()
    assert [json.loads(line) for line in lines] == table.slice(1).to_pylist()
    assert json_lines(table.slice(3)) == b""


def test_list_views_are_refused() -> None:
    views = (pa.list_view(pa.int32()), pa.large_list_view(pa.int32()))
    assert [json_type(view) for view in views] == [None, None]
    assert json_type(pa.struct([("a", views[0])])) is None
