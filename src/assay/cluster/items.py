"""One item of a work as a Ray task: asking for it, waiting for it, what came of it, and giving it up.

Not here: which items are asked for when (`outstanding.py`, `aside.py`), and sentences where a task is lost
(`results.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import RayError

from assay.cluster.environment import environment_of
from assay.cluster.nodes import Demand, Node, Options, machine, share
from assay.cluster.results import TRIES_AGAIN, Reference, result_of
from assay.protocols import Work
from assay.records import Machine, Worked

DEMAND = Demand()
"""Of one task: a CPU."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a task gives back."""

    result: Any  # Any: of the work's own kind
    node: str
    machine: Machine
    seconds: float


@ray.remote
def _do(work: Work, item: Any) -> _Answer:  # Any: of the work's own kind
    started = time.monotonic()
    result = work(item)
    node: str = ray.get_runtime_context().get_node_id()
    return _Answer(result, node, machine(), time.monotonic() - started)


class Tasks:
    """Asks for tasks of works. Done twice, an item has the same result, so a task that is lost is done again."""

    def __init__(self) -> None:
        self._settings: Options = {}
        self._shared: tuple[Work, Reference] | None = None  # put once, as long as no other work follows
        self._shares: dict[str, float] = {}  # of its node, that a task takes

    def ask(self, work: Work, item: Any, options: Options) -> Reference:  # Any: as above
        """options: where it may run."""
        if self._shared is None or self._shared[0] is not work:
            self._shared = work, ray.put(work)
            self._settings = {"max_retries": TRIES_AGAIN, **environment_of(work.base)}
        asked: Reference = _do.options(**options, **self._settings).remote(self._shared[1], item)
        return asked

    def see(self, known: Sequence[Node]) -> None:
        """What the Ray cluster has now."""
        self._shares |= {node.id: share(node, DEMAND) for node in known}

    def told(self, number: int, call: Reference, task: str) -> Worked:
        """What came of a call that is ready. task, and what is raised: as in `result_of`."""
        answer: _Answer = result_of(call, task)
        where = replace(answer.machine, share=self._shares.get(answer.node, 1.0))
        return Worked(number, answer.result, where, answer.seconds)


def ended(calls: Iterable[Reference], seconds: float) -> list[Reference]:
    """All calls that have ended; where none has, the first is waited for, so long at most."""
    every = list(calls)
    if not every:
        return []
    ready, _ = ray.wait(every, num_returns=1, timeout=seconds)
    if ready:
        ready, _ = ray.wait(every, num_returns=len(every), timeout=0)
    return list(ready)


def give_up(call: Reference) -> None:
    """Whether it waits or runs: its process is ended."""
    with suppress(RayError, ValueError):  # it has just ended
        ray.cancel(call, force=True)
