"""One worker as an actor, in its own process: it loads, carries out orders, and says what it does.

Lives here: what runs in that process. Not here: having actors and hearing from them (`actors.py`), what is done with an
order (`worker.py`), how what was prepared for it is taken (`preparing.py`).
"""

from __future__ import annotations

import gc
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace

import ray

from assay.cluster.nodes import machine
from assay.cluster.preparing import Delivered, Parcel
from assay.drive import MakeSetup, answer
from assay.errors import AssayError
from assay.gauge import Pulse, device_name, gauge
from assay.orders import Event, Flush, Score, WorkerFailed, WorkerReady
from assay.probes import Whereabouts, stack_of
from assay.records import Job
from assay.worker import loaded


@dataclass(frozen=True, slots=True)
class Loaded:
    """What an actor says once it has tried to load."""

    event: Event
    node: str  # where it is


@ray.remote(  # type: ignore[call-overload]  # Ray's types leave the groups out
    num_cpus=1, max_restarts=0, max_task_retries=0, concurrency_groups={"control": 1}
)
class ScoringActor:
    """It handles one call at a time; those of the control group alone are heard while it does."""

    def __init__(self, incarnation: str, bundle: int, make_setup: MakeSetup, job: Job) -> None:
        self._incarnation = incarnation
        self._bundle = bundle
        self._make_setup = make_setup
        self._job = job
        self._delivered = Delivered()
        self._limits = ExitStack()  # of threads, to the end of this process
        self._thread: int | None = None  # that does what it is told
        self._loaded: Loaded | None = None
        self._said: tuple[int, Event] | None = None  # to the last order, by its number
        self._gauge = gauge()
        self._gauge.start()

    def load(self) -> Loaded:
        """The same again where the answer got lost."""
        self._thread = threading.get_ident()
        if self._loaded is None:
            node: str = ray.get_runtime_context().get_node_id()
            self._loaded = Loaded(self._load(), node)
            gc.collect()
            gc.freeze()  # what is loaded stays: not looked through for garbage again and again while scoring
        return self._loaded

    def answer(self, number: int, order: Score | Flush, parcel: Parcel) -> Event:
        """The same again where the answer got lost: what is written twice would be another, empty tally."""
        self._thread = threading.get_ident()
        if self._said is None or self._said[0] != number:
            self._delivered.parcel = parcel
            self._said = number, answer(self._worker, order)
        return self._said[1]

    @ray.method(concurrency_group="control")
    def drop(self, unit: str) -> None:
        self._worker.drop(unit)

    @ray.method(concurrency_group="control")
    def pulse(self) -> Pulse:
        return self._gauge.pulse()

    @ray.method(concurrency_group="control")
    def where(self) -> Whereabouts:
        return Whereabouts(stack_of(self._thread), self._gauge.pulse())

    def _load(self) -> Event:
        started = time.monotonic()
        try:
            setup = self._make_setup(self._job, self._bundle)
            whole = setup.read_here or setup.read
            handed = replace(setup, read=self._delivered.reading(setup.read), read_here=whole)
            self._worker = loaded(handed, self._limits)
        except AssayError as error:
            return WorkerFailed(self._incarnation, error)
        known = replace(machine(), device=device_name(self._gauge.pulse()))
        return WorkerReady(self._incarnation, known, time.monotonic() - started)
