"""Units that are prepared apart from scoring: Ray tasks make them, the object store holds them, workers take them.

Lives here: the tasks, what workers are handed, and what the tasks spend. Not here: which pieces are made and kept
(`shelf.py`), what preparing is (`build.preparing_reader`), who scores what (`schedule.py`).

One task makes all preparations of one piece that have `tasks`. Nothing depends on its success: where a task or its node
dies twice, raises, or keeps a worker waiting for too long, the worker reads and prepares the unit itself, as if there
were no tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import RayError
from ray.experimental import get_local_object_locations

from assay.cluster.connect import first_line
from assay.cluster.nodes import Demand, Node, Options, lack, machine, of_task, options, share
from assay.cluster.results import Reference
from assay.cluster.shelf import Piece, Shelf, piece_of
from assay.errors import RunError
from assay.orders import Score
from assay.records import Job, Machine, Preparing, Rows, Unit
from assay.spec.words import count
from assay.worker import one_thread

ReadUnit = Callable[[Unit], Iterator[Rows]]
MakeReader = Callable[[Job], ReadUnit]
"""Called once in each process that prepares."""

STORE_FRACTION = 0.3
"""Of the object stores' memory, that prepared units may take."""
PATIENCE_SECONDS = 60.0
PATIENCE_TIMES = 10.0
"""A worker waits for a task so long, or so many times what the slowest one took; then it prepares the unit itself."""
RETRIES = 1
"""By Ray, of a task whose process or node died, and of one whose result went with its node."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A prepared piece on its way to a worker, which may still be in the making."""

    rows: Sequence[Reference]  # one, in a list so that Ray does not wait for it before the worker is called
    patience: float


Parcel = Mapping[Piece, Handed]
"""What goes with an order."""


# ---- in a task -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Report:
    """What a task says beside its rows."""

    node: str
    machine: Machine
    seconds: float


@ray.remote(num_returns=2, max_retries=RETRIES)
def _prepare(run: str, make_reader: MakeReader, job: Sequence[Reference], unit: Unit) -> tuple[list[Rows], _Report]:
    """run: names the driver's run, for which a process makes its reader once."""
    started = time.monotonic()
    rows = list(_READERS.of(run, make_reader, job)(unit))
    node: str = ray.get_runtime_context().get_node_id()
    return rows, _Report(node, machine(), time.monotonic() - started)


class _Readers:
    """The reader of this process: of one run, since tasks of two runs share no process at the same time."""

    def __init__(self) -> None:
        self._run = ""
        self._read: ReadUnit | None = None
        self._limits = ExitStack()  # of threads, to the end of this process

    def of(self, run: str, make_reader: MakeReader, job: Sequence[Reference]) -> ReadUnit:
        if self._read is None or self._run != run:
            self._limits.enter_context(one_thread([]))
            self._run, self._read = run, make_reader(ray.get(job[0]))
            self._limits.enter_context(one_thread([]))  # again, for the libraries that came with it
        return self._read


_READERS = _Readers()


# ---- in a worker -----------------------------------------------------------------------------------------------------


class Delivered:
    """What a worker was handed with its last order. Read by the reader's thread."""

    def __init__(self) -> None:
        self.parcel: Parcel = {}

    def reading(self, read: ReadUnit) -> ReadUnit:
        """The same rows, from the object store where they were prepared."""

        def rows(unit: Unit) -> Iterator[Rows]:
            handed = self.parcel.get(piece_of(unit))
            prepared = None if handed is None else _had(handed)
            yield from read(unit) if prepared is None else prepared

        return rows


def _had(handed: Handed) -> Sequence[Rows] | None:
    """None where it cannot be had, for whatever reason: it would be met again in reading the unit itself."""
    try:
        [rows] = ray.get(list(handed.rows), timeout=handed.patience)
    except RayError:  # lost for good, raised in the task, or late
        return None
    prepared: Sequence[Rows] = rows
    return prepared


# ---- in the driver ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Making:
    """A task that was asked for."""

    piece: Piece
    rows: Reference
    since: float


