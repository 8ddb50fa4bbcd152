"""Whatever happens to a run, every second of every worker is in one account, and its events give the same orders again:
the real loop, schedule, log and ledger, with workers whose time is simulated. What each of them lived is added up on
the other side."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from fakes.small_run import job

from assay.costs import Accounts, Timesheet, add, from_json
from assay.drive import drive
from assay.errors import AssayError, ModelError, RunError
from assay.orders import (
    Drop,
    Event,
    Flush,
    Flushed,
    Measured,
    Resized,
    Score,
    Stalled,
    UnitDone,
    UnitDropped,
    WorkerDraining,
    WorkerFailed,
    WorkerLost,
    WorkerReady,
)
from assay.pipeline.replay import replay
from assay.plan import encode_plan
from assay.records import CommittedFile, Failure, Job, Machine, Preparing, Receipt, Unit
from assay.spec.model import Tolerance
from assay.store.log import CommitLog, read_committed
from assay.store.run import RunDirectory

MACHINES = (
    Machine("big", "spot", "h1", 0.25),
    Machine("big", "on_demand", "h2", 0.25),
    Machine("local", "", "h3", 1.0),
)


@dataclass
class Life:
    """One worker: what it does, what it says of its time, and how long it lived."""

    machine: Machine
    loading: float
    ready_at: float
    times: Timesheet = field(default_factory=Timesheet)
    pending: dict[str, Receipt] = field(default_factory=dict)
    held: list[Receipt] = field(default_factory=list)
    scoring: tuple[Unit, float] | None = None  # since
    ended_at: float | None = None

    def accept(self, units: Sequence[str]) -> None:
        for unit in units:
            self.held.append(self.pending.pop(unit))
            self.times.keep(unit)
        self.pending.clear()
        self.times.throw_away_held()


class World:
    """A crew in simulated time. Times are whole milliseconds, as the driver's clock is recorded."""

    num_ahead = 0

    def __init__(self, seed: int, directory: RunDirectory) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self._directory = directory
        self.lives: dict[str, Life] = {}
        self._due: list[tuple[float, int, Event]] = []

    def clock(self) -> float:
        return self.now

    def start(self, incarnation: str, bundle: int) -> None:
        loading = self._some(4.0)
        life = Life(self.chance.choice(MACHINES), loading, self.now + self._some(3.0) + loading)
        self.lives[incarnation] = life
        self._say(life.ready_at, WorkerReady(incarnation, life.machine, loading))

    def send(self, order: Score | Flush) -> None:
        life, name = self.lives[order.incarnation], order.incarnation
        life.accept(order.accept)
        if isinstance(order, Flush):
            self._flush(name, life)
            return
        seconds = self._some(2.0) * (8 if self.chance.random() < 0.1 else 1)
        life.scoring = (order.unit, self.now)
        end = self.now + seconds
        receipt = Receipt(order.unit.id, 20, f"digest of {order.unit.id}")
        fate = self.chance.random()
        if fate < 0.04:
            preempted = self.chance.random() < 0.5
            self._say(self._between(end), WorkerLost(name, "chance", preempted, not preempted and fate < 0.01))
        elif fate < 0.08:
            self._say(self._between(end), WorkerDraining(name, "chance", self.chance.choice([None, 0.1, 30.0])))
        elif fate < 0.09:
            self._say(self._between(end), Measured(name, self.chance.choice([0.3, 1.0]), "chance"))
        elif fate < 0.095:
            self._say(self.now, Resized(self.chance.randint(1, 6)))
        failed = fate > 0.998
        event: Event = UnitDone(name, receipt, flush_due=self.chance.random() < 0.3)
        self._say(end, WorkerFailed(name, ModelError("half", "it is broken.")) if failed else event)

    def drop(self, order: Drop) -> None:
        life = self.lives[order.incarnation]
        if life.scoring is not None and life.scoring[0].id == order.unit and self.chance.random() < 0.8:
            self._due = [one for one in self._due if not _is_of(one[2], order.incarnation)]
            heapq.heapify(self._due)
            self._say(self.now + self._some(0.1), UnitDropped(order.incarnation, order.unit))

    def end(self, incarnation: str) -> None:
        self.lives[incarnation].ended_at = self.now

    def wait(self, seconds: float) -> Sequence[Event]:
        if not self._due or self._due[0][0] > self.now + seconds:
            self.now = round(self.now + seconds, 3)
            return []
        self.now = max(self.now, self._due[0][0])
        events = []
        while self._due and self._due[0][0] <= self.now:
            event = heapq.heappop(self._due)[2]
            if isinstance(event, Resized) or self.lives[event.incarnation].ended_at is None:
                self._happens(event)
            events.append(event)  # what ended workers say is said too
        self.now = round(self.now + self.chance.choice([0.0, 0.0, 0.05]), 3)  # the driver hears of it late
        return events

    def prepared(self) -> Sequence[Preparing]:
        return ()

    def news(self) -> list[str]:
        return []

    def cause(self, stalled: Stalled) -> str:
        return ""

    def close(self) -> None:
        for life in self.lives.values():
            life.ended_at = self.now if life.ended_at is None else life.ended_at

    def _flush(self, name: str, life: Life) -> None:
        seconds = self._some(0.2)
        fate = self.chance.random()
        receipts = tuple(sorted(life.held, key=lambda one: one.unit))
        life.held = []
        if fate < 0.03:
            self._say(self.now + seconds, WorkerFailed(name, RunError("The disk is full.")))
            return
        life.times.share(seconds)
        spent = life.times.take()
        if fate < 0.06:  # the answer got lost, and the second has nothing to tell
            receipts, spent = (), life.times.take()
        file = CommittedFile(f"{name}-at-{self.now}", receipts)
        self._directory.save_state(file.file, b"")
        self._say(self.now + seconds, Flushed(name, file, spent))

    def _happens(self, event: Event) -> None:
        """What the worker books when it is through."""
        if isinstance(event, UnitDone | UnitDropped | WorkerFailed):
            life = self.lives[event.incarnation]
            if life.scoring is None:
                return
            unit, since = life.scoring
            life.scoring, seconds = None, self.now - since
            if isinstance(event, UnitDone):
                life.pending[unit.id] = event.receipt
                life.times.hold(unit.id, seconds, seconds / 4, {"base": seconds / 4, "half": seconds / 4})
            else:
                life.times.throw_away("copy" if isinstance(event, UnitDropped) else "error", seconds)

    def _say(self, at: float, event: Event) -> None:
        heapq.heappush(self._due, (round(at, 3), self.chance.getrandbits(60), event))

    def _some(self, most: float) -> float:
        return round(self.chance.uniform(0.001, most), 3)

    def _between(self, end: float) -> float:
        return self.now + self.chance.random() * (end - self.now)


