"""What processes of ours on Ray find in their environment.

Ray starts a process for whatever asks for an environment of its own, and has idle ones for what does not. So a task
that needs none of it asks for none: such a process serves several times, and the first time begins at once.
Not here: which work needs any (`build.is_of_ours`), what holds for every process with Arrow (`__init__.py`).
"""

from __future__ import annotations

import os

import ray

from assay.cluster.connect import is_the_users
from assay.cluster.nodes import Options

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def environment_of(base: str | None) -> Options:
    """As an option of actors and tasks: the user's own modules are found, and each has one compute thread.

    base: the folder of these modules; None for work that needs none of them, and may run in any process, with as many
    threads as Ray gives it: one a CPU. Where this process has a PYTHONPATH the others need it: assay may lie there.
    Where a program of the user's is connected, its own tasks may have run in any process, which then owns actors and
    objects of theirs; they would go with it where a task of ours is given up.
    """
    path = os.environ.get("PYTHONPATH")
    if base is None and not path and not is_the_users():
        return {}
    found = os.pathsep.join(filter(None, [base, _path_of_job(), path]))
    variables = {"PYTHONPATH": found} if found else {}
    return {"runtime_env": {"env_vars": {**variables, **ONE_THREAD}}}


def _path_of_job() -> str:
    """The PYTHONPATH that the user's own `runtime_env` asks for: Ray puts ours in its place, and keeps all else."""
    if not ray.is_initialized():  # asked now, Ray would start a cluster
        return ""
    variables: dict[str, str] = ray.get_runtime_context().runtime_env.env_vars()
    return variables.get("PYTHONPATH", "")
