"""Who scores which unit, and what may be committed: a pure state machine, events in, orders out.

Lives here: pulling, accepting, flushing, losses, poison units, stopping, and the audit. Not here: any input or output,
any clock, any thread (`drive.py` and the executors carry the orders out and report what happened).

A unit's way: queued -> in flight at one worker -> accepted to that worker (in whose memory alone it is) -> flushed into
a state file -> committed. A worker that is lost gives back all that was not yet committed. What it may still write or
say afterwards is ignored: its incarnation has ended, and no incarnation is used twice.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Literal

from assay.errors import RunError
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
    WorkerLost,
    WorkerReady,
)
from assay.records import CommittedFile, Failure, Receipt, Unit

DEATHS_BEFORE_ALONE = 3
"""A unit that was in flight at so many deaths runs while nothing else does; one more death makes it poison."""


@dataclass(slots=True)
class _Worker:
    state: Literal["starting", "idle", "scoring", "flushing"] = "starting"
    unit: str | None = None  # in flight
    upcoming: str | None = None  # reserved for it; taken from it by a worker that has nothing else
    riding: tuple[str, ...] = ()  # accepted, and to be told so with the next order
    accepted: dict[str, Receipt] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    flush_due: bool = False


class Schedule:
    """The state of one driver's run: `start()` once, then `handle(event)`; both return the orders that follow."""

    def __init__(
        self,
        units: Sequence[Unit],
        files: Iterable[CommittedFile] = (),
        lost: Iterable[str] = (),
        *,
        driver: str,
        num_workers: int,
        tolerant: bool = False,
    ) -> None:
        """units: the whole plan, in order. files, lost: what the log holds. tolerant: a poison unit is given up."""
        self._order = tuple(unit.id for unit in units)
        self._units = {unit.id: unit for unit in units}
        self._position = {unit.id: position for position, unit in enumerate(units)}
        self._committed: dict[str, Receipt] = {}
        self._rows_committed = 0
        self._lost: set[str] = set(lost)
        self._failed: set[str] = set()  # variants that failed on a unit of this driver's
        self._keep(files)
        self._queue = [self._position[one] for one in self._units if one not in self._committed.keys() | self._lost]
        self._suspects: list[int] = []
        self._committing: dict[str, Receipt] = {}
        self._workers: dict[str, _Worker] = {}
        self._deaths: Counter[str] = Counter()
        self._lost_since_progress = 0
        self._driver = driver
        self._num_workers = num_workers
        self._num_started = 0
        self._tolerant = tolerant
        self._stop: Stop | Exception | None = None
        self._over = False

    # -- what others may ask

    @property
    def num_units(self) -> int:
        return len(self._units)

    @property
    def units_done(self) -> int:
        """Accepted, committed or given up."""
        return len(self._committed) + len(self._committing) + len(self._lost) + len(self._accepted())

    @property
    def rows_done(self) -> int:
        """Rows read of all units that are accepted or committed."""
        known = (self._committing, self._accepted())
        return self._rows_committed + sum(receipt.rows for receipts in known for receipt in receipts.values())

    # -- events

    def start(self) -> list[Order]:
        return self._next_orders()

    def handle(self, event: Event) -> list[Order]:
        """The orders that follow from an event, in the order in which they must be carried out."""
        if self._over:
            return []
        return [*self._on(event), *self._next_orders()]

    @singledispatchmethod
    def _on(self, event: Event) -> list[Order]:
        raise TypeError(f"{event!r} is not an event")

    @_on.register
    def _(self, event: WorkerReady) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        if worker is not None and worker.state == "starting":
            worker.state = "idle"
        return []

    @_on.register
    def _(self, event: UnitDone) -> list[Order]:
        worker, unit = self._workers.get(event.incarnation), event.receipt.unit
        if worker is None or worker.unit != unit:
            return []  # an ended incarnation, or said twice
        worker.state, worker.unit = "idle", None
        worker.riding = (unit,)
        worker.accepted[unit] = event.receipt
        worker.failures.extend(event.failures)
        worker.flush_due = event.flush_due
        self._lost_since_progress = 0
        return self._first_failures(event.failures)

    @_on.register
    def _(self, event: Flushed) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        if worker is None or worker.state != "flushing":
            return []
        if {receipt.unit: receipt for receipt in event.file.receipts} != worker.accepted:
            self._end(event.incarnation)
            return self._count_loss(event.incarnation, "it flushed other units than were accepted")
        order = Commit(files=(event.file,), failures=tuple(worker.failures))
        self._committing.update(worker.accepted)
        self._workers[event.incarnation] = _Worker(state="idle", upcoming=worker.upcoming)
        return [order]

    @_on.register
    def _(self, event: Committed) -> list[Order]:
        self._keep(event.order.files)
        self._lost.update(event.order.lost)
        for unit in [receipt.unit for file in event.order.files for receipt in file.receipts]:
            self._committing.pop(unit, None)
        return []

    @_on.register
    def _(self, event: WorkerLost) -> list[Order]:
        if event.incarnation not in self._workers:
            return []
        unit = self._end(event.incarnation)
        orders = self._count_loss(event.incarnation, event.reason)
        if unit is None:
            return orders
        self._deaths[unit] += 1
        if self._deaths[unit] > DEATHS_BEFORE_ALONE:
            return orders + self._poison(unit, event.reason)
        heapq.heappush(self._suspects if self._is_suspect(unit) else self._queue, self._position[unit])
        return orders

    @_on.register
    def _(self, event: WorkerFailed) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        if worker is None:
            return []
        if not isinstance(self._stop, Exception):
            self._stop = event.error
        if worker.state == "scoring":
            worker.state, worker.unit = "idle", None
            return []
        self._end(event.incarnation)
        return [EndWorker(event.incarnation)]

    @_on.register
    def _(self, event: Stop) -> list[Order]:
        self._stop = self._stop or event
        return []

    # -- losses

    def _end(self, incarnation: str) -> str | None:
        """Forget a worker and queue again what it did not commit; returns the unit in flight, which is not queued."""
        worker = self._workers.pop(incarnation)
        for unit in worker.accepted:
            heapq.heappush(self._suspects if self._is_suspect(unit) else self._queue, self._position[unit])
        if worker.upcoming is not None:
            heapq.heappush(self._queue, self._position[worker.upcoming])
        return worker.unit

    def _count_loss(self, incarnation: str, reason: str) -> list[Order]:
        self._lost_since_progress += 1
        if self._lost_since_progress > 4 * self._num_workers + 4 and self._stop is None:
            self._stop = RunError(
                f"Workers were lost {self._lost_since_progress} times in a row without finishing a unit (the last "
                f"time: {reason}). What is committed is kept; when the cause is mended, resume the run."
            )
        lost = f"Worker {incarnation} was lost ({reason}); its units are scored again."
        return [Say(lost), EndWorker(incarnation)]

    def _is_suspect(self, unit: str) -> bool:
        return self._deaths[unit] >= DEATHS_BEFORE_ALONE

    def _poison(self, unit: str, reason: str) -> list[Order]:
        place = self._units[unit]
        sentence = (
            f"Unit {unit} ({place.path}, from row {place.first_row}) was being scored at {self._deaths[unit]} deaths "
            f"of a worker, the last time alone ({reason})."
        )
        self._lost_since_progress = 0
        if self._tolerant:
            failure = Failure(unit, "", f"{sentence} It is given up.", place.num_rows or 0)
            return [Say(failure.error), Commit(failures=(failure,), lost=(unit,))]
        self._stop = self._stop or RunError(
            f"{sentence} Look at these rows and at the memory that scoring them takes. What is committed is kept; "
            "resume the run when the cause is mended, or set on_error: continue to do without such units."
        )
        heapq.heappush(self._suspects, self._position[unit])
        return []

    def _first_failures(self, failures: Iterable[Failure]) -> list[Order]:
        first = [one for one in failures if one.variant not in self._failed]
        self._failed.update(one.variant for one in first)
        return [
            Say(f"Variant {one.variant!r} failed on a unit: {one.error.removesuffix('.')}; the others go on.")
            for one in first
        ]

    # -- what next

    def _next_orders(self) -> list[Order]:
        orders: list[Order] = []
        if self._stop is None:
            orders += self._start_workers()
        for incarnation, worker in self._workers.items():
            order = self._next_order(incarnation, worker) if worker.state == "idle" else None
            if order is not None:
                orders.append(order)
        return orders + self._ending()

    def _start_workers(self) -> list[Order]:
        waiting = len(self._queue) + len(self._suspects)
        idle = sum(worker.state in ("idle", "starting") for worker in self._workers.values())
        num_new = min(self._num_workers - len(self._workers), waiting - idle)
        orders: list[Order] = []
        for _ in range(num_new):
            self._num_started += 1
            incarnation = f"{self._driver}-{self._num_started}"
            self._workers[incarnation] = _Worker()
            orders.append(StartWorker(incarnation))
        return orders

    def _next_order(self, incarnation: str, worker: _Worker) -> Order | None:
        unit = None if self._stop is not None or worker.flush_due else self._take(worker)
        accept, worker.riding = worker.riding, ()
        if unit is not None:
            worker.state, worker.unit = "scoring", unit
            upcoming = self._units[worker.upcoming] if worker.upcoming else None
            return Score(incarnation, self._units[unit], upcoming, accept)
        if worker.accepted:
            worker.state, worker.flush_due = "flushing", False
            return Flush(incarnation, accept)
        return None

    def _take(self, worker: _Worker) -> str | None:
        """The worker's next unit, out of the queue; the one after it is reserved."""
        if any(other.unit is not None and self._is_suspect(other.unit) for other in self._workers.values()):
            return None
        unit, worker.upcoming = worker.upcoming, None
        if unit is None:
            unit = self._pop(self._queue) or self._steal()
        if unit is None:
            return self._take_suspect()
        worker.upcoming = self._pop(self._queue)
        return unit

    def _take_suspect(self) -> str | None:
        return None if self._busy() else self._pop(self._suspects)

    def _steal(self) -> str | None:
        """A unit that is reserved for another worker, when the queue is empty."""
        for other in self._workers.values():
            if other.upcoming is not None:
                unit, other.upcoming = other.upcoming, None
                return unit
        return None

    def _pop(self, heap: list[int]) -> str | None:
        return self._order[heapq.heappop(heap)] if heap else None

    def _ending(self) -> list[Order]:
        left = len(self._units) - len(self._committed) - len(self._lost)
        if self._busy() or self._committing or (left and self._stop is None):
            return []
        self._over = True
        if isinstance(self._stop, Exception):
            return [Abort(self._stop)]
        if not left:
            audit(self._units, self._committed.values(), self._lost)
        return [End(stopped=bool(left))]

    # -- books

    def _busy(self) -> bool:
        return any(worker.state in ("scoring", "flushing") or worker.accepted for worker in self._workers.values())

    def _accepted(self) -> dict[str, Receipt]:
        return {unit: receipt for worker in self._workers.values() for unit, receipt in worker.accepted.items()}

    def _keep(self, files: Iterable[CommittedFile]) -> None:
        for receipt in [receipt for file in files for receipt in file.receipts]:
            if receipt.unit in self._committed:
                raise RunError(f"Unit {receipt.unit} is committed twice: the commit log of this run cannot be trusted.")
            if receipt.unit not in self._units:
                raise RunError(f"Unit {receipt.unit} is committed but not in the plan: the run cannot be trusted.")
            self._committed[receipt.unit] = receipt
            self._rows_committed += receipt.rows


def audit(planned: Collection[str], receipts: Iterable[Receipt], lost: Iterable[str]) -> None:
    """Every planned unit is committed or given up, none twice, and nothing else is.

    RunError says which unit is not as it must be. A variant that failed on a committed unit is named in its receipt, so
    for each variant planned = committed + failed follows.
    """
    seen = Counter([receipt.unit for receipt in receipts])
    seen.update(lost)
    faults = [f"{unit} is there {times} times" for unit, times in seen.items() if times > 1]
    faults += [f"{unit} is not in the plan" for unit in seen if unit not in planned]
    faults += [f"{unit} is missing" for unit in planned if unit not in seen]
    if faults:
        raise RunError(
            f"The commit log does not agree with the plan: unit {'; unit '.join(faults[:5])}"
            f"{f'; and {len(faults) - 5} more' if len(faults) > 5 else ''}."
        )
