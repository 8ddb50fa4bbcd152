"""How fast a worker, or all of them, score: rows a second, as measured.

Not here: what follows from it (`schedule.py`), and how fast a device runs (`telemetry.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_STEP = 16.0
"""One measurement counts as at most so many times faster or slower than those before it."""


@dataclass(slots=True)
class Pace:
    """A mean of measured rates in logarithms, in which the last `1 / least_weight` count most.

    Logarithms, since times have a long tail: a unit that took ten times too long moves the mean by as much as one that
    took a tenth. The first measurements weigh the same, so that a first unit that was slow (compiling, cold caches) is
    soon outweighed.

    The rate is that of a device at full speed: what was measured at half speed counts as twice as fast.

    >>> pace = Pace(least_weight=0.3)
    >>> pace.rate is None
    True
    >>> pace.measure(rows=100, seconds=2.0)
    >>> pace.rate
    50.0
    >>> pace.measure(rows=100, seconds=0.5)
    >>> pace.rate
    100.0
    >>> pace = Pace(least_weight=0.3)
    >>> pace.measure(rows=100, seconds=2.0, speed=0.5)
    >>> pace.rate
    100.0
    """

    least_weight: float
    rate: float | None = None  # at full speed; None: nothing was measured
    num_measured: int = 0

    def measure(self, rows: int, seconds: float, speed: float = 1.0) -> None:
        """speed: of the device on average meanwhile, 1 is full. Nothing is learned from no rows, or from no time."""
        if rows <= 0 or seconds <= 0.0:
            return
        measured = rows / seconds / speed
        self.num_measured += 1
        if self.rate is None:
            self.rate = measured
            return
        step = min(max(measured / self.rate, 1.0 / MOST_STEP), MOST_STEP)
        self.rate *= step ** max(1.0 / self.num_measured, self.least_weight)
