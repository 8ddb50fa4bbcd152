"""The executor in this process: the reference for all others."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.small_run import ACCUMULATORS, job, make_setup

from assay.drive import MakeSetup
from assay.errors import Fenced, Interrupted, ModelError, RunError
from assay.local import LocalExecutor
from assay.merge import merge_files
from assay.records import CommittedFile, Failure, Job, Progress
from assay.states import digest
from assay.store.log import CommitLog
from assay.store.run import RunDirectory

MODELS = {"base": "same", "half": "half", "gaps": "gaps"}


def run(
    of: Job, workers: int = 1, *, setup: MakeSetup = make_setup, progress: Callable[[Progress], None] = lambda _: None
) -> RunDirectory:
    directory = RunDirectory.create(of.run)
    with CommitLog(directory) as log:
        LocalExecutor(workers, setup).run(of, log, progress)
    return directory


def merged(directory: RunDirectory) -> str:
    """The digest of all that is committed, the units' own digests included."""
    with CommitLog(directory) as log:
        return digest(merge_files(directory.read_state, log.files, ACCUMULATORS))


def committed(directory: RunDirectory) -> list[str]:
    with CommitLog(directory) as log:
        return sorted(receipt.unit for file in log.files for receipt in file.receipts)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> str:
    return merged(run(job(tmp_path_factory.mktemp("reference"), MODELS)))


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_gives_the_same_bytes(tmp_path: Path, reference: str, workers: int) -> None:
    assert merged(run(job(tmp_path, MODELS), workers)) == reference


def test_any_order_of_units_gives_the_same_bytes(tmp_path: Path, reference: str) -> None:
    of = job(tmp_path, MODELS)
    assert merged(run(replace(of, plan=replace(of.plan, units=of.plan.units[::-1])), 2)) == reference


def test_progress_ends_with_everything(tmp_path: Path) -> None:
    seen: list[Progress] = []
    run(job(tmp_path, MODELS), progress=seen.append)
    assert [one.units_done for one in seen] == [1, 2, 3, 4, 5, 6]
    assert (seen[-1].num_units, seen[-1].rows_done, seen[-1].num_rows, seen[-1].num_variants) == (6, 120, 120, 3)


def test_a_model_that_fails_ends_the_run_and_a_mended_one_goes_on(tmp_path: Path) -> None:
    of = job(tmp_path, {"base": "same", "broken": "fails_at_45"})
    with pytest.raises(ModelError, match=r"^Variant 'broken': it cannot score 45. It was given rows 44 to 47 of rows"):
        run(of)
    assert committed(RunDirectory.create(of.run)) == ["u000", "u001"]
    mended = job(tmp_path, {"base": "same", "broken": "same"})
    seen: list[Progress] = []
    directory = run(mended, progress=seen.append)
    assert (seen[0].units_done, seen[0].rows_before) == (3, 40)
    other = run(replace(mended, run=str(tmp_path / "other")))
    assert merged(directory) == merged(other)


def test_where_it_is_tolerated_a_failure_is_kept_and_the_run_goes_on(tmp_path: Path) -> None:
    directory = run(job(tmp_path, {"base": "same", "broken": "fails_at_45"}, on_error="continue"), 2)
    assert len(committed(directory)) == 6
    sentence = "it cannot score 45. It was given rows 44 to 47 of rows.parquet."
    assert directory.failures() == (Failure("u002", "broken", sentence, 20),)


def test_a_setup_that_fails_ends_the_run(tmp_path: Path) -> None:
    def setup(of: Job):
        raise RunError("There is no device.")

    with pytest.raises(RunError, match=r"^There is no device.$"):
        run(job(tmp_path, MODELS), 2, setup=setup)


def test_a_fault_of_ours_is_raised_as_it_is(tmp_path: Path) -> None:
    def setup(of: Job):
        return replace(make_setup(of), read_rows=lambda chunk: {}["rows"])

    with pytest.raises(KeyError, match="rows"):
        run(job(tmp_path, MODELS), setup=setup)


def test_a_driver_that_was_overtaken_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(self: CommitLog, files: list[CommittedFile], *_: object) -> None:
        raise Fenced("Another driver has taken over.")

    monkeypatch.setattr(CommitLog, "commit", commit)
    with pytest.raises(Fenced, match=r"^Another driver has taken over.$"):
        run(job(tmp_path, MODELS), 2)


def test_ctrl_c_commits_what_is_done_and_says_how_to_go_on(tmp_path: Path) -> None:
    of = job(tmp_path, MODELS, num_units=50)

    def interrupt(progress: Progress) -> None:
        if progress.units_done == 3 and not progress.message:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted) as caught:
        run(of, progress=interrupt)
    directory = RunDirectory.create(of.run)
    done = len(committed(directory))
    assert 3 <= done <= 5
    assert (
        str(caught.value) == f"Stopped with {done} of 50 units committed in {of.run}. Go on with: assay resume {of.run}"
    )
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert len(committed(run(of))) == 50


def test_no_thread_is_left(tmp_path: Path) -> None:
    run(job(tmp_path, MODELS), 3)
    assert [one.name for one in threading.enumerate() if one.name.startswith("assay-d")] == []


def test_no_workers_no_run() -> None:
    with pytest.raises(RunError, match=r"^0 workers cannot score anything; give 1 or more.$"):
        LocalExecutor(0, make_setup)
