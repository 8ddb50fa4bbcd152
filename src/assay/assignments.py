"""Who has which unit, and what changes hands when a worker is through with one or ends.

Lives here: a worker's release, its end, losing a race for a unit. Not here: when that happens (`schedule.py`), and who
gets what next (`dispatch.py`).
"""

from __future__ import annotations

from assay.books import Books
from assay.failings import Failings
from assay.orders import Drop, Order
from assay.roster import Roster, Worker
from assay.supply import Supply
from assay.suspects import Suspects


class Assignments:
    """Of one driver's run: the books of its units and the roster of its workers, kept in step."""

    def __init__(self, books: Books, failings: Failings, *, speculate: bool = True) -> None:
        """speculate: as for Supply."""
        self.books = books
        self.failings = failings
        self.roster = Roster()
        self.suspects = Suspects()
        self.supply = Supply(books, self.roster, self.suspects.runs_alone, speculate=speculate)
        self.woken: Worker | None = None  # has just become idle, and still holds what was accepted
        self.beaten: dict[str, float] = {}  # who scores a unit that another has scored, since when

    @property
    def is_busy(self) -> bool:
        """Is there anything that will count?"""
        num_in = self.roster.num_in
        if num_in["flushing"] or num_in["scoring"] > len(self.beaten):
            return True
        return any(self.roster.workers[name].accepted for name in self.beaten)

    def wake(self, worker: Worker) -> None:
        """It is through with what it did."""
        self.roster.turn(worker, "idle")
        self.woken = worker

    def release(self, worker: Worker) -> Worker | None:
        """It scores its unit no longer; returns who still does."""
        if self.suspects.alone == worker.unit and not worker.beaten:
            self.suspects.alone = None
        partner, worker.partner = worker.partner, None
        if partner is not None:
            partner.partner = None
            self.supply.note(partner)
        worker.unit, worker.expected, worker.beaten = None, None, False
        self.beaten.pop(worker.name, None)
        self.wake(worker)
        return partner

    def end(self, worker: Worker) -> None:
        """Forget a worker and queue again what it did not commit, the unit in flight apart."""
        if worker.unit is not None:
            self.release(worker)
        self.roster.remove(worker)
        if self.woken is worker:
            self.woken = None
        for unit, receipt in worker.accepted.items():
            self.books.release(self.books.position[unit], receipt)
            self.failings.remove(receipt)
            self.requeue(self.books.position[unit])
        self.give_back_reserved(worker)

    def give_back_reserved(self, worker: Worker) -> None:
        if worker.upcoming is not None:
            self.requeue(worker.upcoming)
            worker.upcoming = None

    def requeue(self, position: int) -> None:
        if self.suspects.runs_alone(position):
            self.suspects.put(position)
        else:
            self.books.give_back(position)

    def beat(self, partner: Worker | None, unit: str) -> list[Order]:
        """Who scores an accepted unit need not go on."""
        if partner is None:
            return []
        partner.beaten = True
        self.beaten[partner.name] = self.roster.now
        return [Drop(partner.name, unit)]
