"""Whether new workers wait for rows that went with a node: a task that makes these again needs a CPU as they do.

Not here: starting workers (`actors.py`), and which rows are gone (`protocols.FragileSource`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from assay.protocols import FragileSource

MOST_SECONDS = 60.0
"""How long new workers wait, from when rows were first missed."""
ASKED_SECONDS = 1.0
"""How often it is asked at most: it takes a while to tell of very many blocks."""


class RowsFirst:
    """Of one source."""

    def __init__(self, source: FragileSource, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._asked = float("-inf")
        self._missing_since: float | None = None

    def must_wait(self) -> bool:
        """Whether rows are gone now, and not for too long."""
        now = self._clock()
        if now - self._asked >= ASKED_SECONDS:
            self._asked = now
            if not self._source.num_missing():
                self._missing_since = None
            elif self._missing_since is None:
                self._missing_since = now
        return self._missing_since is not None and now - self._missing_since < MOST_SECONDS
