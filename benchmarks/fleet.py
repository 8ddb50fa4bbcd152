"""A run on thousands of machines that come and go, simulated: discrete events around the scheduler that real runs use.

Nothing here scores. Workers are a rate each, units a number of rows each, time is a number; what is asked is what the
decisions of `schedule.py` cost and what they are worth.

    .venv/bin/python -m benchmarks.fleet [--quick] [--workers 10000] [--units 1000000]
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from assay.orders import (
    Abort,
    Commit,
    Committed,
    Drop,
    End,
    EndWorker,
    Event,
    Flush,
    Flushed,
    Order,
    Score,
    StartWorker,
    Tick,
    UnitDone,
    UnitDropped,
    WorkerDraining,
    WorkerLost,
    WorkerReady,
)
from assay.records import CommittedFile, Receipt, Unit
from assay.schedule import Schedule

UNIT_ROWS = 30_000
"""A unit takes a worker of speed 1 thirty seconds."""
ROWS_PER_SECOND = 1_000.0
SPREAD = 0.1
"""Of the logarithm of a unit's time around what its rows say."""
START_SECONDS = 60.0
"""Until a machine is there and has loaded its models; the same for a replacement."""
FLUSH_SECONDS, FLUSH_FRACTION = 0.5, 0.02
"""A flush is due when it takes at most this share of the time since the last one, as workers decide it."""
CHUNKS = 8
"""A unit can be dropped at so many places."""
NOTICE_SECONDS = 30.0
TICK_SECONDS = 0.5
SPOT_PRICE = 0.35
"""Of a preemptible machine as a share of the price on demand: typical discounts are 60 to 70 %."""


@dataclass(frozen=True, slots=True)
class World:
    """What may befall a run."""

    name: str
    num_workers: int
    num_units: int
    losses_per_hour: float = 0.0  # of each machine
    noticed: float = 0.5  # share of the losses that are told NOTICE_SECONDS before
    slow_fraction: float = 0.0
    slowness: float = 10.0
    speculate: bool = True
    seed: int = 0


class Outcome(NamedTuple):
    """How a run went."""

    world: World
    makespan: float  # seconds of the world
    ideal: float
    repeated: float  # share of the rows that were scored more than once
    num_events: int
    schedule_seconds: float  # of a core of this machine, in the scheduler alone
    cost: float  # of all worker seconds, against an undisturbed fleet on demand


@dataclass(slots=True)
class _Machine:
    """One incarnation as the world sees it."""

    speed: float
    started: float
    flushed_at: float
    token: int = 0  # of the order that it carries out: what it would have said of others is void
    unit: Unit | None = None
    begun: float = 0.0
    takes: float = 0.0  # seconds, all of the unit
    ends: float = 0.0
    accepted: list[str] = field(default_factory=list)


