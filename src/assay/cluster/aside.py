"""Work as Ray tasks while workers score, on CPUs that no worker holds.

Lives here: how many tasks may be out, and what came of them. Not here: what is done and when it may be
(`pipeline/early.py`), what workers hold (`actors.py`), what a task is (`items.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ray.exceptions import RayTaskError

from assay.cluster.connect import first_line
from assay.cluster.items import Tasks, ended, give_up
from assay.cluster.nodes import Node, Options, Taken, free_cpus, reducing
from assay.cluster.results import Reference, is_lost
from assay.errors import RunError
from assay.protocols import Work
from assay.records import Machine, Worked
from assay.spec.model import WorkersSpec

Look = Callable[[], Taken | None]
"""What workers hold now; None while nothing may be begun beside them."""


class TasksAside:
    """See protocols.Aside."""

    def __init__(self, workers: WorkersSpec) -> None:
        self._workers = workers
        self._tasks = Tasks()
        self._look: Look | None = None
        self._nodes: Sequence[Node] = ()  # as they were seen last
        self._seen = 0  # tasks that were out then: of what was free, they are not
        self._options: Options = {}
        self._out: dict[Reference, int] = {}
        self._done: list[Worked] = []  # not told yet: another one raised

    def watch(self, look: Look | None) -> None:
        """A run has begun, or has ended: None."""
        self._look = look

    def room(self) -> int:
        taken = None if self._look is None else self._look()
        if taken is None:
            return 0
        if taken.nodes is not self._nodes:
            self._nodes, self._seen = taken.nodes, len(self._out)
            self._options = reducing(self._workers, 1.0, taken.nodes)
            self._tasks.see(taken.nodes)
        return free_cpus(taken, self._options.get("label_selector", {}), self._seen) - len(self._out)

    def begin(self, work: Work, number: int, item: Any) -> None:  # Any: as there
        self._out[self._tasks.ask(work, item, self._options)] = number

    def done(self, seconds: float = 0.0) -> Sequence[Worked]:
        for call in ended(self._out, seconds):
            self._done.append(self._told(self._out.pop(call), call))
        done, self._done = self._done, []
        return done

    def close(self) -> None:
        for call in self._out:
            give_up(call)
        self._out.clear()

    def _told(self, number: int, call: Reference) -> Worked:
        try:
            return self._tasks.told(number, call, "A task beside the workers")
        except RunError as error:
            cause = error.__cause__
            if is_lost(error) and isinstance(cause, Exception):
                return Worked(number, None, Machine(), 0.0, first_line(cause))
            if isinstance(cause, RayTaskError):
                raise RunError(
                    f"A task beside the workers failed: {first_line(cause).rstrip('.')}. What is committed stays."
                ) from cause
            raise
