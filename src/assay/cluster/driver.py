"""The executor on Ray: each worker is a long-lived actor. With `integrations/`, the only place that imports ray.

Lives here: having actors, carrying orders to them, and telling a lost actor from a slow one. Not here: any decision
(`schedule.py`), the loop (`drive.py`), what an actor does with an order (`worker.py`).

Nothing is retried by Ray itself: an actor that died is gone with all that it had not flushed, and the schedule decides.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError, RayTaskError

from assay.drive import MakeSetup, answer, drive
from assay.errors import AssayError, RunError
from assay.orders import Event, Flush, Score, WorkerFailed, WorkerLost, WorkerReady
from assay.protocols import Log
from assay.records import Job, Progress
from assay.worker import Worker, one_thread

UNAVAILABLE_SECONDS = 60.0
"""How long an actor that cannot be reached counts as alive."""
FIRST_WORKER_SECONDS = 300.0
"""How long a run waits for its first worker."""
INIT_ATTEMPTS = 3
KNOCK_SECONDS = 10.0

LOCAL_ENVIRONMENT = {
    "RAY_worker_niceness": "0",  # by default workers run at 15, behind everything else on the machine
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers without GPUs see none as it is; without this Ray warns
}


class RayExecutor:
    """Actors on a Ray cluster: the one at `address` or RAY_ADDRESS, the one this process is connected to, or a new one
    on this machine that ends with the run."""

    name = "ray"

    def __init__(self, workers: int | None, make_setup: MakeSetup, address: str | None = None) -> None:
        """workers: None takes as many as the cluster has CPUs."""
        if workers is not None and workers < 1:
            raise RunError(f"{workers} workers cannot score anything; give 1 or more.")
        self._workers = workers
        self._make_setup = make_setup
        self._address = address or os.environ.get("RAY_ADDRESS")

    def run(self, job: Job, log: Log, progress: Callable[[Progress], None]) -> None:
        """See Executor.run."""
        with connected(self._address, self._workers):
            num_workers = self._workers or max(1, round(_num_cpus("cluster_resources")))
            try:
                drive(job, log, _Actors(job, self._make_setup), num_workers, progress)
            except RayError as error:
                raise RunError(f"Ray failed, and the run with it: {_first_line(error)} Resume it.") from error


@contextmanager
def connected(address: str | None, num_cpus: int | None) -> Iterator[None]:
    """This process is connected to a Ray cluster; only what is started or connected here ends here."""
    if ray.is_initialized():
        yield
        return
    if address in (None, "local"):
        os.environ.update({name: os.environ.get(name, value) for name, value in LOCAL_ENVIRONMENT.items()})
        _init(address="local", num_cpus=num_cpus, include_dashboard=False)
    else:
        _init(address=address)
    try:
        yield
    finally:
        ray.shutdown()


def _init(**settings: Any) -> None:  # Any: what ray.init takes
    for attempt in range(1, INIT_ATTEMPTS + 1):
        try:
            _knock(settings["address"])
            ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
            return
        except (RayError, RuntimeError, OSError, ValueError) as error:
            ray.shutdown()
            if attempt == INIT_ATTEMPTS:
                raise RunError(_cannot_connect(settings["address"], error)) from error


def _knock(address: str) -> None:
    """OSError at once where nothing listens at HOST:PORT: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "://" not in address:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS).close()


def _cannot_connect(address: str, error: Exception) -> str:
    if address == "local":
        return (
            f"A Ray cluster on this machine could not be started in {INIT_ATTEMPTS} attempts: {_first_line(error)} "
            "Run without Ray (--executor local), or give the --address of a cluster."
        )
    return (
        f"No Ray cluster could be reached at {address!r}: {_first_line(error).rstrip('.')}. Check --address and "
        "RAY_ADDRESS, and that the cluster runs the same versions of Ray and Python."
    )


@ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)
class _Actor:
    """One worker. It handles one call at a time."""

    def __init__(self, incarnation: str, make_setup: MakeSetup, job: Job) -> None:
        self._incarnation = incarnation
        self._make_setup = make_setup
        self._job = job
        self._limits = ExitStack()  # of threads, to the end of this process

    def load(self) -> Event:
        try:
            setup = self._make_setup(self._job)
            self._limits.enter_context(one_thread(setup.scoring.models))
            self._worker = Worker(setup)
        except AssayError as error:
            return WorkerFailed(self._incarnation, error)
        self._limits.enter_context(one_thread([]))  # again, for the libraries that loading brought in
        return WorkerReady(self._incarnation)

    def answer(self, order: Score | Flush) -> Event:
        return answer(self._worker, order)


