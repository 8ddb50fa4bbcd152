"""Lance tables as rows: fragments, versions, deleted rows, and what cannot be read."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import assay
from assay import api
from assay.errors import DataError, RunError
from assay.records import Unit
from assay.sources.lance import LanceSource
from assay.spec.load import build_spec
from assay.spec.model import DataSpec

TABLE = pa.table({"y": [0, 1] * 50, "p": np.arange(100) / 100, "text": pa.array(["a", None] * 50, pa.string())})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    lance.write_dataset(TABLE, str(tmp_path / "log"), max_rows_per_file=40)
    return tmp_path / "log"


def source(place: Path, **settings: Any) -> LanceSource:
    return LanceSource(DataSpec(reader="lance", path=str(place), settings=settings), place.parent)


def table_of(found: LanceSource, *columns: str) -> pa.Table:
    units = [Unit("u", fragment.path, 0, None, 0) for fragment in found.fragments]
    return pa.concat_tables(chunk.table for unit in units for chunk in found.read(unit, columns))


def test_fragments_and_ranges_of_them(place: Path) -> None:
    found = pickle.loads(pickle.dumps(source(place)))
    assert [fragment.row_groups for fragment in found.fragments] == [(40,), (40,), (20,)]
    assert found.schema == TABLE.schema
    assert table_of(found, "text", "y").equals(TABLE.select(["text", "y"]))
    (chunk,) = found.read(Unit("u", "1", 5, 7, 0), ["p"])
    assert (chunk.first_row, chunk.table["p"].to_pylist()) == (5, TABLE["p"].to_pylist()[45:52])
    (chunk,) = found.read_original(Unit("u", "2", 0, None, 0), ["p", "y"])
    assert chunk.table.equals(TABLE.select(["p", "y"]).slice(80))
    assert (found.statistics("y"), found.first_values("y")) == (None, None)


def test_large_rows_are_in_small_row_groups(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    images = pa.array([random.bytes(20 << 20) for _ in range(9)], pa.binary())
    lance.write_dataset(pa.table({"image": images, "row": range(9)}), str(tmp_path / "log"))
    found = source(tmp_path / "log")
    assert found.fragments[0].row_groups == (4, 4, 1)
    chunks = list(found.read(Unit("u", "0", 2, 4, 0), ["row"]))
    assert [(chunk.first_row, chunk.table["row"].to_pylist()) for chunk in chunks] == [(2, [2, 3]), (4, [4, 5])]


def test_deleted_rows_are_not_there(place: Path) -> None:
    lance.dataset(str(place)).delete("y = 1")
    found = source(place)
    assert [fragment.row_groups for fragment in found.fragments] == [(20,), (20,), (10,)]
    (chunk,) = found.read(Unit("u", "1", 3, 2, 0), ["p"])
    assert chunk.table["p"].to_pylist() == [0.46, 0.48]
    assert table_of(source(place, version=1), "p").num_rows == 100


def test_a_run_goes_on_over_the_version_that_it_began_with(place: Path, tmp_path: Path) -> None:
    def evaluate(out: str, **settings: int) -> assay.Evaluation:
        data = {"reader": "lance", "path": "log", "label": "y", "settings": settings}
        tree = {"data": data, "variants": [{"name": "p", "column": "p"}], "metrics": ["auc"]}
        return api.run(build_spec(tree), base=place.parent, out=tmp_path / out, executor="local")

    before = evaluate("pinned", version=1).metrics
    evaluate("latest")
    lance.write_dataset(TABLE, str(place), mode="append")
    (tmp_path / "pinned" / "results" / "metrics.parquet").unlink()
    assert assay.resume(tmp_path / "pinned").metrics.equals(before)
    (tmp_path / "latest" / "results" / "metrics.parquet").unlink()
    with pytest.raises(RunError, match=r"is of something else: data changed since it began\."):
        assay.resume(tmp_path / "latest")


def test_what_cannot_be_read_is_said(place: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^There is no Lance table at '.*/nowhere': "):
        source(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"^There is no Lance table in version 7 at '.*/log': "):
        source(place, version=7)
    lance.dataset(str(place)).delete("y >= 0")
    with pytest.raises(
        DataError,
        match=r"^The data have no rows: the Lance table '.*/log' is empty\. Name data with rows in data\.path; ",
    ):
        source(place)
