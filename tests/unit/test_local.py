"""The executor in this process: the reference for all others."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from fakes.small_run import ACCUMULATORS, FUNCTIONS, FakeModel, job, make_setup
from threadpoolctl import threadpool_info, threadpool_limits

import assay.drive
import assay.local
from assay.drive import MakeSetup
from assay.errors import Fenced, Interrupted, ModelError, RunError
from assay.local import MOST_HANGING, LocalExecutor, _Threads
from assay.merge import merge_files
from assay.orders import Score, WorkerFailed, WorkerReady
from assay.records import CommittedFile, Failure, Job, Progress
from assay.spec.model import ExecutionSpec, WorkersSpec
from assay.states import digest
from assay.store.log import CommitLog
from assay.store.run import RunDirectory
from assay.worker import WorkerSetup

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
    with CommitLog(directory) as log:
        receipts = [receipt for file in log.files for receipt in file.receipts]
    sample = '[{"x": 44.0}, {"x": 45.0}, {"x": 46.0}]'
    assert directory.failures(receipts, ()) == (Failure("u002", "broken", sentence, 20, sample),)


def test_a_variant_is_named_when_it_first_fails(tmp_path: Path) -> None:
    seen: list[Progress] = []
    run(job(tmp_path, {"base": "same", "broken": "fails_at_45"}, on_error="continue"), progress=seen.append)
    sentence = (
        "Variant 'broken' failed on a unit: it cannot score 45. It was given rows 44 to 47 of rows.parquet; the others "
        "go on."
    )
    assert [one.message for one in seen if one.message] == [sentence]


def test_a_setup_that_fails_ends_the_run(tmp_path: Path) -> None:
    def setup(of: Job, bundle: int):
        raise RunError("There is no device.")

    with pytest.raises(RunError, match=r"^There is no device.$"):
        run(job(tmp_path, MODELS), 2, setup=setup)


def test_a_fault_of_ours_is_raised_as_it_is(tmp_path: Path) -> None:
    def setup(of: Job, bundle: int):
        return replace(make_setup(of), read=lambda unit: {}["rows"])

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


def test_a_worker_that_is_ended_before_its_thread_runs_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crew, threads = _Threads(job(tmp_path, MODELS), make_setup), list[threading.Thread]()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda thread: threads.append(thread))
        crew.start("d-1", 0)
    crew.end("d-1")
    [thread] = threads
    thread.start()
    crew.close()
    assert crew.wait(1.0) == [WorkerReady("d-1")]
    assert not thread.is_alive()


@dataclass(frozen=True)
class Threaded(FakeModel):
    """A model that computes on as many threads as `threads` says, and on those of BLAS; it notes both."""

    threads: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        before, self.threads[0] = self.threads[0], 1
        yield
        self.threads[0] = before

    def score(self, prepared: np.ndarray, rows: slice) -> Mapping[str, np.ndarray]:
        self.seen.extend([*self.threads, *num_blas_threads()])
        return super().score(prepared, rows)


def num_blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_models_have_one_thread_and_afterwards_as_many_as_before(tmp_path: Path, on_error: str) -> None:
    function = FUNCTIONS["same" if on_error == "continue" else "fails_at_45"](job(tmp_path, MODELS))
    model = Threaded("base", function, threads=[4])

    def setup(of: Job, bundle: int) -> WorkerSetup:
        made = make_setup(of)
        return replace(made, scoring=replace(made.scoring, models=(model,)))

    with threadpool_limits(limits=2), suppress(ModelError):
        run(job(tmp_path, {"base": "same"}, on_error=on_error), 2, setup=setup)
        assert num_blas_threads() == {2}
    assert set(model.seen) == {1}
    assert model.threads == [4]


def test_a_unit_whose_model_hangs_is_scored_by_another_worker(tmp_path: Path) -> None:
    """The first to come to position 45 waits to the end of the test, and what it held is scored again."""
    go, arrived = threading.Event(), list[str]()

    def hangs_once(x: np.ndarray) -> np.ndarray:
        if 45.0 in x and not arrived:
            arrived.append(threading.current_thread().name)
            go.wait()
        return x

    def setup(of: Job, bundle: int) -> WorkerSetup:
        made = make_setup(of)
        return replace(made, scoring=replace(made.scoring, models=(FakeModel("base", hangs_once),)))

    of = job(tmp_path, {"base": "same"})
    result = merged(run(of, 2, setup=setup))
    go.set()
    assert len(arrived) == 1
    (tmp_path / "plain").mkdir()
    assert result == merged(run(replace(of, run=str(tmp_path / "plain"))))


def hanging(go: threading.Event, *, loading: bool = False) -> MakeSetup:
    """Whoever comes to position 45, or loads, waits to the end of the test."""

    def hangs(x: np.ndarray) -> np.ndarray:
        if 45.0 in x:
            go.wait()
        return x

    def setup(of: Job, bundle: int = 0) -> WorkerSetup:
        if loading:
            go.wait()
        made = make_setup(of)
        return replace(made, scoring=replace(made.scoring, models=(FakeModel("base", hangs),)))

    return setup


def test_a_unit_that_hangs_is_given_up_where_that_is_tolerated_and_shown_by_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for often in ("TICK_SECONDS", "WAIT_SECONDS"):
        monkeypatch.setattr(assay.drive, often, 0.05)
    of, go, seen = job(tmp_path, {"base": "same"}, on_error="continue"), threading.Event(), list[Progress]()
    spec = of.spec.model_copy(update={"execution": ExecutionSpec(unit_seconds=0.25)})
    directory = run(replace(of, spec=spec), 2, setup=hanging(go), progress=seen.append)
    go.set()
    assert len(committed(directory)) == 5
    [failure] = directory.failures((), ["u002"])
    assert failure.error.startswith(
        "Unit u002 (rows.parquet, from row 40) was being scored at 4 deaths of a worker, the "
    )
    assert (failure.variant, failure.rows) == ("", 20)
    assert failure.sample == '[{"x": 40.0}, {"x": 41.0}, {"x": 42.0}]'
    assert sum("execution.unit_seconds allows 0.25" in one.message for one in seen) >= 4


def test_threads_that_hang_and_cannot_be_ended_stop_the_run_when_they_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assay.local, "HANGING_SECONDS", 0.0)
    go, of = threading.Event(), job(tmp_path, {"base": "same"})
    crew = _Threads(of, hanging(go))
    for number in range(1, MOST_HANGING + 2):
        crew.start(f"d-{number}", 0)
        assert isinstance(crew.wait(10.0)[0], WorkerReady)
        crew.send(Score(f"d-{number}", of.plan.units[2], None, ()))
        crew.end(f"d-{number}")
    crew.start("d-10", 0)
    [event] = crew.wait(10.0)
    go.set()
    crew.close()
    assert isinstance(event, WorkerFailed)
    assert event.ends_run
    assert str(event.error) == (
        "9 workers hang, each in a unit that it was told to give up. They are threads of this process, which cannot be "
        "ended: each keeps its memory and its core. What is committed is kept. `assay replay` names the units; mend "
        "the cause and resume the run, with --executor ray if it may come again: there a worker is a process of its "
        "own."
    )


def test_a_thread_that_hangs_while_it_loads_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others load after it."""
    monkeypatch.setattr(assay.local, "HANGING_SECONDS", 0.0)
    go = threading.Event()
    crew = _Threads(job(tmp_path, {"base": "same"}), hanging(go, loading=True))
    crew.start("d-1", 0)
    crew.end("d-1")
    crew.start("d-2", 0)
    [event] = crew.wait(10.0)
    go.set()
    crew.close()
    assert isinstance(event, WorkerFailed)
    assert str(event.error).startswith("A worker hangs while it loads its variants, and others load after it. They are")


