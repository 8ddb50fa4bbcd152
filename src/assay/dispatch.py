"""What workers are told to do once an event is dealt with: start, score, flush, leave.

Lives here: the order of these, the time that each may take, and running a suspect alone. Not here: what an event
changes (`schedule.py`), which unit an idle worker gets of those that any may have (`supply.py`).
"""

from __future__ import annotations

import heapq

from assay.assignments import Assignments
from assay.orders import EndWorker, Flush, Order, Score, StartWorker
from assay.roster import Worker

FLUSH_SPACING_SECONDS = 0.01
"""All workers together flush at most once in so long, but for the end: each is work for the driver and the store."""
OVERDUE_TIMES, LEAST_OVERDUE_SECONDS = 10.0, 300.0
"""A worker is ended when its unit takes so many times the time it should, and at least so long; where the spec does not
say how long it may take."""
UNKNOWN_OVERDUE_SECONDS = 86_400.0
"""The same while no unit was ever done, or where the plan does not know how many rows the unit has."""
START_SECONDS = 3600.0
"""How long a worker may take to get ready."""
FLUSH_SECONDS = 600.0


class Dispatch:
    """Of one driver's run."""

    def __init__(
        self, assignments: Assignments, driver: str, num_workers: int, unit_seconds: float | None = None
    ) -> None:
        """unit_seconds: that a unit may take; None: by what is expected."""
        self.num_workers = num_workers  # that there may be
        self._assigned = assignments
        self._books, self._roster, self._suspects = assignments.books, assignments.roster, assignments.suspects
        self._supply = assignments.supply
        self._driver = driver
        self._unit_seconds = unit_seconds
        self._idle: list[tuple[float, int, str]] = []  # heap: fastest first; some entries are no longer so

    def orders(self, *, stopping: bool) -> list[Order]:
        """What follows from where all stand now. stopping: no unit is begun."""
        orders: list[Order] = []
        if not stopping:
            self._start_workers(orders)
        if self._assigned.woken is not None:
            woken, self._assigned.woken = self._assigned.woken, None
            self._attend(woken, orders, stopping)
        if not stopping and self._idle:
            self._attend_idle(orders)
        return orders

    def expect(self) -> None:
        """The first rate is known: so is what the units should take that were begun before."""
        for worker in self._roster.workers.values():
            if worker.unit is not None and worker.expected is None:
                worker.expected = self._roster.seconds(worker, self._books.rows(worker.unit))
                self.look_ahead(worker)

    def look_ahead(self, worker: Worker) -> None:
        """What is expected of its unit has changed: so has when that is overdue."""
        if worker.unit is not None:
            worker.deadline = worker.since + self._bound(worker.unit, worker.expected)
            self._roster.first_deadline = min(self._roster.first_deadline, worker.deadline)
            self._supply.note(worker)

    def _start_workers(self, orders: list[Order]) -> None:
        waiting = self._books.num_queued + len(self._suspects)
        if not waiting:
            return
        num_in = self._roster.num_in
        active = len(self._roster.workers) - self._roster.num_draining
        num_new = min(self.num_workers - active, waiting - num_in["idle"] - num_in["starting"])
        for _ in range(num_new):
            orders.append(StartWorker(self._roster.add(self._driver, START_SECONDS).name))

    def _attend(self, worker: Worker, orders: list[Order], stopping: bool) -> None:
        """A worker that is idle gets a unit; or flushes what it holds; or waits, or ends if it is to leave."""
        position = None
        if not stopping and not worker.draining and not self._may_flush(worker):
            position = self._take(worker)
        if position is not None:
            orders.append(self._score(worker, position))
        elif worker.accepted:
            accept, worker.riding, worker.flush_due = worker.riding, (), False
            self._roster.turn(worker, "flushing", FLUSH_SECONDS)
            orders.append(Flush(worker.name, accept))
        elif worker.draining:
            self._assigned.end(worker)
            orders.append(EndWorker(worker.name))
        elif not worker.listed:
            worker.listed = True
            rate = self._roster.rate(worker) or 0.0
            heapq.heappush(self._idle, (-rate, worker.number, worker.name))

    def _attend_idle(self, orders: list[Order]) -> None:
        """The fastest first: where it gets nothing, no other would."""
        while self._idle:
            worker = self._roster.workers.get(self._idle[0][2])
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
        return Score(worker.name, units[position], upcoming, accept, self._suspects.caution(position))

    def _bound(self, position: int, expected: float | None) -> float:
        """Seconds after which a unit is overdue."""
        if self._unit_seconds is not None:
            return self._unit_seconds
        if expected is None or self._books.units[position].num_rows is None:
            return UNKNOWN_OVERDUE_SECONDS
        return max(OVERDUE_TIMES * expected, LEAST_OVERDUE_SECONDS)

    def _may_flush(self, worker: Worker) -> bool:
        spacing = FLUSH_SPACING_SECONDS * (self.num_workers - 1)
        return worker.flush_due and self._roster.now - worker.flushed_at >= spacing

    def _take(self, worker: Worker) -> int | None:
        """The worker's next unit: out of the queue, or from another's reserve, or one that another scores too slowly.

        The one after it is reserved.
        """
        if self._suspects.alone is not None:
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
        if self._assigned.is_busy or self._assigned.beaten or worker.accepted:
            return None
        return self._suspects.take()
