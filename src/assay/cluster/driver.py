"""The executor on Ray: each worker is a long-lived actor. With `integrations/`, the only place that imports ray.

Lives here: having actors, carrying orders to them, telling a lost actor from a slow one, and noticing that nodes come
and go. Not here: any decision (`schedule.py`), the loop (`drive.py`), what an actor does with an order (`worker.py`).

Nothing is retried by Ray itself: an actor that died is gone with all that it had not flushed, and the schedule decides.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import ray
from ray.autoscaler.v2.sdk import get_cluster_status
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError, RayTaskError

from assay.costs import NO_LIMITS, Limits
from assay.drive import MakeSetup, answer, drive
from assay.errors import AssayError, RunError
from assay.orders import (
    Drop,
    Event,
    Flush,
    Resized,
    Score,
    Stalled,
    WorkerDraining,
    WorkerFailed,
    WorkerLost,
    WorkerReady,
)
from assay.protocols import Log
from assay.records import Job, Machine, Market, Progress
from assay.spec.words import agree, count
from assay.worker import Worker, one_thread

UNAVAILABLE_SECONDS = 60.0
"""How long an actor that cannot be reached counts as alive."""
FIRST_WORKER_SECONDS = 300.0
"""How long a run waits for its first worker."""
POLL_SECONDS = 5.0
"""How often the cluster is asked which nodes are drained, and how large it is."""
NOTICE_SECONDS = 30.0
"""How long a drained node lasts, which Ray does not say: the shortest notice that a large cloud gives."""
NODE_TYPE_LABELS = ("ray.io/node-group", "ray.io/accelerator-type")
"""Labels of a node that say what it is; the first one that it has."""
MARKET_LABEL = "ray.io/market-type"
MARKETS: Mapping[str, Market] = {"on-demand": "on_demand", "on_demand": "on_demand", "spot": "spot"}
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

    def __init__(
        self, workers: int | None, make_setup: MakeSetup, address: str | None = None, limits: Limits = NO_LIMITS
    ) -> None:
        """workers: None takes as many as the cluster has CPUs."""
        if workers is not None and workers < 1:
            raise RunError(f"{workers} workers cannot score anything; give 1 or more.")
        self._workers = workers
        self._make_setup = make_setup
        self._address = address or os.environ.get("RAY_ADDRESS")
        self._limits = limits

    def run(self, job: Job, log: Log, progress: Callable[[Progress], None]) -> None:
        """See Executor.run."""
        with connected(self._address, self._workers):
            num_workers = self._workers or _most_workers()
            crew = _Actors(job, self._make_setup, None if self._workers else num_workers)
            try:
                drive(job, log, crew, num_workers, progress, limits=self._limits)
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


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What an actor says once it has tried to load."""

    event: Event
    node: str  # where it is


@ray.remote(  # type: ignore[call-overload]  # Ray's types leave the groups out
    num_cpus=1, max_restarts=0, max_task_retries=0, concurrency_groups={"control": 1}
)
class _Actor:
    """One worker. It handles one call at a time; `drop` alone is heard while it does."""

    def __init__(self, incarnation: str, make_setup: MakeSetup, job: Job) -> None:
        self._incarnation = incarnation
        self._make_setup = make_setup
        self._job = job
        self._limits = ExitStack()  # of threads, to the end of this process

    def load(self) -> _Loaded:
        node: str = ray.get_runtime_context().get_node_id()
        return _Loaded(self._load(), node)

    def answer(self, order: Score | Flush) -> Event:
        return answer(self._worker, order)

    @ray.method(concurrency_group="control")
    def drop(self, unit: str) -> None:
        self._worker.drop(unit)

    def _load(self) -> Event:
        started = time.monotonic()
        try:
            setup = self._make_setup(self._job)
            self._limits.enter_context(one_thread(setup.scoring.models))
            self._worker = Worker(setup)
        except AssayError as error:
            return WorkerFailed(self._incarnation, error)
        self._limits.enter_context(one_thread([]))  # again, for the libraries that loading brought in
        return WorkerReady(self._incarnation, _machine(), time.monotonic() - started)


@dataclass(slots=True)
class _Member:
    """What the driver knows of one actor. An order is out as long as `call` is not None."""

    actor: Any  # an actor handle; Ray makes its methods when the class is decorated
    order: Score | Flush | None = None  # None while it loads
    call: Any = None  # ray.ObjectRef of the event
    node: str = ""  # known once it is ready
    draining: bool = False  # was told
    unavailable_since: float | None = None


