"""Predictions of runs whose workers, drivers and joins are killed: the files are those of an undisturbed run, to the
byte, for a reader who knows nothing of manifests."""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from fakes import s3
from fakes.command import assay
from fakes.gated_run import SECONDS, GatedRun, wait_until, words_of
from fakes.sources import reads
from fakes.states import committed_units, planned_units
from ray._private.worker import global_worker

from assay import build
from assay.api import plan
from assay.pipeline.manifest import read_manifest
from assay.spec.load import load_spec
from assay.store.run import RunDirectory

pytestmark = pytest.mark.timeout(400)
ROWS, UNIT_ROWS = 200, 20
TIMES = 205
"""With so many times the rows each row group is copied as it lies: the last one has 4,100."""
HASTY = "from assay.pipeline import early, joining; joining.KEEP_SECONDS, early.END_SECONDS = 0.0, 0.5; "
"""Each join is recorded at once, and the end of the scoring hardly waits for joins."""
IMPATIENT = "from assay.cluster import outstanding; outstanding.LEAST_LATE_SECONDS = 0.5; "
"""A join is soon late."""


LOCAL_AND_RAY = [pytest.param("local", 1, id="local-decoded"), pytest.param("ray", TIMES, id="ray-copied")]
KILLED_JOINS = [pytest.param(1, {"decoded"}, id="decoded"), pytest.param(TIMES, {"copied", "decoded"}, id="copied")]
"""Before what somebody dies who joins. Where a part is copied, dead letters are decoded afterwards."""

TREE = {"data": {"path": "data"}, "carry_over": "all"}


