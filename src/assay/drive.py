"""The loop of one driver: events go into the schedule, its orders go out to workers and to the log.

Lives here: the loop, its clock, commits, progress, Ctrl-C, and what a worker answers to an order. Not here: what
follows from an event (`schedule.py`), the form in which events are kept (`events.py`), how workers are had
(`local.py`, `cluster/`).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from assay.costs import LIMITS, NO_LIMITS, CostLedger, Limit, Limits, cost, time_words
from assay.errors import AssayError, Interrupted, RunError, Unfinished
from assay.events import Begin, Recorder
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
    Say,
    Score,
    Stalled,
    StartWorker,
    Stop,
    Tick,
    UnitDone,
    UnitDropped,
    WorkerFailed,
)
from assay.protocols import Log
from assay.records import Job, Progress
from assay.schedule import Schedule
from assay.spec.words import agree, count
from assay.store.run import RunDirectory
from assay.worker import Dropped, Worker, WorkerSetup

MakeSetup = Callable[[Job], WorkerSetup]
"""Called in each worker's own process or thread."""

WAIT_SECONDS = 0.5
TICK_SECONDS = 0.5
KEEP_SECONDS, KEEP_BYTES = 30.0, 4_000_000
"""Events are written so often, or when they take so much; a driver that is killed takes the last of them with it."""
MOST_UNSAVED_BYTES = 64_000_000
"""Beyond that events that could not be written are given up."""
KEEP_COSTS_SECONDS = 10.0
"""So often is written what workers have spent."""


class Crew(Protocol):
    """Workers, however they are had. Only `wait` takes time."""

    def start(self, incarnation: str) -> None: ...
    def send(self, order: Score | Flush) -> None: ...
    def drop(self, order: Drop) -> None: ...  # to a worker that is busy
    def end(self, incarnation: str) -> None: ...  # what it says later may be dropped
    def wait(self, seconds: float) -> Sequence[Event]: ...  # what happened; empty after so long without anything
    def cause(self, stalled: Stalled) -> str: ...  # a sentence on why it may be so; "" where nobody knows
    def close(self) -> None: ...  # end all workers


def answer(worker: Worker, order: Score | Flush) -> Event:
    """A worker carries out an order. An AssayError becomes an event; any other error is a fault of ours: raised."""
    try:
        if isinstance(order, Flush):
            file = worker.flush(order.accept)
            return Flushed(order.incarnation, file, worker.spent())
        return _score(worker, order)
    except AssayError as error:
        return WorkerFailed(order.incarnation, error)


def _score(worker: Worker, order: Score) -> Event:
    try:
        scored = worker.score(order.unit, order.upcoming, order.accept)
    except Dropped:
        return UnitDropped(order.incarnation, order.unit.id)
    return UnitDone(order.incarnation, scored.receipt, scored.failures, scored.flush_due)


def drive(
    job: Job,
    log: Log,
    crew: Crew,
    num_workers: int,
    progress: Callable[[Progress], None],
    clock: Callable[[], float] = time.monotonic,
    limits: Limits = NO_LIMITS,
) -> None:
    """Carry a run to its end; see Executor.run for what is raised. Unfinished when a limit was reached before."""
    begin = Begin(log.driver, num_workers, tolerant=job.spec.on_error == "continue")
    schedule = Schedule(
        job.plan.units, log.files, log.lost, driver=log.driver, num_workers=num_workers, tolerant=begin.tolerant
    )
    loop = _Loop(job, log, crew, schedule, Recorder(job.plan.units, begin), progress, clock, limits)
    try:
        with _interrupts() as interrupted:
            loop.run(interrupted)
    finally:
        crew.close()
        loop.keep_events()
        loop.keep_costs()


