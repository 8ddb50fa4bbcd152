"""Predictions of runs whose workers, drivers and joins are killed: the files are those of an undisturbed run, to the
byte, for a reader who knows nothing of manifests."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes import s3
from fakes.command import assay
from fakes.sources import reads
from fakes.states import committed_units, planned_units

from assay.api import plan
from assay.pipeline.manifest import read_manifest
from assay.spec.load import load_spec
from assay.store.run import RunDirectory

TESTS = Path(__file__).parent.parent
PATH = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
SECONDS = 120.0
"""How long a test waits for what must happen."""
pytestmark = pytest.mark.timeout(400)
ROWS, UNIT_ROWS = 200, 20
WITH_SOURCE = "from assay import build; build.SOURCES['parquet'] = {!r}; from assay.cli.app import main; main()"
"""The command line, in a process whose files are read by a class of the tests."""


class Stage:
    """A folder with wide data, a spec whose second variant can be made to stop at a row, and the run there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.spec, self.run = folder / "predict.yaml", folder / "run"
        chance = np.random.default_rng(0)
        columns = {
            "row": np.arange(float(ROWS)),
            "p": pa.array(chance.random(ROWS), mask=np.arange(ROWS) % 7 == 0),
            "id": (1 << 60) + np.arange(ROWS),
            "wide": pa.array([[f"{row}-{item}" for item in range(row % 4)] for row in range(ROWS)]),
        }
        (folder / "data").mkdir()
        pq.write_table(pa.table(columns), folder / "data" / "rows.parquet", row_group_size=3 * UNIT_ROWS)
        self.table = pq.read_table(folder / "data" / "rows.parquet")
        self.spec.write_text(json.dumps(_tree(folder)))
        for pipe in ("arrived", "go"):
            os.mkfifo(folder / pipe)
        self._arrived = os.open(folder / "arrived", os.O_RDWR | os.O_NONBLOCK)
        self._held = [self._arrived]

    def stop_at(self, row: int) -> None:
        (self._folder / "stop_at").write_text(str(row))

    def go_past(self) -> None:
        """Nobody stops there again; who stands there stays."""
        (self._folder / "stop_at").unlink()

    def open(self) -> None:
        """Whoever stands at the row goes on."""
        self._held.append(os.open(self._folder / "go", os.O_RDWR))

    def wait_for_arrival(self) -> int:
        """Until a worker stands at the row; its process."""
        ready, _, _ = select.select([self._arrived], [], [], SECONDS)
        assert ready, f"no worker came to the row within {SECONDS} seconds"
        return int(os.read(self._arrived, 100))

    @contextmanager
    def driver(self, *words: str, source: str = "") -> Iterator[subprocess.Popen[str]]:
        """`assay predict` in a process of its own, which does not outlive the context."""
        program = ["-c", WITH_SOURCE.format(source)] if source else ["-m", "assay"]
        command = [sys.executable, *program, "predict", str(self.spec), "--out", str(self.run), *words]
        environment = {**os.environ, "PYTHONPATH": PATH}
        with subprocess.Popen(command, stdout=DEVNULL, stderr=PIPE, text=True, env=environment) as process:
            try:
                yield process
            finally:
                process.kill()

    @property
    def joiner_died(self) -> bool:
        return (self._folder / "died").exists()

    def close(self) -> None:
        for pipe in self._held:
            os.close(pipe)

    def check(self) -> None:
        """Every row once, in the order of the data; the files are those of an undisturbed local run."""
        reference = self._folder / "reference"
        done = assay("predict", self.spec, "--out", reference, "--executor", "local", "--workers", 1)
        assert done.code == 0, done.err
        assert committed_units(self.run) == planned_units(self.run)
        assert _files(self.run) == _files(reference)
        found = pq.read_table(self.run / "predictions")
        assert found.select(self.table.column_names).equals(self.table)
        np.testing.assert_array_equal(found["new"].to_numpy(), 1 / (2 + 0.01 * np.arange(ROWS)))
        assert pq.read_table(self.run / "dead-letter")["row"].to_pylist() == [
            row for row in range(ROWS) if row % 7 == 0
        ]
        audit = assay("verify", self.run)
        assert audit.code == 0, audit.out


