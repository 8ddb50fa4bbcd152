"""Runs in a bucket of a real S3-compatible server: the same bytes as on disk, whatever the store or a driver does."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes import command, s3
from fakes.small_run import ACCUMULATORS, job, make_setup
from fakes.states import committed_tally, committed_units, planned_units, states_digest

import assay.store.log
import assay.worker
from assay.api import open_run
from assay.cluster.driver import RayExecutor
from assay.errors import Fenced, RunError
from assay.local import LocalExecutor
from assay.merge import Among, listed, merge_files, piled, read_variants
from assay.pipeline.run import saved_plan
from assay.pipeline.shards import run_accumulators
from assay.records import CommittedFile, Job, Receipt, Tally, Unit
from assay.states import digest
from assay.store.entries import read_entries
from assay.store.log import CommitLog, read_committed
from assay.store.objects import RunStore
from assay.store.process import Process
from assay.store.run import RunDirectory
from assay.worker import Worker, WorkerSetup

ROWS, UNIT_ROWS = 200, 20
ELSEWHERE = Process("elsewhere", 7, "at noon")


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    with s3.server("runs") as port:
        yield port


@pytest.fixture(autouse=True)
def _many_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each unit is flushed and committed alone, however little time it took."""
    monkeypatch.setattr(assay.worker, "FLUSH_FRACTION", float("inf"))


@pytest.fixture
def place(server: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A place of this test's own, with a blank in it."""
    use(server, monkeypatch)
    return f"s3://runs/{request.node.originalname}/my run"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    chance = np.random.default_rng(0)
    label = chance.integers(0, 2, ROWS)
    columns = {"y": label, "p": chance.random(ROWS), "q": 0.5 * chance.random(ROWS) + 0.4 * label}
    pq.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=UNIT_ROWS)
    tree = {
        "data": {"path": "rows.parquet", "label": "y"},
        "output": {"is": "probability"},
        "variants": [{"name": "old", "column": "p"}, {"name": "new", "column": "q"}],
        "baseline": "old",
        "metrics": ["auc", "log_loss"],
        "gates": [{"metric": "auc", "margin": 0.01}],
        "execution": {"unit_rows": UNIT_ROWS, "micro_batch": 10},
    }
    file = folder / "eval.yaml"
    file.write_text(json.dumps(tree))
    return file


@pytest.fixture(scope="module")
def reference(spec: Path) -> str:
    """The digest of what a run on disk that nothing disturbs commits."""
    run(spec, spec.parent / "reference")
    return digest(committed_tally(spec.parent / "reference"))