class _Loop:
    def __init__(
        self,
        job: Job,
        log: Log,
        crew: Crew,
        schedule: Schedule,
        recorder: Recorder,
        progress: Callable[[Progress], None],
        clock: Callable[[], float],
        limits: Limits,
    ) -> None:
        self._job = job
        self._log = log
        self._crew = crew
        self._schedule = schedule
        self._recorder: Recorder | None = recorder
        self._progress = progress
        self._clock = clock
        self._started = clock()
        self._ticked = self._kept = self._kept_costs = 0.0
        self._rows_before, self._units_before = schedule.rows_done, schedule.units_done
        self._limits = limits
        self._limit: Limit | None = None  # that was reached
        self._priced = float("-inf")
        self._costs = CostLedger()
        self._unsaved: list[tuple[str, bytes]] = []  # objects of events that could not be written yet
        self._not_kept: set[str] = set()

    def run(self, interrupted: threading.Event) -> None:
        orders, stopping = self._schedule.start(), False
        if self._reached():
            orders, stopping = self._handle(Stop()), True  # nothing was begun
        while not self._carry_out(orders):
            orders = []
            if interrupted.is_set() and not stopping:
                stopping = True
                self._report("Stopping: units in flight are finished and committed. Press Ctrl-C again to drop them.")
                orders += self._handle(Stop())
            if not stopping and (limit := self._reached()):
                stopping = True
                self._report(f"{LIMITS[limit]}: units in flight are finished and committed.")
                orders += self._handle(Stop())
            for event in [] if orders else self._crew.wait(WAIT_SECONDS):
                orders += self._handle(event)
                if isinstance(event, UnitDone):
                    self._report()
            if self._seconds() - self._ticked >= TICK_SECONDS:
                self._ticked = self._seconds()
                orders += self._handle(Tick())
            if self._seconds() - self._kept_costs >= KEEP_COSTS_SECONDS:
                self.keep_costs()
            self._log.beat()

    def keep_events(self) -> None:
        """Write what was recorded since the last time. A run goes on where that fails, and tries again later."""
        self._kept = self._seconds()
        recorder = self._recorder
        if recorder is not None and recorder.num_bytes:
            self._unsaved.append(recorder.take())
        try:
            if self._unsaved:
                directory = RunDirectory.for_worker(self._job.run, patient=False)
            while self._unsaved:
                directory.save_events(*self._unsaved[0])
                self._unsaved.pop(0)
        except RunError as error:
            self._cannot_keep("events", error)
            if sum(len(data) for _, data in self._unsaved) > MOST_UNSAVED_BYTES:
                self._recorder, self._unsaved = None, []

    def keep_costs(self) -> None:
        """Write what workers have spent so far. A run goes on where that fails, and tries again the next time."""
        self._kept_costs = self._seconds()
        driver, known = self._log.driver, self._costs.as_json(self._log.driver, self._kept_costs)
        if not known["accounts"]:
            return
        try:
            RunDirectory.for_worker(self._job.run, patient=False).save_costs(driver, known)
        except RunError as error:
            self._cannot_keep("costs", error)

    def _cannot_keep(self, what: str, error: RunError) -> None:
        """Said once: it is no reason to stop."""
        if what not in self._not_kept:
            self._not_kept.add(what)
            self._report(f"The {what} of this run could not be written just now: {error}")

    def _reached(self) -> Limit | None:
        """The limit that the run has reached; from then on it is known why it stops."""
        limits, now = self._limits, self._clock()
        if limits.until is not None and now >= limits.until:
            self._limit = "deadline"
        elif limits.max_cost is not None and now - self._priced >= TICK_SECONDS:
            self._priced = now
            spent = limits.spent(self._costs.accounts(self._seconds()))
            if spent is not None and spent >= limits.max_cost:
                self._limit = "cost"
        return self._limit

    def _seconds(self) -> float:
        return round(self._clock() - self._started, 3)  # as it is recorded

    def _handle(self, event: Event) -> list[Order]:
        at = self._seconds()
        orders = self._schedule.handle(event, at)
        self._costs.hear(event, at, orders)
        if self._recorder is not None:
            self._recorder.add(at, event, orders)
        return orders

    def _carry_out(self, orders: list[Order]) -> bool:
        """True after the last order of the run. Commits that stand together become one entry of the log."""
        queue = list(orders)
        while queue:
            commits = [order for order in queue if isinstance(order, Commit)]
            others = [order for order in queue if not isinstance(order, Commit)]
            queue = self._commit(commits) if commits else []
            for order in others:
                if self._carry_out_one(order):
                    return True
        return False

    def _commit(self, commits: Sequence[Commit]) -> list[Order]:
        files = [file for order in commits for file in order.files]
        failures = [failure for order in commits for failure in order.failures]
        self._log.commit(files, failures, [unit for order in commits for unit in order.lost])
        self._costs.committed(files)
        orders = [after for order in commits for after in self._handle(Committed(order))]
        recorder = self._recorder
        if recorder and (self._seconds() - self._kept > KEEP_SECONDS or recorder.num_bytes > KEEP_BYTES):
            self.keep_events()
        return orders

    def _carry_out_one(self, order: Order) -> bool:
        """True after the last order of the run."""
        if isinstance(order, StartWorker):
            self._costs.asked(order.incarnation)
            self._crew.start(order.incarnation)
        elif isinstance(order, EndWorker):
            self._costs.ended(order.incarnation, self._seconds())
            self._crew.end(order.incarnation)
        elif isinstance(order, Score | Flush):
            if isinstance(order, Score):
                self._costs.scores(order.incarnation)
            self._crew.send(order)
        elif isinstance(order, Drop):
            self._crew.drop(order)
        elif isinstance(order, Say):
            self._report(order.message)
        elif isinstance(order, Stalled):
            self._report(self._why(order))
        elif isinstance(order, Abort):
            raise order.error
        elif isinstance(order, End):
            return self._ended(order)
        return False

    def _why(self, stalled: Stalled) -> str:
        """What is waited for, and the likely cause."""
        what = {
            "start": f"Worker {stalled.incarnation} has not started yet",
            "score": f"Worker {stalled.incarnation} has been scoring unit {stalled.unit}",
            "flush": f"Worker {stalled.incarnation} has been writing its states",
        }[stalled.wait]
        since = f", after {stalled.seconds:.0f} s." if stalled.wait == "start" else f" for {stalled.seconds:.0f} s."
        return " ".join(filter(None, [what + since, self._crew.cause(stalled)]))

    def _ended(self, order: End) -> bool:
        if order.stopped and self._limit is not None:
            raise Unfinished(self._beyond(self._limit))
        if order.stopped:
            done, units = self._schedule.units_done, self._schedule.num_units
            raise Interrupted(
                f"Stopped with {done} of {units} units committed in {self._job.run}. "
                f"Go on with: assay resume {self._job.run}"
            )
        return True

    def _beyond(self, limit: Limit) -> str:
        """What is left when a limit has stopped the run, and how to go on."""
        done, units, run = self._schedule.units_done, self._schedule.num_units, self._job.run
        seconds, scored, left = self._seconds(), done - self._units_before, units - done
        state = f"{LIMITS[limit]} with {done} of {count(units, 'unit')} committed in {run}"
        if limit == "deadline":
            needs = f", which take about {time_words(seconds / scored * left)} more at this pace" if scored else ""
            rest = f"{left} {agree(left, 'is', 'are')} left{needs}"
            return f"{state}: {rest}. Go on with: assay resume {run} --deadline TIME"
        own = self._costs.accounts(seconds)
        spent, here = self._limits.spent(own) or 0.0, cost(own, self._limits.prices) or 0.0
        currency = self._limits.currency
        needs = f", which cost about {here / scored * left:,.3g}{currency} more at this pace" if scored else ""
        return (
            f"{state}: it has cost {spent:,.3g}{currency} so far, and {left} {agree(left, 'is', 'are')} left{needs}. "
            f"Go on with: assay resume {run} --max-cost COST"
        )

    def _report(self, message: str = "") -> None:
        self._progress(
            Progress(
                units_done=self._schedule.units_done,
                num_units=self._schedule.num_units,
                rows_done=self._schedule.rows_done,
                num_rows=self._job.plan.num_rows,
                num_variants=len(self._job.plan.fingerprints),
                seconds=self._clock() - self._started,
                rows_before=self._rows_before,
                message=message,
            )
        )


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Set by the first Ctrl-C; a second one raises KeyboardInterrupt as ever. Only the main thread can be told."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
