"""Slices: what the spec may say, which values are kept, how they are named, and where each row goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from assay.errors import DataError
from assay.expressions import Expressions
from assay.records import SliceTable
from assay.slices import SliceEncoder, escape, fit, resolve, sample_columns
from assay.spec.model import DataSpec

SAMPLE = pa.table(
    {
        "country": ["US", "DE", "US", None, "US", "DE"],
        "device": ["ios", "web", "web", "ios", "ios", "web"],
        "price": [1.0, 5.0, 10.0, 20.0, None, float("nan")],
        "hour": pa.array([9, 10, 10, 9, 2, 2], pa.int8()),
    }
)


def spec(*slices: Any, **more: Any) -> DataSpec:  # Any: as in a spec file
    return DataSpec.model_validate({"slices": list(slices), **more})


def table_of(*slices: Any, sample: pa.Table = SAMPLE, **more: Any) -> SliceTable:  # Any: as in a spec file
    return fit(spec(*slices, **more), sample)


def encode(table: SliceTable, rows: pa.Table) -> list[list[str]]:
    """The names of the slices of each row, dimension by dimension."""
    encoder = SliceEncoder(table)
    numbers = encoder(Expressions(rows.schema, encoder.expressions).evaluate(rows))
    assert numbers.dtype == np.int32
    assert not numbers[0].any()
    return [[table.names[number] for number in row] for row in numbers[1:]]


# ---- the spec --------------------------------------------------------------------------------------------------------


def test_parts_of_a_cross_that_are_not_listed_come_first() -> None:
    wanted = resolve(spec("country", ["country", "device"], {"cheap": "price < 5"}))
    assert [(one.name, one.expression, one.parts, one.listed) for one in wanted] == [
        ("device", "device", (), False),
        ("country", "country", (), True),
        ("country,device", None, ("country", "device"), True),
        ("cheap", "price < 5", (), True),
    ]


def test_the_columns_to_sample() -> None:
    data = spec(["country", "device"], {"dear": "price > 3"}, where="hour > 1")
    assert sample_columns(data, SAMPLE.schema) == ("country", "device", "price", "hour")
    assert sample_columns(spec(where="hour > 1"), SAMPLE.schema) == ()
    with pytest.raises(DataError) as caught:
        sample_columns(spec("contry"), SAMPLE.schema)
    assert str(caught.value) == "data.slices (contry): there is no column 'contry' in the data; did you mean 'country'?"


# ---- values and names ------------------------------------------------------------------------------------------------


def test_without_slices_there_is_overall() -> None:
    table = table_of()
    assert table.names == ("overall",)
    assert table.of("overall") == range(1)
    assert encode(table, SAMPLE) == []


def test_a_column_keeps_its_values_then_null_and_other() -> None:
    table = table_of("country")
    assert table.names == ("overall", "country=DE", "country=US", "country=null", "country=other")
    assert table.of("country") == range(1, 5)
    rows = pa.table({"country": ["US", None, "FR", "DE"]})
    assert encode(table, rows) == [["country=US", "country=null", "country=other", "country=DE"]]


def test_numbers_are_sorted_as_numbers() -> None:
    assert table_of("hour").names == ("overall", "hour=2", "hour=9", "hour=10", "hour=null", "hour=other")


def test_the_cap_keeps_the_most_frequent_ties_by_name() -> None:
    assert table_of("country", "hour", slice_cap=1).names == (
        "overall", "country=US", "country=null", "country=other", "hour=10", "hour=null", "hour=other",
    )  # fmt: skip


def test_only_rows_that_pass_the_filter_are_looked_at() -> None:
    table = table_of("country", where="country = 'DE'")
    assert table.names == ("overall", "country=DE", "country=null", "country=other")


def test_declared_values_need_no_sample() -> None:
    declared = {"hour": {"values": [10, 3]}}, {"cheap": {"of": "price < 6", "values": [True]}}
    table = table_of(*declared, sample=SAMPLE.slice(0, 0))
    assert table.names == (
        "overall", "hour=10", "hour=3", "hour=null", "hour=other", "cheap=true", "cheap=null", "cheap=other",
    )  # fmt: skip
    assert encode(table, SAMPLE.slice(2, 3)) == [
        ["hour=10", "hour=other", "hour=other"],
        ["cheap=other", "cheap=other", "cheap=null"],
    ]


def test_edges_are_left_closed_cells() -> None:
    table = table_of({"price": {"edges": [5, 10.5]}})
    assert table.names == ("overall", "price=..5", "price=5..10.5", "price=10.5..", "price=null", "price=other")
    assert encode(table, SAMPLE) == [
        ["price=..5", "price=5..10.5", "price=5..10.5", "price=10.5..", "price=null", "price=null"]
    ]


def test_quantiles_are_observed_values_each_once() -> None:
    sample = pa.table({"x": [1, 1, 1, 1, 1, 2, 3, 4]})
    assert table_of({"x": {"quantiles": 4}}, sample=sample).names == ("overall", "x=..2", "x=2..", "x=null", "x=other")
    constant = pa.table({"x": pa.array([7, None])})
    assert table_of({"x": {"quantiles": 4}}, sample=constant).names == ("overall", "x=..", "x=null", "x=other")


def test_a_cross_keeps_observed_combinations_in_the_parts_order() -> None:
    table = table_of("country", ["country", "device"])
    assert table.names[5:] == (
        "country=DE,device=web",
        "country=US,device=ios",
        "country=US,device=web",
        "country=null,device=ios",
        "country,device=other",
    )
    assert [one.name for one in table.dimensions] == ["overall", "device", "country", "country,device"]
    assert table.dimensions[3].crosses == (2, 1)
    assert (table.dimensions[1].listed, table.dimensions[1].first_slice) == (False, -1)
    rows = pa.table({"country": ["US", None, "FR", "DE", "DE"], "device": ["ios", "ios", "web", "ios", "web"]})
    assert encode(table, rows)[1] == [
        "country=US,device=ios",
        "country=null,device=ios",
        "country,device=other",
        "country,device=other",
        "country=DE,device=web",
    ]


def test_a_cross_has_a_cap_too() -> None:
    sample = pa.table({"a": ["x"] * 3 + ["y"] * 2 + ["z"], "b": [1, 1, 2, 1, 1, 1]})
    table = table_of(["a", "b"], sample=sample, slice_cap=2)
    assert table.names == ("overall", "a=x,b=1", "a=y,b=1", "a,b=other")


def test_a_cross_of_three_with_a_cut_and_nothing_observed() -> None:
    slices = ["country", "hour", "price"], {"price": {"edges": [6]}}
    table = table_of(*slices)
    assert table.names[1:4] == (
        "country=DE,hour=2,price=null",
        "country=DE,hour=10,price=..6",
        "country=US,hour=2,price=null",
    )
    empty = table_of(["country", "hour"], sample=SAMPLE.slice(0, 0))
    assert empty.names == ("overall", "country,hour=other")
    assert encode(empty, SAMPLE) == [["country,hour=other"] * 6]


def test_names_are_escaped() -> None:
    sample = pa.table({"a,b": ["x=1", "null", "other", "back\\slash", None], "c": ["p,q"] * 5})
    table = table_of("a,b", ["a,b", "c"], sample=sample)
    assert table.names == (
        "overall",
        r"a\,b=back\\slash", r"a\,b=\null", r"a\,b=\other", r"a\,b=x\=1", r"a\,b=null", r"a\,b=other",
        r"a\,b=back\\slash,c=p\,q", r"a\,b=\null,c=p\,q", r"a\,b=\other,c=p\,q", r"a\,b=x\=1,c=p\,q",
        r"a\,b=null,c=p\,q", r"a\,b,c=other",
    )  # fmt: skip
    assert encode(table, sample)[1] == [
        r"a\,b=x\=1,c=p\,q", r"a\,b=\null,c=p\,q", r"a\,b=\other,c=p\,q", r"a\,b=back\\slash,c=p\,q",
        r"a\,b=null,c=p\,q",
    ]  # fmt: skip
    assert escape("plain") == "plain"


def test_the_same_value_in_another_type_is_the_same_slice() -> None:
    table = table_of("hour")
    rows = pa.table({"hour": pa.array([2.0, 2.5, float("nan"), 10.0], pa.float32())})
    assert encode(table, rows) == [["hour=2", "hour=other", "hour=null", "hour=10"]]


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ({"x": {"edges": [1]}}, "data.slices (x): edges and quantiles cut numbers, but the values are of type string."),
        ("list", "data.slices (list): values of type list<item: int64> cannot name slices. "
                 "Use a number, text or time."),
        ("uuid", "data.slices (uuid): values of type extension<arrow.uuid> cannot name slices. "
                 "Use a number, text or time."),
        ("real", "data.slices (real): the sample has 5 different real numbers, more than data.slice_cap (4). "
                 "Cut it into cells with edges or quantiles."),
    ],
)  # fmt: skip
def test_values_that_cannot_be_slices(slices: Any, message: str) -> None:  # Any: as in a spec file
    uuids = pa.array([bytes(16)] * 5, pa.uuid())
    sample = pa.table({"x": ["a"] * 5, "list": [[1]] * 5, "real": [0.1, 0.2, 0.3, 0.4, 0.5], "uuid": uuids})
    with pytest.raises(DataError) as caught:
        table_of(slices, sample=sample, slice_cap=4)
    assert str(caught.value).replace("list<element", "list<item") == message


def test_encoding_by_chunk_is_encoding_at_once() -> None:
    rng = np.random.default_rng(0)
    rows = pa.table({"a": rng.choice(["x", "y", "z"], 500), "b": rng.integers(0, 4, 500), "c": rng.normal(size=500)})
    table = table_of("a", "b", ["a", "b"], {"c": {"quantiles": 5}}, ["a", "b", "c"], sample=rows.slice(0, 100))
    encoder = SliceEncoder(table)
    whole = encoder(rows.select(list(encoder.expressions)))
    parts = [encoder(rows.slice(start, 77).select(list(encoder.expressions))) for start in range(0, 500, 77)]
    assert np.array_equal(np.concatenate(parts, axis=1), whole)
