"""A crew of actors: each worker is one, and lives as long as the run needs it.

Lives here: having actors, carrying orders to them with what was prepared for them, telling a lost actor from a slow
one, and noticing that nodes come and go. Not here: any decision (`schedule.py`), what an actor does with an order
(`worker.py`), what nodes have (`nodes.py`), what is prepared where (`preparing.py`).

Nothing is retried by Ray itself: an actor that died is gone with all that it had not flushed, and the schedule decides.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, OutOfMemoryError, RayError, RayTaskError

from assay.cluster.actor import Loaded, ScoringActor
from assay.cluster.connect import Head, first_line
from assay.cluster.environment import environment_of
from assay.cluster.gauges import Actor, Gauges, whereabouts
from assay.cluster.items import ended
from assay.cluster.nodes import Demand, Node, Taken, lack, may_grow, most_workers, nodes, of_worker, options, share
from assay.cluster.preparing import MakeReader, Parcel, Preparation
from assay.cluster.results import Reference
from assay.cluster.rows_first import RowsFirst
from assay.drive import MakeSetup
from assay.errors import RunError
from assay.orders import (
    Drop,
    Event,
    Flush,
    Resized,
    Score,
    Stalled,
    UnitDone,
    UnitDropped,
    WorkerDraining,
    WorkerFailed,
    WorkerLost,
    WorkerReady,
)
from assay.probes import scoring_words, storage_words, where_words
from assay.protocols import FragileSource
from assay.records import Job, Preparing, Unit

UNAVAILABLE_SECONDS = 60.0
"""How long an actor that cannot be reached counts as alive."""
FIRST_WORKER_SECONDS = 300.0
"""How long a run waits while it has no worker at all."""
GROWING_SECONDS = 1800.0
"""The same, where an autoscaler may bring nodes, or workers have their place and take long to load."""
EXCUSED_SECONDS = 30.0
MOST_PROBED = 3
"""Whether they load is asked so often, and of so many."""
POLL_SECONDS = 5.0
"""How often the cluster is asked which nodes it has, and its head whether it lives."""
NOTICE_SECONDS = 30.0
"""How long a drained node lasts, which Ray does not say: the shortest notice that a large cloud gives."""


@dataclass(slots=True)
class _Member:
    """What the driver knows of one actor. An order is out as long as `call` is not None."""

    actor: Actor
    order: Score | Flush | None = None  # None while it loads
    number: int = 0  # of the order, among its own
    call: Reference | None = None  # to the event
    node: str = ""  # known once it is ready
    draining: bool = False  # was told
    waits: bool = False  # the order waits here for what it needs
    unavailable_since: float | None = None


class Actors:
    """See Crew."""

    def __init__(
        self,
        job: Job,
        make_setup: MakeSetup,
        num_workers: int | None = None,
        make_reader: MakeReader | None = None,
        news: Sequence[str] = (),
    ) -> None:
        """num_workers: None takes as many as the cluster has room for, which may change.

        make_reader: None leaves all preparing to the workers. news: the first sentences that are told.
        """
        self._news = news
        self._place, self._state_bytes = job.run, job.plan.state_bytes
        self._gauges = Gauges()
        self._job = ray.put(job)  # once, whatever the number of actors: it may hold a frame
        self._can_go_on = job.source.resumable
        self._head = Head(ray.get_runtime_context().gcs_address, job.run if self._can_go_on else None)
        self._demand = of_worker(job.spec.workers)
        _check(self._demand)
        self._make_setup = make_setup
        self._environment = environment_of(job.base)
        self._preparation: Preparation | None = None
        if make_reader is not None and any(one.tasks for one in job.spec.prepare.values()):
            self._preparation = Preparation(job, self._job, make_reader, self._environment)
        self._fixed = num_workers is not None
        self._rows_first = RowsFirst(job.source) if isinstance(job.source, FragileSource) else None
        self._nodes: Sequence[Node] = ()
        self.num_workers = 0
        self._polled = time.monotonic()
        self._look()
        self.num_workers = num_workers or self._most_workers()
        self._members: dict[str, _Member] = {}
        self._to_start: dict[str, int] = {}  # later: incarnation -> bundle
        self._said: list[Event] = []  # of workers whose order never went out
        self._waiting_since: float | None = None  # without any worker
        self._excused_until = 0.0

    @property
    def num_ahead(self) -> int:
        """How many of the next units it wants to know of."""
        return self._preparation.num_tasks + self.num_workers if self._preparation else 0

    def foresee(self, units: Sequence[Unit]) -> None:
        if self._preparation and not self._head.silent:
            self._preparation.foresee(units)

    def prepared(self) -> Sequence[Preparing]:
        """What preparation tasks have spent since this was last asked."""
        return self._preparation.spent() if self._preparation else ()

    def news(self) -> Sequence[str]:
        told, self._news = self._news, ()
        return (*told, *(self._preparation.news() if self._preparation else ()))

    def start(self, incarnation: str, bundle: int) -> None:
        if self._head.silent or (self._rows_first is not None and self._rows_first.must_wait()):
            self._to_start[incarnation] = bundle
            return
        asked = options(self._demand, self._nodes)
        actor = ScoringActor.options(**asked, **self._environment).remote(  # type: ignore[attr-defined]  # made by Ray
            incarnation, bundle, self._make_setup, self._job
        )
        self._members[incarnation] = _Member(actor, call=actor.load.remote())

    def send(self, order: Score | Flush) -> None:
        member = self._members[order.incarnation]
        member.order, member.number = order, member.number + 1
        self._send(member, order)

    def drop(self, order: Drop) -> None:
        member = self._members[order.incarnation]
        if not member.waits:
            member.actor.drop.remote(order.unit)
        elif isinstance(member.order, Score) and member.order.unit.id == order.unit:
            member.waits = False
            self._said.append(UnitDropped(order.incarnation, order.unit))

    def end(self, incarnation: str) -> None:
        self._to_start.pop(incarnation, None)
        self._gauges.forget(incarnation)
        member = self._members.pop(incarnation, None)
        if member is not None:
            ray.kill(member.actor, no_restart=True)
        if self._preparation:
            self._preparation.leave(incarnation)

    def wait(self, seconds: float) -> Sequence[Event]:
        calls = {member.call: name for name, member in self._members.items() if member.call is not None}
        making = self._preparation.calls if self._preparation else []
        ready = _ready([*calls, *making], seconds)
        events = [event for call in ready if call in calls for event in self._event(calls[call], call)]
        events, self._said = self._said + events, []
        self._hear(ready, events)
        self._ask_again()
        self._check_start()
        return events + self._poll()

    def taken(self) -> Taken | None:
        """What workers hold of the Ray cluster; None while one waits for its place, or the head does not answer."""
        if self._head.silent or not self._members or not all(member.node for member in self._members.values()):
            return None
        held: dict[str, float] = {}
        for member in self._members.values():
            held[member.node] = held.get(member.node, 0.0) + self._demand.num_cpus
        tasks = self._preparation
        return Taken(self._nodes, held, tasks.num_tasks * tasks.demand.num_cpus if tasks else 0.0)

    def cause(self, stalled: Stalled) -> str:
        member = self._members.get(stalled.incarnation)
        if member is not None and self._preparation and isinstance(member.order, Score):
            late = self._preparation.late(member.order.unit)
            if late:
                return late
        answer = None if member is None or self._head.silent else whereabouts(member.actor)
        if stalled.wait == "start":
            loads = "" if answer is None or answer.value is None else where_words(answer.value.stack)
            return loads or lack(self._demand, self._nodes)
        said = "" if answer is None else scoring_words(answer)
        storage = storage_words(self._place, self._state_bytes) if stalled.wait == "flush" else ""
        return " ".join(filter(None, [storage, said]))

    def close(self) -> None:
        for incarnation in list(self._members):
            self.end(incarnation)
        if self._preparation:
            self._preparation.close()

    def _send(self, member: _Member, order: Score | Flush) -> None:
        """Or keep it, as long as there is no place where its unit could be prepared."""
        parcel: Parcel = {}
        if self._preparation and isinstance(order, Score):
            given = self._preparation.give(order)
            member.waits = given is None
            if given is None:
                return
            order, parcel = given
        member.call = member.actor.answer.remote(member.number, order, parcel)

    def _hear(self, ready: Iterable[Reference], events: list[Event]) -> None:
        """What this means for what is prepared; and orders that waited for it."""
        if self._preparation is None:
            return
        for call in ready:
            self._preparation.hear(call)
        for event in events:
            if not isinstance(event, UnitDone | UnitDropped):
                continue
            order = self._members[event.incarnation].order
            if isinstance(event, UnitDone) and isinstance(order, Score):
                self._preparation.scored(order.unit, event.incarnation)
            else:
                self._preparation.leave(event.incarnation)
        for member in self._members.values():
            if member.waits and member.order is not None:
                self._send(member, member.order)

    def _event(self, incarnation: str, call: Reference) -> list[Event]:
        """What became of the call of an actor, which is ready."""
        member = self._members[incarnation]
        member.call = None
        try:
            said = _said(call)
        except ActorUnavailableError as error:
            return self._unavailable(incarnation, member, error)
        except RayTaskError as error:  # a fault of ours, or in a setup
            return [WorkerFailed(incarnation, error)]
        except ActorDiedError as error:
            if error.preempted:
                return [WorkerLost(incarnation, "its node was taken away", preempted=True)]
            return [WorkerLost(incarnation, "its process died")]
        except OutOfMemoryError as error:
            return [WorkerLost(incarnation, first_line(error), out_of_memory=True)]
        except RayError as error:  # its node died, it could not be started
            return [WorkerLost(incarnation, first_line(error))]
        member.unavailable_since = None
        if isinstance(said, Loaded):
            member.node = said.node
            return [self._with_share(said)]
        return [said]

    def _with_share(self, said: Loaded) -> Event:
        """With what the worker takes of its machine."""
        event = said.event
        if not isinstance(event, WorkerReady):
            return event
        if all(node.id != said.node for node in self._nodes):
            self._look()  # it has just come
        part = next((share(node, self._demand) for node in self._nodes if node.id == said.node), 1.0)
        return replace(event, machine=replace(event.machine, share=part))

    def _unavailable(self, incarnation: str, member: _Member, error: Exception) -> list[Event]:
        now = time.monotonic()
        member.unavailable_since = member.unavailable_since or now
        if now - member.unavailable_since < UNAVAILABLE_SECONDS:
            return []
        return [WorkerLost(incarnation, f"it could not be reached for {UNAVAILABLE_SECONDS:.0f} seconds")]

    def _ask_again(self) -> None:
        """Send the last order again where it or its answer got lost; an actor that has carried it out says so again."""
        for member in self._members.values():
            if member.call is None and member.unavailable_since is not None and not member.waits:
                if member.order is None:
                    member.call = member.actor.load.remote()
                else:
                    self._send(member, member.order)

    def _poll(self) -> list[Event]:
        """Workers on nodes that are drained, and a cluster that has grown or shrunk. Nothing while its head is silent:
        Ray would wait for it."""
        if time.monotonic() - self._polled < POLL_SECONDS:
            return []
        self._polled = time.monotonic()
        if not self._head.check():
            return []
        to_start, self._to_start = self._to_start, {}
        for incarnation, bundle in to_start.items():
            self.start(incarnation, bundle)
        self._look()
        draining = {node.id for node in self._nodes if node.draining}
        drained: list[Event] = []
        for name, member in self._members.items():
            if member.node in draining and not member.draining:
                member.draining = True
                drained.append(WorkerDraining(name, "its node is drained", NOTICE_SECONDS))
        drained += self._gauges.turn({name: member.actor for name, member in self._members.items() if member.node})
        if self._fixed or self._most_workers() == self.num_workers:
            return drained
        self.num_workers = self._most_workers()
        return [*drained, Resized(self.num_workers)]

    def _look(self) -> None:
        self._nodes = nodes()
        if self._preparation:
            self._preparation.see(self._nodes)

    def _most_workers(self) -> int:
        if self._preparation is None:
            spare = int(self._rows_first is not None and len(self._nodes) > 1)  # for a task that makes rows again
            return most_workers(self._nodes, self._demand, Demand(), spare)
        return most_workers(self._nodes, self._demand, self._preparation.demand, self._preparation.num_tasks)

    def _is_loading(self) -> bool:
        """Does any of the first actors answer, so that it has its place?"""
        first = list(self._members.values())[:MOST_PROBED]
        return any(whereabouts(member.actor).value is not None for member in first)

    def _check_start(self) -> None:
        """RunError where there has been no worker for too long."""
        if not self._members or self._head.silent or any(member.node for member in self._members.values()):
            self._waiting_since = None
            return
        now = time.monotonic()
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        waited = now - self._waiting_since
        if waited < FIRST_WORKER_SECONDS or now < self._excused_until:
            return
        if waited < GROWING_SECONDS and (may_grow() or self._is_loading()):
            self._excused_until = now + EXCUSED_SECONDS
            return
        raise RunError(
            f"The Ray cluster gave no worker within {waited:.0f} seconds. "
            f"{lack(self._demand, self._nodes)} Wait for other jobs to end, add nodes, or ask for less (the spec's "
            f"`workers`); then {'resume the run' if self._can_go_on else 'start the run again'}."
        )


def _said(call: Reference) -> Event | Loaded:
    """What came of a call that has ended; RayError."""
    said: Event | Loaded = ray.get(call)
    return said


def _ready(calls: list[Reference], seconds: float) -> list[Reference]:
    """As `ended`, but nothing is no reason to return at once."""
    if not calls:
        time.sleep(seconds)
    return ended(calls, seconds)


def _check(demand: Demand) -> None:
    """RunError for what Ray cannot be asked for."""
    if demand.num_gpus > 1 and not float(demand.num_gpus).is_integer():
        raise RunError(
            f"The spec's workers.num_gpus is {demand.num_gpus:g}, but Ray gives more than one GPU only whole: take a "
            "fraction below 1, or a whole number."
        )
    try:
        ScoringActor.options(**options(demand, ()))  # type: ignore[attr-defined]  # made by Ray
    except ValueError as error:
        raise RunError(f"Ray cannot give workers what the spec's `workers` asks for: {first_line(error)}") from error
