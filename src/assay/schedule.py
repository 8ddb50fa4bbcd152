"""Who scores which unit, and what may be committed: a pure state machine, events in, orders out.

Lives here: what each event changes, for every story of a run. The parts that it is made of: where each unit is
(`books.py`), what each worker does (`roster.py`), who has which unit (`assignments.py`), which one an idle worker gets
(`supply.py`) and what it is told (`dispatch.py`), units that workers die of (`suspects.py`), how many losses are too
many (`losses.py`), variants that fail (`failings.py`), what is said of a silent run (`watch.py`). Not here: any input
or output, any clock, any thread (`drive.py` and the executors carry the orders out and report what happened).

A unit's way: queued -> in flight at one worker, or two -> accepted to one of them (in whose memory alone it is) ->
flushed into a state file -> committed. A worker that is lost gives back all that was not yet committed. What it may
still write or say afterwards is ignored: its incarnation has ended, and no incarnation is used twice.

Each event takes time of the order of the logarithm of the number of workers and units; a tick takes it of the number of
workers. The same events at the same times give the same orders, whatever the machine: `assay replay` checks it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from assay.assignments import Assignments
from assay.books import Books
from assay.dispatch import Dispatch
from assay.errors import RunError
from assay.failings import Failings
from assay.losses import Losses
from assay.orders import (
    Abort,
    Commit,
    Committed,
    Drop,
    End,
    EndWorker,
    Event,
    Flushed,
    Measured,
    Order,
    Resized,
    Say,
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
from assay.roster import Worker
from assay.supply import COPY_ADVANTAGE, MIN_GAIN_SECONDS
from assay.suspects import Cause, advice
from assay.watch import Watch


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
        most_failed: float | None = None,
        unit_seconds: float | None = None,
        speculate: bool = True,
        bundled: bool = False,
    ) -> None:
        """units: the whole plan, in order. files, lost: what the log holds. tolerant: a poison unit is given up.

        most_failed: the share of the units on which a variant may fail, or that may be given up; None: any.
        unit_seconds: that a unit may take; None: ten times what is expected. speculate: False leaves out what is done
        against stragglers, to measure what it is worth. bundled: the units are those of one bundle of several, where no
        unit is given up: the others' variants have its rows.
        """
        files, lost = tuple(files), tuple(lost)
        self._books = Books(units, files, lost)
        self._failings = Failings(self._books.position, files, lost, most_failed)
        self._assigned = Assignments(self._books, self._failings, speculate=speculate)
        self._roster, self._suspects = self._assigned.roster, self._assigned.suspects
        self._workers = self._roster.workers
        self._num_in = self._roster.num_in
        self._dispatch = Dispatch(self._assigned, driver, num_workers, unit_seconds)
        self._losses = Losses()
        self._watch = Watch(self._books, self._roster, unit_seconds)
        self._tolerant, self._bundled = tolerant and not bundled, bundled
        self._num_committing = 0
        self._stop: Stop | Exception | None = self._failings.beyond
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
            Measured: self._measured,
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

    @property
    def rate(self) -> float | None:
        """Rows a second of one worker; None: nothing was measured."""
        return self._roster.typical_rate

    @property
    def is_stopping(self) -> bool:
        """Is no further unit begun?"""
        return self._stop is not None

    @property
    def num_queue_changes(self) -> int:
        """So far."""
        return self._books.num_queue_changes

    def upcoming(self, number: int) -> tuple[Unit, ...]:
        """The first units of the queue, which stay there."""
        return tuple(self._books.units[position] for position in self._books.first(number))

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
        if type(event) is not Tick and type(event) is not Measured:  # a hot device is no sign of progress
            self._watch.hear()
        orders = self._handlers[type(event)](event) + self._next_orders()
        self._assigned.supply.forget_late()
        return orders

    def _next_orders(self) -> list[Order]:
        orders = self._dispatch.orders(stopping=self._stop is not None)
        if self._stop is not None or self._books.num_left == 0:
            orders += self._ending()
        return orders

    def _ending(self) -> list[Order]:
        left = self._books.num_left
        if self._num_committing or (left and self._stop is None) or self._assigned.is_busy:
            return []
        self._over = True
        if isinstance(self._stop, Exception):
            return [Abort(self._stop)]
        if not left:
            self._books.audit()
        return [End(stopped=bool(left))]

    # -- the plain way

    def _ready(self, event: WorkerReady) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        if worker is not None and worker.state == "starting":
            self._losses.loaded()
            worker.flushed_at = self._now
            self._assigned.wake(worker)
        return []

    def _done(self, event: UnitDone) -> list[Order]:
        worker, unit = self._workers.get(event.incarnation), event.receipt.unit
        position = self._books.position.get(unit)
        if worker is None or position is None or worker.unit != position:
            return []  # an ended incarnation, or said twice
        self._roster.measure(worker, event.receipt.rows)
        self._losses.progress()
        worker.flush_due = event.flush_due
        beaten, partner = worker.beaten, self._assigned.release(worker)
        if beaten:
            return []
        self._books.accept(position, event.receipt)
        worker.riding = (unit,)
        worker.accepted[unit] = event.receipt
        worker.failures.extend(event.failures)
        if self._roster.pace.num_measured == 1:
            self._dispatch.expect()
        said = self._failings.add(event.receipt, event.failures)
        self._stop = self._stop or self._failings.beyond
        return self._assigned.beat(partner, unit) + said

    def _dropped(self, event: UnitDropped) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        position = self._books.position.get(event.unit)
        if worker is None or position is None or worker.unit != position:
            return []
        self._measure_dropped(worker, position)
        beaten, partner = worker.beaten, self._assigned.release(worker)
        if not beaten and partner is None:
            self._assigned.requeue(position)
        return []

    def _flushed(self, event: Flushed) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        if worker is None or worker.state != "flushing":
            return []
        if {receipt.unit: receipt for receipt in event.file.receipts} != worker.accepted:
            return self._lose(worker, "it flushed other units than were accepted", "death")
        order = Commit(files=(event.file,), failures=tuple(worker.failures))
        self._num_committing += 1
        worker.accepted, worker.failures, worker.riding = {}, [], ()
        worker.flush_due, worker.flushed_at = False, self._now
        self._assigned.wake(worker)
        return [order]

    def _committed(self, event: Committed) -> list[Order]:
        for file in event.order.files:
            self._books.commit(file.receipts)
            self._losses.written()
        self._books.give_up(event.order.lost)
        self._num_committing -= 1
        return []

    # -- losses

    def _lost(self, event: WorkerLost) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        if worker is None:
            return []
        preempted = event.preempted or worker.draining
        cause: Cause = "memory" if event.out_of_memory else "preemption" if preempted else "death"
        return self._lose(worker, event.reason, cause)

    def _lose(self, worker: Worker, reason: str, cause: Cause) -> list[Order]:
        """What it holds is scored again; the unit in flight is to blame, or given up."""
        position, shared = None if worker.beaten else worker.unit, worker.partner is not None
        alone = position is not None and position == self._suspects.alone
        self._assigned.end(worker)
        if cause in ("death", "memory"):
            self._stop = self._stop or self._losses.lose(reason, self._dispatch.num_workers)
        lost = Say(f"Worker {worker.name} was lost ({reason}); its units are scored again.")
        orders: list[Order] = [lost, EndWorker(worker.name)]
        if position is None:
            return orders
        if self._suspects.blame(position, cause, alone=alone):
            return orders + self._poison(position, reason, cause)
        if not shared:
            self._assigned.requeue(position)
        return orders

    def _poison(self, position: int, reason: str, cause: Cause) -> list[Order]:
        unit = self._books.units[position]
        sentence = self._suspects.verdict(unit, position, cause, reason)
        self._losses.progress()
        if not self._tolerant:
            self._stop = self._stop or RunError(f"{sentence} {advice(cause, bundled=self._bundled)}")
            self._suspects.put(position)
            return []
        failure = Failure(unit.id, "", f"{sentence} It is given up.", unit.num_rows or 0)
        self._failings.give_up(failure.error)
        self._stop = self._stop or self._failings.beyond
        self._num_committing += 1
        return [Say(failure.error), Commit(failures=(failure,), lost=(unit.id,))]

    def _worker_failed(self, event: WorkerFailed) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        if worker is None:
            return []
        loading = worker.state == "starting"
        if not event.ends_run and self._losses.is_workers_own(event.error, loading=loading):
            self._stop = self._stop or self._losses.fail(event.error, self._dispatch.num_workers, loading=loading)
            return self._lose(worker, f"it met an error: {str(event.error).removesuffix('.')}", "error")
        position = worker.unit
        if position is not None:
            beaten, partner = worker.beaten, self._assigned.release(worker)
            if beaten:
                return []
            if partner is None:
                self._assigned.requeue(position)
        if not isinstance(self._stop, Exception):
            self._stop = event.error
        if position is not None:
            return []
        self._assigned.end(worker)
        return [EndWorker(event.incarnation)]

    # -- machines that come and go, and the user

    def _draining(self, event: WorkerDraining) -> list[Order]:
        worker = self._workers.get(event.incarnation)
        if worker is None or worker.draining:
            return []
        worker.draining = True
        self._roster.num_draining += 1
        self._assigned.give_back_reserved(worker)
        say = Say(f"Worker {event.incarnation} is about to lose its machine ({event.reason}): it writes what it holds.")
        if worker.state in ("starting", "idle"):
            self._assigned.end(worker)
            return [say, EndWorker(event.incarnation)]
        if worker.state == "scoring" and worker.unit is not None and not self._ends_within(worker, event.seconds):
            return [say, Drop(event.incarnation, self._books.units[worker.unit].id)]
        return [say]

    def _stopped(self, event: Stop) -> list[Order]:
        self._stop = self._stop or event
        return []

    def _resized(self, event: Resized) -> list[Order]:
        self._dispatch.num_workers = event.num_workers
        excess = len(self._workers) - self._roster.num_draining - event.num_workers
        starting = [name for name, worker in self._workers.items() if worker.state == "starting"]
        orders: list[Order] = []
        for name in starting[::-1][: max(0, excess)]:
            self._assigned.end(self._workers[name])
            orders.append(EndWorker(name))
        return orders

    # -- how long things take

    def _ticked(self, event: Tick) -> list[Order]:
        orders = self._lose_overdue() if self._now >= self._roster.first_deadline else []
        orders += self._give_up_beaten()
        self._assigned.supply.find_late()
        return orders or self._watch.tell()

    def _measured(self, event: Measured) -> list[Order]:
        """What it scores is through later, or sooner, than was thought."""
        worker = self._workers.get(event.incarnation)
        if worker is None:
            return []
        self._roster.change_speed(worker, event.speed)
        if worker.expected is not None:
            self._dispatch.look_ahead(worker)
        return []

    def _measure_dropped(self, worker: Worker, position: int) -> None:
        """It would have taken longer than this."""
        seconds = self._now - worker.since
        if worker.expected is not None and seconds > worker.expected:
            worker.pace.measure(round(self._books.rows(position)), seconds, self._roster.mean_speed(worker))

    def _lose_overdue(self) -> list[Order]:
        orders: list[Order] = []
        for worker in [one for one in self._workers.values() if one.deadline <= self._now]:
            orders += self._lose(worker, self._watch.overdue(worker), "preemption" if worker.draining else "death")
        self._roster.first_deadline = min((one.deadline for one in self._workers.values()), default=math.inf)
        return orders

    def _give_up_beaten(self) -> list[Order]:
        """When nothing but what they hold is left to wait for, and scoring that again would be sooner done. Of a run
        that stops it is scored again when it goes on."""
        beaten, num_idle, stopping = self._assigned.beaten, self._num_in["idle"], self._stop is not None
        others = self._num_in["flushing"] + self._num_in["scoring"] - len(beaten)
        others += 0 if stopping else self._books.num_queued
        if not beaten or others or not (num_idle or stopping):
            return []
        waited_for = [one for one in map(self._workers.__getitem__, beaten) if one.accepted or self._suspects]
        rows = sum(receipt.rows for one in waited_for for receipt in one.accepted.values())
        again = rows / max(num_idle, 1) / (self._roster.typical_rate or math.inf)
        patience = COPY_ADVANTAGE * again + MIN_GAIN_SECONDS
        orders: list[Order] = []
        for worker in waited_for:
            if self._now - beaten[worker.name] > patience:
                self._assigned.end(worker)
                reason = "it goes on with a unit that another has scored"
                say = f"Worker {worker.name} is no longer waited for ({reason}); what it holds is scored again."
                orders += [Say(say), EndWorker(worker.name)]
        return orders

    def _ends_within(self, worker: Worker, seconds: float | None) -> bool:
        """Is there time for its unit, and half of it left to write the states? Yes where nobody knows."""
        if seconds is None or worker.expected is None or worker.beaten:
            return True
        return worker.since + worker.expected - self._now < seconds / 2
