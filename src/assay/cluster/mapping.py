"""Work on many items as Ray tasks, one for each; results come back in the order of the items.

Lives here: how many wait at once, and what is said where a task is lost again and again. Not here: what is done
(`protocols.Work`) and on which nodes (`nodes.py`).

Work that is done twice has the same result, so a task that is lost with its node is simply done again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from assay.cluster.connect import first_line
from assay.cluster.nodes import Options
from assay.errors import AssayError, RunError
from assay.protocols import Work

TRIES_AGAIN = 3
"""How often a task whose process was lost is done again."""
AHEAD = 2
"""Tasks that are asked for, for each CPU: one is begun when another ends."""
SILENT_SECONDS = 1_800.0
"""How long an item may take before the run ends: what is committed stays."""


@ray.remote
def _do(work: Work, item: Any) -> Any:
    return work(item)


def mapped_as_tasks(
    work: Work,
    items: Sequence[Any],  # Any: items, and results below, as in `Executor.map`
    options: Options,
    environment: Mapping[str, str],
    num_cpus: int,
) -> Iterator[Any]:
    """See Executor.map; on the Ray cluster that this process is connected to."""
    shared = ray.put(work)
    step = _do.options(max_retries=TRIES_AGAIN, **options, runtime_env={"env_vars": dict(environment)})
    waiting: deque[Any] = deque()
    for item in items:
        waiting.append(step.remote(shared, item))
        if len(waiting) >= AHEAD * num_cpus:
            yield _result(waiting.popleft())
    while waiting:
        yield _result(waiting.popleft())


def _result(wanted: Any) -> Any:
    try:
        return ray.get(wanted, timeout=SILENT_SECONDS)
    except GetTimeoutError as error:
        raise RunError(
            f"A task was not done within {SILENT_SECONDS / 60:.0f} minutes: the Ray cluster gave it no room, or lost it "
            "again and again. All units are committed; resume the run."
        ) from error
    except RayTaskError as error:
        if isinstance(error.cause, AssayError):
            raise error.cause from None
        raise RunError(_failed(error)) from error
    except RayError as error:
        raise RunError(_failed(error)) from error


def _failed(error: Exception) -> str:
    return (
        f"A task failed: {first_line(error).rstrip('.')}. All units are committed; resume the run, or have it done in "
        "this process with --executor local."
    )
