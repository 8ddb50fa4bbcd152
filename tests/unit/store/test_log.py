"""The commit log: one driver at a time, and nothing counts but what an entry says."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

import assay.store.entries
import assay.store.log
from assay.errors import Fenced, RunError
from assay.records import CommittedFile, Failure, Receipt
from assay.store.entries import read_entries
from assay.store.log import CommitLog, read_committed
from assay.store.objects import RunStore
from assay.store.process import Process, this_process
from assay.store.run import RunDirectory

FILE = CommittedFile("abc", (Receipt("u1", 10, "d1", ("b",)), Receipt("u2", 12, "d2")))
ELSEWHERE = Process("elsewhere", 7, "at noon")
DEAD = replace(this_process(), started="long ago")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory.create(str(tmp_path / "run"))
    run.save_state("abc", b"")
    return run


def log_of(run: RunDirectory, process: Process, monkeypatch: pytest.MonkeyPatch, now: float = 1000.0) -> CommitLog:
    """A log in the hands of a driver that is not this process."""
    with monkeypatch.context() as patch:
        patch.setattr(assay.store.log, "this_process", lambda: process)
        return CommitLog(run, clock=lambda: now)


def test_what_is_committed_comes_back(run: RunDirectory) -> None:
    with CommitLog(run) as log:
        log.commit([FILE], [Failure("u1", "b", "it broke.", 10)], ["u3"])
        assert (log.files, log.lost) == ((FILE,), ("u3",))
    assert [entry.kind for entry in read_entries(run)] == ["takeover", "commit"]
    committed = read_committed(run)
    assert (committed.files, committed.lost, committed.finished) == ((FILE,), ("u3",), False)
    assert committed.receipts == FILE.receipts
    assert run.failures(committed.receipts, ()) == (Failure("u1", "b", "it broke.", 10),)


def test_the_next_driver_goes_on_where_the_last_one_ended(run: RunDirectory) -> None:
    with CommitLog(run) as first:
        first.commit([FILE], [], [])
    with CommitLog(run) as second:
        assert second.files == (FILE,)
        assert second.driver != first.driver
    assert [entry.number for entry in read_entries(run)] == [1, 2, 3]


def test_a_driver_whose_place_was_taken_stops(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    first = log_of(run, DEAD, monkeypatch)
    CommitLog(run)
    sentence = (
        f"Another driver \\(process {this_process().pid} on {socket.gethostname()}\\) has taken over the run at "
        f"{run.place}: this one stops. What it had committed is kept."
    )
    with pytest.raises(Fenced, match=f"^{sentence}$"):
        first.commit([FILE], [], [])
    assert read_committed(run).files == ()


def test_a_driver_that_did_not_hear_of_its_own_success_goes_on(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = CommitLog(run)
    create = run.store.put_new
    monkeypatch.setattr(run.store, "put_new", lambda path, data: create(path, data) and False)
    log.commit([FILE], [], [])
    assert log.files == (FILE,)


def test_a_finished_run_takes_no_driver(run: RunDirectory) -> None:
    with CommitLog(run) as log:
        log.finish()
    assert read_committed(run).finished
    with pytest.raises(RunError, match=f"^The run at {run.place} is finished: there is nothing to go on with.$"):
        CommitLog(run)


def test_a_state_file_that_the_driver_cannot_see_is_refused(run: RunDirectory) -> None:
    log = CommitLog(run)
    sentence = (
        f"A worker wrote states/xyz.arrow, but it is not in the run at {run.place} as the driver sees it. The run "
        "directory must be on storage that all nodes see, at the same path."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        log.commit([CommittedFile("xyz", ())], [], [])


def test_entries_are_in_the_order_of_their_numbers_whatever_their_digits(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (assay.store.entries, assay.store.log):
        monkeypatch.setattr(module, "entry_path", lambda number: f"commits/{number}.json")  # 10 is as 1,000,000
    monkeypatch.setattr(assay.store.entries, "MOST_SORTED", 0)
    with CommitLog(run) as log:
        for _ in range(10):
            log.commit([], [], [])
    assert [entry.number for entry in read_entries(run)] == list(range(1, 12))


# ---- the lease -------------------------------------------------------------------------------------------------------


def test_a_living_driver_of_this_host_is_not_disturbed(run: RunDirectory) -> None:
    CommitLog(run)
    pid = this_process().pid
    sentence = (
        f"The run at {run.place} is being worked on by process {pid} on this machine. Wait until it ends, or stop it "
        f"\\(kill -INT {pid}\\), then resume."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        CommitLog(run)


def test_a_dead_driver_of_this_host_is_followed_at_once(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(run, DEAD, monkeypatch)
    CommitLog(run, clock=lambda: 1001.0)


def test_a_driver_elsewhere_is_followed_once_it_was_silent(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock of the store: that of this process says 1970."""
    first = log_of(run, ELSEWHERE, monkeypatch)
    last_sign = run.store.written(f"heartbeats/{first.driver}.json")
    assert last_sign is not None
    monkeypatch.setattr(RunStore, "now", lambda store: last_sign + timedelta(seconds=59))
    sentence = (
        f"The run at {run.place} is being worked on by process 7 on elsewhere, seen 59 seconds ago. Stop it there, or "
        "resume once it has been silent for 60 seconds."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        CommitLog(run, clock=lambda: 0.0)
    monkeypatch.setattr(RunStore, "now", lambda store: last_sign + timedelta(seconds=60))
    CommitLog(run, clock=lambda: 0.0)


def test_a_driver_elsewhere_that_has_no_lease_yet_is_seen_by_its_entry(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = log_of(run, ELSEWHERE, monkeypatch)
    (tmp_path / f"run/heartbeats/{first.driver}.json").unlink()
    with pytest.raises(RunError, match=r" is being worked on by process 7 on elsewhere, seen \d seconds ago\."):
        CommitLog(run)


def test_a_driver_elsewhere_that_ended_is_followed_at_once(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(run, ELSEWHERE, monkeypatch).release()
    CommitLog(run, clock=lambda: 1001.0)


def test_a_lease_that_cannot_be_given_back_hides_no_error(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        with CommitLog(run):
            monkeypatch.setattr(RunStore, "put", _full)
            raise RunError("What went wrong first.")

    with pytest.raises(RunError, match=r"^What went wrong first\.$"):
        work()


def test_a_lease_that_cannot_be_given_back_fails_no_finished_run(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CommitLog(run) as log:
        log.finish()
        monkeypatch.setattr(RunStore, "put", _full)
    assert read_committed(run).finished


def _full(store: RunStore, path: str, data: bytes) -> None:
    raise RunError(f"{path} cannot be written: No space left on device.")


def test_the_lease_is_renewed_every_ten_seconds(tmp_path: Path, run: RunDirectory) -> None:
    now = [1000.0]
    log = CommitLog(run, clock=lambda: now[0])
    lease = tmp_path / f"run/heartbeats/{log.driver}.json"
    beats = []
    for now[0] in (1009.0, 1010.0, 1019.0, 1020.0):
        log.beat()
        beats.append(json.loads(lease.read_bytes())["beat"])
    assert beats == [1000.0, 1010.0, 1010.0, 1020.0]


# ---- a damaged log ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b'{"number": 1', b"[]", b"{}", b'{"number": 1, "kind": "commit"}'])
def test_a_torn_entry_is_named(run: RunDirectory, content: bytes) -> None:
    run.store.put_new("commits/000001.json", content)
    start = f"^commits/000001.json in the run at {run.place} is torn or not an entry of a commit log "
    with pytest.raises(RunError, match=start):
        read_entries(run)


def test_an_entry_that_is_another_one_is_named(run: RunDirectory, tmp_path: Path) -> None:
    CommitLog(run).commit([FILE], [], [])
    (tmp_path / "run/commits/000002.json").write_bytes((tmp_path / "run/commits/000001.json").read_bytes())
    sentence = (
        f"commits/000002.json in the run at {run.place} is torn or not an entry of a commit log \\(it says that it is "
        "takeover 1\\). Do not go on with this run, start a new one."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        read_entries(run)


def test_a_missing_entry_is_named(run: RunDirectory, tmp_path: Path) -> None:
    CommitLog(run).commit([FILE], [], [])
    (tmp_path / "run/commits/000001.json").unlink()
    sentence = f"commits/000001.json is missing from the run at {run.place}, though commits/000002.json is there."
    with pytest.raises(RunError, match=f"^{sentence}$"):
        read_entries(run)


# ---- what the run is -------------------------------------------------------------------------------------------------


def test_the_first_commit_says_what_the_head_was(run: RunDirectory) -> None:
    run.write_head("spec.yaml", b"data: {}")
    run.write_head("plan.parquet", b"a plan")
    with CommitLog(run) as log:
        run.write_head("plan.parquet", b"another plan")  # until a unit is committed it may change
        log.commit([FILE], [], [])
        log.commit([], [], ["u3"])
    takeover, first, second = read_entries(run)
    assert first.head == {
        "spec.yaml": sha256(b"data: {}").hexdigest(),
        "plan.parquet": sha256(b"another plan").hexdigest(),
    }
    assert (takeover.head, second.head) == ({}, {})
    assert read_committed(run).head == first.head
    assert run.altered_head(first.head) == []
    run.write_head("plan.parquet", b"a third plan")
    assert run.altered_head(first.head) == ["plan.parquet"]
    run.store.delete("spec.yaml")
    assert run.altered_head(first.head) == ["spec.yaml", "plan.parquet"]


def test_the_next_driver_does_not_say_it_again(run: RunDirectory) -> None:
    run.write_head("spec.yaml", b"data: {}")
    with CommitLog(run) as log:
        log.commit([FILE], [], [])
    run.write_head("spec.yaml", b"altered")
    with CommitLog(run) as log:
        log.commit([], [], ["u3"])
    assert run.altered_head(read_committed(run).head) == ["spec.yaml"]


def test_a_log_that_does_not_say_it_is_read_as_before(run: RunDirectory) -> None:
    """Without files of the head, entries are byte for byte those of older versions."""
    with CommitLog(run) as log:
        log.commit([FILE], [], [])
    assert b"head" not in run.store.get("commits/000002.json")
    run.write_head("spec.yaml", b"data: {}")
    assert run.altered_head(read_committed(run).head) == []


def test_outputs_that_are_not_there_are_not_committed(run: RunDirectory) -> None:
    file = replace(FILE, predictions="def")
    with CommitLog(run) as log:
        with pytest.raises(RunError, match=r"^A worker wrote outputs/def\.arrow, but it is not in the run at"):
            log.commit([file], [], [])
        assert read_committed(run).files == ()
        run.save_outputs("def", b"")
        log.commit([file], [], [])
    assert read_committed(run).files == (file,)
