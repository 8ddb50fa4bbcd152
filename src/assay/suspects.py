"""Units that workers die of: how often each was in flight at a death, and what that leads to.

Lives here: the counts, the queue of those that must run alone, and the sentence when one is given up. Not here: what
else follows from a loss (`losses.py`, `schedule.py`).

A unit in flight at DEATHS_BEFORE_ALONE deaths runs while nothing else does: that tells whether it is the unit or its
neighbours. One more death then makes it poison. Deaths for want of memory are counted apart, since there is something
to be done about them first: each time the unit is scored with more caution (a quarter of the rows per call), up to
MOST_CAUTION; then alone. A preemption says nothing of a unit.

    deaths for memory   0            1              2               3                        4
    scored              as planned   rows / 4       rows / 16       rows / 16, alone         given up
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Literal

from assay.records import Unit

DEATHS_BEFORE_ALONE = 3
"""A unit that was in flight at so many deaths, or at so many for memory, runs while nothing else does."""
MOST_CAUTION = 2
"""Rows per call are quartered so many times at most: a sixteenth. A model that needs more has no use of less."""

Cause = Literal["death", "memory", "preemption", "error"]
"""Why a worker is gone: it died or hung, for want of memory, its machine was taken away, or an error of its own."""


class Suspects:
    """Of one driver's run; units go by their position in the plan."""

    def __init__(self) -> None:
        self.alone: int | None = None  # that is being scored while nothing else is
        self._deaths: Counter[int] = Counter()
        self._memory: Counter[int] = Counter()
        self._waiting: list[int] = []  # heap

    def __len__(self) -> int:
        """How many wait to run alone."""
        return len(self._waiting)

    def runs_alone(self, position: int) -> bool:
        if position not in self._deaths and position not in self._memory:
            return False
        return max(self._deaths[position], self._memory[position]) >= DEATHS_BEFORE_ALONE

    def caution(self, position: int) -> int:
        """With how much of it the unit is scored the next time."""
        return min(self._memory[position], MOST_CAUTION) if position in self._memory else 0

    def put(self, position: int) -> None:
        """It waits to run alone."""
        heapq.heappush(self._waiting, position)

    def take(self) -> int:
        """The first of those that wait; it runs alone from now on."""
        self.alone = heapq.heappop(self._waiting)
        return self.alone

    def blame(self, position: int, cause: Cause, *, alone: bool) -> bool:
        """It was in flight when a worker was lost. True where it is poison: it was alone, and there is no more
        caution to be had."""
        spared = cause == "memory" and self.caution(position) < MOST_CAUTION
        self._deaths[position] += cause == "death"
        self._memory[position] += cause == "memory"
        return alone and cause in ("death", "memory") and not spared

    def verdict(self, unit: Unit, position: int, cause: Cause, reason: str) -> str:
        """Why a unit is poison: a sentence."""
        which = f"Unit {unit.id} ({unit.path}, from row {unit.first_row})"
        if cause == "memory":
            return (
                f"{which} was too much for the memory of its worker {self._memory[position]} times, the last time "
                f"alone and with 1/{4**MOST_CAUTION} of the rows per call ({reason})."
            )
        return (
            f"{which} was being scored at {self._deaths[position]} deaths of a worker, the last time alone ({reason})."
        )


def advice(cause: Cause, *, bundled: bool = False) -> str:
    """What to do where that ends the run: a sentence or more. bundled: the unit is one bundle's of several."""
    rest = "What is committed is kept; resume the run when the cause is mended, "
    if bundled:
        rest += "or leave its rows out with data.where in a new run: other bundles of variants have scored them."
    else:
        rest += "or set on_error: continue to do without such units."
    if cause == "memory":
        return f"Give each worker more memory: fewer of them on a machine, or a larger one. {rest}"
    return f"Look at these rows and at the memory that scoring them takes. {rest}"
