"""What a run waits for, in words: for those who watch it.

Not here: what is done about it (`schedule.py`), and the likely cause, which only executors know.
"""

from __future__ import annotations

from assay.books import Books
from assay.orders import Order, Stalled, Wait
from assay.roster import Roster, State, Worker

STALL_SECONDS, STALL_TIMES = 60.0, 3.0
"""Silence of so long, and of so many times a unit's time, is told; then after twice as long, and so on."""
START_TOLD_SECONDS = 60.0
"""A worker that has not started for so long while others score is told of, once."""
_WAITS: tuple[State, ...] = ("scoring", "flushing", "starting")
"""What a silent run most likely waits for comes first."""
_STATE_WAITS: dict[State, Wait] = {"scoring": "score", "flushing": "flush", "starting": "start"}


class Watch:
    """Notices silence. What it tells, it tells less and less often."""

    def __init__(self, books: Books, roster: Roster, unit_seconds: float | None = None) -> None:
        """unit_seconds: that the spec allows for a unit."""
        self._books = books
        self._roster = roster
        self._unit_seconds = unit_seconds
        self._heard_at = 0.0
        self._silence_told = 0.0  # seconds of silence that were told of
        self._start_told = False

    def hear(self) -> None:
        """Something has happened."""
        self._heard_at, self._silence_told = self._roster.now, 0.0

    def tell(self) -> list[Order]:
        """What a run waits for, when nothing happens."""
        silence = self._roster.now - self._heard_at
        if silence >= max(STALL_SECONDS, 2 * self._silence_told):
            waiting = [one for one in self._roster.workers.values() if one.state != "idle"]
            longest = max((one.expected or 0.0 for one in waiting), default=0.0)
            if waiting and silence >= STALL_TIMES * longest:
                self._silence_told = silence
                return [self._stalled(min(waiting, key=lambda one: (_WAITS.index(one.state), one.since)))]
        if self._roster.num_in["starting"] and self._roster.num_in["scoring"] and not self._start_told:
            first = min(
                (one for one in self._roster.workers.values() if one.state == "starting"), key=lambda one: one.since
            )
            if self._roster.now - first.since > START_TOLD_SECONDS:
                self._start_told = True
                return [self._stalled(first)]
        return []

    def _stalled(self, worker: Worker) -> Stalled:
        unit = None if worker.unit is None else self._books.units[worker.unit].id
        return Stalled(_STATE_WAITS[worker.state], worker.name, unit, self._roster.now - worker.since)

    def overdue(self, worker: Worker) -> str:
        """Why it is ended: a clause."""
        seconds = self._roster.now - worker.since
        if worker.state == "starting":
            return f"it was not ready after {seconds:.0f} seconds"
        if worker.state == "flushing" or worker.unit is None:
            return f"it could not write its states within {seconds:.0f} seconds"
        expected = "" if worker.expected is None else f", where {worker.expected:.1f} were expected"
        if self._unit_seconds is not None:
            expected = f", where execution.unit_seconds allows {self._unit_seconds:g}"
        return f"it scored unit {self._books.units[worker.unit].id} for {seconds:.0f} seconds{expected}"
