"""Who scores which unit, and what may be committed: a pure state machine, events in, orders out.

Lives here: pulling, accepting, flushing, losses, stragglers, poison units, drains, stopping. Not here: any input or
output, any clock, any thread (`drive.py` and the executors carry the orders out and report what happened), where each
unit is (`books.py`), what each worker does (`roster.py`), which unit an idle one gets
(`supply.py`), what is said of a silent run (`watch.py`).

A unit's way: queued -> in flight at one worker, or two -> accepted to one of them (in whose memory alone it is) ->
flushed into a state file -> committed. A worker that is lost gives back all that was not yet committed. What it may
still write or say afterwards is ignored: its incarnation has ended, and no incarnation is used twice.

Each event takes time of the order of the logarithm of the number of workers and units; a tick takes it of the number of
workers. The same events at the same times give the same orders, whatever the machine: `assay replay` checks it.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from assay.books import Books
from assay.errors import RunError
from assay.orders import (
    Abort,
    Commit,
    Committed,
    Drop,
    End,
    EndWorker,
    Event,
    Flush,
    Flushed,
    Order,
    Resized,
    Say,
    Score,
    StartWorker,
    Stop,
    Tick,
    UnitDone,
    UnitDropped,
    WorkerDraining,
    WorkerFailed,
    WorkerLost,
    WorkerReady,
)
from assay.records import CommittedFile, Failure, Unit
from assay.roster import Roster, Worker
from assay.supply import COPY_ADVANTAGE, MIN_GAIN_SECONDS, Supply
from assay.watch import Watch

DEATHS_BEFORE_ALONE = 3
"""A unit that was in flight at so many deaths runs while nothing else does; one more death makes it poison."""
FLUSH_SPACING_SECONDS = 0.01
"""All workers together flush at most once in so long, but for the end: each is work for the driver and the store."""
OVERDUE_TIMES, LEAST_OVERDUE_SECONDS = 10.0, 300.0
"""A worker is ended when its unit takes so many times the time it should, and at least so long."""
UNKNOWN_OVERDUE_SECONDS = 86_400.0
"""The same while no unit was ever done, or where the plan does not know how many rows the unit has."""
START_SECONDS = 3600.0
"""How long a worker may take to get ready."""
FLUSH_SECONDS = 600.0


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
        speculate: bool = True,
    ) -> None:
        """units: the whole plan, in order. files, lost: what the log holds. tolerant: a poison unit is given up.

        speculate: False leaves out what is done against stragglers, to measure what it is worth.
        """
        self._books = Books(units, files, lost)
        self._driver = driver
        self._num_workers = num_workers
        self._tolerant = tolerant
        self._roster = Roster()
        self._workers = self._roster.workers
        self._num_in = self._roster.num_in
        self._supply = Supply(self._books, self._roster, self._is_suspect, speculate=speculate)
        self._woken: Worker | None = None  # has just become idle, and still holds what was accepted
        self._idle: list[tuple[float, int, str]] = []  # heap: fastest first; some entries are no longer so
        self._beaten: dict[str, float] = {}  # since when
        self._watch = Watch(self._books, self._roster)
        self._suspects: list[int] = []
        self._alone: int | None = None  # the suspect that is being scored
        self._deaths: Counter[int] = Counter()
        self._num_committing = 0
        self._failed: set[str] = set()  # variants that failed on a unit of this driver's
        self._lost_since_progress = 0
        self._stop: Stop | Exception | None = None
        self._over = False
        self._handlers: dict[type, Callable[[Any], list[Order]]] = {  # Any: each takes its own kind of event
            WorkerReady: self._ready,
            UnitDone: self._done,
            UnitDropped: self._dropped,
            Flushed: self._flushed,
            Committed: self._committed,
            WorkerLost: self._lost,
            WorkerDraining: self._draining,
            WorkerFailed: self._worker_failed,
            Stop: self._stopped,
            Resized: self._resized,
            Tick: self._ticked,
        }

    @property
    def _now(self) -> float:
        return self._roster.now

    # -- what others may ask

    @property
    def num_units(self) -> int:
        return len(self._books.units)

    @property
    def units_done(self) -> int:
        """Accepted, committed or given up."""
        return self._books.num_done

    @property
    def rows_done(self) -> int:
        """Rows read of all units that are accepted or committed."""
        return self._books.rows_done

    # -- events

    def start(self) -> list[Order]:
        return self._next_orders()

    def handle(self, event: Event, at: float | None = None) -> list[Order]:
        """The orders that follow from an event, in the order in which they must be carried out.

        at: seconds since the start when it happened, never before the last one; None: no time has passed.
        """
        if self._over:
            return []
        if at is not None and at > self._now:
            self._roster.now = at
        if type(event) is not Tick:
            self._watch.hear()
        orders = self._handlers[type(event)](event) + self._next_orders()
        self._supply.forget_late()
        return orders

    def _ready(self, event: WorkerReady) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        if worker is not None and worker.state == "starting":
            worker.flushed_at = self._now
            self._wake(worker)
        return []

    def _done(self, event: UnitDone) -> list[Order]:
        worker, unit = self._workers.get(event.incarnation), event.receipt.unit
        position = self._books.position.get(unit)
        if worker is None or position is None or worker.unit != position:
            return []  # an ended incarnation, or said twice
        self._roster.measure(worker, event.receipt.rows)
        self._lost_since_progress = 0
        worker.flush_due = event.flush_due
        beaten, partner = worker.beaten, self._release(worker)
        if beaten:
            return []
        self._books.accept(position, event.receipt)
        worker.riding = (unit,)
        worker.accepted[unit] = event.receipt
        worker.failures.extend(event.failures)
        if self._roster.pace.num_measured == 1:
            self._expect()
        return self._beat(partner, unit) + self._first_failures(event.failures)

    def _dropped(self, event: UnitDropped) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        position = self._books.position.get(event.unit)
        if worker is None or position is None or worker.unit != position:
            return []
        self._measure_dropped(worker, position)
        beaten, partner = worker.beaten, self._release(worker)
        if not beaten and partner is None:
            self._requeue(position)
        return []

    def _flushed(self, event: Flushed) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        if worker is None or worker.state != "flushing":
            return []
        if {receipt.unit: receipt for receipt in event.file.receipts} != worker.accepted:
            self._end(worker)
            return self._count_loss(event.incarnation, "it flushed other units than were accepted")
        order = Commit(files=(event.file,), failures=tuple(worker.failures))
        self._num_committing += 1
        worker.accepted, worker.failures, worker.riding = {}, [], ()
        worker.flush_due, worker.flushed_at = False, self._now
        self._wake(worker)
        return [order]

    def _committed(self, event: Committed) -> list[Order]:
        for file in event.order.files:
            self._books.commit(file.receipts)
        self._books.give_up(event.order.lost)
        self._num_committing -= 1
        return []

    def _lost(self, event: WorkerLost) -> list[Order]:
        return self._lose(event.incarnation, event.reason, event.preempted)

    def _draining(self, event: WorkerDraining) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        if worker is None or worker.draining:
            return []
        worker.draining = True
        self._roster.num_draining += 1
        self._give_back_reserved(worker)
        say = Say(f"Worker {event.incarnation} is about to lose its machine ({event.reason}): it writes what it holds.")
        if worker.state in ("starting", "idle"):
            self._end(worker)
            return [say, EndWorker(event.incarnation)]
        if worker.state == "scoring" and worker.unit is not None and not self._ends_within(worker, event.seconds):
            return [say, Drop(event.incarnation, self._books.units[worker.unit].id)]
        return [say]

    def _worker_failed(self, event: WorkerFailed) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        if worker is None:
            return []
        position = worker.unit
        if position is not None:
            beaten, partner = worker.beaten, self._release(worker)
            if beaten:
                return []
            if partner is None:
                self._requeue(position)
        if not isinstance(self._stop, Exception):
            self._stop = event.error
        if position is not None:
            return []
        self._end(worker)
        return [EndWorker(event.incarnation)]

    def _stopped(self, event: Stop) -> list[Order]:
        self._stop = self._stop or event
        return []

    def _resized(self, event: Resized) -> list[Order]:
        self._num_workers = event.num_workers
        excess = len(self._workers) - self._roster.num_draining - event.num_workers
        starting = [name for name, worker in self._workers.items() if worker.state == "starting"]
        orders: list[Order] = []
        for name in starting[::-1][: max(0, excess)]:
            self._end(self._workers[name])
            orders.append(EndWorker(name))
        return orders

    def _ticked(self, event: Tick) -> list[Order]:
        orders = self._lose_overdue() if self._now >= self._roster.first_deadline else []
        orders += self._give_up_beaten()
        self._supply.find_late()
        return orders or self._watch.tell()

    # -- changes of one worker's state

    def _wake(self, worker: Worker) -> None:
        self._roster.turn(worker, "idle")
        self._woken = worker

    def _release(self, worker: Worker) -> Worker | None:
        """It scores its unit no longer; returns who still does."""
        if self._alone == worker.unit and not worker.beaten:
            self._alone = None
        partner, worker.partner = worker.partner, None
        if partner is not None:
            partner.partner = None
            self._supply.note(partner)
        worker.unit, worker.expected, worker.beaten = None, None, False
        self._beaten.pop(worker.name, None)
        self._wake(worker)
        return partner

    def _end(self, worker: Worker) -> None:
        """Forget a worker and queue again what it did not commit, the unit in flight apart."""
        if worker.unit is not None:
            self._release(worker)
        self._roster.remove(worker)
        if self._woken is worker:
            self._woken = None
        for unit, receipt in worker.accepted.items():
            self._books.release(self._books.position[unit], receipt)
            self._requeue(self._books.position[unit])
        self._give_back_reserved(worker)

    def _give_back_reserved(self, worker: Worker) -> None:
        if worker.upcoming is not None:
            self._requeue(worker.upcoming)
            worker.upcoming = None

    def _requeue(self, position: int) -> None:
        if self._is_suspect(position):
            heapq.heappush(self._suspects, position)
        else:
            self._books.give_back(position)

    # -- losses

    def _lose(self, incarnation: str, reason: str, preempted: bool) -> list[Order]:
        worker = self._workers.get(incarnation)
        if worker is None:
            return []
        preempted = preempted or worker.draining
        position = None if worker.beaten else worker.unit
        alone, shared = position is not None and position == self._alone, worker.partner is not None
        self._end(worker)
        orders = self._count_loss(incarnation, reason, preempted)
        if position is None:
            return orders
        self._deaths[position] += not preempted
        if alone and not preempted:
            return orders + self._poison(position, reason)
        if not shared:
            self._requeue(position)
        return orders

    def _count_loss(self, incarnation: str, reason: str, preempted: bool = False) -> list[Order]:
        self._lost_since_progress += not preempted
        if self._lost_since_progress > 4 * self._num_workers + 4 and self._stop is None:
            self._stop = RunError(
                f"Workers were lost {self._lost_since_progress} times in a row without finishing a unit (the last "
                f"time: {reason}). What is committed is kept; when the cause is mended, resume the run."
            )
        lost = f"Worker {incarnation} was lost ({reason}); its units are scored again."
        return [Say(lost), EndWorker(incarnation)]

    def _is_suspect(self, position: int) -> bool:
        return self._deaths[position] >= DEATHS_BEFORE_ALONE if position in self._deaths else False

    def _poison(self, position: int, reason: str) -> list[Order]:
        unit = self._books.units[position]
        sentence = (
            f"Unit {unit.id} ({unit.path}, from row {unit.first_row}) was being scored at {self._deaths[position]} "
            f"deaths of a worker, the last time alone ({reason})."
        )
        self._lost_since_progress = 0
        if self._tolerant:
            failure = Failure(unit.id, "", f"{sentence} It is given up.", unit.num_rows or 0)
            self._num_committing += 1
            return [Say(failure.error), Commit(failures=(failure,), lost=(unit.id,))]
        self._stop = self._stop or RunError(
            f"{sentence} Look at these rows and at the memory that scoring them takes. What is committed is kept; "
            "resume the run when the cause is mended, or set on_error: continue to do without such units."
        )
        heapq.heappush(self._suspects, position)
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
            self._start_workers(orders)
        if self._woken is not None:
            woken, self._woken = self._woken, None
            self._attend(woken, orders)
        if self._stop is None and self._idle:
            self._attend_idle(orders)
        if self._stop is not None or self._books.num_left == 0:
            orders += self._ending()
        return orders

    def _start_workers(self, orders: list[Order]) -> None:
        waiting = self._books.num_queued + len(self._suspects)
        if not waiting:
            return
        active = len(self._workers) - self._roster.num_draining
        num_new = min(self._num_workers - active, waiting - self._num_in["idle"] - self._num_in["starting"])
        for _ in range(num_new):
            orders.append(StartWorker(self._roster.add(self._driver, START_SECONDS).name))

    def _attend(self, worker: Worker, orders: list[Order]) -> None:
        """A worker that is idle gets a unit; or flushes what it holds; or waits, or ends if it is to leave."""
        position = None
        if self._stop is None and not worker.draining and not self._may_flush(worker):
            position = self._take(worker)
        if position is not None:
            orders.append(self._score(worker, position))
        elif worker.accepted:
            accept, worker.riding, worker.flush_due = worker.riding, (), False
            self._roster.turn(worker, "flushing", FLUSH_SECONDS)
            orders.append(Flush(worker.name, accept))
        elif worker.draining:
            self._end(worker)
            orders.append(EndWorker(worker.name))
        elif not worker.listed:
            worker.listed = True
            rate = worker.pace.rate or self._roster.pace.rate or 0.0
            heapq.heappush(self._idle, (-rate, worker.number, worker.name))

    def _attend_idle(self, orders: list[Order]) -> None:
        """The fastest first: where it gets nothing, no other would."""
        while self._idle:
            worker = self._workers.get(self._idle[0][2])
            idle = worker is not None and worker.state == "idle"
            position = self._take(worker) if worker is not None and idle else None
            if idle and position is None:
                return
            heapq.heappop(self._idle)
            if worker is not None:
                worker.listed = False
                if position is not None:
                    orders.append(self._score(worker, position))

    def _score(self, worker: Worker, position: int) -> Score:
        expected = self._roster.seconds(worker, self._books.rows(position))
        self._roster.turn(worker, "scoring", self._bound(position, expected))
        worker.unit, worker.expected = position, expected
        self._supply.note(worker)
        accept, worker.riding = worker.riding, ()
        units = self._books.units
        upcoming = None if worker.upcoming is None else units[worker.upcoming]
        return Score(worker.name, units[position], upcoming, accept)

    def _bound(self, position: int, expected: float | None) -> float:
        """Seconds after which a unit is overdue."""
        if expected is None or self._books.units[position].num_rows is None:
            return UNKNOWN_OVERDUE_SECONDS
        return max(OVERDUE_TIMES * expected, LEAST_OVERDUE_SECONDS)

    def _may_flush(self, worker: Worker) -> bool:
        spacing = FLUSH_SPACING_SECONDS * (self._num_workers - 1)
        return worker.flush_due and self._now - worker.flushed_at >= spacing

    def _take(self, worker: Worker) -> int | None:
        """The worker's next unit: out of the queue, or from another's reserve, or one that another scores too slowly.

        The one after it is reserved.
        """
        if self._alone is not None:
            return None
        position = self._supply.offer(worker)
        if position is None:
            return self._take_suspect(worker) if self._suspects else self._supply.copy(worker)
        if self._supply.is_held(worker, position):
            self._books.give_back(position)
            return None
        worker.upcoming = self._books.take()
        return position

    def _take_suspect(self, worker: Worker) -> int | None:
        if self._busy() or self._beaten or worker.accepted:
            return None
        self._alone = heapq.heappop(self._suspects)
        return self._alone

    def _ending(self) -> list[Order]:
        left = self._books.num_left
        if self._num_committing or (left and self._stop is None) or self._busy():
            return []
        self._over = True
        if isinstance(self._stop, Exception):
            return [Abort(self._stop)]
        if not left:
            self._books.audit()
        return [End(stopped=bool(left))]

    def _busy(self) -> bool:
        """Is there anything that will count?"""
        if self._num_in["flushing"] or self._num_in["scoring"] > len(self._beaten):
            return True
        return any(self._workers[name].accepted for name in self._beaten)

    # -- stragglers

    def _expect(self) -> None:
        """The first rate is known: so is what the units should take that were begun before."""
        for worker in self._workers.values():
            if worker.unit is not None and worker.expected is None:
                worker.expected = self._roster.seconds(worker, self._books.rows(worker.unit))
                worker.deadline = worker.since + self._bound(worker.unit, worker.expected)
                self._roster.first_deadline = min(self._roster.first_deadline, worker.deadline)
                self._supply.note(worker)

    def _measure_dropped(self, worker: Worker, position: int) -> None:
        """It would have taken longer than this."""
        seconds = self._now - worker.since
        if worker.expected is not None and seconds > worker.expected:
            worker.pace.measure(round(self._books.rows(position)), seconds)

    def _beat(self, partner: Worker | None, unit: str) -> list[Order]:
        """Who scores an accepted unit need not go on."""
        if partner is None:
            return []
        partner.beaten = True
        self._beaten[partner.name] = self._now
        return [Drop(partner.name, unit)]

    # -- time

    def _lose_overdue(self) -> list[Order]:
        orders: list[Order] = []
        for worker in [one for one in self._workers.values() if one.deadline <= self._now]:
            orders += self._lose(worker.name, self._watch.overdue(worker), preempted=False)
        self._roster.first_deadline = min((one.deadline for one in self._workers.values()), default=math.inf)
        return orders

    def _give_up_beaten(self) -> list[Order]:
        """When nothing but what they hold is left to wait for, and scoring that again would be sooner done."""
        others = self._num_in["flushing"] + self._num_in["scoring"] - len(self._beaten) + self._books.num_queued
        if not self._beaten or others or self._stop is not None or not self._num_in["idle"]:
            return []
        waited_for = [one for one in map(self._workers.__getitem__, self._beaten) if one.accepted or self._suspects]
        rows = sum(receipt.rows for one in waited_for for receipt in one.accepted.values())
        again = rows / self._num_in["idle"] / (self._roster.pace.rate or math.inf)
        patience = COPY_ADVANTAGE * again + MIN_GAIN_SECONDS
        orders: list[Order] = []
        for worker in waited_for:
            if self._now - self._beaten[worker.name] > patience:
                self._end(worker)
                reason = "it goes on with a unit that another has scored"
                say = f"Worker {worker.name} is no longer waited for ({reason}); what it holds is scored again."
                orders += [Say(say), EndWorker(worker.name)]
        return orders

    def _ends_within(self, worker: Worker, seconds: float | None) -> bool:
        """Is there time for its unit, and half of it left to write the states? Yes where nobody knows."""
        if seconds is None or worker.expected is None or worker.beaten:
            return True
        return worker.since + worker.expected - self._now < seconds / 2