def test_a_thread_that_was_ended_a_moment_ago_may_still_be_loading(tmp_path: Path) -> None:
    go = threading.Event()
    crew = _Threads(job(tmp_path, {"base": "same"}), hanging(go, loading=True))
    crew.start("d-1", 0)
    crew.end("d-1")
    crew.start("d-2", 0)
    go.set()
    assert {type(event) for event in [*crew.wait(10.0), *crew.wait(10.0)]} == {WorkerReady}
    crew.close()


def test_threads_that_were_ended_and_have_ended_are_no_reason_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assay.local, "HANGING_SECONDS", 0.0)
    crew = _Threads(job(tmp_path, {"base": "same"}), make_setup)
    for number in range(1, 3 * MOST_HANGING):
        crew.start(f"d-{number}", 0)
        assert isinstance(crew.wait(10.0)[0], WorkerReady)
        crew.end(f"d-{number}")
    crew.close()


def test_no_thread_is_left(tmp_path: Path) -> None:
    run(job(tmp_path, MODELS), 3)
    assert [one.name for one in threading.enumerate() if one.name.startswith("assay-d")] == []


@dataclass(frozen=True)
class Waits:
    """Item 0 is done when item 3 is."""

    third: threading.Event
    base: str = ""
    workers: WorkersSpec = field(default_factory=WorkersSpec)

    def __call__(self, item: int) -> int:
        if item == 3:
            self.third.set()
        assert item != 0 or self.third.wait(60), "a slow item keeps others from being done"
        return item * item


def test_work_is_done_by_as_many_threads_as_there_are_workers_whoever_is_slow() -> None:
    found = list(LocalExecutor(2, make_setup).map(Waits(threading.Event()), range(4)))
    assert sorted((one.number, one.result) for one in found) == [(0, 0), (1, 1), (2, 4), (3, 9)]
    assert [one.number for one in found][:2] == [1, 2]
    assert {one.machine.share for one in found} == {0.5}
    assert all(one.seconds >= 0 for one in found)
    assert list(LocalExecutor(2, make_setup).map(Waits(threading.Event()), [])) == []


def test_workers_have_all_cpus_so_that_nothing_is_done_beside_them() -> None:
    assert LocalExecutor(2, make_setup).aside(WorkersSpec()) is None


def test_no_workers_no_run() -> None:
    with pytest.raises(RunError, match=r"^0 workers cannot score anything; give 1 or more.$"):
        LocalExecutor(0, make_setup)
