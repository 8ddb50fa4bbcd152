"""What a plan says of predictions, in whole sentences."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from assay import api
from assay.pipeline.written import written_words

TABLE = pa.table({**{f"c{number:02}": [number] for number in range(14)}, "p": [0.5], "q": [0.25]})
VARIANTS = [{"name": "prod", "column": "p"}, {"name": "next", "column": "q"}]
CARRIED = "c00, c01, c02, c03, c04, c05, c06, c07, c08, c09, c10, c11 and 2 more"


@pytest.mark.parametrize(
    ("predictions", "carried", "expected"),
    [
        (
            {"provenance": True, "partition_by": ["c00", "c01"]},
            "c*",
            "parquet in predictions/ of the run directory, partitioned by c00, c01: 18 columns: 14 carried over "
            f"({CARRIED}), 2 of provenance (_file, _row), 2 of variants (prod, next)",
        ),
        (
            {"partition_by": ["c13"]},
            "c*",
            "parquet in predictions/ of the run directory, partitioned by c13: 16 columns: 14 carried over "
            f"({CARRIED.replace(' and 2 more', ', c13 and 1 more')}), 2 of variants (prod, next)",
        ),
        (
            {"format": "csv", "to": "../scored"},
            [],
            "csv in ../scored: 2 columns: 2 of variants (prod, next)",
        ),
        (
            {"top_k": {"k": 3, "group": "c00"}},
            "c01",
            "parquet in predictions/ of the run directory: 5 columns: 2 carried over (c00, c01), 3 of ranks (_variant, "
            "_rank, _score); of each c00 and variant the best 3",
        ),
    ],
)
def test_place_partitions_and_columns(predictions: dict[str, Any], carried: Any, expected: str) -> None:  # Any: a spec
    spec = {"variants": VARIANTS, "carry_over": carried, "predictions": predictions}
    found = api.plan(spec, frame=TABLE)
    assert written_words(found.spec, found.plan.tasks, found.source) == expected


def test_many_variants() -> None:
    variants = [{"name": f"v{number}", "column": "p"} for number in range(20)]
    found = api.plan({"variants": variants, "predictions": {}}, frame=TABLE)
    assert written_words(found.spec, found.plan.tasks, found.source) == (
        "parquet in predictions/ of the run directory: 20 columns: 20 of variants (v0, v1, v2, v3, v4, v5, v6, v7, v8, "
        "v9, v10, v11 and 8 more)"
    )


def test_nothing_is_said_where_none_are_written() -> None:
    found = api.plan({"variants": VARIANTS, "gates": [{"coverage": 0.5}], "predictions": {}}, frame=TABLE)
    spec = found.spec.model_copy(update={"predictions": None})
    assert written_words(spec, found.plan.tasks, found.source) == ""