class Fleet:
    """The world around one schedule."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = random.Random(world.seed)
        self._units = tuple(
            Unit(f"u{index}", "rows.parquet", index * UNIT_ROWS, UNIT_ROWS, 0) for index in range(world.num_units)
        )
        self._receipts: dict[str, Receipt] = {}
        self._machines: dict[str, _Machine] = {}
        self._due: list[tuple[float, int, str, int, Event | None]] = []  # (when, order, worker, token, what)
        self._num_due = 0
        self._now = 0.0
        self._rows_scored = 0.0
        self._worker_seconds = 0.0
        self._slow = math.floor(world.num_workers * world.slow_fraction)

    def run(self) -> Outcome:
        world = self._world
        schedule = Schedule(
            self._units, driver="d", num_workers=world.num_workers, tolerant=True, speculate=world.speculate
        )
        orders, num_events, spent, next_tick = schedule.start(), 0, 0.0, TICK_SECONDS
        while not self._carry_out(orders, schedule):
            event = None
            while event is None:
                event = Tick() if not self._due or self._due[0][0] > next_tick else self._next_event()
            if isinstance(event, Tick):
                self._now, next_tick = next_tick, next_tick + TICK_SECONDS
            begun = time.thread_time()
            orders = schedule.handle(event, self._now)
            spent += time.thread_time() - begun
            num_events += 1
        for machine in self._machines.values():
            self._worker_seconds += self._now - machine.started
        rows = world.num_units * UNIT_ROWS
        speeds = world.num_workers - self._slow + self._slow / world.slowness
        ideal = START_SECONDS + rows / (ROWS_PER_SECOND * speeds)
        on_demand = ideal * world.num_workers
        price = SPOT_PRICE if world.losses_per_hour else 1.0
        return Outcome(
            world,
            self._now,
            ideal,
            self._rows_scored / rows - 1.0,
            num_events,
            spent,
            self._worker_seconds * price / on_demand,
        )

    def _carry_out(self, orders: list[Order], schedule: Schedule) -> bool:
        queue = list(orders)
        for order in queue:  # grows while it is read
            if isinstance(order, Score):
                self._score(order)
            elif isinstance(order, Commit):
                queue += schedule.handle(Committed(order), self._now)
            elif isinstance(order, Flush):
                machine = self._machines[order.incarnation]
                machine.accepted += order.accept
                receipts = tuple(self._receipt(unit) for unit in machine.accepted)
                file = CommittedFile(f"{order.incarnation} {self._now}", receipts)
                self._say(FLUSH_SECONDS, order.incarnation, Flushed(order.incarnation, file))
                machine.accepted, machine.flushed_at = [], self._now + FLUSH_SECONDS
            elif isinstance(order, StartWorker):
                self._start(order.incarnation)
            elif isinstance(order, Drop):
                self._drop(order)
            elif isinstance(order, EndWorker):
                self._end(order.incarnation)
            elif isinstance(order, Abort):
                raise order.error
            elif isinstance(order, End):
                return True
        return False

    # -- machines

    def _start(self, name: str) -> None:
        slow = int(name.partition("-")[2]) % self._world.num_workers < self._slow  # a slow one's successor is slow
        speed = 1.0 / self._world.slowness if slow else 1.0
        self._machines[name] = machine = _Machine(speed, self._now, self._now)
        delay = START_SECONDS * self._chance.uniform(0.9, 1.1)
        machine.flushed_at += delay
        self._say(delay, name, WorkerReady(name))
        if self._world.losses_per_hour:
            life = delay + self._chance.expovariate(self._world.losses_per_hour / 3600.0)
            if self._chance.random() < self._world.noticed and life > NOTICE_SECONDS:
                draining = WorkerDraining(name, "its node is drained", NOTICE_SECONDS)
                self._say(life - NOTICE_SECONDS, name, draining, void=False)
            self._say(life, name, WorkerLost(name, "its node was taken away", preempted=True), void=False)

    def _score(self, order: Score) -> None:
        machine = self._machines[order.incarnation]
        machine.accepted += order.accept
        seconds = UNIT_ROWS / ROWS_PER_SECOND / machine.speed * math.exp(self._chance.gauss(-(SPREAD**2) / 2, SPREAD))
        machine.unit, machine.begun, machine.takes, machine.ends = order.unit, self._now, seconds, self._now + seconds
        flush_due = FLUSH_FRACTION * (self._now + seconds - machine.flushed_at) >= FLUSH_SECONDS
        receipt = self._receipt(order.unit.id)
        self._say(seconds, order.incarnation, UnitDone(order.incarnation, receipt, flush_due=flush_due))

    def _drop(self, order: Drop) -> None:
        """Heard at the end of a chunk."""
        machine = self._machines.get(order.incarnation)
        if machine is None or machine.unit is None or machine.unit.id != order.unit or machine.ends <= self._now:
            return
        chunk = machine.takes / CHUNKS
        heard = machine.begun + math.ceil((self._now - machine.begun) / chunk) * chunk
        if heard < machine.ends:
            self._say(heard - self._now, order.incarnation, UnitDropped(order.incarnation, order.unit))
            machine.ends = heard

    def _end(self, name: str) -> None:
        machine = self._machines.pop(name, None)
        if machine is None:
            return
        self._worker_seconds += self._now - machine.started
        if machine.unit is not None:
            self._rows_scored += UNIT_ROWS * (self._now - machine.begun) / machine.takes

    # -- time

    def _say(self, delay: float, name: str, event: Event, *, void: bool = True) -> None:
        """void: what is said before is not said any more, and this is not either once something else is."""
        token = -1
        if void:
            machine = self._machines[name]
            machine.token += 1
            token = machine.token
        self._num_due += 1
        heapq.heappush(self._due, (self._now + delay, self._num_due, name, token, event))

    def _next_event(self) -> Event | None:
        """None: what it was is not so any more."""
        when, _, name, token, event = heapq.heappop(self._due)
        machine = self._machines.get(name)
        if machine is None or token not in (-1, machine.token):
            return None
        self._now = when
        if isinstance(event, UnitDone | UnitDropped) and machine.unit is not None:
            self._rows_scored += UNIT_ROWS * (self._now - machine.begun) / machine.takes
            machine.unit = None
        if isinstance(event, WorkerLost):
            self._end(name)
        return event

    def _receipt(self, unit: str) -> Receipt:
        return self._receipts.setdefault(unit, Receipt(unit, UNIT_ROWS, ""))


def worlds(num_workers: int, num_units: int) -> Iterator[World]:
    plain = World("no faults", num_workers, num_units)
    yield plain
    slow = replace(plain, name="1 % at a tenth of the speed", slow_fraction=0.01)
    yield slow
    yield replace(slow, name="the same without speculation", speculate=False)
    for per_hour in (0.1, 1.0):
        yield replace(plain, name=f"{per_hour:g} losses an hour", losses_per_hour=per_hour)
    yield replace(slow, name="1 loss an hour, 1 % slow", losses_per_hour=1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="1,000 workers and 50,000 units")
    parser.add_argument("--workers", type=int, default=10_000)
    parser.add_argument("--units", type=int, default=1_000_000)
    arguments = parser.parse_args()
    size = (1_000, 50_000) if arguments.quick else (arguments.workers, arguments.units)
    table = Table("world", "makespan", "ideal", "over", "repeated", "cost", "events", "events/s", "peak GiB")
    for world in worlds(*size):
        outcome = Fleet(world).run()
        table.add_row(*_row(outcome))
        Console(stderr=True).print(" ".join(_row(outcome)))
    Console(width=140).print(table)


def _row(outcome: Outcome) -> list[str]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [
        outcome.world.name,
        f"{outcome.makespan:,.0f} s",
        f"{outcome.ideal:,.0f} s",
        f"{outcome.makespan / outcome.ideal - 1:.1%}",
        f"{outcome.repeated:.1%}",
        f"{outcome.cost:.2f}",
        f"{outcome.num_events:,}",
        f"{outcome.num_events / outcome.schedule_seconds:,.0f}",
        f"{peak:.2f}",
    ]


if __name__ == "__main__":
    main()
