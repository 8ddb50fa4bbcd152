"""Where each unit of a plan is: queued, in flight, accepted, committed or given up.

Lives here: the queue, the counts, and the audit at the end. Not here: who scores a unit (`schedule.py`).

A unit goes by its position in the plan. Every verb takes constant time or, for the queue, the logarithm of its length.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from assay.errors import RunError
from assay.records import CommittedFile, Receipt, Unit

QUEUED, IN_FLIGHT, ACCEPTED, COMMITTED, LOST = range(5)


class Books:
    """The units of one driver's run."""

    def __init__(self, units: Sequence[Unit], files: Iterable[CommittedFile], lost: Iterable[str]) -> None:
        """units: the whole plan, in order. files, lost: what the log holds; RunError when it does not fit the plan."""
        self.units = units
        self.position = {unit.id: position for position, unit in enumerate(units)}
        self._state = bytearray(len(units))  # [units]
        self._committed: list[int] = []
        self._rows_accepted = 0  # of what is accepted or committed
        self._num_accepted = 0
        self.num_lost = 0
        for file in files:
            self.commit(file.receipts)
        self.give_up(lost)
        self._queue = [position for position in self.position.values() if self._state[position] == QUEUED]
        self._rows_queued = sum(self.units[position].num_rows or 0 for position in self._queue)
        self.num_queue_changes = 0

    # -- counts

    @property
    def num_left(self) -> int:
        """Neither committed nor given up."""
        return len(self.units) - len(self._committed) - self.num_lost

    @property
    def num_done(self) -> int:
        """Accepted, committed or given up."""
        return len(self._committed) + self._num_accepted + self.num_lost

    @property
    def num_queued(self) -> int:
        return len(self._queue)

    @property
    def num_in_flight(self) -> int:
        """Taken from the queue: scored, reserved, or to be scored alone."""
        return len(self.units) - len(self._queue) - self.num_done

    @property
    def rows_done(self) -> int:
        """Rows read of all units that are accepted or committed."""
        return self._rows_accepted

    def rows(self, position: int) -> float:
        """As planned; where the plan does not say, the mean of the units that were read so far, 0 before there are."""
        planned = self.units[position].num_rows
        if planned is not None:
            return planned
        known = len(self._committed) + self._num_accepted
        return self._rows_accepted / known if known else 0.0

    def rows_queued(self) -> float:
        """Where the plan does not say, as in `rows`."""
        if self._rows_queued or not self._queue:
            return self._rows_queued
        return self.rows(self._queue[0]) * len(self._queue)

    def state(self, position: int) -> int:
        return self._state[position]

    # -- a unit's way

    def take(self) -> int | None:
        """The first of the queue, in the order of the plan; it is in flight from now on."""
        if not self._queue:
            return None
        position = heapq.heappop(self._queue)
        self.num_queue_changes += 1
        self._rows_queued -= self.units[position].num_rows or 0
        self._state[position] = IN_FLIGHT
        return position

    def first(self, number: int) -> list[int]:
        """The first of the queue, in order; they stay there. Takes time by their number, not by the queue's length."""
        found: list[int] = []
        reached = [(self._queue[0], 0)] if self._queue else []  # heap of (position, place): children come later
        while reached and len(found) < number:
            position, place = heapq.heappop(reached)
            found.append(position)
            for child in (2 * place + 1, 2 * place + 2):
                if child < len(self._queue):
                    heapq.heappush(reached, (self._queue[child], child))
        return found

    def give_back(self, position: int) -> None:
        """What was in flight is queued again."""
        self._state[position] = QUEUED
        self.num_queue_changes += 1
        self._rows_queued += self.units[position].num_rows or 0
        heapq.heappush(self._queue, position)

    def accept(self, position: int, receipt: Receipt) -> None:
        self._state[position] = ACCEPTED
        self._num_accepted += 1
        self._rows_accepted += receipt.rows

    def release(self, position: int, receipt: Receipt) -> None:
        """What was accepted is gone with its worker: as if it were in flight."""
        self._state[position] = IN_FLIGHT
        self._num_accepted -= 1
        self._rows_accepted -= receipt.rows

    def commit(self, receipts: Iterable[Receipt]) -> None:
        """RunError when one of them is committed already, or is not in the plan."""
        for receipt in receipts:
            position = self.position.get(receipt.unit)
            if position is None:
                raise RunError(f"Unit {receipt.unit} is committed but not in the plan: the run cannot be trusted.")
            state = self._state[position]
            if state == COMMITTED:
                raise RunError(f"Unit {receipt.unit} is committed twice: the commit log of this run cannot be trusted.")
            if state == ACCEPTED:
                self._num_accepted -= 1
            else:
                self._rows_accepted += receipt.rows
            self._state[position] = COMMITTED
            self._committed.append(position)

    def give_up(self, units: Iterable[str]) -> None:
        for unit in units:
            position = self.position.get(unit)
            if position is not None:
                self.num_lost += self._state[position] != LOST
                self._state[position] = LOST

    def audit(self) -> None:
        """See `audit`."""
        lost = [unit.id for unit, state in zip(self.units, self._state, strict=True) if state == LOST]
        audit(self.position, [self.units[position].id for position in self._committed], lost)


def audit(planned: Collection[str], committed: Iterable[str], lost: Iterable[str]) -> None:
    """Every planned unit is committed or given up, none twice, and nothing else is.

    RunError says which unit is not as it must be. A variant that failed on a committed unit is named in its receipt, so
    for each variant planned = committed + failed follows.
    """
    seen = Counter(committed)
    seen.update(lost)
    faults = [f"{unit} is there {times} times" for unit, times in seen.items() if times > 1]
    faults += [f"{unit} is not in the plan" for unit in seen if unit not in planned]
    faults += [f"{unit} is missing" for unit in planned if unit not in seen]
    if faults:
        raise RunError(
            f"The commit log does not agree with the plan: unit {'; unit '.join(faults[:5])}"
            f"{f'; and {len(faults) - 5} more' if len(faults) > 5 else ''}."
        )
