"""`assay predict`: words in, files out, and a few lines that say where they are."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.command import assay

SPEC = """
data: {path: rows.parquet}
variants:
  - {name: a, column: p}
carry_over: [id]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"id": [1, 2, 3], "p": [0.5, None, 0.25], "y": [0, 1, 1]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    (tmp_path / "predict.yaml").write_text(SPEC)
    return tmp_path


def test_rows_are_written_and_it_says_where(folder: Path) -> None:
    done = assay("predict", "predict.yaml", "--out", "run", "--executor", "local", "-q")
    assert (done.code, done.err) == (0, "Run: run. Next: assay show run, assay why run VARIANT, assay verify run\n")
    assert "Predictions: 3 rows in 1 file (parquet) in" in done.out
    assert "Not gated" not in done.out
    assert pq.read_table("run/predictions").to_pydict() == {"id": [1, 2, 3], "a": [0.5, None, 0.25]}
    assert assay("show", "run").out == done.out
    again = assay("resume", "run")
    assert (again.code, again.out) == (0, done.out)
    assert json.loads(assay("ls", ".", "--json").out)[0]["state"] == "finished"


def test_as_json(folder: Path) -> None:
    done = assay("predict", "predict.yaml", "--out", "run", "--executor", "local", "--json", "-q")
    assert json.loads(done.out)["predictions"] == {
        "place": str(folder / "run" / "predictions"),
        "format": "parquet",
        "rows": 3,
        "files": 1,
        "columns": [{"name": "id", "type": "int64"}, {"name": "a", "type": "double"}],
        "dead_letters": {"place": str(folder / "run" / "dead-letter"), "rows": {"a": 1}, "files": 1},
        "notes": [],
    }


def test_a_spec_with_a_label_is_measured_too(folder: Path) -> None:
    done = assay("predict", "predict.yaml", "--set", "data.label=y", "--out", "run", "--executor", "local", "-q")
    assert done.code == 0
    assert "auc" in done.out
    assert "Predictions: 3 rows" in done.out


def test_another_carry_over_is_another_run(folder: Path) -> None:
    words = ["predict", "predict.yaml", "--out", "run", "--executor", "local", "-q"]
    assert assay(*words).code == 0
    done = assay(*words, "--set", "carry_over=all")
    assert done.code == 2
    assert "began with another spec: carry_over changed" in done.err


def test_where_its_runs_are_by_default(folder: Path) -> None:
    done = assay("predict", "predict.yaml", "--executor", "local", "-q")
    assert done.code == 0
    [run] = (folder / "runs").iterdir()
    assert run.name.startswith("predict-")
    assert (run / "predictions" / "_manifest.json").exists()


def test_a_plan_says_which_columns_are_written(folder: Path) -> None:
    done = assay("plan", "predict.yaml", "--set", "predictions={provenance: true}")
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines() if line.startswith("written")] == [
        ["written", "parquet:", "4", "columns", "(id,", "_file,", "_row,", "a)"]
    ]
    assert "task           no label: scores are written, not measured" in done.out
