"""Too many partitions are refused before a row is scored, as far as the first unit of the data shows them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from assay import api
from assay.errors import DataError
from assay.sinks.spool import MAX_PARTITIONS, keys_of

ROWS = MAX_PARTITIONS + 1
TABLE = pa.table(
    {
        "user": [f"u{row}" for row in range(ROWS)],
        "day": [row % 20 for row in range(ROWS)],
        "hour": pa.array([str(row // 20) for row in range(ROWS)]).dictionary_encode(),
        "p": [row / ROWS for row in range(ROWS)],
    }
)


def planned(partition_by: list[str], where: str | None = None, **predictions: object) -> None:
    spec: dict[str, Any] = {  # Any: a spec
        "data": {"where": where},
        "variants": [{"name": "v", "column": "p"}],
        "carry_over": ["user", "day", "hour"],
        "predictions": {"partition_by": partition_by, **predictions},
    }
    api.plan(spec, frame=TABLE)


@pytest.mark.parametrize(
    ("partition_by", "said"),
    [(["user"], "'user' has 257 values in"), (["day", "hour"], "'day' and 'hour' have 257 values together in")],
)
def test_columns_of_the_data_are_counted_before_a_row_is_scored(partition_by: list[str], said: str) -> None:
    with pytest.raises(DataError) as refused:
        planned(partition_by)
    assert str(refused.value) == (
        f"predictions.partition_by: {said} 257 rows of frame, where a part may have 256 partitions at most, each a "
        "file of its own. Take columns with fewer values, or none."
    )


@pytest.mark.parametrize(
    ("partition_by", "where", "predictions"),
    [
        (["user"], "user <> 'u0'", {}),  # as many as there may be
        (["day"], None, {}),
        (["hour"], None, {}),
        (["user"], None, {"top_k": {"k": 1, "group": "day"}}),  # 20 rows are written
    ],
)
def test_what_may_be_within_the_limit_is_not_refused(
    partition_by: list[str], where: str | None, predictions: dict[str, object]
) -> None:
    planned(partition_by, where, **predictions)


def test_null_is_a_partition_too() -> None:
    table = pa.table({"a": [1, None, 1], "b": ["x", "x", None]})
    assert keys_of(table, ["a", "b"]) == {("1", "x"), (None, "x"), ("1", None)}
    assert keys_of(table, ["b"]) == {("x",), (None,)}
