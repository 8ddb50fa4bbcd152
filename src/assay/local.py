"""The executor without a cluster: each worker is a thread of this process. The reference that others must equal."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from types import TracebackType
from typing import Any, NamedTuple

from assay.costs import NO_LIMITS, Limits
from assay.drive import MakeSetup, answer, drive
from assay.errors import RunError
from assay.gauge import Told, device_name, gauge
from assay.merge import reduced_here
from assay.orders import Drop, Event, Flush, Score, Stalled, WorkerFailed, WorkerReady
from assay.probes import PROBE_SECONDS, Whereabouts, scoring_words, stack_of, storage_words, where_words, within
from assay.protocols import Log, Reduction, Work
from assay.records import Job, Machine, Preparing, Progress, Unit, Worked
from assay.spec.model import WorkersSpec
from assay.worker import Worker, loaded, one_thread

Inbox = queue.SimpleQueue[Score | Flush | None]
"""Of one worker; None ends it."""
_LOADING = threading.Lock()
"""Models are loaded one after the other: a loader may use what a process has once, such as a random generator."""
MOST_HANGING, HANGING_SECONDS = 8, 60.0
"""Threads that still do something so long after they were ended: beyond so many a run stops."""
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

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing outlives a call."""

    def run(self, job: Job, log: Log, progress: Callable[[Progress], None]) -> None:
        """See Executor.run."""
        with one_thread([]):  # as this thread sees them, to find them so again: each has OpenMP settings of its own
            crew = _Threads(job, self._make_setup, 1 / self._workers)
            drive(job, log, crew, self._workers, progress, limits=self._limits)

    def reduce(self, reduction: Reduction, trees: Sequence[Sequence[Any]]) -> Iterator[Any]:  # Any: as there
        """See Executor.reduce."""
        return reduced_here(reduction, trees)

    def map(self, work: Work, items: Sequence[Any]) -> Iterator[Worked]:  # Any: as there
        """See Executor.map; as many at once as there are workers."""
        machine = Machine(host=socket.gethostname(), share=1 / self._workers)

        def worked(number: int, item: Any) -> Worked:  # Any: as there
            started = time.monotonic()
            result = work(item)
            return Worked(number, result, machine, time.monotonic() - started)

        remaining = enumerate(items)
        with ThreadPoolExecutor(self._workers) as pool:
            out = {pool.submit(worked, *one) for one in islice(remaining, self._workers)}
            while out:
                ended, out = wait(out, return_when=FIRST_COMPLETED)
                out |= {pool.submit(worked, *one) for one in islice(remaining, len(ended))}
                for future in ended:
                    yield future.result()

    def aside(self, workers: WorkersSpec) -> None:
        """See Executor.aside: workers have all CPUs."""


class _Ended(NamedTuple):
    """A thread that was ended while it did something."""

    thread: threading.Thread
    at: float  # when, by time.monotonic()
    was_loading: bool


