"""The executor on Ray. With `integrations/`, the folder of this module is the only place that imports ray.

Lives here: the executor. Not here: the loop (`drive.py`), the crew that it drives (`actors.py`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ray.exceptions import RayError

from assay.cluster.actors import Actors, environment_of
from assay.cluster.connect import connected, first_line
from assay.cluster.mapping import mapped_as_tasks
from assay.cluster.nodes import cluster_cpus, of_task, reduce_options
from assay.cluster.preparing import MakeReader
from assay.cluster.reduce import reduced_as_tasks
from assay.costs import NO_LIMITS, Limits
from assay.drive import MakeSetup, drive
from assay.errors import RunError
from assay.protocols import Log, Reduction, Work
from assay.records import Job, Progress
from assay.spec.model import Spec


class RayExecutor:
    """Actors on a Ray cluster: the one at `address` or RAY_ADDRESS, the one this process is connected to, or a new one
    on this machine that ends with the run."""

    name = "ray"

    def __init__(
        self,
        workers: int | None,
        make_setup: MakeSetup,
        address: str | None = None,
        limits: Limits = NO_LIMITS,
        make_reader: MakeReader | None = None,
    ) -> None:
        """workers: None takes as many as the cluster has room for. make_reader: reads and prepares, in tasks of their
        own; None leaves it to the workers."""
        if workers is not None and workers < 1:
            raise RunError(f"{workers} workers cannot score anything; give 1 or more.")
        self._workers = workers
        self._make_setup = make_setup
        self._address = address or os.environ.get("RAY_ADDRESS")
        self._limits = limits
        self._make_reader = make_reader

    def run(self, job: Job, log: Log, progress: Callable[[Progress], None]) -> None:
        """See Executor.run."""
        num_cpus = None if self._workers is None else cpus_of(job.spec, self._workers)
        with connected(self._address, num_cpus):
            try:
                crew = Actors(job, self._make_setup, self._workers, self._make_reader)
                drive(job, log, crew, crew.num_workers, progress, limits=self._limits)
            except RayError as error:
                raise RunError(f"Ray failed, and the run with it: {first_line(error)} Resume it.") from error

    def reduce(self, reduction: Reduction, trees: Sequence[Sequence[Any]]) -> Iterator[Any]:  # Any: as there
        """See Executor.reduce."""
        with connected(self._address, self._workers):
            options, environment = reduce_options(reduction.workers), environment_of(reduction.base)
            yield from reduced_as_tasks(reduction, trees, options, environment, cluster_cpus())

    def map(self, work: Work, items: Sequence[Any]) -> Iterator[Any]:  # Any: as there
        """See Executor.map."""
        with connected(self._address, self._workers):
            options, environment = reduce_options(work.workers), environment_of(work.base)
            yield from mapped_as_tasks(work, items, options, environment, cluster_cpus())


def cpus_of(spec: Spec, num_workers: int) -> int:
    """What a cluster needs on which so many workers run, and all preparation tasks beside them."""
    apart = [one for one in spec.prepare.values() if one.tasks]
    tasks = max((one.tasks or 0 for one in apart), default=0) * of_task(apart).num_cpus
    return max(1, math.ceil(num_workers * spec.workers.num_cpus + tasks))
