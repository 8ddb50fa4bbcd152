"""Reading units ahead of scoring, in a thread of its own and in bounded memory.

Lives here: the thread, and the few chunks that wait between it and the scoring thread. Not here: what a chunk is read
as (`rows.py`), which unit comes next (`schedule.py`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from assay.records import Rows, Unit

MOST_WAITING = 2
"""Chunks of one unit that are read and not yet taken, beside the one that is being scored."""


class Reader:
    """Reads one unit after the other. Everything but the reading itself happens in the thread of the caller."""

    def __init__(self, read: Callable[[Unit], Iterable[Rows]]) -> None:
        self._read = read
        self._wanted: SimpleQueue[_Reading | None] = SimpleQueue()
        self._ahead: _Reading | None = None
        self._thread = threading.Thread(target=self._live, name="assay-read", daemon=True)
        self._thread.start()

    @contextmanager
    def reading(self, unit: Unit, upcoming: Unit | None) -> Iterator[Iterator[Rows]]:
        """The unit's rows, chunk by chunk, for the time of the context; what reading raises comes in its place.

        The upcoming unit is read from when this one has been; asked for next, it is not read twice.
        """
        reading = self._take(unit)
        self._ahead = None if upcoming is None else self._begin(upcoming)
        try:
            yield reading.chunks()
        finally:
            reading.drop()

    def close(self) -> None:
        """End the thread, once it has read the chunk that it is at."""
        if self._ahead is not None:
            self._ahead.drop()
        self._wanted.put(None)
        self._thread.join()

    def _take(self, unit: Unit) -> _Reading:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.unit == unit:
            return ahead
        if ahead is not None:
            ahead.drop()
        return self._begin(unit)

    def _begin(self, unit: Unit) -> _Reading:
        reading = _Reading(unit)
        self._wanted.put(reading)
        return reading

    def _live(self) -> None:
        while (reading := self._wanted.get()) is not None:
            reading.fill(self._read)


class _Reading:
    """The chunks of one unit on their way from one thread to another."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._waiting: deque[Rows | Exception | None] = deque()  # None: there are no more
        self._dropped = False
        self._changed = threading.Condition()

    def chunks(self) -> Iterator[Rows]:
        while (item := self._next()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item

    def drop(self) -> None:
        """Nobody wants the rest."""
        with self._changed:
            self._dropped = True
            self._waiting.clear()
            self._changed.notify_all()

    def fill(self, read: Callable[[Unit], Iterable[Rows]]) -> None:
        if self._dropped:
            return
        try:
            for rows in read(self.unit):
                self._put(rows)
                if not self._wait_for_room():
                    return
        except BaseException as error:  # whatever it is, the thread that scores raises it, or would wait for ever
            self._put(error if isinstance(error, Exception) else RuntimeError(f"Reading ended with {error!r}."))
        else:
            self._put(None)

    def _put(self, item: Rows | Exception | None) -> None:
        with self._changed:
            self._waiting.append(item)
            self._changed.notify_all()

    def _wait_for_room(self) -> bool:
        """False when nobody wants more."""
        with self._changed:
            self._changed.wait_for(lambda: self._dropped or len(self._waiting) < MOST_WAITING)
            return not self._dropped

    def _next(self) -> Rows | Exception | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting)
            item = self._waiting.popleft()
            self._changed.notify_all()
            return item
