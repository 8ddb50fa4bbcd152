"""Work on many items as Ray tasks, one for each; results come as they are done.

Lives here: carrying out what `outstanding.py` decides. Not here: what is done (`protocols.Work`), on which nodes
(`nodes.py`), what a task is (`items.py`), and what is said where one is lost again and again (`results.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from assay.cluster.items import Tasks, ended, give_up
from assay.cluster.nodes import Node, Options, nodes, total_cpus
from assay.cluster.outstanding import Outstanding
from assay.cluster.results import SILENT_SECONDS, Reference, is_lost, too_late
from assay.errors import RunError
from assay.protocols import Work
from assay.records import Worked

WAIT_SECONDS = 1.0
"""How often it is looked whether one is late."""
LOOK_SECONDS = 10.0
"""How often it is asked how many CPUs the Ray cluster has."""
TASK = "A task"


def mapped_as_tasks(
    work: Work,
    items: Sequence[Any],  # Any: of the work's own kind
    options: Options,
) -> Iterator[Worked]:
    """See Executor.map; on the Ray cluster that this process is connected to."""
    outstanding, calls = Outstanding(len(items)), _Calls(Tasks())
    looked, heard, num_cpus = float("-inf"), time.monotonic(), 1
    try:
        while not outstanding.is_done:
            now = time.monotonic()
            if now - looked >= LOOK_SECONDS:
                known = nodes()
                calls.see(known)
                looked, num_cpus = now, total_cpus(known)
            for number in outstanding.due(num_cpus, now):
                calls.begin(number, work, items[number], options)
            ready = calls.ready()
            if ready:
                heard = now
            elif now - heard > SILENT_SECONDS:
                raise too_late(TASK)
            for call in ready:
                worked = calls.told(call)
                if worked is not None:
                    outstanding.done(worked.number, worked.seconds)
                    yield worked
    finally:
        calls.close()


class _Calls:
    """The tasks that are out: one of an item, or two."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._numbers: dict[Reference, int] = {}
        self._of_item: dict[int, list[Reference]] = {}  # all that are out of one item

    def see(self, known: Sequence[Node]) -> None:
        """What the Ray cluster has now."""
        self._tasks.see(known)

    def begin(self, number: int, work: Work, item: Any, options: Options) -> None:  # Any: as above
        call = self._tasks.ask(work, item, options)
        self._numbers[call] = number
        self._of_item.setdefault(number, []).append(call)

    def ready(self) -> list[Reference]:
        """Those that have ended, after at most a moment."""
        return ended(self._numbers, WAIT_SECONDS)

    def told(self, call: Reference) -> Worked | None:
        """What came of one that has ended; the other one of its item is given up. None where that was faster, or where
        this one was lost and the other is out. What is raised: as in `result_of`."""
        if call not in self._numbers:
            return None
        number = self._numbers.pop(call)
        self._of_item[number].remove(call)
        try:
            worked = self._tasks.told(number, call, TASK)
        except RunError as error:
            if self._of_item[number] and is_lost(error):
                return None
            raise
        for other in self._of_item.pop(number):
            del self._numbers[other]
            give_up(other)
        return worked

    def close(self) -> None:
        """Nothing that is out will count."""
        for call in self._numbers:
            give_up(call)
