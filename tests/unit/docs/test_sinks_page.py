"""docs/sinks.md: what it says of readers holds for those that are installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import assay
from assay.build import SINKS
from assay.sinks.names import claim_of
from assay.spec.load import build_spec

PAGE = (Path(__file__).parents[3] / "docs" / "sinks.md").read_text(encoding="utf-8")
[READING] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROWS = 12
COUNTRIES, ZIPS = ("fr", None, "é 100%", "a/b"), ("01069", "75001", None)


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What a run has written to run/predictions, by id."""
    monkeypatch.chdir(tmp_path)
    found = [(row, 2.0 * row, COUNTRIES[row % 4], ZIPS[row % 3]) for row in range(ROWS)]
    columns = list(zip(*found, strict=True))
    table = pa.table(
        {"id": columns[0], "x": [float(row) for row in range(ROWS)], "country": columns[2], "zip": columns[3]}
    )
    pq.write_table(table, "rows.parquet", row_group_size=5)
    spec = build_spec(
        {
            "data": {"path": "rows.parquet"},
            "variants": [{"name": "twice", "callable": "fakes.predictors:twice", "inputs": ["x"], "receive": "dict"}],
            "carry_over": ["id", "country", "zip"],
            "predictions": {"partition_by": ["country", "zip"]},
        }
    )
    assay.predict(spec, base=tmp_path, out="run", executor="local", workers=1)
    return found


def test_each_reader_finds_the_rows_in_the_bare_folder(rows: list[tuple[Any, ...]]) -> None:
    names: dict[str, Any] = {}
    exec(READING, names)
    order = ["id", "twice", "country", "zip"]
    assert sorted(names["by_polars"].select(order).rows()) == rows
    assert sorted(tuple(row[name] for name in order) for row in names["by_pyarrow"].to_pylist()) == rows
    assert sorted(names["by_duckdb"].select(*order).fetchall()) == rows
    by_pandas = names["by_pandas"][order].astype(object)
    assert sorted(by_pandas.where(by_pandas.notna(), None).itertuples(index=False, name=None)) == rows


def test_what_is_said_of_readers_that_are_told_less(rows: list[tuple[Any, ...]]) -> None:
    bare = pl.read_parquet("run/predictions")
    assert sorted(bare.select("id", "country").rows()) == [(row[0], row[2]) for row in rows]
    assert bare.filter(id=0)["zip"].to_list() == [1069]
    guessed = ds.dataset("run/predictions", partitioning="hive").to_table().to_pylist()
    assert sorted((row["id"], row["country"]) for row in guessed) == [(row[0], row[2]) for row in rows]
    found = duckdb.sql("select id, country from 'run/predictions/**/*.parquet'").fetchall()
    assert sorted(found) == [(row[0], row[2]) for row in rows]
    assert pl.read_parquet("run/predictions/**/*.parquet").columns == ["id", "twice"]
    with pytest.raises(pa.ArrowInvalid, match="Cannot yet unify dictionaries with nulls"):
        pd.read_parquet("run/predictions")


def test_duckdb_renames_columns_that_differ_by_case_only(tmp_path: Path) -> None:
    pq.write_table(pa.table({"Id": [1], "id": [2]}), tmp_path / "part-0.parquet")
    assert duckdb.sql(f"from '{tmp_path}/*.parquet'").columns == ["Id", "id_1"]
    assert pl.read_parquet(tmp_path).columns == ["Id", "id"]


def test_nothing_else_is_in_the_folder(rows: list[tuple[Any, ...]]) -> None:
    files = {path.name.partition("-")[0]: path for path in Path("run/predictions").rglob("*") if path.is_file()}
    assert set(files) == {"_run", "part"}
    assert files["_run"].read_bytes() == b""
    assert f"`{claim_of('')}<id>`" in PAGE


@pytest.mark.parametrize("format", SINKS)
def test_every_format_is_in_the_table(format: str) -> None:
    assert f"| `{format}` |" in PAGE
