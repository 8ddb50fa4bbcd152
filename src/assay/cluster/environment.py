"""What processes of ours on Ray find in their environment.

Ray starts a process for whatever asks for an environment of its own, and has idle ones for what does not. So a task
that needs none of it asks for none: such a process serves several times, and the first time begins at once.
"""

from __future__ import annotations

import os

from assay.cluster.nodes import Options

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def environment_of(base: str | None) -> Options:
    """As an option of actors and tasks: the user's own modules are found, and each has one compute thread.

    base: the folder of these modules; None where none of them is needed, nor more threads than Ray gives: one a CPU.
    """
    path = os.environ.get("PYTHONPATH")
    if base is None and not path:
        return {}
    found = os.pathsep.join(filter(None, [base, path]))
    return {"runtime_env": {"env_vars": {"PYTHONPATH": found, **ONE_THREAD}}}
