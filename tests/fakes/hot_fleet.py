"""Eight workers in simulated time, each with a GPU that runs as a trace says; around the scheduler that real runs use.

One of the GPUs is slower than the others, or gets so. What it says goes through the real reading code (`nvml.py`,
`gauge.py`) into events, as in a run. The table of docs/stragglers.md:

    PYTHONPATH=tests .venv/bin/python -m fakes.hot_fleet
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import NamedTuple

from fakes.gpus import HIGHEST_CLOCK, Card, Library, Sample, trace

from assay.gauge import READ_SECONDS, Gauge, Told
from assay.nvml import Gpu
from assay.orders import (
    Abort,
    Commit,
    Committed,
    Drop,
    End,
    Event,
    Flush,
    Flushed,
    Order,
    Score,
    StartWorker,
    Tick,
    UnitDone,
    UnitDropped,
    WorkerReady,
)
from assay.records import CommittedFile, Reading, Receipt, Unit
from assay.schedule import Schedule

WORKERS = 8
SLOW = "d-1"
"""Whose GPU is the slower one."""
ROWS = 1000
TICK_SECONDS = 0.5
FLUSH_SECONDS = 0.5
SPREAD = 0.1
"""Of the logarithm of a unit's time."""
CHUNKS = 8
"""A unit can be dropped at so many places."""
JOINED_AT = 100.0
"""Seconds for which the joined trace is the cool one."""


@dataclass(frozen=True)
class Device:
    """A GPU in simulated time. Its last sample stays."""

    samples: Sequence[Sample]

    def at(self, now: float) -> Sample:
        return self.samples[max(0, bisect_right(self.samples, now, key=lambda one: one.seconds) - 1)]

    def speed(self, now: float) -> float:
        return _speed(self.at(now))

    def ends(self, now: float, work: float) -> float:
        """When so many seconds of full speed are through that are begun now."""
        for after in self.samples[bisect_right(self.samples, now, key=lambda one: one.seconds) :]:
            done = (after.seconds - now) * self.speed(now)
            if done >= work:
                break
            work, now = work - done, after.seconds
        return now + work / self.speed(now)

    def worked(self, until: float) -> float:
        """Seconds of full speed since 0."""
        ends = [*(one.seconds for one in self.samples[1:]), math.inf]
        return sum(
            (min(end, until) - one.seconds) * _speed(one)
            for one, end in zip(self.samples, ends, strict=True)
            if one.seconds < until
        )


def _speed(sample: Sample) -> float:
    return sample.clock / HIGHEST_CLOCK


def under_load(name: str) -> tuple[Sample, ...]:
    """A trace from its first sample under load."""
    samples = [one for one in trace(name) if one.utilization >= 90]
    return tuple(one._replace(seconds=one.seconds - samples[0].seconds) for one in samples)


def joined() -> tuple[Sample, ...]:
    """Made of two stretches of the log, so that the GPU gets hot in the middle of the run: recorded parts, no recorded
    whole."""
    cool, hot = under_load("cool"), under_load("hot")
    start = hot[-1].seconds - 110.0  # its last two minutes
    later = [one._replace(seconds=one.seconds - start + JOINED_AT) for one in hot if one.seconds >= start]
    return (*(one for one in cool if one.seconds < JOINED_AT), *later)


