"""Progress of a run: a live bar on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from assay.costs import time_words
from assay.records import Progress

PLAIN_SECONDS = 10.0
"""Least seconds between two plain lines."""
MEASURED_SECONDS = 30.0
"""After so long a rate is told, however long the start took."""


class Speed:
    """How fast a run goes since its first unit was done: what was before is the start of the workers, mostly.

    Workers that began together end their first units together, too. So a rate is told when it has been measured for as
    long as there was no unit done, or for MEASURED_SECONDS where that was longer; of a run that is over before, only
    how long it took. The state is the report from which on it is measured: the first with rows of this driver's.
    """

    def __init__(self) -> None:
        self._first: Progress | None = None

    def words(self, progress: Progress) -> str:
        """Rows per second, row-variants per second and the time left, as far as they are known.

        >>> speed = Speed()
        >>> speed.words(Progress(1, 4, 1000, 4000, 5, 3.0)), speed.words(Progress(2, 4, 2000, 4000, 5, 4.0))
        ('scoring', 'scoring')
        >>> speed.words(Progress(3, 4, 3000, 4000, 5, 6.0))
        '667 rows/s, 3,333 row-variants/s, about 2 s left'
        """
        finished = progress.units_done == progress.num_units
        if progress.seconds <= 0 or progress.rows_done <= progress.rows_before:
            return "all scored" if finished else "starting"
        first = self._first = self._first or progress
        rows, seconds = progress.rows_done - first.rows_done, progress.seconds - first.seconds
        if rows <= 0 or seconds < min(first.seconds, MEASURED_SECONDS):
            return _all_scored(progress.seconds) if finished else "scoring"
        rate = rows / seconds
        parts = [f"{rate:,.0f} rows/s", f"{rate * progress.num_variants:,.0f} row-variants/s"]
        if finished:
            parts.append(_all_scored(progress.seconds))
        elif progress.num_rows is not None:
            parts.append(f"about {time_words(max(0.0, (progress.num_rows - progress.rows_done) / rate))} left")
        return ", ".join(parts)


def _all_scored(seconds: float) -> str:
    return f"all scored in {f'{seconds:.1f} s' if seconds < 10 else time_words(seconds)}"


class Reporter:
    """A context manager that is called with each Progress."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._bar = Bar(
            TextColumn("units"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rates]}"),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._speed = Speed()
        self._task = self._bar.add_task("units", total=None, rates="starting")
        self._last_line = float("-inf")
        self._finished = False  # the last line was that of all units

    def __enter__(self) -> Reporter:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        if self._quiet:
            return
        if progress.message:
            self._console.print(progress.message, highlight=False, markup=False, soft_wrap=True)
        rates = self._speed.words(progress)
        self._bar.update(self._task, completed=progress.units_done, total=progress.num_units, rates=rates)
        if not self._console.is_terminal:
            self._plain_line(progress, rates)

    def _plain_line(self, progress: Progress, rates: str) -> None:
        now = time.monotonic()
        finished = progress.units_done == progress.num_units
        if finished and (self._finished or progress.seconds <= 0):
            return  # it is told, or nothing was scored here: there was a message
        self._finished = finished
        if finished or now - self._last_line >= PLAIN_SECONDS:
            self._last_line = now
            self._console.print(
                f"{progress.units_done}/{progress.num_units} units, {rates}", highlight=False, soft_wrap=True
            )