class Preparation:
    """The preparation tasks of one driver."""

    def __init__(
        self,
        job: Job,
        job_reference: Reference,
        make_reader: MakeReader,
        environment: Options,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        specs = {name: one for name, one in job.spec.prepare.items() if one.tasks}
        self.demand: Demand = of_task(specs.values())
        _check(self.demand)
        self.num_tasks = max(one.tasks or 0 for one in specs.values())
        self._name = ", ".join(specs)
        self._run = f"{job.run} {job_reference.hex()}"
        self._job = [job_reference]
        self._make_reader = make_reader
        self._environment = environment
        self._clock = clock
        self._shelf = Shelf(int(STORE_FRACTION * _store_bytes()), self.num_tasks)
        self._rows: dict[Piece, Reference] = {}  # of each piece on the shelf
        self._units: dict[Piece, Unit] = {}  # one of each piece that is wanted or foreseen
        self._making: dict[Reference, _Making] = {}  # by that of its report
        self._abandoned: dict[Reference, Reference] = {}  # report -> rows, of what was given up in the making
        self._left = _Left(max(1, len(job.plan.bundles)))
        self._slowest = 0.0
        self._heard_at = clock()
        self._nodes: Sequence[Node] = ()
        self._held_since: dict[str, float] = {}  # by worker that waits for a place of its unit
        self._started: float | None = None
        self._ended: float | None = None
        self._machine = Machine()
        self._busy: dict[Machine, float] = {}  # not told yet
        self._places_told = 0.0
        self.num_failed = 0  # tasks that could not do it
        self._news: list[str] = []

    @property
    def calls(self) -> list[Reference]:
        """Ready when something is to be heard."""
        return [*self._making, *self._abandoned]

    def see(self, nodes: Sequence[Node]) -> None:
        """What the cluster has now."""
        self._nodes = nodes

    def foresee(self, units: Sequence[Unit]) -> None:
        pieces = [piece_of(unit) for unit in units]
        self._units.update(zip(pieces, units, strict=True))
        self._shelf.foresee(pieces)
        self._begin()

    def give(self, order: Score) -> tuple[Score, Parcel] | None:
        """The order as it is sent, with what it needs; None as long as there is no place to make it in."""
        piece, name = piece_of(order.unit), order.incarnation
        if not self._may_be_had(name, piece, order.unit):
            return None
        self._held_since.pop(name, None)
        coming = None
        if order.upcoming is not None:
            coming = piece_of(order.upcoming)
            self._units[coming] = order.upcoming
        self._shelf.use(name, [piece], coming)
        self._begin()
        late = {made.piece for made in self._making.values()} if self._is_stuck() else set()
        handed = [one for one in (piece, coming) if one in self._rows and one not in late]
        self._shelf.use(name, handed, coming)
        if coming is not None and not self._is_known(coming):
            order = replace(order, upcoming=None)  # or the worker, reading ahead, would prepare it itself
        return order, {one: Handed([self._rows[one]], self._patience()) for one in handed if one is not None}

    def hear(self, call: Reference) -> None:
        """A task has ended, whose report is ready."""
        self._heard_at = self._clock()
        made = self._making.pop(call, None)
        if made is None:
            self._abandoned.pop(call, None)
            return
        try:
            report: _Report = ray.get(call)
        except RayError as error:
            if not self.num_failed:
                self._news.append(
                    f"A task that prepares {self._name} failed: {first_line(error).rstrip('.')}. Workers prepare "
                    "themselves what tasks cannot."
                )
            self.num_failed += 1
            self._rows.pop(made.piece, None)
            self._shelf.failed(made.piece)
        else:
            self._book(report)
            self._shelf.finished(made.piece, _num_bytes(made.rows))
        self._begin()

    def scored(self, unit: Unit, worker: str) -> None:
        """By one of those that need it."""
        self._shelf.free(worker)
        if self._left.scored(unit):
            piece = piece_of(unit)
            self._shelf.forget(piece)
            if not self._shelf.is_wanted(piece):  # for a copy of the unit
                self._units.pop(piece, None)
        self._begin()

    def leave(self, worker: str) -> None:
        """A worker is no more, or has given its unit up."""
        self._held_since.pop(worker, None)
        self._shelf.leave(worker)
        self._begin()

    def spent(self) -> Sequence[Preparing]:
        """By tasks since this was last asked, and for how long they might have."""
        if self._started is None or not self._slowest:
            return ()  # it is not known yet on what machines they run
        now = self._ended or self._clock()
        told = [Preparing(self._name, where, seconds) for where, seconds in self._busy.items()]
        self._busy.clear()
        seconds = self.num_tasks * (now - self._started) - self._places_told
        self._places_told += seconds
        return [*told, Preparing(self._name, self._machine, seconds, self.num_tasks)]

    def news(self) -> Sequence[str]:
        """The first failure of a task, once."""
        told, self._news = self._news, []
        return told

    def late(self, unit: Unit) -> str:
        """What a worker waits for that is to score it, and the likely cause; "" where it has all that it needs."""
        piece = piece_of(unit)
        since = next((made.since for made in self._making.values() if made.piece == piece), None)
        if since is None and self._is_known(piece):
            return ""
        what = "has no task yet" if since is None else f"has had a task for {self._clock() - since:.0f} s"
        failed = f" {count(self.num_failed, 'task')} failed so far." if self.num_failed else ""
        return f"Its unit is not prepared and {what}. {lack(self.demand, self._nodes, 'A task')}{failed}"

    def close(self) -> None:
        """End all tasks."""
        self._ended = self._clock()
        for rows in [*self._abandoned.values(), *(made.rows for made in self._making.values())]:
            _cancel(rows, force=True)
        self._abandoned.clear()
        self._making.clear()
        self._rows.clear()

    def _is_stuck(self) -> bool:
        """No task has ended for long: for lack of room, it may be that none has begun. Nobody waits for them then."""
        since = min((made.since for made in self._making.values()), default=self._clock())
        return self._clock() - max(since, self._heard_at) > self._patience()

    def _may_be_had(self, worker: str, piece: Piece, unit: Unit) -> bool:
        if self._is_known(piece):
            return True
        self._units[piece] = unit
        self._shelf.want(worker, piece)
        self._begin()
        since = self._held_since.setdefault(worker, self._clock())
        return self._is_known(piece) or self._is_stuck() or self._clock() - since > self._patience()

    def _is_known(self, piece: Piece) -> bool:
        return piece in self._shelf or self._shelf.is_by_hand(piece)

    def _begin(self) -> None:
        """Ask for as many tasks as there are places for, and let go of what is on the shelf no more."""
        while (piece := self._shelf.next()) is not None:
            self._started = self._clock() if self._started is None else self._started
            asked = options(self.demand, self._nodes) | self._environment
            made: Any = _prepare.options(**asked).remote(self._run, self._make_reader, self._job, self._units[piece])
            rows, report = made  # Any: two, which Ray's types do not know
            self._rows[piece] = rows
            self._making[report] = _Making(piece, rows, self._clock())
        for piece in [one for one in self._rows if one not in self._shelf]:
            del self._rows[piece]
        for report in [one for one, made in self._making.items() if made.piece not in self._shelf]:
            self._abandoned[report] = self._making.pop(report).rows
            _cancel(self._abandoned[report], force=False)  # its process may have another task already

    def _book(self, report: _Report) -> None:
        self._slowest = max(self._slowest, report.seconds)
        part = next((share(node, self.demand) for node in self._nodes if node.id == report.node), 1.0)
        self._machine = replace(report.machine, share=part)
        self._busy[self._machine] = self._busy.get(self._machine, 0.0) + report.seconds

    def _patience(self) -> float:
        return max(PATIENCE_SECONDS, PATIENCE_TIMES * self._slowest)


class _Left:
    """Which bundles have scored a piece, as long as others have not."""

    def __init__(self, num_bundles: int) -> None:
        self._num_bundles = num_bundles
        self._scored: dict[Piece, set[int]] = {}

    def scored(self, unit: Unit) -> bool:
        """Was that the last of them? One whose bundles were scored before this driver came is never seen whole: it
        stays until its room is needed."""
        bundles = self._scored.setdefault(piece_of(unit), set())
        bundles.add(unit.bundle)
        if len(bundles) < self._num_bundles:
            return False
        del self._scored[piece_of(unit)]
        return True


def _check(demand: Demand) -> None:
    """RunError for what Ray cannot be asked for."""
    try:
        _prepare.options(**options(demand, ()))
    except ValueError as error:
        raise RunError(f"Ray cannot give tasks what the spec's `prepare` asks for: {first_line(error)}") from error


def _num_bytes(rows: Reference) -> int:
    """Of an object that is there, as Ray has it; a small one is in no store."""
    known = get_local_object_locations([rows]).get(rows, {})
    return known.get("object_size") or 0


def _store_bytes() -> float:
    resources: Mapping[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return resources.get("object_store_memory", 0.0)


def _cancel(rows: Reference, *, force: bool) -> None:
    with suppress(RayError, ValueError):  # it has just ended
        ray.cancel(rows, force=force)
