"""Work on many items as Ray tasks, one for each; results come back in the order of the items.

Lives here: how many wait at once. Not here: what is done (`protocols.Work`), on which nodes (`nodes.py`), and what is
said where a task is lost again and again (`results.py`).

Work that is done twice has the same result, so a task that is lost with its node is simply done again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ray

from assay.cluster.nodes import Options
from assay.cluster.results import TRIES_AGAIN, Reference, result_of
from assay.protocols import Work

AHEAD = 2
"""Tasks that are asked for, for each CPU: one is begun when another ends."""


@ray.remote
def _do(work: Work, item: Any) -> Any:  # Any: as in `Executor.map`
    return work(item)


def mapped_as_tasks(
    work: Work,
    items: Sequence[Any],  # Any: items, and results below, as there
    options: Options,
    environment: Mapping[str, str],
    num_cpus: int,
) -> Iterator[Any]:
    """See Executor.map; on the Ray cluster that this process is connected to."""
    shared = ray.put(work)
    step = _do.options(max_retries=TRIES_AGAIN, **options, runtime_env={"env_vars": dict(environment)})
    waiting: deque[Reference] = deque()
    for item in items:
        waiting.append(step.remote(shared, item))
        if len(waiting) >= AHEAD * num_cpus:
            yield result_of(waiting.popleft(), "A task")
    while waiting:
        yield result_of(waiting.popleft(), "A task")
