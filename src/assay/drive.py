"""The loop of one driver: events go into the schedule, its orders go out to workers and to the log.

Lives here: the loop, commits, progress, Ctrl-C, and what a worker answers to an order. Not here: what follows from an
event (`schedule.py`), how workers are had (`local.py`, `cluster/`).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from assay.errors import AssayError, Interrupted
from assay.orders import (
    Abort,
    Commit,
    Committed,
    End,
    EndWorker,
    Event,
    Flush,
    Flushed,
    Order,
    Say,
    Score,
    StartWorker,
    Stop,
    UnitDone,
    WorkerFailed,
)
from assay.protocols import Log
from assay.records import Job, Progress
from assay.schedule import Schedule
from assay.worker import Worker, WorkerSetup

MakeSetup = Callable[[Job], WorkerSetup]
"""Called in each worker's own process or thread."""

WAIT_SECONDS = 0.5


class Crew(Protocol):
    """Workers, however they are had. Only `wait` takes time."""

    def start(self, incarnation: str) -> None: ...
    def send(self, order: Score | Flush) -> None: ...
    def end(self, incarnation: str) -> None: ...  # what it says later may be dropped
    def wait(self, seconds: float) -> Sequence[Event]: ...  # what happened; empty after so long without anything
    def close(self) -> None: ...  # end all workers


def answer(worker: Worker, order: Score | Flush) -> Event:
    """A worker carries out an order. An AssayError becomes an event; any other error is a fault of ours: raised."""
    try:
        if isinstance(order, Flush):
            return Flushed(order.incarnation, worker.flush(order.accept))
        scored = worker.score(order.unit, order.upcoming, order.accept)
    except AssayError as error:
        return WorkerFailed(order.incarnation, error)
    return UnitDone(order.incarnation, scored.receipt, scored.failures, scored.flush_due)


def drive(job: Job, log: Log, crew: Crew, num_workers: int, progress: Callable[[Progress], None]) -> None:
    """Carry a run to its end; see Executor.run for what is raised."""
    schedule = Schedule(
        job.plan.units,
        log.files,
        log.lost,
        driver=log.driver,
        num_workers=num_workers,
        tolerant=job.spec.on_error == "continue",
    )
    try:
        with _interrupts() as interrupted:
            _Loop(job, log, crew, schedule, progress).run(interrupted)
    finally:
        crew.close()


class _Loop:
    def __init__(
        self, job: Job, log: Log, crew: Crew, schedule: Schedule, progress: Callable[[Progress], None]
    ) -> None:
        self._job = job
        self._log = log
        self._crew = crew
        self._schedule = schedule
        self._progress = progress
        self._started = time.monotonic()
        self._rows_before = schedule.rows_done

    def run(self, interrupted: threading.Event) -> None:
        orders, stopping = self._schedule.start(), False
        while not self._carry_out(orders):
            orders = []
            if interrupted.is_set() and not stopping:
                stopping = True
                self._report("Stopping: units in flight are finished and committed. Press Ctrl-C again to drop them.")
                orders += self._schedule.handle(Stop())
            for event in [] if orders else self._crew.wait(WAIT_SECONDS):
                orders += self._schedule.handle(event)
                if isinstance(event, UnitDone):
                    self._report()
            self._log.beat()

    def _carry_out(self, orders: list[Order]) -> bool:
        """True after the last order of the run."""
        queue = list(orders)
        while queue:
            order = queue.pop(0)
            if isinstance(order, Commit):
                self._log.commit(order.files, order.failures, order.lost)
                queue += self._schedule.handle(Committed(order))
            elif isinstance(order, StartWorker):
                self._crew.start(order.incarnation)
            elif isinstance(order, EndWorker):
                self._crew.end(order.incarnation)
            elif isinstance(order, Score | Flush):
                self._crew.send(order)
            elif isinstance(order, Say):
                self._report(order.message)
            elif isinstance(order, Abort):
                raise order.error
            else:
                return self._ended(order)
        return False

    def _ended(self, order: End) -> bool:
        if order.stopped:
            done, units = self._schedule.units_done, self._schedule.num_units
            raise Interrupted(
                f"Stopped with {done} of {units} units committed in {self._job.run}. "
                f"Go on with: assay resume {self._job.run}"
            )
        return True

    def _report(self, message: str = "") -> None:
        self._progress(
            Progress(
                units_done=self._schedule.units_done,
                num_units=self._schedule.num_units,
                rows_done=self._schedule.rows_done,
                num_rows=self._job.plan.num_rows,
                num_variants=len(self._job.plan.fingerprints),
                seconds=time.monotonic() - self._started,
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
