"""Which items of a work are out, which are next, and which of those that are out are late: pure, no clock.

Items are begun in their order, some more than there are places for, whatever becomes of the first of them. Once none is
left to begin and places are free, one that takes far longer than those that are done is begun a second time, once: its
machine may be slow, or hang. Not here: tasks (`mapping.py`).

Times are seconds on the caller's clock.
"""

from __future__ import annotations

from bisect import insort

AHEAD = 2
"""Items that are out for each place: one begins when another ends."""
LATE_TIMES = 4.0
LEAST_LATE_SECONDS = 20.0
"""One is late after so many times what half of the others took at most, and not before that many seconds: a process may
have to start for it."""


class Outstanding:
    """Of one work."""

    def __init__(self, num_items: int) -> None:
        self._num_items = num_items
        self._next = 0
        self._since: dict[int, float] = {}  # of each that is out: when it was begun
        self._copied: set[int] = set()  # of these
        self._all_run_since: float | None = None  # none was left to begin, and each had a place
        self._seconds: list[float] = []  # that those took that are done, in order

    @property
    def is_done(self) -> bool:
        return self._next == self._num_items and not self._since

    def due(self, num_places: int, at: float) -> list[int]:
        """Items that are to begin now; one that is out already is to begin a second time."""
        first = self._next
        self._next = min(self._num_items, first + max(0, AHEAD * num_places - self._num_out))
        begun = range(first, self._next)
        self._since.update(dict.fromkeys(begun, at))
        free = num_places - self._num_out
        if self._next < self._num_items or free < 0:
            return list(begun)
        self._all_run_since = at if self._all_run_since is None else self._all_run_since
        late = self._late(at)[:free]
        self._copied.update(late)
        return [*begun, *late]

    def done(self, number: int, seconds: float) -> None:
        """There is a result, of whichever of its two tasks, which took so long."""
        del self._since[number]
        self._copied.discard(number)
        insort(self._seconds, seconds)

    @property
    def _num_out(self) -> int:
        return len(self._since) + len(self._copied)

    def _late(self, at: float) -> list[int]:
        """Those that are out once, for too long, the longest first. Before they had a place they only waited."""
        if not self._seconds or self._all_run_since is None:
            return []
        most = max(LEAST_LATE_SECONDS, LATE_TIMES * self._seconds[len(self._seconds) // 2])
        waited = {number: at - max(since, self._all_run_since) for number, since in self._since.items()}
        late = [number for number, seconds in waited.items() if seconds > most and number not in self._copied]
        return sorted(late, key=lambda number: self._since[number])