class _Actors:
    """A crew of actors."""

    def __init__(self, job: Job, make_setup: MakeSetup, num_workers: int | None = None) -> None:
        """num_workers: as many as the cluster has room for, which may change; None: they are given."""
        self._place = job.run
        self._job = ray.put(job)  # once, whatever the number of actors: it may hold a frame
        self._num_workers = num_workers
        self._polled = time.monotonic()
        self._draining: frozenset[str] = frozenset()  # nodes
        self._make_setup = make_setup
        self._runtime = {"env_vars": _environment(job.base)}
        self._members: dict[str, _Member] = {}
        self._shares: dict[str, float] = {}  # of each node, that one worker takes
        self._waiting_since: float | None = time.monotonic()  # None once there was a worker

    def start(self, incarnation: str) -> None:
        actor = _Actor.options(runtime_env=self._runtime).remote(  # type: ignore[attr-defined]  # made by ray.remote
            incarnation, self._make_setup, self._job
        )
        self._members[incarnation] = _Member(actor, call=actor.load.remote())

    def send(self, order: Score | Flush) -> None:
        member = self._members[order.incarnation]
        member.order, member.call = order, member.actor.answer.remote(order)

    def drop(self, order: Drop) -> None:
        self._members[order.incarnation].actor.drop.remote(order.unit)

    def end(self, incarnation: str) -> None:
        member = self._members.pop(incarnation, None)
        if member is not None:
            ray.kill(member.actor, no_restart=True)

    def wait(self, seconds: float) -> Sequence[Event]:
        calls = {member.call: name for name, member in self._members.items() if member.call is not None}
        if not calls:
            time.sleep(seconds)
            self._ask_again()
            return self._poll()
        ready, _ = ray.wait(list(calls), num_returns=1, timeout=seconds)
        if ready:
            ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
        events = [event for call in ready for event in self._event(calls[call])]
        self._ask_again()
        self._check_start(events)
        return events + self._poll()

    def cause(self, stalled: Stalled) -> str:
        if stalled.wait == "score":
            return "Its model may be slow or hang, its device hot or shared with other work."
        if stalled.wait == "flush":
            return f"The storage of {self._place} may be slow, full, or out of the reach of its node."
        free, all_cpus = _num_cpus("available_resources"), _num_cpus("cluster_resources")
        return (
            f"A worker needs 1 CPU; {free:.0f} of the cluster's {all_cpus:.0f} are free, and "
            f"{count(len(self._draining), 'node')} {agree(len(self._draining), 'is', 'are')} being drained."
        )

    def close(self) -> None:
        for incarnation in list(self._members):
            self.end(incarnation)

    def _event(self, incarnation: str) -> list[Event]:
        """What became of the call of an actor, which is ready."""
        member = self._members[incarnation]
        call, member.call = member.call, None
        try:
            said: Event | _Loaded = ray.get(call)
        except ActorUnavailableError as error:
            return self._unavailable(incarnation, member, error)
        except RayTaskError as error:  # a fault of ours, or in a setup
            return [WorkerFailed(incarnation, error)]
        except ActorDiedError as error:
            if error.preempted:
                return [WorkerLost(incarnation, "its node was taken away", preempted=True)]
            return [WorkerLost(incarnation, "its process died")]
        except RayError as error:  # its node died, the system ended it for its memory, it could not be started
            return [WorkerLost(incarnation, _first_line(error))]
        member.unavailable_since = None
        if isinstance(said, _Loaded):
            member.node = said.node
            return [self._with_share(said)]
        return [said]

    def _with_share(self, said: _Loaded) -> Event:
        """A worker takes one CPU of its machine."""
        event = said.event
        if not isinstance(event, WorkerReady):
            return event
        if said.node not in self._shares:
            self._shares = _shares()
        return replace(event, machine=replace(event.machine, share=self._shares.get(said.node, 1.0)))

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

    def _poll(self) -> list[Event]:
        """Workers on nodes that are drained, and a cluster that has grown or shrunk."""
        if time.monotonic() - self._polled < POLL_SECONDS:
            return []
        self._polled = time.monotonic()
        self._draining = _draining_nodes()
        drained: list[Event] = []
        for name, member in self._members.items():
            if member.node in self._draining and not member.draining:
                member.draining = True
                drained.append(WorkerDraining(name, "its node is drained", NOTICE_SECONDS))
        if self._num_workers is None or _most_workers() == self._num_workers:
            return drained
        self._num_workers = _most_workers()
        return [*drained, Resized(self._num_workers)]

    def _check_start(self, events: Sequence[Event]) -> None:
        if events:
            self._waiting_since = None
        if self._waiting_since is not None and time.monotonic() - self._waiting_since > FIRST_WORKER_SECONDS:
            free = _num_cpus("available_resources")
            raise RunError(
                f"The Ray cluster gave no worker within {FIRST_WORKER_SECONDS:.0f} seconds; it has {free:.0f} free "
                "CPUs and a worker needs 1. Wait for other jobs to end or add nodes, then resume the run."
            )


def _most_workers() -> int:
    return max(1, round(_num_cpus("cluster_resources")))


def _draining_nodes() -> frozenset[str]:
    """Ids of the nodes that Ray was told to drain: what `ray status` says of them. None where it does not answer."""
    try:
        status = get_cluster_status(ray.get_runtime_context().gcs_address)
    except (RayError, RuntimeError, OSError):
        return frozenset()
    nodes = (*status.active_nodes, *status.idle_nodes)
    return frozenset(node.node_id for node in nodes if node.node_id and node.node_status == "DRAINING")


def _machine() -> Machine:
    """The one of this process: what its node's labels say, which whoever starts the cluster sets."""
    labels: Mapping[str, Any] = ray.get_runtime_context().get_node_labels()  # Any: Ray's own type is wrong
    named = [str(labels[key]) for key in NODE_TYPE_LABELS if labels.get(key)]
    market = MARKETS.get(labels.get(MARKET_LABEL, ""), "")
    return Machine(named[0] if named else "local", market, socket.gethostname())


def _shares() -> dict[str, float]:
    nodes: Sequence[Mapping[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # Any: untyped in Ray
    return {node["NodeID"]: 1 / max(1.0, node["Resources"].get("CPU", 1.0)) for node in nodes if node["Alive"]}


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
