"""What a Ray task came to: waited for with a bound, its error a sentence.

Lives here: the bound, how often a lost task is done again, and the sentences. Not here: which tasks there are
(`mapping.py`, `reduce.py`).
"""

from __future__ import annotations

from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from assay.cluster.connect import first_line
from assay.errors import AssayError, RunError

Reference = ray.ObjectRef[Any]
"""To what a call of an actor or a task gives. Any: Ray makes these calls of classes and functions, without types."""
TRIES_AGAIN = 3
"""How often a task whose process was lost is done again."""
SILENT_SECONDS = 1_800.0
"""How long a result may take before the run ends: what is committed stays."""


def result_of(wanted: Reference, task: str) -> Any:  # Any: of the task's own kind
    """task: what it does, the start of a sentence.

    An AssayError of the task's own is raised as it is, all else as a RunError.
    """
    try:
        return ray.get(wanted, timeout=SILENT_SECONDS)
    except GetTimeoutError as error:
        raise too_late(task) from error
    except RayError as error:
        if isinstance(error, RayTaskError) and isinstance(error.cause, AssayError):
            raise error.cause from None
        raise RunError(
            f"{task} failed: {first_line(error).rstrip('.')}. All units are committed; resume the run, or do without "
            "Ray for what is left of it, with --executor local."
        ) from error


def too_late(task: str) -> RunError:
    """Nothing was heard of it for too long."""
    return RunError(
        f"{task} was not done within {SILENT_SECONDS / 60:.0f} minutes: the Ray cluster gave it no room, or lost "
        "it again and again. All units are committed; resume the run."
    )


def is_lost(error: AssayError) -> bool:
    """Whether `result_of` has raised it for a task that raised nothing itself: its process or node died."""
    return isinstance(error.__cause__, RayError) and not isinstance(error.__cause__, RayTaskError)