def _files(run: Path) -> dict[str, bytes]:
    """All that a reader of the two folders would read."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for folder in ("predictions", "dead-letter")
        for path in sorted((run / folder).rglob("*"))
        if path.is_file() and not path.name.startswith("_")
    }


def _tree(folder: Path) -> dict[str, object]:
    return {
        "data": {"path": "data"},
        "variants": [
            {"name": "old", "column": "p"},
            {
                "name": "new",
                "callable": {"function": "fakes.scorers:stops_at_a_gate", "settings": {"folder": str(folder)}},
                "inputs": ["row"],
                "receive": "dict",
            },
        ],
        "carry_over": "all",
        "execution": {"unit_rows": UNIT_ROWS, "micro_batch": 10},
    }


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.close()


def words_of(executor: str, ray_address: str) -> list[str]:
    return ["--executor", executor, "--workers", "2", *(["--address", ray_address] if executor == "ray" else [])]


def wait_for_commits(process: subprocess.Popen[str], run: Path, number: int) -> None:
    deadline = time.monotonic() + SECONDS
    while len(committed_units(run)) < number:
        assert time.monotonic() < deadline, f"fewer than {number} units committed within {SECONDS} seconds"
        assert process.poll() is None, f"the driver ended by itself: {process.communicate()[1]}"
        time.sleep(0.05)


@pytest.mark.ray
def test_a_killed_worker(stage: Stage, ray_address: str) -> None:
    stage.stop_at(45)
    with stage.driver(*words_of("ray", ray_address)) as driver:
        os.kill(stage.wait_for_arrival(), signal.SIGKILL)
        stage.wait_for_arrival()  # the one that scores the unit again
        stage.go_past()
        stage.open()
        _, said = driver.communicate(timeout=SECONDS)
    assert driver.returncode == 0, said
    stage.check()


@pytest.mark.ray
@pytest.mark.parametrize("executor", ["local", "ray"])
def test_a_driver_that_is_killed_while_rows_are_scored(stage: Stage, ray_address: str, executor: str) -> None:
    stage.stop_at(45)
    words = words_of(executor, ray_address)
    with stage.driver(*words) as driver:
        stage.wait_for_arrival()
        wait_for_commits(driver, stage.run, 1)
        driver.kill()
    stage.go_past()
    stage.open()
    resumed = assay("resume", stage.run, *words)
    assert resumed.code == 0, resumed.err
    stage.check()


def test_a_driver_that_is_killed_while_it_joins(stage: Stage) -> None:
    with stage.driver("--executor", "local", "--workers", "2", source="fakes.sources:DeadlySource") as driver:
        _, said = driver.communicate(timeout=SECONDS)
    assert driver.returncode == -signal.SIGKILL, said
    assert stage.joiner_died
    assert committed_units(stage.run) == planned_units(stage.run)
    assert not (stage.run / "predictions" / "_manifest.json").exists()
    resumed = assay("resume", stage.run, "--executor", "local")
    assert resumed.code == 0, resumed.err
    stage.check()


@pytest.mark.ray
def test_a_join_that_is_killed_on_ray_is_done_again(stage: Stage, ray_address: str) -> None:
    with stage.driver(*words_of("ray", ray_address), source="fakes.sources:DeadlySource") as driver:
        _, said = driver.communicate(timeout=SECONDS)
    assert driver.returncode == 0, said
    assert stage.joiner_died
    stage.check()


@pytest.mark.ray
@pytest.mark.parametrize("executor", ["local", "ray"])
def test_a_unit_that_two_workers_score_is_written_once(stage: Stage, ray_address: str, executor: str) -> None:
    spec = load_spec(stage.spec, predicting=True)
    middle = plan(spec, base=stage.spec.parent).plan.units[5]  # it is known how long one takes, and others are left
    stage.stop_at(middle.first_row + 5)
    with stage.driver(*words_of(executor, ray_address)) as driver:
        stage.wait_for_arrival()
        stage.go_past()  # and the gate stays shut: the other worker's copy is the one that counts
        _, said = driver.communicate(timeout=SECONDS)
    assert driver.returncode == 0, said
    stage.open()
    stage.check()


def test_a_run_in_a_bucket_has_the_same_rows(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    run = "s3://runs/predictions"
    with s3.server("runs") as port:
        for name, value in s3.environment(port).items():
            monkeypatch.setenv(name, value)
        done = assay("predict", stage.spec, "--out", run, "--executor", "local", "--workers", 2)
        assert done.code == 0, done.err
        audit = assay("verify", run)
        assert audit.code == 0, audit.out
        store = RunDirectory.open(run).store
        listed = read_manifest(RunDirectory.open(run))
        found = pa.concat_tables(
            pq.read_table(pa.BufferReader(store.get(f"predictions/{part.file.path}"))) for part in listed.parts
        )
    assert found.select(stage.table.column_names).equals(stage.table)
    np.testing.assert_array_equal(found["new"].to_numpy(), 1 / (2 + 0.01 * np.arange(ROWS)))


@pytest.mark.ray
def test_no_process_that_scores_reads_a_column_that_no_model_needs(stage: Stage, ray_address: str) -> None:
    (stage.run.parent / "reads").mkdir()
    with stage.driver(*words_of("ray", ray_address), source="fakes.sources:CountingSource") as driver:
        _, said = driver.communicate(timeout=SECONDS)
    assert driver.returncode == 0, said
    found = reads(stage.run.parent)
    scoring, joining = ({one.process for one in found if one.verb == verb} for verb in ("read", "read_original"))
    assert {one.columns for one in found if one.verb == "read"} == {("row", "p")}
    assert scoring
    assert joining
    assert not scoring & joining
    assert driver.pid not in joining
    assert sum(one.rows for one in found if one.verb == "read_original" and "wide" in one.columns) >= ROWS


@pytest.mark.ray
def test_rows_of_a_unit_that_no_worker_survives_are_dead_letters(stage: Stage, ray_address: str) -> None:
    tree = json.loads(stage.spec.read_text())
    tree["variants"][1]["callable"] = {"function": "fakes.predictors:ends_its_process_at", "settings": {"row": 45}}
    tree |= {"on_error": "continue", "data": {"path": "data", "where": "row % 2 = 1"}}
    stage.spec.write_text(json.dumps(tree))
    done = assay("predict", stage.spec, "--out", stage.run, *words_of("ray", ray_address))
    assert done.code == 0, done.err
    found = pq.read_table(stage.run / "predictions")
    assert found["row"].to_pylist() == list(range(1, ROWS, 2))
    lost = set(range(41, 60, 2))  # of the unit
    assert {
        row for row, score in zip(found["row"].to_pylist(), found["new"].to_pylist(), strict=True) if score is None
    } == lost
    dead = pq.read_table(stage.run / "dead-letter").to_pylist()
    assert {one["row"] for one in dead if one["_variant"] == "new"} == lost
    assert lost <= {one["row"] for one in dead if one["_variant"] == "old"}
    assert all(str(one["_reason"]).startswith("no worker survived the unit: ") for one in dead if one["row"] in lost)
    audit = assay("verify", stage.run)
    assert audit.code == 0, audit.out
