"""The executor without a cluster: each worker is a thread of this process. The reference that others must equal."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

from threadpoolctl import threadpool_limits

from assay.drive import MakeSetup, answer, drive
from assay.errors import RunError
from assay.orders import Event, Flush, Score, WorkerFailed, WorkerReady
from assay.protocols import Log
from assay.records import Job, Progress
from assay.worker import Worker

_LOADING = threading.Lock()
"""Models are loaded one after the other: a loader may use what a process has once, such as a random generator."""
CLOSE_SECONDS = 5.0
"""How long the end of a run waits for threads that are in a user's model."""


class LocalExecutor:
    """Threads in this process: kernels, Arrow and most models let go of the interpreter lock while they compute."""

    name = "local"

    def __init__(self, workers: int, make_setup: MakeSetup) -> None:
        if workers < 1:
            raise RunError(f"{workers} workers cannot score anything; give 1 or more.")
        self._workers = workers
        self._make_setup = make_setup

    def run(self, job: Job, log: Log, progress: Callable[[Progress], None]) -> None:
        """See Executor.run."""
        with threadpool_limits(limits=1):  # same digits and no more threads than workers
            drive(job, log, _Threads(job, self._make_setup), self._workers, progress)


class _Threads:
    """A crew of threads, each with an inbox of its own."""

    def __init__(self, job: Job, make_setup: MakeSetup) -> None:
        self._job = job
        self._make_setup = make_setup
        self._inboxes: dict[str, queue.SimpleQueue[Score | Flush | None]] = {}
        self._threads: list[threading.Thread] = []
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def start(self, incarnation: str) -> None:
        self._inboxes[incarnation] = queue.SimpleQueue()
        thread = threading.Thread(target=self._live, args=(incarnation,), name=f"assay-{incarnation}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def send(self, order: Score | Flush) -> None:
        self._inboxes[order.incarnation].put(order)

    def end(self, incarnation: str) -> None:
        self._inboxes.pop(incarnation).put(None)

    def wait(self, seconds: float) -> Sequence[Event]:
        try:
            return [self._events.get(timeout=seconds)]
        except queue.Empty:
            return []

    def close(self) -> None:
        for incarnation in list(self._inboxes):
            self.end(incarnation)
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _live(self, incarnation: str) -> None:
        inbox = self._inboxes[incarnation]
        try:
            with _LOADING:
                worker = Worker(self._make_setup(self._job))
        except Exception as error:  # whatever it is, the driver's thread raises it
            self._events.put(WorkerFailed(incarnation, error))
            return
        threadpool_limits(limits=1)  # again, for the libraries that models brought in
        self._events.put(WorkerReady(incarnation))
        while (order := inbox.get()) is not None:
            self._events.put(_answer(worker, order))
        worker.close()


def _answer(worker: Worker, order: Score | Flush) -> Event:
    try:
        return answer(worker, order)
    except Exception as error:  # a fault of ours, raised in the driver's thread
        return WorkerFailed(order.incarnation, error)
