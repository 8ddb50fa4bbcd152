"""The workers of a driver's run: what each one does, since when, and how fast it is.

A worker's expected rate is what was measured of it, at the speed that its device is said to have now: one that gets hot
counts as slow before its unit is late. Not here: what any of them gets to do (`supply.py`, `schedule.py`), how a speed
is found (`telemetry.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from assay.pace import Pace
from assay.records import Failure, Receipt

WORKER_WEIGHT, CREW_WEIGHT = 0.3, 0.01
"""Of the last unit in the measured rates; see Pace."""

State = Literal["starting", "idle", "scoring", "flushing"]


@dataclass(slots=True)
class Worker:
    """What a driver knows of one incarnation. Units go by their position."""

    name: str
    number: int
    since: float  # when it began what it does
    deadline: float = math.inf  # by which it must be done
    state: State = "starting"
    unit: int | None = None  # in flight
    expected: float | None = None  # seconds that it should take
    partner: Worker | None = None  # that scores the same unit
    beaten: bool = False  # the partner was faster: what it says of the unit counts for nothing
    upcoming: int | None = None  # reserved for it; taken from it by a worker that has nothing else
    riding: tuple[str, ...] = ()  # accepted, and to be told so with the next order
    accepted: dict[str, Receipt] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    flush_due: bool = False
    flushed_at: float = 0.0
    draining: bool = False
    listed: bool = False  # among the idle
    pace: Pace = field(default_factory=lambda: Pace(WORKER_WEIGHT))
    speed: float = 1.0  # of its device, as far as is known; 1 is full
    speed_since: float = 0.0  # when that, or what it does, began
    worked: float = 0.0  # seconds of full speed that it has done before, of what it does


class Roster:
    """All workers by name, in the order in which they were asked for."""

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self.num_in: Counter[State] = Counter()
        self.num_draining = 0
        self.first_deadline = math.inf  # no worker has an earlier one
        self.pace = Pace(CREW_WEIGHT)  # of all
        self.now = 0.0  # seconds since the start
        self._speeds = 0.0  # sum of all workers'
        self._num_added = 0

    def add(self, driver: str, seconds: float) -> Worker:
        """One more, which must be ready within so many seconds. No name is used twice."""
        self._num_added += 1
        worker = Worker(f"{driver}-{self._num_added}", self._num_added, self.now)
        self.workers[worker.name] = worker
        self._speeds += worker.speed
        self.num_in[worker.state] += 1
        self.turn(worker, "starting", seconds)
        return worker

    def remove(self, worker: Worker) -> None:
        del self.workers[worker.name]
        self.num_in[worker.state] -= 1
        self.num_draining -= worker.draining
        self._speeds -= worker.speed

    def turn(self, worker: Worker, state: State, seconds: float = math.inf) -> None:
        """seconds: within which it must be through."""
        self.num_in[worker.state] -= 1
        self.num_in[state] += 1
        worker.state, worker.since, worker.deadline = state, self.now, self.now + seconds
        worker.speed_since, worker.worked = self.now, 0.0
        self.first_deadline = min(self.first_deadline, worker.deadline)

    def measure(self, worker: Worker, rows: int) -> None:
        """It has just been through with a unit of so many rows."""
        seconds, speed = self.now - worker.since, self.mean_speed(worker)
        worker.pace.measure(rows, seconds, speed)
        self.pace.measure(rows, seconds, speed)

    def mean_speed(self, worker: Worker) -> float:
        """Of its device since it began what it does."""
        seconds = self.now - worker.since
        return self._worked(worker) / seconds if seconds > 0 else worker.speed

    @property
    def typical_rate(self) -> float | None:
        """Rows a second of one worker like the others, as their devices run now; None: nothing was measured."""
        if self.pace.rate is None or not self.workers:
            return self.pace.rate
        return self.pace.rate * self._speeds / len(self.workers)

    def rate(self, worker: Worker) -> float | None:
        """Of this one as its device runs now; as fast as others at the same speed where it was not measured."""
        rate = worker.pace.rate or self.pace.rate
        return rate * worker.speed if rate else None

    def seconds(self, worker: Worker, rows: float) -> float | None:
        """How long so many rows should take this worker; None: nobody knows."""
        rate = self.rate(worker)
        return rows / rate if rate and rows else None

    def change_speed(self, worker: Worker, speed: float) -> None:
        """What is left of what it does takes longer, or shorter; what is late already stays as late as it is."""
        left = 0.0 if worker.expected is None else worker.since + worker.expected - self.now
        if worker.expected is not None and left > 0:
            worker.expected += left * worker.speed / speed - left
        worker.worked, worker.speed_since = self._worked(worker), self.now
        self._speeds += speed - worker.speed
        worker.speed = speed

    def _worked(self, worker: Worker) -> float:
        """Seconds of full speed."""
        return worker.worked + (self.now - worker.speed_since) * worker.speed