def slowed_down() -> tuple[Sample, ...]:
    """Made, not recorded: the clock falls to a third. NVIDIA says "a factor of 2 or more" of a hardware slowdown."""
    cool = under_load("cool")
    return tuple(one if one.seconds < JOINED_AT else one._replace(clock=one.clock // 3) for one in cool)


class Outcome(NamedTuple):
    """How a run went."""

    makespan: float  # seconds
    ideal: float  # all devices busy to the last moment, none for nothing
    units: Mapping[str, int]  # accepted, by worker
    last_begun: float  # when the slow one was given its last unit that was no copy
    num_measured: int

    @property
    def over(self) -> float:
        return self.makespan / self.ideal - 1.0


@dataclass
class _Worker:
    device: Device
    gauge: Gauge
    unit: str = ""
    begun: float = 0.0
    ends: float = 0.0
    accepted: list[str] = field(default_factory=list)
    token: int = 0


class HotFleet:
    """The world around one schedule."""

    def __init__(
        self,
        slow: Sequence[Sample],
        *,
        num_units: int = 64,
        unit_seconds: float = 20.0,
        telemetry: bool = True,
        speculate: bool = True,
        seed: int = 0,
    ) -> None:
        """unit_seconds: that a unit takes a GPU at its highest clock. telemetry: what the GPUs say is asked for."""
        self._chance = random.Random(seed)
        self.units = [Unit(f"u{index}", "rows.parquet", index * ROWS, ROWS, 0) for index in range(num_units)]
        self._work = {
            unit.id: unit_seconds * math.exp(self._chance.gauss(-(SPREAD**2) / 2, SPREAD)) for unit in self.units
        }
        self._telemetry = telemetry
        self._schedule = Schedule(self.units, driver="d", num_workers=WORKERS, speculate=speculate)
        self._now = 0.0
        cool = under_load("cool")
        self._workers = {
            name: self._worker(Device(slow if name == SLOW else cool))
            for name in (f"d-{number}" for number in range(1, WORKERS + 1))
        }
        self._told = Told()
        self._due: list[tuple[float, int, str, int, Event]] = []  # (when, order, worker, token, what)
        self._num_due = self._num_measured = 0
        self._units_of: Counter[str] = Counter()
        self._begun: dict[str, str] = {}  # unit -> who was first told to score it
        self._last_begun = 0.0
        self.heard: list[tuple[float, Event]] = []
        self.given: list[list[Order]] = []

    def run(self) -> Outcome:
        orders = self._schedule.start()
        next_tick, next_read = TICK_SECONDS, READ_SECONDS
        while not self._carry_out(orders):
            if self._telemetry and next_read <= min(next_tick, self._next_due()):
                self._now, next_read = next_read, next_read + READ_SECONDS
                orders = [order for event in self._read() for order in self._handle(event)]
            elif next_tick < self._next_due():
                self._now, next_tick = next_tick, next_tick + TICK_SECONDS
                orders = self._handle(Tick())
            else:
                orders = self._next_said()
        return Outcome(self._now, self._ideal(), dict(self._units_of), self._last_begun, self._num_measured)

    def _worker(self, device: Device) -> _Worker:
        """Its GPU says at each moment what the trace says of it."""
        card = Card(pids=(7,))
        gpu = Gpu(Library({"GPU-a": card}), {"CUDA_VISIBLE_DEVICES": "0"}, 7)

        def read() -> Reading:
            sample = device.at(self._now)
            card.temperature, card.clock, card.utilization = sample.temperature, sample.clock, sample.utilization
            return gpu.read()

        return _Worker(device, Gauge(read, lambda: self._now))

    def _read(self) -> list[Event]:
        events: list[Event] = []
        for name, worker in self._workers.items():
            worker.gauge.read()
            events += self._told.changes(name, worker.gauge.pulse())
        self._num_measured += len(events)
        return events

    def _handle(self, event: Event) -> list[Order]:
        self.heard.append((self._now, event))
        self.given.append(self._schedule.handle(event, self._now))
        return self.given[-1]

    def _ideal(self) -> float:
        """The moment by which all devices together have done the work of all units: found by halving."""
        work, low, high = sum(self._work.values()), 0.0, 100_000.0
        for _ in range(60):
            middle = (low + high) / 2
            enough = sum(worker.device.worked(middle) for worker in self._workers.values()) >= work
            low, high = (low, middle) if enough else (middle, high)
        return high

    def _carry_out(self, orders: Sequence[Order]) -> bool:
        queue = list(orders)
        for order in queue:  # grows while it is read
            if isinstance(order, StartWorker):
                self._say(0.0, order.incarnation, WorkerReady(order.incarnation))
            elif isinstance(order, Score):
                self._score(order)
            elif isinstance(order, Drop):
                self._drop(order)
            elif isinstance(order, Flush):
                worker = self._workers[order.incarnation]
                held, worker.accepted = [*worker.accepted, *order.accept], []
                file = CommittedFile(f"{self._num_due:016x}", tuple(Receipt(one, ROWS, "") for one in held))
                self._units_of[order.incarnation] += len(held)
                self._say(FLUSH_SECONDS, order.incarnation, Flushed(order.incarnation, file))
            elif isinstance(order, Commit):
                queue += self._handle(Committed(order))
            elif isinstance(order, End):
                return True
            assert not isinstance(order, Abort)
        return False

    def _score(self, order: Score) -> None:
        name, unit = order.incarnation, order.unit.id
        worker = self._workers[name]
        worker.accepted += order.accept
        if self._begun.setdefault(unit, name) == SLOW == name:
            self._last_begun = self._now
        worker.unit, worker.begun, worker.ends = unit, self._now, worker.device.ends(self._now, self._work[unit])
        self._say(worker.ends - self._now, name, UnitDone(name, Receipt(unit, ROWS, "")))

    def _drop(self, order: Drop) -> None:
        """Heard at the end of a chunk."""
        worker = self._workers[order.incarnation]
        if worker.unit != order.unit or worker.ends <= self._now:
            return
        chunk = (worker.ends - worker.begun) / CHUNKS
        heard = worker.begun + math.ceil((self._now - worker.begun) / chunk) * chunk
        if heard < worker.ends:
            self._say(heard - self._now, order.incarnation, UnitDropped(order.incarnation, order.unit))
            worker.ends = heard

    def _say(self, delay: float, name: str, event: Event) -> None:
        """What it would have said before is void."""
        self._workers[name].token += 1
        self._num_due += 1
        heapq.heappush(self._due, (self._now + delay, self._num_due, name, self._workers[name].token, event))

    def _next_due(self) -> float:
        return self._due[0][0] if self._due else math.inf

    def _next_said(self) -> list[Order]:
        when, _, name, token, event = heapq.heappop(self._due)
        if token != self._workers[name].token:
            return []
        self._now = max(when, self._now)
        return self._handle(event)


WAYS = {
    "telemetry": {},
    "no telemetry": {"telemetry": False},
    "no telemetry, nothing held back or copied": {"telemetry": False, "speculate": False},
}


DEVICES = {
    "hot all along (recorded)": under_load("hot"),
    "cool, then hot (two recorded parts)": joined(),
    "at a third of its clock from 100 s on (made)": slowed_down(),
}


def main(num_seeds: int = 40) -> None:
    print("| device | unit | way | makespan | over the ideal | worst | units of the slow one | its last one begun |")
    print("|---|---|---|---|---|---|---|---|")
    for device, samples in DEVICES.items():
        for num_units, unit_seconds in ((128, 10.0), (64, 20.0), (32, 40.0)):
            for way, settings in WAYS.items():
                runs = [
                    HotFleet(samples, num_units=num_units, unit_seconds=unit_seconds, seed=seed, **settings).run()
                    for seed in range(num_seeds)
                ]
                print(
                    f"| {device} | {unit_seconds:.0f} s | {way} | {mean(one.makespan for one in runs):.1f} s "
                    f"| {100 * mean(one.over for one in runs):.1f} % | {100 * max(one.over for one in runs):.1f} % "
                    f"| {mean(one.units.get(SLOW, 0) for one in runs):.1f} "
                    f"| {mean(one.last_begun for one in runs):.0f} s |"
                )


if __name__ == "__main__":
    main()