def use(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment(port).items():
        monkeypatch.setenv(name, value)


def run(spec: Path, place: str | Path, *words: object) -> None:
    answer = command.assay("run", spec, "--out", place, "--executor", "local", "--workers", "2", *words)
    assert answer.code == 0, answer.err


def check(place: str, reference: str) -> None:
    """Every unit is committed once, the bytes are those of a run on disk, and the audit passes."""
    assert committed_units(place) == planned_units(place)
    assert digest(committed_tally(place)) == reference
    answer = command.assay("verify", place)
    assert answer.code == 0, answer.out


# ---- the whole way ---------------------------------------------------------------------------------------------------


def test_every_command_takes_a_place_in_a_bucket(place: str, spec: Path, reference: str, tmp_path: Path) -> None:
    run(spec, place)
    gates = tmp_path / "gates.yaml"
    gates.write_text(json.dumps([{"metric": "log_loss", "margin": 0.01}]))
    for words in (["resume"], ["show"], ["why", "new"], ["compare", "new", "old"], ["gate", "--gates", gates]):
        answer = command.assay(words[0], place, *words[1:])
        assert (answer.code, answer.err.count("Error")) == (0, 0), (words, answer)
    [found] = json.loads(command.assay("ls", place.removesuffix("/my run"), "--json").out)
    assert (found["path"], found["state"], found["units_done"]) == (place, "finished", 10)
    assert open_run(place).path == place
    check(place, reference)


def test_no_key_is_written_into_a_run(place: str, spec: Path, server: int) -> None:
    run(spec, place)
    store = RunStore.from_url(place)
    for folder in ("", "commits", "heartbeats", "states", "results"):
        for path in store.list(folder):
            assert not any(key in store.get(path) for key in (b"nobody", b"nothing", str(server).encode())), path


def test_a_failed_call_in_ten_changes_nothing(
    place: str, spec: Path, reference: str, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3.proxied(s3.Proxy(server, s3.one_in(10))) as proxy:
        use(proxy.port, monkeypatch)
        run(spec, place)
        check(place, reference)
    assert len(proxy.faults) > 10
    assert {fault for fault, _, _ in proxy.faults} == set(s3.EVERY_KIND)


def test_parts_of_states_are_read_by_ranges(spec: Path, place: str, reference: str) -> None:
    run(spec, place)
    directory = RunDirectory.open(place)
    files = read_committed(directory).files
    among, accumulators = Among(frozenset({"main"}), frozenset({"old", "new"})), run_accumulators(saved_plan(directory))
    parts = [
        piled(read_variants(directory.open_state, listed(files), wanted, among), accumulators)
        for wanted in ({"", "old"}, {"new"})
    ]
    both = Tally((), {**parts[0].states, **parts[1].states})
    assert states_digest(both) == states_digest(committed_tally(spec.parent / "reference"))


def test_a_worker_may_start_while_the_store_is_away(place: str, server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    RunDirectory.create(place).write_head("spec.yaml", b"")
    with s3.proxied(s3.Proxy(server, lambda number, method, path: "reset" if number < 8 else None)) as proxy:
        use(proxy.port, monkeypatch)
        RunDirectory.for_worker(place).save_state("abc", b"state")
    assert len(proxy.faults) == 8
    use(server, monkeypatch)
    assert RunDirectory.open(place).read_state("abc") == b"state"


# ---- creating conditionally ------------------------------------------------------------------------------------------


def test_of_many_creators_one_wins(place: str) -> None:
    store = RunStore.from_url(place, create=True)
    for race in range(5):
        barrier, won = threading.Barrier(8), []

        def create(name: int, path: str, barrier: threading.Barrier, won: list[int]) -> None:
            barrier.wait()
            if store.put_new(path, str(name).encode()):
                won.append(name)

        path = f"commits/{race:06d}.json"
        threads = [threading.Thread(target=create, args=(name, path, barrier, won)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [str(name).encode() for name in won] == [store.get(path)]


def test_a_store_that_ignores_conditions_is_refused(
    place: str, server: int, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3.proxied(s3.Proxy(server, conditional=False)) as proxy:
        use(proxy.port, monkeypatch)
        answer = command.assay("run", spec, "--out", place)
    sentence = (
        f"Error: {place} lets an object be created twice, so that a run there could count rows twice. Put the run on "
        "storage with conditional creation: a local disk, or S3, GCS or Azure.\n"
    )
    assert (answer.code, answer.err) == (2, sentence)


@pytest.mark.parametrize("fault", s3.EVERY_KIND)
def test_an_entry_whose_answer_got_lost_is_there_once(
    place: str, server: int, monkeypatch: pytest.MonkeyPatch, fault: s3.Fault
) -> None:
    place = f"{place} {fault}"
    directory = RunDirectory.create(place)
    directory.save_state("abc", b"")
    first = [True]

    def once(number: int, method: str, path: str) -> s3.Fault | None:
        if method == "PUT" and "commits/000002" in path and first:
            first.clear()
            return fault
        return None

    with s3.proxied(s3.Proxy(server, once)) as proxy:
        use(proxy.port, monkeypatch)
        with CommitLog(RunDirectory.create(place)) as log:
            log.commit([CommittedFile("abc", (Receipt("u1", 10, "d1"),))], [], [])
            log.commit([], [], ["u2"])
    assert len(proxy.faults) == 1
    entries = read_entries(directory)
    assert [(entry.number, entry.kind, entry.driver) for entry in entries] == [
        (number, kind, log.driver) for number, kind in ((1, "takeover"), (2, "commit"), (3, "commit"))
    ]


# ---- drivers that die, sleep and wake --------------------------------------------------------------------------------


class _Killed(BaseException):
    """What a driver that is killed does not live to see."""


class Deadly:
    """Writes of a process that dies at one of them, before or after it is carried out; nothing is written then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, *, after: bool) -> None:
        self.writes = 0
        for name in ("put", "put_new"):
            monkeypatch.setattr(RunStore, name, self._deadly(getattr(RunStore, name), at, after=after))

    def _deadly(self, write: Callable[..., object], at: int, *, after: bool) -> Callable[..., object]:
        def written(store: RunStore, path: str, data: bytes) -> object:
            self.writes += 1
            if self.writes > at or (self.writes == at and not after):
                raise _Killed
            done = write(store, path, data)
            if self.writes == at:
                raise _Killed
            return done

        return written


def killed_at(spec: Path, place: str | Path, at: int, *, after: bool) -> bool:
    """Whether the run came to its end before its death."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assay.store.log, "this_process", lambda: ELSEWHERE)
        Deadly(patch, at, after=after)
        try:
            return command.assay("run", spec, "--out", place, "--executor", "local", "--workers", "1").code == 0
        except (_Killed, RuntimeError):  # in the driver's thread, or in a worker's
            return False


def units_scored(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fills with each unit that is given to a worker."""
    scored: list[str] = []
    score = Worker.score

    def noted(worker: Worker, unit: Unit, *words: Any) -> Any:  # Any: as they are
        scored.append(unit.id)
        return score(worker, unit, *words)

    monkeypatch.setattr(Worker, "score", noted)
    return scored


def resume_from_another_machine(spec: Path, place: str, reference: str) -> None:
    """Once the dead driver was silent long enough; only what is not committed is scored."""
    before = {receipt.unit for receipt in read_committed(RunDirectory.create(place)).receipts}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunStore, "now", lambda store, now=RunStore.now: now(store) + timedelta(seconds=61))
        scored = units_scored(patch)
        run(spec, place)
    assert sorted(scored) == sorted(set(planned_units(place)) - before)
    check(place, reference)


@pytest.mark.parametrize(("at", "after"), [(2, True), (13, True), (20, False), (27, True)])
def test_a_run_in_a_bucket_that_is_killed_is_resumed_from_another_machine(
    place: str, spec: Path, reference: str, at: int, after: bool
) -> None:
    place = f"{place} {at}"
    assert not killed_at(spec, place, at, after=after)
    resume_from_another_machine(spec, place, reference)


def test_a_run_that_is_killed_at_any_write_is_resumed(spec: Path, reference: str, tmp_path: Path) -> None:
    at, ended = 3, False  # at 1 and 2, of the probe, it did not even begin
    while not ended:
        place = str(tmp_path / f"run {at}")
        ended = killed_at(spec, place, at, after=at % 8 == 3)
        if not ended:
            resume_from_another_machine(spec, place, reference)
        at += 4
    assert at > 30


def test_a_driver_on_another_machine_is_left_alone_until_it_was_silent(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = RunDirectory.create(place)
    directory.save_state("abc", b"")
    with monkeypatch.context() as patch:
        patch.setattr(assay.store.log, "this_process", lambda: ELSEWHERE)
        first = CommitLog(directory)
    start = f"^The run at {place} is being worked on by process 7 on elsewhere, seen [0-9]+ seconds ago. "
    with pytest.raises(RunError, match=start):
        CommitLog(directory)
    monkeypatch.setattr(RunStore, "now", lambda store, now=RunStore.now: now(store) + timedelta(seconds=61))
    second = CommitLog(directory)
    sentence = f"^Another driver \\(process [0-9]+ on {socket.gethostname()}\\) has taken over the run at {place}: "
    with pytest.raises(Fenced, match=sentence):
        first.commit([CommittedFile("abc", (Receipt("u1", 10, "d1"),))], [], [])
    second.commit([CommittedFile("abc", (Receipt("u1", 10, "d1"),))], [], [])
    assert [entry.driver for entry in read_entries(directory)] == [first.driver, second.driver, second.driver]


# ---- objects that are not what they were -----------------------------------------------------------------------------


def test_an_altered_state_or_entry_is_named(place: str, spec: Path) -> None:
    run(spec, place)
    store = RunStore.from_url(place)
    files = read_committed(RunDirectory.open(place)).files
    state = f"states/{files[0].file}.arrow"
    whole = store.get(state)
    store.put(state, whole[: len(whole) // 2])
    assert failed_checks(place) == {"states": f"1 of {len(files)} state files missing or altered: {files[0].file}."}
    store.put(state, whole)
    entry = store.get("commits/000002.json")
    store.put("commits/000002.json", entry.replace(b'"rows":20', b'"rows":21', 1))
    sentence = (
        f"commits/000002.json in the run at {place} is torn or not an entry of a commit log (its digest is not that of "
        "its content). Do not go on with this run, start a new one."
    )
    assert failed_checks(place) == {"log": sentence}


def failed_checks(place: str) -> dict[str, str]:
    checks = json.loads(command.assay("verify", place, "--json").out)["checks"]
    return {check["name"]: check["detail"] for check in checks if not check["passed"]}


# ---- places that cannot be -------------------------------------------------------------------------------------------


def test_a_bucket_that_is_not_there_is_named(place: str, spec: Path) -> None:
    answer = command.assay("run", spec, "--out", "s3://nowhere/run")
    sentence = "Error: There is no bucket 'nowhere' for s3://nowhere/run. Make it, or correct the name.\n"
    assert (answer.code, answer.err) == (2, sentence)


def test_a_place_without_a_run_is_told(place: str) -> None:
    answer = command.assay("show", place)
    sentence = f"Error: There is no run at {place}: it has no spec.yaml. `assay ls` lists the runs of a folder.\n"
    assert (answer.code, answer.err) == (2, sentence)


def test_a_store_that_cannot_be_reached_is_told_soon(place: str, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nothing listens there
        use(unused.getsockname()[1], monkeypatch)
        answer = command.assay("run", spec, "--out", place)
    assert answer.code == 2
    assert answer.err.startswith(f"Error: {place} cannot be reached from this machine: ")
    end = (
        "Check the keys and the region in the environment (AWS_...) or the machine's role, the endpoint, and the "
        "network.\n"
    )
    assert answer.err.endswith(end)


# ---- Ray -------------------------------------------------------------------------------------------------------------


def in_a_bucket(job: Job, bundle: int) -> WorkerSetup:
    """As on a node whose environment has the keys of the store."""
    os.environ.update(json.loads((Path(job.base) / "environment.json").read_text()))
    return make_setup(job)


@pytest.mark.ray
def test_actors_write_their_states_to_the_bucket(ray_address: str, place: str, server: int, tmp_path: Path) -> None:
    of = replace(job(tmp_path, {"base": "same", "gaps": "gaps"}), run=place)
    (tmp_path / "environment.json").write_text(json.dumps(s3.environment(server)))
    tallies = []
    for executor in (LocalExecutor(2, make_setup), RayExecutor(2, in_a_bucket)):
        directory = RunDirectory.create(f"{place} {executor.name}")
        directory.write_head("spec.yaml", b"")
        with CommitLog(directory) as log:
            executor.run(replace(of, run=directory.place), log, lambda progress: None)
        tallies.append(merge_files(directory.read_state, log.files, ACCUMULATORS))
    assert digest(tallies[0]) == digest(tallies[1])
    assert [receipt.unit for receipt in tallies[0].receipts] == [unit.id for unit in of.plan.units]
