"""The executor on Ray. With `integrations/`, the folder of this module is the only place that imports ray.

Lives here: the executor. Not here: the loop (`drive.py`), the crew that it drives (`actors.py`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

from ray.exceptions import RayError

from assay.cluster.actors import Actors
from assay.cluster.aside import TasksAside
from assay.cluster.connect import connected, first_line
from assay.cluster.mapping import mapped_as_tasks
from assay.cluster.nodes import cluster_cpus, of_task, reduce_options
from assay.cluster.preparing import MakeReader
from assay.cluster.reduce import reduced_as_tasks
from assay.costs import NO_LIMITS, Limits
from assay.drive import MakeSetup, drive, way_on
from assay.errors import RunError
from assay.protocols import Log, Reduction, Work
from assay.records import Job, Progress, Worked
from assay.spec.model import Spec, WorkersSpec


class RayExecutor:
    """Actors on a Ray cluster: the one at `address` or RAY_ADDRESS, the one this process is connected to, or a new one
    on this machine. A new one ends with the context that this is; without it, with the call that needed it."""

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
        self._opened: ExitStack | None = None
        self._beside: TasksAside | None = None

    def __enter__(self) -> RayExecutor:
        self._opened = ExitStack()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.__exit__(kind, error, trace)

    def run(self, job: Job, log: Log, progress: Callable[[Progress], None]) -> None:
        """See Executor.run."""
        num_cpus = None if self._workers is None else cpus_of(job.spec, self._workers)
        with self._connected(num_cpus) as where, ExitStack() as after:
            try:
                crew = Actors(job, self._make_setup, self._workers, self._make_reader, (where,))
                if self._beside is not None:
                    self._beside.watch(crew.taken)
                    after.callback(self._beside.watch, None)
                drive(job, log, crew, crew.num_workers, progress, limits=self._limits)
            except RayError as error:
                said = f"Ray failed, and the run with it: {first_line(error).rstrip('.')}"
                raise RunError(f"{said}. {way_on(job)}") from error

    def reduce(self, reduction: Reduction, trees: Sequence[Sequence[Any]]) -> Iterator[Any]:  # Any: as there
        """See Executor.reduce."""
        with self._connected(self._workers):
            yield from reduced_as_tasks(reduction, trees, reduce_options(reduction.workers), cluster_cpus())

    def map(self, work: Work, items: Sequence[Any]) -> Iterator[Worked]:  # Any: as there
        """See Executor.map."""
        with self._connected(self._workers):
            yield from mapped_as_tasks(work, items, reduce_options(work.workers))

    def aside(self, workers: WorkersSpec) -> TasksAside:
        """See Executor.aside."""
        self._beside = TasksAside(workers)
        return self._beside

    @contextmanager
    def _connected(self, num_cpus: int | None) -> Iterator[str]:
        """To a Ray cluster, which stays to the end of the context where there is one. Gives a sentence on which."""
        with ExitStack() as alone:
            yield (self._opened or alone).enter_context(connected(self._address, num_cpus))


def cpus_of(spec: Spec, num_workers: int) -> int:
    """What a cluster needs on which so many workers run, and all preparation tasks beside them."""
    apart = [one for one in spec.prepare.values() if one.tasks]
    tasks = max((one.tasks or 0 for one in apart), default=0) * of_task(apart).num_cpus
    return max(1, math.ceil(num_workers * spec.workers.num_cpus + tasks))
