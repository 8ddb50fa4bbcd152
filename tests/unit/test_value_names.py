"""One name for equal values, whatever their type."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from assay.value_names import names_of


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
