"""The loop around the schedule, with a crew that answers at once, and a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.small_run import Positions, job

from assay.costs import Limits
from assay.drive import drive
from assay.errors import ModelError, RunError, Unfinished
from assay.keeper import KEEP_SECONDS
from assay.orders import Drop, Event, Flush, Flushed, Score, Stalled, UnitDone, WorkerFailed, WorkerReady
from assay.plan import in_bundles
from assay.records import CommittedFile, Failure, Job, Preparing, Progress, Receipt, Unit
from assay.spec.model import PricesSpec
from assay.store.run import RunDirectory


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Crew:
    """Each worker does at once what it is told; all answers come together, one second later."""

    def __init__(self, clock: Clock, slow: float = 0.0) -> None:
        self._clock = clock
        self._slow = slow  # seconds in which nothing happens, before the first worker is ready
        self._events: list[Event] = []
        self._held: dict[str, list[str]] = {}
        self.dropped: list[Drop] = []

    num_ahead = 0

    def foresee(self, units: Sequence[Unit]) -> None: ...

    def prepared(self) -> Sequence[Preparing]:
        return ()

    def start(self, incarnation: str, bundle: int) -> None:
        self._held[incarnation] = []
        self._events.append(WorkerReady(incarnation))

    def send(self, order: Score | Flush) -> None:
        held = self._held[order.incarnation]
        held += order.accept
        if isinstance(order, Score):
            self._events.append(self.scored(order))
            return
        file = CommittedFile(f"{order.incarnation}-{self._clock.now}", tuple(Receipt(unit, 20, "") for unit in held))
        self._events.append(Flushed(order.incarnation, file))
        self._held[order.incarnation] = []

    def scored(self, order: Score) -> Event:
        return UnitDone(order.incarnation, Receipt(order.unit.id, 20, ""))

    def drop(self, order: Drop) -> None:
        self.dropped.append(order)

    def end(self, incarnation: str) -> None:
        del self._held[incarnation]

    def wait(self, seconds: float) -> Sequence[Event]:
        self._clock.now += 1.0
        if self._clock.now < self._slow:
            return []
        events, self._events = self._events, []
        return events

    def news(self) -> list[str]:
        return []

    def cause(self, stalled: Stalled) -> str:
        return f"The crew knows why ({stalled.wait})."

    def close(self) -> None: ...


class Log:
    """In memory: one entry for each commit."""

    driver = "d"
    files: tuple[CommittedFile, ...] = ()
    lost: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.entries: list[list[CommittedFile]] = []

    def commit(self, files: Sequence[CommittedFile], failures: Sequence[Failure], lost: Sequence[str]) -> None:
        self.entries.append(list(files))

    def beat(self) -> None: ...


class Broken(Crew):
    def scored(self, order: Score) -> Event:
        return WorkerFailed(order.incarnation, ModelError("half", "it is broken."))


@pytest.fixture
def of(tmp_path: Path) -> Job:
    return job(tmp_path, {"base": "same", "half": "half"})


def run(
    of: Job,
    make: Callable[[Clock], Crew] = Crew,
    workers: int = 3,
    report: Callable[[Progress], None] = lambda _: None,
) -> Log:
    clock, log = Clock(), Log()
    drive(of, log, make(clock), workers, report, clock)
    return log


def test_flushes_that_come_together_are_one_entry_of_the_log(of: Job) -> None:
    [entry] = run(of).entries
    assert len(entry) == 3
    assert sorted(receipt.unit for file in entry for receipt in file.receipts) == [unit.id for unit in of.plan.units]


def test_a_silent_run_says_what_it_waits_for_and_why(of: Job) -> None:
    messages: list[str] = []
    run(of, lambda clock: Crew(clock, slow=130.0), 1, lambda progress: messages.append(progress.message))
    assert [message for message in messages if message] == [
        "Worker d-1 has not started yet, after 60 s. The crew knows why (start).",
        "Worker d-1 has not started yet, after 120 s. The crew knows why (start).",
    ]


def test_events_are_kept_to_the_end_of_a_run_that_fails(of: Job) -> None:
    with pytest.raises(ModelError, match="it is broken"):
        run(of, Broken)
    directory = RunDirectory.for_worker(of.run)
    [name] = directory.event_names()
    assert name == "d-000001.jsonl"
    assert b'"failed",1,"Variant \'half\': it is broken."' in directory.read_events(name)


def test_events_are_kept_now_and_then(of: Job) -> None:
    class Slow(Crew):
        def wait(self, seconds: float) -> Sequence[Event]:
            self._clock.now += KEEP_SECONDS
            return super().wait(seconds)

        def scored(self, order: Score) -> Event:
            return UnitDone(order.incarnation, Receipt(order.unit.id, 20, ""), flush_due=True)

    run(of, Slow, 1)
    assert len(RunDirectory.for_worker(of.run).event_names()) > 3


def test_a_run_goes_on_where_its_events_cannot_be_kept(of: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def save_events(self: RunDirectory, name: str, data: bytes) -> None:
        raise RunError("The disk is full.")

    monkeypatch.setattr(RunDirectory, "save_events", save_events)
    messages: list[str] = []
    log = run(of, report=lambda progress: messages.append(progress.message))
    assert len(log.entries) == 1
    assert [message for message in messages if message] == [
        "The events of this run could not be written just now: The disk is full."
    ]


def test_events_that_could_not_be_written_are_written_later(of: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Crew):
        def wait(self, seconds: float) -> Sequence[Event]:
            self._clock.now += KEEP_SECONDS
            return super().wait(seconds)

        def scored(self, order: Score) -> Event:
            return UnitDone(order.incarnation, Receipt(order.unit.id, 20, ""), flush_due=True)

    written, save_events = [], RunDirectory.save_events

    def fails_once(self: RunDirectory, name: str, data: bytes) -> None:
        written.append(name)
        if len(written) == 1:
            raise RunError("The store is away.")
        save_events(self, name, data)

    monkeypatch.setattr(RunDirectory, "save_events", fails_once)
    run(of, Slow, 1)
    assert written[:2] == ["d-000001.jsonl", "d-000001.jsonl"]
    assert list(RunDirectory.for_worker(of.run).event_names()) == sorted(set(written))


class Looks(Crew):
    """Wants to know of two units ahead."""

    num_ahead = 2

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.foreseen: list[list[str]] = []

    def foresee(self, units: Sequence[Unit]) -> None:
        self.foreseen.append([unit.id for unit in units])


def test_a_crew_is_told_what_is_next_whenever_that_changes(of: Job) -> None:
    crews: list[Looks] = []

    def make(clock: Clock) -> Crew:
        crews.append(Looks(clock))
        return crews[0]

    run(of, make, 1)
    [crew] = crews
    assert crew.foreseen == [["u000", "u001"], ["u002", "u003"], ["u003", "u004"], ["u004", "u005"], ["u005"], []]


def test_workers_are_started_with_their_bundle(of: Job) -> None:
    started: list[tuple[str, int]] = []

    class Noting(Crew):
        def start(self, incarnation: str, bundle: int) -> None:
            started.append((incarnation, bundle))
            super().start(incarnation, bundle)

    plan = replace(of.plan, units=in_bundles(of.plan.units, 2), bundles=(("base",), ("half",)))
    seen: list[Progress] = []
    log = run(replace(of, plan=plan), Noting, 1, seen.append)
    assert started == [("d-0-1", 0), ("d-1-1", 1)]
    assert [len(file.receipts) for entry in log.entries for file in entry] == [6, 6]
    assert [(one.units_done, one.rows_done) for one in seen if not one.message][-1] == (12, 120)


@pytest.mark.parametrize(
    ("limits", "options"),
    [
        (Limits(until=0.0), "--deadline TIME"),
        (Limits(max_cost=0.0, prices=PricesSpec.model_validate({"default": 1.0})), "--max-cost COST"),
    ],
)
def test_a_run_that_a_limit_stops_says_how_to_go_on_only_where_that_can_be(
    of: Job, limits: Limits, options: str
) -> None:
    assert isinstance(of.source, Positions)
    frame = replace(of, source=replace(of.source, resumable=False))
    way, no_way = f"Go on with: assay resume {of.run} {options}", "The run cannot be resumed: start it again."
    for each, said in ((of, way), (frame, no_way)):
        clock = Clock()
        with pytest.raises(Unfinished) as caught:
            drive(each, Log(), Crew(clock), 1, lambda _: None, clock, limits)
        assert str(caught.value).endswith(f"6 are left. {said}")
