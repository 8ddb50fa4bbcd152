"""Progress of a run: a live bar on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from assay.records import Progress

PLAIN_SECONDS = 10.0
"""Least seconds between two plain lines."""


def rates(progress: Progress) -> str:
    """Rows per second, row-variants per second and the time left, as far as they are known.

    >>> print(rates(Progress(1, 4, 1000, 4000, 5, 0.5)))
    2,000 rows/s, 10,000 row-variants/s, about 2 s left
    """
    rows = progress.rows_done - progress.rows_before
    if progress.seconds <= 0 or rows <= 0:
        return "all scored" if progress.units_done == progress.num_units else "starting"
    speed = rows / progress.seconds
    parts = [f"{speed:,.0f} rows/s", f"{speed * progress.num_variants:,.0f} row-variants/s"]
    if progress.num_rows is not None:
        parts.append(f"about {max(0.0, (progress.num_rows - progress.rows_done) / speed):.0f} s left")
    return ", ".join(parts)


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
        self._bar.update(self._task, completed=progress.units_done, total=progress.num_units, rates=rates(progress))
        if not self._console.is_terminal:
            self._plain_line(progress)

    def _plain_line(self, progress: Progress) -> None:
        now = time.monotonic()
        finished = progress.units_done == progress.num_units
        if finished and (self._finished or progress.seconds <= 0):
            return  # it is told, or nothing was scored here: there was a message
        self._finished = finished
        if finished or now - self._last_line >= PLAIN_SECONDS:
            self._last_line = now
            self._console.print(
                f"{progress.units_done}/{progress.num_units} units, {rates(progress)}", highlight=False, soft_wrap=True
            )
