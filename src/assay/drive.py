"""The loop of one driver: events go into the schedule, its orders go out to workers and to the log.

Lives here: the loop, its clock, commits, progress, Ctrl-C, limits, and what a worker answers to an order. Not here:
what follows from an event (`schedule.py`, `schedules.py`), what is written beside the log (`keeper.py`), how workers
are had (`local.py`, `cluster/`).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Protocol

from assay.costs import LIMITS, NO_LIMITS, CostLedger, Limit, Limits, cost, time_words
from assay.errors import AssayError, Interrupted, Unfinished
from assay.events import Begin
from assay.glance import first_rows
from assay.keeper import Keeper
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
from assay.records import Failure, Job, Preparing, Progress, Unit
from assay.schedules import Scheduler, scheduler
from assay.spec.words import agree, count
from assay.telemetry import SlowTime
from assay.worker import Dropped, Worker, WorkerSetup

MakeSetup = Callable[[Job, int], WorkerSetup]
"""Of a bundle of the plan; called in each worker's own process or thread."""

WAIT_SECONDS = 0.5
TICK_SECONDS = 0.5
FINISHING = "units in flight are finished and committed"
START_AGAIN = "The run cannot be resumed: start it again."


def way_on(job: Job, options: str = "") -> str:
    """A sentence on what is to be done after a run has stopped. options: of `assay resume`, where they must change."""
    if not job.source.resumable:
        return START_AGAIN
    return f"Go on with: assay resume {job.run} {options}".rstrip()


class Crew(Protocol):
    """Workers, however they are had. Only `wait` takes time."""

    @property
    def num_ahead(self) -> int: ...  # units that it wants to know of before a worker is told to score them
    def foresee(self, units: Sequence[Unit]) -> None: ...  # these are next, one for each piece of the data
    def prepared(self) -> Sequence[Preparing]: ...  # since it was last asked, where there is something ahead
    def start(self, incarnation: str, bundle: int) -> None: ...
    def send(self, order: Score | Flush) -> None: ...
    def drop(self, order: Drop) -> None: ...  # to a worker that is busy
    def end(self, incarnation: str) -> None: ...  # what it says later may be dropped
    def wait(self, seconds: float) -> Sequence[Event]: ...  # what happened; empty after so long without anything
    def news(self) -> Sequence[str]: ...  # sentences for whoever watches the run, each of them once
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
        scored = worker.score(order.unit, order.upcoming, order.accept, order.caution)
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
    spec = job.spec
    begin = Begin(log.driver, num_workers, spec.tolerant, spec.most_failed, spec.execution.unit_seconds)
    schedule, costs = scheduler(job.plan, begin, log.files, log.lost, spec.baseline), CostLedger()
    teller = _Teller(job, schedule, progress, clock, limits, costs)
    keeper = Keeper(job, begin, costs, teller.say)
    try:
        with _interrupts() as interrupted:
            _Loop(job, log, crew, schedule, keeper, teller).run(interrupted)
    finally:
        crew.close()
        keeper.prepared(crew.prepared() if crew.num_ahead else ())
        keeper.keep_events(teller.seconds)
        keeper.keep_costs(teller.seconds)


class _Loop:
    def __init__(self, job: Job, log: Log, crew: Crew, schedule: Scheduler, keeper: Keeper, teller: _Teller) -> None:
        self._job = job
        self._log = log
        self._crew = crew
        self._schedule = schedule
        self._keeper = keeper
        self._teller = teller
        self._slow = SlowTime()
        self._ticked = 0.0
        self._foreseen = -1  # changes of the queue, when the crew was last told what is next

    def run(self, interrupted: threading.Event) -> None:
        orders, stopping = self._schedule.start(), False
        if self._teller.reached():
            orders, stopping = self._handle(Stop()), True  # nothing was begun
        while not self._carry_out(orders):
            orders = []
            if interrupted.is_set() and not stopping:
                stopping = True
                self._teller.say(f"Stopping: {FINISHING}. Press Ctrl-C again to drop them.")
                orders += self._handle(Stop())
            if not stopping and (limit := self._teller.reached()):
                stopping = True
                self._teller.say(f"{LIMITS[limit]}: {FINISHING}.")
                orders += self._handle(Stop())
            self._foresee(stopping)
            for event in [] if orders else self._crew.wait(WAIT_SECONDS):
                orders += self._handle(event)
                if isinstance(event, UnitDone):
                    self._teller.say()
            if self._teller.seconds - self._ticked >= TICK_SECONDS:
                self._ticked = self._teller.seconds
                orders += self._handle(Tick())
            for sentence in self._crew.news():
                self._teller.say(sentence)
            self._keeper.prepared(self._crew.prepared() if self._crew.num_ahead else ())
            self._keeper.pass_time(self._teller.seconds)
            self._log.beat()

    def _handle(self, event: Event) -> list[Order]:
        at = self._teller.seconds
        orders = self._schedule.handle(event, at)
        self._keeper.hear(event, at, orders)
        self._slow.hear(event, at)
        return orders

    def _foresee(self, stopping: bool) -> None:
        """Tell the crew what is next, where it wants to know and that has changed."""
        if self._crew.num_ahead <= 0:
            return
        changes = -2 if stopping else self._schedule.num_queue_changes
        if changes != self._foreseen:
            self._foreseen = changes
            self._crew.foresee(() if stopping else self._schedule.upcoming(self._crew.num_ahead))

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
        failures = [self._with_sample(failure) for order in commits for failure in order.failures]
        self._log.commit(files, failures, [unit for order in commits for unit in order.lost])
        orders = [after for order in commits for after in self._handle(Committed(order))]
        self._keeper.committed(files, self._teller.seconds)
        return orders

    def _with_sample(self, failure: Failure) -> Failure:
        """A unit that was given up is shown by its first rows: no worker lived to tell."""
        unit = None if failure.variant else next((one for one in self._job.plan.units if one.id == failure.unit), None)
        if unit is None:
            return failure
        self._log.beat()  # each may take seconds
        return replace(failure, sample=first_rows(self._job.source, unit, self._job.plan.columns))

    def _carry_out_one(self, order: Order) -> bool:
        """True after the last order of the run."""
        self._keeper.note(order, self._teller.seconds)
        if isinstance(order, StartWorker):
            self._crew.start(order.incarnation, order.bundle)
        elif isinstance(order, EndWorker):
            self._slow.ended(order.incarnation, self._teller.seconds)
            self._crew.end(order.incarnation)
        elif isinstance(order, Score | Flush):
            self._crew.send(order)
        elif isinstance(order, Drop):
            self._crew.drop(order)
        elif isinstance(order, Say):
            self._teller.say(order.message)
        elif isinstance(order, Stalled):
            self._teller.say(" ".join(filter(None, [_silence(order), self._crew.cause(order)])))
        elif isinstance(order, Abort):
            raise order.error
        elif isinstance(order, End):
            if slow := self._slow.words(self._teller.seconds):
                self._teller.say(slow)
            if order.stopped:
                raise self._teller.stopped()
            return True
        return False