def _is_of(event: Event, incarnation: str) -> bool:
    return isinstance(event, UnitDone) and event.incarnation == incarnation


class Log(CommitLog):
    """Its store fails for good, after so many commits."""

    def __init__(self, directory: RunDirectory, commits: int) -> None:
        super().__init__(directory)
        self._left = commits

    def commit(self, files: Sequence[CommittedFile], failures: Sequence[Failure], lost: Sequence[str]) -> None:
        self._left -= 1
        if self._left < 0:
            raise RunError("The store is away.")
        super().commit(files, failures, lost)


def booked(directory: RunDirectory) -> Accounts:
    whole: Accounts = {}
    for content in directory.costs():
        add(whole, from_json(json.loads(json.dumps(content))))
    return whole


@pytest.fixture
def of(tmp_path: Path) -> Job:
    made = job(tmp_path, {"base": "same", "half": "half"}, num_units=60)
    return replace(made, spec=made.spec.model_copy(update={"on_error": Tolerance(units=1.0)}))


@pytest.mark.parametrize("seed", range(20))
def test_every_second_of_every_worker_is_in_one_account(of: Job, seed: int) -> None:
    """Over several drivers, some of which the store fails; the last may finish."""
    lives: list[Life] = []
    directory = RunDirectory.create(of.run)
    directory.write_head("spec.yaml", b"")
    directory.write_head("plan.parquet", encode_plan(of.plan))
    for number in range(3):
        world = World(1000 * number + seed, directory)
        with Log(directory, commits=world.chance.choice([1, 5, 1000])) as log, suppress(AssayError):
            drive(of, log, world, world.chance.randint(1, 5), lambda _: None, world.clock)
        lives += world.lives.values()
    files = read_committed(directory).files
    lived = dict.fromkeys(MACHINES, 0.0)
    for life in lives:
        assert life.ended_at is not None
        if life.ended_at >= life.ready_at:  # of others nothing is booked: they had not loaded
            lived[life.machine] += life.loading + life.ended_at - life.ready_at
    found = booked(directory)
    for machine in MACHINES:
        amounts = [
            amount
            for account, amount in found.items()
            if (account.node_type, account.market) == (machine.node_type, machine.market)
        ]
        # Between a worker's "ready" and the driver's hearing of it lie up to 0.05 s, which nobody books.
        late = 0.05 * sum(life.machine == machine for life in lives)
        assert lived[machine] - late - 1e-6 <= sum(one.seconds for one in amounts) <= lived[machine] + 1e-6
        assert sum(one.node_seconds for one in amounts) == pytest.approx(
            sum(one.seconds for one in amounts) * machine.share
        )
    rows = 20 * sum(len(file.receipts) for file in files)
    assert sum(amount.rows for account, amount in found.items() if account.kind == "reading") == rows
    for name in ("base", "half"):
        assert sum(amount.rows for account, amount in found.items() if account.name == name) == rows
    for part in replay(of.run).parts:
        assert part.same, part.detail
