"""Predictions into Delta and Iceberg tables, end to end: one commit of exactly a run's rows, whatever dies; and the
best rows of each group, there and in a bucket. The Iceberg catalog is one of SQLite, configured as users do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from fakes import s3
from fakes.command import Answer, assay
from pyiceberg import catalog as catalogs
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from assay.pipeline.manifest import read_manifest
from assay.store.folder import open_folder
from assay.store.run import RunDirectory

TESTS = Path(__file__).parent.parent
PATH = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
SECONDS = 300
ROWS, K = 60, 2
Format = Literal["delta", "iceberg"]
FORMATS: tuple[Format, ...] = ("delta", "iceberg")
KILLED = """
import os, signal
from {module} import {owner}
{owner}.{name} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from assay.cli.app import main
main()
"""
"""The command line, in a process that is killed when it comes to a function."""
SINK = {"delta": ("assay.sinks.delta", "DeltaSink"), "iceberg": ("assay.sinks.iceberg", "IcebergSink")}
START = datetime(2024, 3, 31, tzinfo=UTC)
SINGLE = {"name": "twice", "callable": "fakes.predictors:twice_in_float32", "inputs": ["x"], "receive": "dict"}


def rows() -> pa.Table:
    """What models read, groups all over the data, and columns of types that tables hold."""
    every = range(ROWS)
    return pa.table(
        {
            "id": pa.array([(1 << 60) + row for row in every], pa.int64()),
            "x": pa.array([row * 7 % ROWS / ROWS for row in every], pa.float64()),
            "query": pa.array([f"q{row % 8}" for row in every]).dictionary_encode(),
            "country": pa.array([("fr", None, "é 100%", "a/b")[row % 4] for row in every]),
            "when": pa.array([START + timedelta(hours=row) for row in every], pa.timestamp("us", "Europe/Paris")),
            "tags": pa.array([None if row % 5 == 0 else [str(row), None] for row in every], pa.list_(pa.string())),
        }
    )


class Place:
    """A folder with data and a spec, and the table that its runs add rows to."""

    def __init__(self, folder: Path, format: Format) -> None:
        self._folder, self.format = folder, format
        self.spec = folder / "predict.yaml"
        (folder / "data").mkdir()
        pq.write_table(rows().slice(0, 40), folder / "data" / "a.parquet", row_group_size=15)
        pq.write_table(rows().slice(40), folder / "data" / "b.parquet")
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        lines = (f"    {name}: {value}\n" for name, value in self.properties.items())
        (folder / ".pyiceberg.yaml").write_text(f"catalog:\n  local:\n{''.join(lines)}")
        if format == "iceberg":
            with self.catalog() as catalog:
                catalog.create_namespace("scores")
        self.write_spec()

    @property
    def to(self) -> str:
        return "local.scores.night" if self.format == "iceberg" else str(self._folder / "night")

    def catalog(self) -> closing[Catalog]:
        return closing(load_catalog("local", **self.properties))

    def loaded(self) -> Table:
        with self.catalog() as catalog:
            return catalog.load_table("scores.night")

    def write_spec(self, **changes: Any) -> None:  # Any: a spec
        twice = {"name": "twice", "callable": "fakes.predictors:twice", "inputs": ["x"], "receive": "dict"}
        predictions = {"format": self.format, "to": self.to, "partition_by": ["country"]}
        tree = {
            "data": {"path": "data"},
            "variants": [twice],
            "carry_over": "all",
            "predictions": predictions | changes.pop("predictions", {}),
            "execution": {"unit_rows": 10, "micro_batch": 5},
            **changes,
        }
        self.spec.write_text(json.dumps(tree))

    def predict(self, run: str = "run") -> Answer:
        return assay("predict", self.spec, "--out", self._folder / run, "--executor", "local", "--workers", 2, "-q")

    def in_a_process(self, *program: str, run: str = "run") -> subprocess.CompletedProcess[str]:
        """A process that knows of catalogs what `.pyiceberg.yaml` says."""
        words = ["predict", str(self.spec), "--out", str(self._folder / run), "--executor", "local", "-q"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYICEBERG_")}
        environment |= {"PYTHONPATH": PATH, "PYICEBERG_HOME": str(self._folder)}
        command = [sys.executable, *program, *words]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=SECONDS, check=False, cwd=self._folder
        )

    def states(self, run: str = "run") -> tuple[str, ...]:
        """What workers have written: none before a row is scored."""
        return RunDirectory.open(str(self._folder / run)).store.list("states")

    @property
    def table(self) -> pa.Table:
        """As a reader of tables finds it, by id."""
        if self.format == "iceberg":
            return self.loaded().scan().to_arrow().sort_by("id")
        return pa.table(DeltaTable(self.to).to_pyarrow_table()).sort_by("id")

    @property
    def num_commits(self) -> int:
        """Those that added rows."""
        if self.format == "iceberg":
            return len(self.loaded().snapshots())
        return DeltaTable(self.to).version()  # 0 made it


@pytest.fixture(params=FORMATS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path, request.param)
    for name, value in place.properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LOCAL__{name.upper()}", value)
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", Config())  # which pyiceberg reads once a process
    return place


def check(place: Place, times: int = 1) -> None:
    """Every row, so many times, with the values and about the types that it had."""
    found, expected = place.table, rows()
    assert found.num_rows == times * ROWS
    assert found.select(expected.column_names).to_pylist() == [
        row for row in expected.to_pylist() for _ in range(times)
    ]
    assert found["twice"].to_pylist() == [2 * x for x in expected["x"].to_pylist() for _ in range(times)]
    kinds = {
        name: str(found.schema.field(name).type).replace("large_", "") for name in ("id", "query", "when", "twice")
    }
    assert kinds == {"id": "int64", "query": "string", "when": "timestamp[us, tz=UTC]", "twice": "double"}
    assert place.num_commits == times


def test_rows_are_added_by_one_commit_of_a_catalog_that_the_user_has_configured(place: Place) -> None:
    done = place.in_a_process("-m", "assay")
    assert done.returncode == 0, done.stderr
    check(place)
    again = place.predict()
    assert (again.code, again.out) == (0, done.stdout)
    check(place)


def test_a_manifest_lists_the_files_of_the_table_and_the_audit_passes(place: Place, tmp_path: Path) -> None:
    done = place.predict()
    assert done.code == 0, done.err
    listed = read_manifest(RunDirectory.open(str(tmp_path / "run")))
    assert (listed.rows, listed.format) == (ROWS, place.format)
    assert {part.file.partition["country"] for part in listed.parts} == {"fr", None, "é 100%", "a/b"}
    audit = assay("verify", tmp_path / "run")
    assert audit.code == 0, audit.out


@pytest.mark.parametrize("moment", ["before the commit", "after it"])
def test_a_run_that_is_killed_at_its_commit_adds_its_rows_once(place: Place, moment: str, tmp_path: Path) -> None:
    module, owner = SINK[place.format] if moment == "before the commit" else ("assay.pipeline", "predict")
    name = "commit" if moment == "before the commit" else "save_manifest"
    killed = place.in_a_process("-c", KILLED.format(module=module, owner=owner, name=name))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert place.num_commits == (0 if moment == "before the commit" else 1)
    resumed = assay("resume", tmp_path / "run", "--executor", "local")
    assert resumed.code == 0, resumed.err
    check(place)
    audit = assay("verify", tmp_path / "run")
    assert audit.code == 0, audit.out


def test_another_run_adds_its_rows_to_the_same_table(place: Place) -> None:
    for run in ("first", "second"):
        done = place.predict(run)
        assert done.code == 0, done.err
    check(place, times=2)


def test_a_table_that_does_not_fit_is_refused_before_a_row_is_scored(place: Place) -> None:
    assert place.predict("first").code == 0
    named = f"The {place.format.title()} table {place.to}"
    place.write_spec(carry_over=["id", "query", "when", "tags", "country"])
    fewer = place.predict("fewer")
    assert (fewer.code, place.states("fewer")) == (2, ())
    said = f"{named} does not fit the output: it has a column 'x', which the output has not. Name another table."
    assert said in " ".join(fewer.err.split())
    place.write_spec(predictions={"partition_by": []})
    whole = place.predict("whole")
    assert (whole.code, place.states("whole")) == (2, ())
    said = (
        f"{named} is partitioned by 'country', and predictions.partition_by says nothing. Make them the same, or name"
    )
    assert said in " ".join(whole.err.split())
    check(place)


def test_scores_of_32_bits_are_added_to_those_of_64(place: Place) -> None:
    assert place.predict("first").code == 0
    place.write_spec(variants=[SINGLE])
    done = place.predict("second")
    assert done.code == 0, done.err
    assert place.table.schema.field("twice").type == pa.float64()
    wide = [2 * x for x in rows()["x"].to_pylist()]
    narrow = [float(np.float32(value)) for value in wide]
    assert Counter(place.table["twice"].to_pylist()) == Counter([*wide, *narrow])


def test_scores_of_64_bits_are_not_added_to_those_of_32(place: Place) -> None:
    """Which of the two a model gives is known once it has scored."""
    place.write_spec(variants=[SINGLE])
    assert place.predict("first").code == 0
    place.write_spec()
    done = place.predict("second")
    assert done.code == 2
    assert "it has 'twice' as float, not as double. Name another table." in " ".join(done.err.split())
    assert (place.num_commits, place.table.num_rows) == (1, ROWS)


def test_names_that_readers_of_tables_take_for_one_are_refused_before_a_row_is_scored(
    place: Place, tmp_path: Path
) -> None:
    both = rows().append_column("ID", pa.array(range(ROWS)))
    inside = pa.StructArray.from_arrays([pa.array(range(ROWS))] * 2, ["a", "A"])
    pq.write_table(both.append_column("pair", inside), tmp_path / "data" / "a.parquet")
    (tmp_path / "data" / "b.parquet").unlink()
    done = place.predict()
    assert (done.code, (tmp_path / "run").exists()) == (2, False)
    readers = f"readers of {place.format.title()} tables take them for one. Leave one out of carry_over, give outputs"
    for what in ("The columns 'id' and 'ID'", "In the column 'pair' the fields 'a' and 'A'"):
        assert f"{what} differ by case only, and {readers}" in " ".join(done.err.split())


def test_the_best_rows_of_each_group(place: Place, tmp_path: Path) -> None:
    place.write_spec(predictions={"top_k": {"k": K, "group": "query"}, "partition_by": []}, carry_over=["id", "when"])
    for _ in range(2):
        done = place.predict()
        assert done.code == 0, done.err
    found = [(row["query"], row["_rank"], row["id"], row["_score"], row["when"]) for row in place.table.to_pylist()]
    assert sorted(found) == best_by_hand()
    assert place.num_commits == 1
    audit = assay("verify", tmp_path / "run")
    assert audit.code == 0, audit.out


def test_the_best_rows_of_scores_of_32_bits_are_added_to_those_of_64(place: Place) -> None:
    best = {"predictions": {"top_k": {"k": K, "group": "query"}, "partition_by": []}, "carry_over": ["id", "when"]}
    place.write_spec(**best)
    assert place.predict("first").code == 0
    place.write_spec(**best, variants=[SINGLE])
    done = place.predict("second")
    assert done.code == 0, done.err
    assert place.table.schema.field("_score").type == pa.float64()
    assert place.table.num_rows == 2 * len(best_by_hand())


def best_by_hand() -> list[tuple[Any, ...]]:
    """(query, rank, id, score, when) of the K best of each query."""
    found = []
    for query in sorted(set(rows()["query"].to_pylist())):
        own = sorted((row for row in rows().to_pylist() if row["query"] == query), key=lambda row: -float(row["x"]))
        found += [(query, rank, row["id"], 2 * row["x"], row["when"]) for rank, row in enumerate(own[:K], 1)]
    return found


# ---- Iceberg alone ---------------------------------------------------------------------------------------------------


@pytest.fixture
def iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path, "iceberg")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", Config())
    return place


def test_an_iceberg_table_has_partitions_that_no_folder_can_name(iceberg: Place, tmp_path: Path) -> None:
    names = ["", "__HIVE_DEFAULT_PARTITION__", None, 300 * "é"]
    table = rows().set_column(3, "country", pa.array([names[row % 4] for row in range(ROWS)], pa.string()))
    for path in (tmp_path / "data").iterdir():
        path.unlink()
    pq.write_table(table, tmp_path / "data" / "a.parquet")
    done = iceberg.predict()
    assert done.code == 0, done.err
    assert iceberg.table["country"].to_pylist() == table["country"].to_pylist()
    some = iceberg.loaded().scan(row_filter="country = ''").to_arrow()
    assert some.num_rows == ROWS // 4


def test_what_a_catalog_lacks_is_told_before_a_row_is_scored(iceberg: Place) -> None:
    iceberg.write_spec(predictions={"to": "local.nowhere.night"})
    done = iceberg.predict("nowhere")
    assert (done.code, iceberg.states("nowhere")) == (2, ())
    said = "There is no namespace for the Iceberg table local.nowhere.night. Make it in the catalog."
    assert said in " ".join(done.err.split())
    iceberg.write_spec(predictions={"to": "nobody.scores.night"})
    done = iceberg.predict("nobody")
    assert (done.code, iceberg.states("nobody")) == (2, ())
    assert "The Iceberg catalog 'nobody' cannot be reached: " in " ".join(done.err.split())


# ---- in a bucket -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    with s3.server("runs") as port:
        yield port


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_the_best_rows_of_a_run_in_a_bucket(
    server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    for name, value in s3.environment(server).items():
        monkeypatch.setenv(name, value)
    place, run, to = Place(tmp_path, "delta"), f"s3://runs/{format}/run", f"s3://runs/{format}/best"
    top = {"k": K, "group": "query"}
    place.write_spec(
        predictions={"format": format, "to": to, "top_k": top, "partition_by": []}, carry_over=["id", "when"]
    )
    for words in (("predict", place.spec, "--out", run), ("resume", run)):
        done = assay(*words, "--executor", "local", "--workers", 2)
        assert done.code == 0, done.err
    assert RunDirectory.open(run).store.list("top-k") == ()
    read = pa.table(DeltaTable(to).to_pyarrow_table()) if format == "delta" else _parts(run, to)
    found = [(row["query"], row["_rank"], row["id"], row["_score"], row["when"]) for row in read.to_pylist()]
    assert sorted(found) == best_by_hand()
    audit = assay("verify", run)
    assert audit.code == 0, audit.out


def _parts(run: str, to: str) -> pa.Table:
    place, listed = open_folder(to, "a reader"), read_manifest(RunDirectory.open(run)).parts
    assert {path for path in place.list() if not path.startswith("_")} == {part.file.path for part in listed}
    return pa.concat_tables(pq.read_table(pa.BufferReader(place.get(part.file.path))) for part in listed)
