"""Workers and drivers that are killed or stopped, through the command line: each unit counts once, and the states are
the bytes of an undisturbed run."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.command import assay
from fakes.gated_run import SECONDS, GatedRun, wait_until, words_of
from fakes.states import committed_tally, committed_units, planned_units

from assay.states import digest

pytestmark = pytest.mark.timeout(900)
ROWS, UNIT_ROWS = 200, 20
TREE = {
    "data": {"path": "rows.parquet", "label": "y"},
    "output": {"is": "probability"},
    "baseline": "old",
    "metrics": ["auc", "log_loss"],
    "execution": {"unit_rows": UNIT_ROWS, "micro_batch": 10},
}


class Stage(GatedRun):
    """A folder with data, a spec whose second variant can be made to stop at a row of the data, and the run there."""

    def __init__(self, folder: Path) -> None:
        chance = np.random.default_rng(0)
        columns = {"y": chance.integers(0, 2, ROWS), "row": np.arange(float(ROWS)), "p": chance.random(ROWS)}
        pq.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=UNIT_ROWS)
        super().__init__(folder, "run", TREE)

    def open(self) -> None:
        """Whoever stands at the row goes on, and nobody stops there again."""
        self.go_past()
        super().open()

    def check(self) -> None:
        """Every unit is committed once, the bytes are those of an undisturbed local run, and the audit passes."""
        reference = self.folder / "reference"
        assert assay("run", self.spec, "--out", reference, "--executor", "local", "--workers", 1).code == 0
        assert committed_units(self.run) == planned_units(self.run)
        assert digest(committed_tally(self.run)) == digest(committed_tally(reference))
        assert assay("verify", self.run).code == 0


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.close()


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """What the process says on stderr up to the line with these words; it must say them in time."""
    assert process.stderr is not None
    said = ""
    deadline = time.monotonic() + SECONDS
    while words not in said:
        ready, _, _ = select.select([process.stderr], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"it did not say {words!r} within {SECONDS} seconds, but: {said}"
        line = process.stderr.readline()
        assert line, f"it ended without saying {words!r}: {said}"
        said += line
    return said


@pytest.mark.ray
def test_a_killed_actor_is_replaced_and_its_units_count_once(stage: Stage, ray_address: str) -> None:
    stage.stop_at(45)
    with stage.driver(*words_of("ray", ray_address)) as driver:
        actor = stage.wait_for_arrival()
        os.kill(actor, signal.SIGKILL)
        stage.wait_for_arrival()  # the one that scores the unit again
        stage.open()
        _, said = driver.communicate(timeout=SECONDS)
    assert driver.returncode == 0, said
    assert " was lost (its process died); its units are scored again." in said
    stage.check()


@pytest.mark.ray
@pytest.mark.parametrize("executor", ["local", "ray"])
def test_a_killed_driver_is_resumed(stage: Stage, ray_address: str, executor: str) -> None:
    stage.stop_at(45)
    words = words_of(executor, ray_address)
    with stage.driver(*words) as driver:
        stage.wait_for_arrival()
        wait_until(driver, lambda: len(committed_units(stage.run)) > 0, "the other worker's unit is committed")
        driver.kill()
    before = committed_units(stage.run)
    stage.open()
    assert len(before) < len(planned_units(stage.run))
    shown = assay("show", stage.run)
    assert (shown.code, shown.err[:6]) == (4, "Error:")
    resumed = assay("resume", stage.run, *words)
    assert resumed.code == 0, resumed.err
    stage.check()


def test_ctrl_c_ends_with_a_sentence_and_what_is_done_is_kept(stage: Stage) -> None:
    stage.stop_at(45)
    with stage.driver("--executor", "local", "--workers", "1") as driver:
        stage.wait_for_arrival()
        driver.send_signal(signal.SIGINT)
        said = read_until(driver, "Stopping: units in flight are finished and committed.")
        stage.open()
        said += driver.communicate(timeout=SECONDS)[1]
    assert driver.returncode == 4, said
    assert "Traceback" not in said
    done, units = len(committed_units(stage.run)), len(planned_units(stage.run))
    assert 1 <= done < units
    sentence = f"Stopped with {done} of {units} units committed in {stage.run}. Go on with: assay resume {stage.run}"
    assert sentence in said
    assert assay("resume", stage.run).code == 0
    stage.check()


@pytest.mark.ray
@pytest.mark.parametrize("executor", ["local", "ray"])
def test_a_second_ctrl_c_does_not_wait_for_what_is_in_flight(stage: Stage, ray_address: str, executor: str) -> None:
    stage.stop_at(45)
    words = words_of(executor, ray_address)
    with stage.driver(*words) as driver:
        stage.wait_for_arrival()
        driver.send_signal(signal.SIGINT)
        said = read_until(driver, "Press Ctrl-C again to drop them.")
        driver.send_signal(signal.SIGINT)
        said += driver.communicate(timeout=SECONDS)[1]  # the gate is closed all the while
    assert driver.returncode == 4, said
    assert "Traceback" not in said
    last = f"Error: Stopped. What is committed in {stage.run} is kept, and the same command goes on."
    assert said.splitlines()[-1] == last
    stage.open()
    assert assay("resume", stage.run, *words).code == 0
    stage.check()
