"""What an idle worker gets: a unit from the queue, from another's reserve, or one that another scores too slowly.

Lives here: the rules against stragglers. Not here: units that must run alone, losses and all else (`schedule.py`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from assay.books import Books
from assay.roster import Roster, Worker

MIN_GAIN_SECONDS = 0.5
"""A worker is held back, or a unit copied, only where that gains so much."""
COPY_ADVANTAGE = 1.25
"""A unit is copied where what is left of it takes so many times longer than the copy would."""
LATE_TIMES = 1.5
"""A unit is late at so many times the time it should take; what is left is then taken to be as long as what was."""


class Supply:
    """Of one driver's run. Asking takes the order of the logarithm of the number of workers."""

    def __init__(
        self, books: Books, roster: Roster, runs_alone: Callable[[int], bool], *, speculate: bool = True
    ) -> None:
        """runs_alone: a unit that must not be copied. speculate: False leaves out what is done against stragglers."""
        self._books = books
        self._roster = roster
        self._runs_alone = runs_alone
        self._speculate = speculate
        # Heaps that are made when first needed, and forgotten while there is enough to do; some entries are old.
        self._reserving: list[tuple[float, int, str]] | None = None  # whose reserved unit would start last comes first
        self._ending_last: list[tuple[float, int, str, int]] | None = None  # so too, with the units in flight
        self._late: list[Worker] = []  # found by the tick that is being handled, and not looked at yet
        self._num_late = 0  # that it found

    def offer(self, worker: Worker) -> int | None:
        """The unit that is reserved for it, or the first of the queue, or one that is reserved for another."""
        position, worker.upcoming = worker.upcoming, None
        if position is None:
            position = self._books.take()
        return self._steal() if position is None else position

    def note(self, worker: Worker) -> None:
        """What it scores, or what it has reserved, has changed."""
        self._note_end(worker)
        self._note_reserved(worker)

    def forget_late(self) -> None:
        """The tick has been handled."""
        self._late, self._num_late = [], 0

    def _steal(self) -> int | None:
        """A unit that is reserved for another worker: of the one that would come to it last."""
        if self._reserving is None:
            self._reserving = []
            for one in self._roster.workers.values():
                self._note_reserved(one)
        while self._reserving:
            other = self._roster.workers.get(heapq.heappop(self._reserving)[2])
            if other is not None and other.upcoming is not None:
                position, other.upcoming = other.upcoming, None
                return position
        return None

    def _note_reserved(self, worker: Worker) -> None:
        """Another may take what it has reserved. None are kept while there is enough to do."""
        if self._reserving is None or worker.upcoming is None:
            return
        if self._books.num_queued > len(self._roster.workers):
            self._reserving = None
            return
        heapq.heappush(self._reserving, (-_end(worker), worker.number, worker.name))

    def is_held(self, worker: Worker, position: int) -> bool:
        """Would the others be through with all that is queued or reserved, this unit last, well before this worker?

        A tick finds those that are late, which may be for ever: they are not waited for.
        """
        mine, typical = self._roster.rate(worker), self._roster.typical_rate
        if not self._speculate or mine is None or typical is None or mine >= typical:
            return False
        others = self._roster.num_in["scoring"] + self._roster.num_in["flushing"] - self._num_late
        if others <= 0:
            return False
        rows = self._books.rows(position)
        reserved = max(1, self._books.num_in_flight - self._roster.num_in["scoring"])  # this one, and the others'
        elsewhere = (self._books.rows_queued() + reserved * rows) / (others * typical) + rows / typical
        return rows / mine > elsewhere + MIN_GAIN_SECONDS

    def copy(self, worker: Worker) -> int | None:
        """A unit that another worker will come to the end of well after this one would."""
        if not self._speculate or self._roster.pace.rate is None:
            return None
        while self._late:
            other = self._late[-1]
            position = other.unit
            if position is None or not self._may_copy(other, position):
                self._late.pop()
            elif self._gains(worker, position, self._roster.now - other.since):
                return self._share(other, worker)
            else:
                break
        if self._ending_last is None:
            self._ending_last = []
            for other in self._roster.workers.values():
                self._note_end(other)
        while self._ending_last:
            end, _, name, position = self._ending_last[0]
            found = self._roster.workers.get(name)
            if found is not None and -end == _end(found) and self._may_copy(found, position):
                return self._share(found, worker) if self._gains(worker, position, -end - self._roster.now) else None
            heapq.heappop(self._ending_last)
        return None

    def _note_end(self, worker: Worker) -> None:
        """It may be one whose unit is worth a copy. None are kept while there is enough to do."""
        if self._ending_last is None or worker.unit is None or worker.expected is None or worker.beaten:
            return
        if self._books.num_queued > len(self._roster.workers):
            self._ending_last = None
            return
        heapq.heappush(self._ending_last, (-_end(worker), worker.number, worker.name, worker.unit))

    def _may_copy(self, other: Worker, position: int) -> bool:
        shared = other.beaten or other.partner is not None
        return other.unit == position and not shared and not self._runs_alone(position)

    def _gains(self, worker: Worker, position: int, left: float) -> bool:
        """left: seconds that whoever scores it now will still take."""
        mine = self._roster.seconds(worker, self._books.rows(position))
        return mine is not None and left > COPY_ADVANTAGE * mine and left - mine > MIN_GAIN_SECONDS

    def _share(self, other: Worker, worker: Worker) -> int | None:
        """The other's unit, for both."""
        other.partner, worker.partner = worker, other
        return other.unit

    def find_late(self) -> None:
        """Those that are furthest past their time come last."""
        if not self._roster.num_in["idle"]:
            return  # nobody is held for them, nor would copy what they have
        late = [
            ((self._roster.now - one.since) / one.expected, one)
            for one in self._roster.workers.values()
            if one.expected and self._roster.now - one.since > LATE_TIMES * one.expected
        ]
        self._late, self._num_late = [one for _, one in sorted(late, key=lambda pair: pair[0])], len(late)


def _end(worker: Worker) -> float:
    """When it should be through with its unit."""
    return worker.since + (worker.expected or 0.0)