class _Threads:
    """A crew of threads, each with an inbox of its own."""

    def __init__(self, job: Job, make_setup: MakeSetup, share: float = 1.0) -> None:
        """share: of this machine, that one worker takes."""
        self._job = job
        self._machine = Machine(host=socket.gethostname(), share=share)
        self._gauge, self._told = gauge(), Told()
        self._gauge.start()
        self._make_setup = make_setup
        self._inboxes: dict[str, Inbox] = {}
        self._workers: dict[str, Worker] = {}  # that are ready
        self._limits = ExitStack()  # of threads: left in the reverse order, so that what was there first comes back
        self._threads: dict[str, threading.Thread] = {}
        self._busy: dict[str, threading.Thread] = {}  # that load, or carry out an order
        self._ended: list[_Ended] = []  # while they did
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    @property
    def num_ahead(self) -> int:
        return 0

    def prepared(self) -> Sequence[Preparing]:
        return ()

    def news(self) -> Sequence[str]:
        return ()

    def foresee(self, units: Sequence[Unit]) -> None:
        """Workers read ahead by themselves."""

    def start(self, incarnation: str, bundle: int) -> None:
        inbox: Inbox = queue.SimpleQueue()
        self._inboxes[incarnation] = inbox
        if refusal := self._refusal():
            self._events.put(WorkerFailed(incarnation, refusal, ends_run=True))
            return
        name = f"assay-{incarnation}"
        thread = threading.Thread(target=self._live, args=(incarnation, inbox, bundle), name=name, daemon=True)
        self._threads[incarnation] = thread
        self._busy[incarnation] = thread
        thread.start()

    def send(self, order: Score | Flush) -> None:
        self._busy[order.incarnation] = self._threads[order.incarnation]
        self._inboxes[order.incarnation].put(order)

    def drop(self, order: Drop) -> None:
        self._workers[order.incarnation].drop(order.unit)

    def end(self, incarnation: str) -> None:
        """A thread cannot be killed: one that hangs stays, until the process ends, and what it says is dropped."""
        self._inboxes.pop(incarnation).put(None)
        self._told.forget(incarnation)
        thread, worker = self._busy.pop(incarnation, None), self._workers.pop(incarnation, None)
        if thread is not None:
            self._ended.append(_Ended(thread, time.monotonic(), worker is None))

    def _refusal(self) -> RunError | None:
        """Why no more threads are begun: too many hang, and keep what they hold."""
        self._ended = [one for one in self._ended if one.thread.is_alive()]
        hanging = [one for one in self._ended if time.monotonic() - one.at >= HANGING_SECONDS]
        if any(one.was_loading for one in hanging):
            what = "A worker hangs while it loads its variants, and others load after it"
        elif len(hanging) > MOST_HANGING:
            what = f"{len(hanging)} workers hang, each in a unit that it was told to give up"
        else:
            return None
        return RunError(
            f"{what}. They are threads of this process, which cannot be ended: each keeps its memory and its core. "
            "What is committed is kept. `assay replay` names the units; mend the cause and resume the run, with "
            "--executor ray if it may come again: there a worker is a process of its own."
        )

    def wait(self, seconds: float) -> Sequence[Event]:
        pulse, events = self._gauge.pulse(), list[Event]()
        for incarnation in list(self._workers):
            events += self._told.changes(incarnation, pulse)
        if events:
            return events
        try:
            events.append(self._events.get(timeout=seconds))
        except queue.Empty:
            return []
        while not self._events.empty():
            events.append(self._events.get())
        return events

    def cause(self, stalled: Stalled) -> str:
        if stalled.wait == "flush":
            return storage_words(self._job.run, self._job.plan.state_bytes)
        if stalled.wait == "start":
            return f"Workers load their models one after the other. {self._where_one_loads()}".rstrip()
        thread = self._threads.get(stalled.incarnation)
        ident = None if thread is None else thread.ident
        return scoring_words(within(PROBE_SECONDS, lambda: Whereabouts(stack_of(ident), self._gauge.pulse())))

    def _where_one_loads(self) -> str:
        """Of those that are not ready, all but one wait for it."""
        loading = [thread for name, thread in self._threads.items() if name not in self._workers and thread.is_alive()]
        return next(filter(None, (where_words(stack_of(thread.ident)) for thread in loading)), "")

    def close(self) -> None:
        self._gauge.stop()
        with self._limits:
            for incarnation in list(self._inboxes):
                self.end(incarnation)
            deadline = time.monotonic() + CLOSE_SECONDS
            for thread in self._threads.values():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _live(self, incarnation: str, inbox: Inbox, bundle: int) -> None:
        started = time.monotonic()
        try:
            with _LOADING:
                worker = loaded(self._make_setup(self._job, bundle), self._limits)
        except BaseException as error:  # whatever it is, the driver's thread raises it
            self._busy.pop(incarnation, None)
            self._events.put(WorkerFailed(incarnation, _as_exception(error)))
            return
        self._workers[incarnation] = worker
        self._busy.pop(incarnation, None)
        machine = replace(self._machine, device=device_name(self._gauge.pulse()))
        self._events.put(WorkerReady(incarnation, machine, time.monotonic() - started))
        while (order := inbox.get()) is not None:
            event = _answer(worker, order)
            self._busy.pop(incarnation, None)
            self._events.put(event)
        worker.close()


def _answer(worker: Worker, order: Score | Flush) -> Event:
    try:
        return answer(worker, order)
    except BaseException as error:  # a fault of ours, raised in the driver's thread
        return WorkerFailed(order.incarnation, _as_exception(error))


def _as_exception(error: BaseException) -> Exception:
    """A thread that exits would leave the driver waiting for ever, and must not end the process by itself."""
    return error if isinstance(error, Exception) else RuntimeError(f"A worker ended with {error!r}.")
