"""The benchmark of wide tables: what a way wrote is told from what it should have written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import benchmarks.ray_data
from benchmarks.predict import compare, with_assay, without_models
from benchmarks.ray_data import make_data


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(benchmarks.ray_data, "OUT", tmp_path)
    return make_data(64)


def test_what_assay_writes_is_right(data: Path, tmp_path: Path) -> None:
    out = with_assay("local")(data, 2, "snappy", tmp_path / "place")
    assert compare(data, out, 2) == 0
    table = pq.read_table(out)
    pq.write_table(table.set_column(0, "text0", table["text0"].cast("large_string")), tmp_path / "wider.parquet")
    assert compare(data, tmp_path / "wider.parquet", 2) == 1
    worse = np.add(table["p1"].to_numpy(), np.eye(64)[63] * 0.001)
    pq.write_table(table.set_column(21, "p1", [worse]), tmp_path / "worse.parquet")
    with pytest.raises(AssertionError, match="p1 has other scores"):
        compare(data, tmp_path / "worse.parquet", 2)


def test_other_values_in_a_wide_column_are_found(data: Path, tmp_path: Path) -> None:
    out = without_models(data, 0, "snappy", tmp_path / "place")
    assert compare(data, out, 0) == 0
    table = pq.read_table(out)
    shifted = table["text3"].take([63, *range(63)])
    pq.write_table(table.set_column(3, "text3", shifted), tmp_path / "shifted.parquet")
    with pytest.raises(AssertionError, match="text3 has other values"):
        compare(data, tmp_path / "shifted.parquet", 0)