@dataclass(slots=True)
class _Member:
    """What the driver knows of one actor. An order is out as long as `call` is not None."""

    actor: Any  # an actor handle; Ray makes its methods when the class is decorated
    order: Score | Flush | None = None  # None while it loads
    call: Any = None  # ray.ObjectRef of the event
    unavailable_since: float | None = None


class _Actors:
    """A crew of actors."""

    def __init__(self, job: Job, make_setup: MakeSetup) -> None:
        self._job = ray.put(job)  # once, whatever the number of actors: it may hold a frame
        self._make_setup = make_setup
        self._runtime = {"env_vars": _environment(job.base)}
        self._members: dict[str, _Member] = {}
        self._waiting_since: float | None = time.monotonic()  # None once there was a worker

    def start(self, incarnation: str) -> None:
        actor = _Actor.options(runtime_env=self._runtime).remote(  # type: ignore[attr-defined]  # made by ray.remote
            incarnation, self._make_setup, self._job
        )
        self._members[incarnation] = _Member(actor, call=actor.load.remote())

    def send(self, order: Score | Flush) -> None:
        member = self._members[order.incarnation]
        member.order, member.call = order, member.actor.answer.remote(order)

    def end(self, incarnation: str) -> None:
        member = self._members.pop(incarnation, None)
        if member is not None:
            ray.kill(member.actor, no_restart=True)

    def wait(self, seconds: float) -> Sequence[Event]:
        calls = {member.call: name for name, member in self._members.items() if member.call is not None}
        if not calls:
            time.sleep(seconds)
            self._ask_again()
            return []
        ready, _ = ray.wait(list(calls), num_returns=1, timeout=seconds)
        if ready:
            ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
        events = [event for call in ready for event in self._event(calls[call])]
        self._ask_again()
        self._check_start(events)
        return events

    def close(self) -> None:
        for incarnation in list(self._members):
            self.end(incarnation)

    def _event(self, incarnation: str) -> list[Event]:
        """What became of the call of an actor, which is ready."""
        member = self._members[incarnation]
        call, member.call = member.call, None
        try:
            event: Event = ray.get(call)
        except ActorUnavailableError as error:
            return self._unavailable(incarnation, member, error)
        except RayTaskError as error:  # a fault of ours, or in a setup
            return [WorkerFailed(incarnation, error)]
        except ActorDiedError:
            return [WorkerLost(incarnation, "its process died")]
        except RayError as error:  # its node died, the system ended it for its memory, it could not be started
            return [WorkerLost(incarnation, _first_line(error))]
        member.unavailable_since = None
        return [event]

    def _unavailable(self, incarnation: str, member: _Member, error: Exception) -> list[Event]:
        now = time.monotonic()
        member.unavailable_since = member.unavailable_since or now
        if now - member.unavailable_since < UNAVAILABLE_SECONDS:
            return []
        return [WorkerLost(incarnation, f"it could not be reached for {UNAVAILABLE_SECONDS:.0f} seconds")]

    def _ask_again(self) -> None:
        """Send the last order again where the answer got lost: scoring twice gives the same, and what is flushed twice
        the schedule refuses."""
        for member in self._members.values():
            if member.call is None and member.unavailable_since is not None:
                actor, order = member.actor, member.order
                member.call = actor.load.remote() if order is None else actor.answer.remote(order)

    def _check_start(self, events: Sequence[Event]) -> None:
        if events:
            self._waiting_since = None
        if self._waiting_since is not None and time.monotonic() - self._waiting_since > FIRST_WORKER_SECONDS:
            free = _num_cpus("available_resources")
            raise RunError(
                f"The Ray cluster gave no worker within {FIRST_WORKER_SECONDS:.0f} seconds; it has {free:.0f} free "
                "CPUs and a worker needs 1. Wait for other jobs to end or add nodes, then resume the run."
            )


def _num_cpus(of: Literal["cluster_resources", "available_resources"]) -> float:
    resources: Mapping[str, float] = getattr(ray, of)()  # both are untyped in Ray
    return resources.get("CPU", 0.0)


def _environment(base: str) -> dict[str, str]:
    """For the actors' processes: the user's own modules are found, and each has one compute thread."""
    path = os.pathsep.join(filter(None, [base, os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
