"""The executor without a cluster: each worker is a thread of this process. The reference that others must equal."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from assay.costs import NO_LIMITS, Limits
from assay.drive import MakeSetup, answer, drive
from assay.errors import RunError
from assay.orders import Drop, Event, Flush, Score, Stalled, WorkerFailed, WorkerReady
from assay.protocols import Log
from assay.records import Job, Machine, Progress
from assay.worker import Worker, one_thread

Inbox = queue.SimpleQueue[Score | Flush | None]
"""Of one worker; None ends it."""
_LOADING = threading.Lock()
"""Models are loaded one after the other: a loader may use what a process has once, such as a random generator."""
CLOSE_SECONDS = 1.0
"""How long the end of a run waits for threads that are in a user's model."""


class LocalExecutor:
    """Threads in this process: kernels, Arrow and most models let go of the interpreter lock while they compute."""

    name = "local"

    def __init__(self, workers: int, make_setup: MakeSetup, limits: Limits = NO_LIMITS) -> None:
        if workers < 1:
            raise RunError(f"{workers} workers cannot score anything; give 1 or more.")
        self._workers = workers
        self._make_setup = make_setup
        self._limits = limits

    def run(self, job: Job, log: Log, progress: Callable[[Progress], None]) -> None:
        """See Executor.run."""
        with one_thread([]):  # as this thread sees them, to find them so again: each has OpenMP settings of its own
            crew = _Threads(job, self._make_setup, 1 / self._workers)
            drive(job, log, crew, self._workers, progress, limits=self._limits)


class _Threads:
    """A crew of threads, each with an inbox of its own."""

    def __init__(self, job: Job, make_setup: MakeSetup, share: float = 1.0) -> None:
        """share: of this machine, that one worker takes."""
        self._job = job
        self._machine = Machine(host=socket.gethostname(), share=share)
        self._make_setup = make_setup
        self._inboxes: dict[str, Inbox] = {}
        self._workers: dict[str, Worker] = {}  # that are ready
        self._limits = ExitStack()  # of threads: left in the reverse order, so that what was there first comes back
        self._threads: list[threading.Thread] = []
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def start(self, incarnation: str) -> None:
        inbox: Inbox = queue.SimpleQueue()
        self._inboxes[incarnation] = inbox
        name = f"assay-{incarnation}"
        thread = threading.Thread(target=self._live, args=(incarnation, inbox), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def send(self, order: Score | Flush) -> None:
        self._inboxes[order.incarnation].put(order)

    def drop(self, order: Drop) -> None:
        self._workers[order.incarnation].drop(order.unit)

    def end(self, incarnation: str) -> None:
        """A thread cannot be killed: one that hangs stays, until the process ends, and what it says is dropped."""
        self._inboxes.pop(incarnation).put(None)
        self._workers.pop(incarnation, None)

    def wait(self, seconds: float) -> Sequence[Event]:
        try:
            events = [self._events.get(timeout=seconds)]
        except queue.Empty:
            return []
        while not self._events.empty():
            events.append(self._events.get())
        return events

    def cause(self, stalled: Stalled) -> str:
        if stalled.wait == "start":
            return "Workers load their models one after the other."
        if stalled.wait == "score":
            return "Its model may be slow or hang, or share its cores with other work."
        return f"The storage of {self._job.run} may be slow or full."

    def close(self) -> None:
        with self._limits:
            for incarnation in list(self._inboxes):
                self.end(incarnation)
            deadline = time.monotonic() + CLOSE_SECONDS
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _live(self, incarnation: str, inbox: Inbox) -> None:
        started = time.monotonic()
        try:
            with _LOADING:
                worker = self._load()
        except BaseException as error:  # whatever it is, the driver's thread raises it
            self._events.put(WorkerFailed(incarnation, _as_exception(error)))
            return
        self._workers[incarnation] = worker
        self._events.put(WorkerReady(incarnation, self._machine, time.monotonic() - started))
        while (order := inbox.get()) is not None:
            self._events.put(_answer(worker, order))
        worker.close()

    def _load(self) -> Worker:
        setup = self._make_setup(self._job)
        self._limits.enter_context(one_thread(setup.scoring.models))
        worker = Worker(setup)
        self._limits.enter_context(one_thread([]))  # again, for the libraries that loading brought in
        return worker


def _answer(worker: Worker, order: Score | Flush) -> Event:
    try:
        return answer(worker, order)
    except BaseException as error:  # a fault of ours, raised in the driver's thread
        return WorkerFailed(order.incarnation, _as_exception(error))


def _as_exception(error: BaseException) -> Exception:
    """A thread that exits would leave the driver waiting for ever, and must not end the process by itself."""
    return error if isinstance(error, Exception) else RuntimeError(f"A worker ended with {error!r}.")