class _Teller:
    """What those who watch a run are told, and the limits that they set it."""

    def __init__(
        self,
        job: Job,
        schedule: Scheduler,
        progress: Callable[[Progress], None],
        clock: Callable[[], float],
        limits: Limits,
        costs: CostLedger,
    ) -> None:
        self._job = job
        self._schedule = schedule
        self._progress = progress
        self._clock = clock
        self._started = clock()
        self._rows_before, self._units_before = schedule.rows_done, schedule.units_done
        self._limits = limits
        self._costs = costs
        self._limit: Limit | None = None  # that was reached
        self._priced = float("-inf")

    @property
    def seconds(self) -> float:
        """Since the start, as they are recorded."""
        return round(self._clock() - self._started, 3)

    def say(self, message: str = "") -> None:
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

    def reached(self) -> Limit | None:
        """The limit that the run has reached; from then on it is known why it stops."""
        limits, now = self._limits, self._clock()
        if limits.until is not None and now >= limits.until:
            self._limit = "deadline"
        elif limits.max_cost is not None and now - self._priced >= TICK_SECONDS:
            self._priced = now
            spent = limits.spent(self._costs.accounts(self.seconds))
            if spent is not None and spent >= limits.max_cost:
                self._limit = "cost"
        return self._limit

    def stopped(self) -> AssayError:
        """Why the run has ended with units left, and how to go on."""
        if self._limit is not None:
            return Unfinished(self._beyond(self._limit))
        done, units = self._schedule.units_done, self._schedule.num_units
        return Interrupted(f"Stopped with {done} of {units} units committed in {self._job.run}. {way_on(self._job)}")

    def _beyond(self, limit: Limit) -> str:
        """What is left when a limit has stopped the run, and how to go on."""
        done, units, run = self._schedule.units_done, self._schedule.num_units, self._job.run
        seconds, scored, left = self.seconds, done - self._units_before, units - done
        state = f"{LIMITS[limit]} with {done} of {count(units, 'unit')} committed in {run}"
        if limit == "deadline":
            needs = f", which take about {time_words(seconds / scored * left)} more at this pace" if scored else ""
            rest = f"{left} {agree(left, 'is', 'are')} left{needs}"
            return f"{state}: {rest}. {way_on(self._job, '--deadline TIME')}"
        own = self._costs.accounts(seconds)
        spent, here = self._limits.spent(own) or 0.0, cost(own, self._limits.prices) or 0.0
        currency = self._limits.currency
        needs = f", which cost about {here / scored * left:,.3g}{currency} more at this pace" if scored else ""
        return (
            f"{state}: it has cost {spent:,.3g}{currency} so far, and {left} {agree(left, 'is', 'are')} left{needs}. "
            f"{way_on(self._job, '--max-cost COST')}"
        )


def _silence(stalled: Stalled) -> str:
    """What is waited for."""
    what = {
        "start": f"Worker {stalled.incarnation} has not started yet",
        "score": f"Worker {stalled.incarnation} has been scoring unit {stalled.unit}",
        "flush": f"Worker {stalled.incarnation} has been writing its states",
    }[stalled.wait]
    return what + (f", after {stalled.seconds:.0f} s." if stalled.wait == "start" else f" for {stalled.seconds:.0f} s.")


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