class Stage(GatedRun):
    """A folder with wide data, a spec whose second variant can be made to stop at a row, and the run there."""

    def __init__(self, folder: Path, times: int = 1) -> None:
        """times: TIMES, so that carried columns are copied, or 1, so that they are decoded."""
        self.times, self.rows, unit_rows = times, times * ROWS, times * UNIT_ROWS
        chance = np.random.default_rng(0)
        columns = {
            "row": np.arange(float(self.rows)),
            "p": pa.array(chance.random(self.rows), mask=np.arange(self.rows) % 7 == 0),
            "id": (1 << 60) + np.arange(self.rows),
            "wide": pa.array([[f"{row}-{item}" for item in range(row % 4)] for row in range(self.rows)]),
        }
        (folder / "data").mkdir()
        pq.write_table(pa.table(columns), folder / "data" / "rows.parquet", row_group_size=3 * unit_rows)
        self.table = pq.read_table(folder / "data" / "rows.parquet")
        os.mkfifo(folder / "join")
        (folder / "joined").mkdir()
        execution = {"unit_rows": unit_rows, "micro_batch": unit_rows // 2}
        super().__init__(folder, "predict", {**TREE, "execution": execution})

    def hold_joins_from(self, row: int) -> None:
        (self.folder / "join_at").write_text(str(row))

    def let_joins_go(self) -> None:
        """None waits from now on, and none that was seen to be joined is seen any more."""
        (self.folder / "join_at").unlink()
        self.hold_open("join")
        for path in (self.folder / "joined").iterdir():
            path.unlink()

    @property
    def joined(self) -> set[int]:
        """First rows of the stretches whose join was begun."""
        return {int(path.name) for path in (self.folder / "joined").iterdir()}

    @property
    def num_recorded(self) -> int:
        """Stretches that the run directory says are joined."""
        return sum(len(json.loads(path.read_text())["joins"]) for path in (self.run / "joins").glob("*.json"))

    @property
    def deaths(self) -> set[str]:
        """Before what those died who joined: see `DeadlySource`."""
        return {path.name.removeprefix("died-") for path in self.folder.glob("died-*")}

    def check(self) -> None:
        """Every row once, in the order of the data; the files are those of an undisturbed local run."""
        reference = self.folder / "reference"
        done = assay("predict", self.spec, "--out", reference, "--executor", "local", "--workers", 1)
        assert done.code == 0, done.err
        assert committed_units(self.run) == planned_units(self.run)
        assert _files(self.run) == _files(reference)
        found = pq.read_table(self.run / "predictions")
        assert found.select(self.table.column_names).equals(self.table)
        np.testing.assert_array_equal(found["new"].to_numpy(), 1 / (2 + 0.01 * np.arange(self.rows)))
        assert pq.read_table(self.run / "dead-letter")["row"].to_pylist() == [
            row for row in range(self.rows) if row % 7 == 0
        ]
        self._check_parts()
        audit = assay("verify", self.run)
        assert audit.code == 0, audit.out

    def _check_parts(self) -> None:
        """What is copied is a file for each row group of the data, with its compression; what is decoded is a file for
        each unit, with the compression of outputs."""
        parts = read_manifest(RunDirectory.open(str(self.run))).parts
        lengths = [UNIT_ROWS] * 10 if self.times == 1 else [3 * UNIT_ROWS * TIMES] * 3 + [UNIT_ROWS * TIMES]
        assert [part.file.rows for part in parts] == lengths
        carried = "ZSTD" if self.times == 1 else "SNAPPY"
        for part in parts:
            group = pq.read_metadata(self.run / "predictions" / part.file.path).row_group(0)
            columns = [group.column(number) for number in range(group.num_columns)]
            codecs = {column.path_in_schema.split(".")[0]: column.compression for column in columns}
            assert codecs == dict.fromkeys(self.table.column_names, carried) | {"old": "ZSTD", "new": "ZSTD"}


def _files(run: Path) -> dict[str, bytes]:
    """All that a reader of the two folders would read."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for folder in ("predictions", "dead-letter")
        for path in sorted((run / folder).rglob("*"))
        if path.is_file() and not path.name.startswith("_")
    }


def reading(source: str, before: str = "") -> str:
    """A program: the command line, where a class of the tests reads files. before: statements."""
    begin = f"from assay import build; build.SOURCES['parquet'] = {source!r}; "
    return f"{begin}{before}from assay.cli.app import main; main()"


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Carried columns are decoded, unless the test asks for TIMES as many rows."""
    stage = Stage(tmp_path, getattr(request, "param", 1))
    yield stage
    stage.close()


@pytest.mark.ray
@pytest.mark.parametrize("stage", [pytest.param(TIMES, id="copied")], indirect=True)
def test_a_killed_worker(stage: Stage, ray_address: str) -> None:
    stage.stop_at(45 * TIMES)
    with stage.driver(*words_of("ray", ray_address)) as driver:
        os.kill(stage.wait_for_arrival(), signal.SIGKILL)
        stage.wait_for_arrival()  # the one that scores the unit again
        stage.go_past()
        stage.open()
        _, said = driver.communicate(timeout=SECONDS)
    assert driver.returncode == 0, said
    stage.check()


@pytest.mark.ray
@pytest.mark.parametrize(("executor", "stage"), LOCAL_AND_RAY, indirect=["stage"])
def test_a_driver_that_is_killed_while_rows_are_scored(stage: Stage, ray_address: str, executor: str) -> None:
    stage.stop_at(45 * stage.times)
    words = words_of(executor, ray_address)
    with stage.driver(*words) as driver:
        stage.wait_for_arrival()
        wait_until(driver, lambda: len(committed_units(stage.run)) >= 1, "a unit is committed")
        driver.kill()
    stage.go_past()
    stage.open()
    resumed = assay("resume", stage.run, *words)
    assert resumed.code == 0, resumed.err
    stage.check()


@pytest.mark.parametrize(("stage", "deaths"), KILLED_JOINS, indirect=["stage"])
def test_a_driver_that_is_killed_while_it_joins(stage: Stage, deaths: set[str]) -> None:
    words = ["--executor", "local", "--workers", "2"]
    while stage.deaths != deaths:
        with stage.driver(*words, program=reading("fakes.sources:DeadlySource")) as driver:
            _, said = driver.communicate(timeout=SECONDS)
        assert driver.returncode == -signal.SIGKILL, said
        assert committed_units(stage.run) == planned_units(stage.run)
        assert not (stage.run / "predictions.json").exists()
    resumed = assay("resume", stage.run, "--executor", "local")
    assert resumed.code == 0, resumed.err
    stage.check()


@pytest.mark.ray
@pytest.mark.parametrize(("executor", "stage"), LOCAL_AND_RAY, indirect=["stage"])
def test_what_a_killed_driver_has_joined_is_not_joined_again(
    stage: Stage, ray_address: str, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.hold_joins_from(120 * stage.times)
    words, source = words_of(executor, ray_address), "fakes.sources:GatedSource"
    with stage.driver(*words, program=reading(source, HASTY)) as driver:
        wait_until(driver, lambda: stage.num_recorded == 2, "two stretches are joined")
        driver.kill()
    assert stage.joined >= {0, 60 * stage.times}
    stage.let_joins_go()
    with monkeypatch.context() as patch:
        patch.setitem(build.SOURCES, "parquet", source)
        resumed = assay("resume", stage.run, *words)
    assert resumed.code == 0, resumed.err
    assert stage.joined == {120 * stage.times, 180 * stage.times}
    stage.check()


@pytest.mark.ray
def test_what_is_complete_is_joined_while_the_rest_is_scored(stage: Stage, ray_address: str) -> None:
    """The first driver is stopped at a unit, so that it commits those before it; the second one scores the rest."""
    units = plan(load_spec(stage.spec, predicting=True), base=stage.spec.parent).plan.units
    alone = next(unit for unit in units if unit.first_row == 180)  # in its row group
    assert alone in units[:7]
    words = ["--executor", "ray", "--workers", "1", "--address", ray_address]
    stage.stop_at(units[6].first_row + 5)
    with stage.driver(*words) as driver:
        stage.wait_for_arrival()
        driver.send_signal(signal.SIGINT)
        stage.open()
        _, said = driver.communicate(timeout=SECONDS)
    assert "Stopped with " in said
    assert not any((stage.run / "predictions").glob("part-*"))
    stage.close_gate()
    stage.stop_at(units[9].first_row + 5)
    with stage.driver(*words) as driver:
        stage.wait_for_arrival()
        wait_until(driver, lambda: any((stage.run / "predictions").glob("part-00009-*")), "a part is written")
        assert alone.id in committed_units(stage.run)
        assert units[9].id not in committed_units(stage.run)
        stage.open()
        _, said = driver.communicate(timeout=SECONDS)
    assert driver.returncode == 0, said
    assert "Predictions written so far: " in said
    stage.go_past()
    stage.check()


@pytest.mark.ray
@pytest.mark.parametrize("stage", [pytest.param(TIMES, id="copied")], indirect=True)
def test_a_join_that_hangs_is_done_by_another_process(stage: Stage, ray_address: str) -> None:
    """Workers hold all CPUs, so that nothing is joined before the end. The first process hangs at dead letters: both
    write the same part."""
    words, source = ["--executor", "ray", "--workers", "3", "--address", ray_address], "fakes.sources:StoppingSource"
    with stage.driver(*words, program=reading(source, HASTY + IMPATIENT)) as driver:
        _, said = driver.communicate(timeout=SECONDS)  # and nobody opens the gate
    assert driver.returncode == 0, said
    assert (stage.run.parent / "stopped").exists()
    stage.check()


@pytest.mark.ray
@pytest.mark.parametrize(("stage", "deaths"), KILLED_JOINS, indirect=["stage"])
def test_a_join_that_is_killed_on_ray_is_done_again(stage: Stage, deaths: set[str], ray_address: str) -> None:
    with stage.driver(*words_of("ray", ray_address), program=reading("fakes.sources:DeadlySource")) as driver:
        _, said = driver.communicate(timeout=SECONDS)
    assert driver.returncode == 0, said
    assert stage.deaths == deaths
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
    with stage.driver(*words_of("ray", ray_address), program=reading("fakes.sources:CountingSource")) as driver:
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


# ---- the object store ------------------------------------------------------------------------------------------------

PUT_BY_PROCESSES = re.compile(r"- bytes created by worker: (\d+)")
"""In what Ray logs when it is asked how much lies in the store of this node."""
STORE_LOGGER = logging.getLogger("ray._raylet")


class _Sizes(logging.Handler):
    """Bytes in the object store, as often as it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        [size] = PUT_BY_PROCESSES.findall(record.getMessage())
        self.found.append(int(size))

    @property
    def put(self) -> int:
        """Bytes that have come there meanwhile, whatever was deleted."""
        return sum(max(0, after - before) for before, after in itertools.pairwise(self.found))


@contextmanager
def watched_store() -> Iterator[_Sizes]:
    """The object store is asked all the time. Ray deletes what nobody refers to in batches, once a second: what is put
    there for a moment is seen too."""
    sizes, ended = _Sizes(), threading.Event()
    ask = global_worker.core_worker.log_plasma_usage

    def watch() -> None:
        while not ended.wait(0.01):
            ask()

    watching = threading.Thread(target=watch)
    level = STORE_LOGGER.level
    STORE_LOGGER.setLevel(logging.WARNING)
    STORE_LOGGER.addHandler(sizes)
    STORE_LOGGER.propagate = False
    try:
        ask()
        watching.start()
        yield sizes
        ended.set()
        watching.join()
        ask()
    finally:
        ended.set()
        STORE_LOGGER.propagate = True
        STORE_LOGGER.removeHandler(sizes)
        STORE_LOGGER.setLevel(level)


@pytest.mark.ray
@pytest.mark.parametrize(
    ("settings", "codec"),
    [pytest.param({}, "SNAPPY", id="copied"), pytest.param({"row_group_rows": 5_000}, "ZSTD", id="decoded")],
)
def test_no_wide_column_of_a_file_is_put_into_the_object_store(
    tmp_path: Path, ray_address: str, settings: dict[str, int], codec: str
) -> None:
    """32 MiB of vectors, 8 MiB in each row group. What is copied keeps the compression of the data."""
    rows, group, length = 32_768, 8_192, 256
    vectors = pa.FixedSizeListArray.from_arrays(np.arange(rows * length, dtype=np.float32), length)
    table = pa.table({"p": np.arange(rows) / rows, "vector": vectors})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=group)
    tree = {
        "data": {"path": "rows.parquet"},
        "variants": [{"name": "new", "column": "p"}],
        "carry_over": "all",
        "predictions": settings,
        "execution": {"unit_rows": 4_096},
    }
    (tmp_path / "spec.yaml").write_text(json.dumps(tree))
    words = ["--executor", "ray", "--workers", "1", "--address", ray_address]  # joins have two CPUs
    with watched_store() as of_the_run:
        done = assay("predict", tmp_path / "spec.yaml", "--out", tmp_path / "run", *words)
    assert done.code == 0, done.err
    with watched_store() as of_one_group:
        kept = ray.put(table.slice(0, group))
    assert of_one_group.put > 8 << 20, kept  # so it would have been seen
    assert of_the_run.put < 1 << 20

    parts = sorted((tmp_path / "run" / "predictions").glob("*.parquet"))
    assert pq.read_table(parts).select(table.column_names).equals(table)
    assert [pq.read_metadata(part).row_group(0).column(1).compression for part in parts] == [codec] * 4


# ---- columns that are copied -----------------------------------------------------------------------------------------

GROUP, GROUPS = 4_096, 4
KILLED_WHILE_IT_COPIES = """
import os, signal
from assay.sinks import spliced
copy, copied = spliced._Splice._copy, []
def copy_or_die(self, chunk, source):
    copied.append(chunk)
    os.kill(os.getpid(), signal.SIGKILL) if len(copied) == {at} else copy(self, chunk, source)
spliced._Splice._copy = copy_or_die
from assay.pipeline import joining; joining.KEEP_SECONDS = 0.0
from assay.cli.app import main; main()
"""
"""A program: the command line, killed as it copies the chunk with this number; a part has two. Joins are recorded at
once."""


@pytest.fixture
def tall(tmp_path: Path) -> pa.Table:
    """Twelve units in four row groups that are long enough; beside them a spec, and an undisturbed run of it."""
    rows = GROUP * GROUPS
    table = pa.table({"p": np.arange(rows) / rows, "wide": [[f"{row}"] * (row % 3) for row in range(rows)]})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=GROUP)
    spec = {
        "data": {"path": "rows.parquet"},
        "variants": [{"name": "new", "column": "p"}],
        "carry_over": ["wide"],
        "execution": {"unit_rows": 1_500, "micro_batch": 500},
    }
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    done = assay("predict", tmp_path / "spec.yaml", "--out", tmp_path / "local", "--executor", "local", "--workers", 1)
    assert done.code == 0, done.err
    return table


def check_copied(run: Path, tall: pa.Table) -> None:
    assert assay("verify", run).code == 0
    assert _files(run) == _files(run.parent / "local")
    found = pq.read_table(run / "predictions")
    assert found["wide"].equals(tall["wide"])
    assert found["new"].equals(tall["p"])
    parts = read_manifest(RunDirectory.open(str(run))).parts
    assert [part.file.rows for part in parts] == [GROUP] * GROUPS
    after = [pq.read_metadata(run / "predictions" / part.file.path).row_group(0).column(0) for part in parts]
    before = pq.read_metadata(run.parent / "rows.parquet")
    assert [one.total_compressed_size for one in after] == [
        before.row_group(number).column(1).total_compressed_size for number in range(GROUPS)
    ]


@pytest.mark.ray
def test_columns_that_are_copied_are_the_same_files_on_ray(tmp_path: Path, tall: pa.Table, ray_address: str) -> None:
    words = ["--out", tmp_path / "ray", *words_of("ray", ray_address)]
    done = assay("predict", tmp_path / "spec.yaml", *words)
    assert done.code == 0, done.err
    check_copied(tmp_path / "ray", tall)


@pytest.mark.parametrize("at", [1, 4, 7])
def test_a_driver_that_is_killed_while_it_copies(tmp_path: Path, tall: pa.Table, at: int) -> None:
    words = ["predict", tmp_path / "spec.yaml", "--out", tmp_path / "run", "--executor", "local", "--workers", 1]
    program = [sys.executable, "-c", KILLED_WHILE_IT_COPIES.format(at=at), *map(str, words)]
    killed = subprocess.run(program, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = assay("resume", tmp_path / "run")
    assert done.code == 0, done.err
    check_copied(tmp_path / "run", tall)
