"""A reduction carried out as Ray tasks: leaves are read where there is room, folded in a tree, and concluded.

Lives here: which task waits for which, and how many trees grow at once. Not here: what the steps do
(`protocols.Reduction`) and on which nodes they run (`nodes.py`). Parts stay in the object store: this process receives
results alone.

The steps are pure, so a task that is lost with its node, or cannot read, is simply done again; a file that is not what
it must be is told at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import ray

from assay.cluster.environment import environment_of
from assay.cluster.nodes import Options
from assay.cluster.results import TRIES_AGAIN, Reference, result_of
from assay.protocols import Reduction

FAN_IN = 4
"""Parts that one task folds."""
LEAST_TREES = 2
"""Trees that grow at once at least: while one is concluded, the next may be read."""


@ray.remote
def _read(reduction: Reduction, leaf: Any) -> Any:  # Any, here and below: as in `Executor.reduce`
    return reduction.read(leaf)


@ray.remote
def _fold(reduction: Reduction, *parts: Any) -> Any:
    return reduction.fold(parts)


@ray.remote
def _conclude(reduction: Reduction, leaf: Any, *parts: Any) -> Any:
    return reduction.conclude(leaf, reduction.fold(parts))


def reduced_as_tasks(
    reduction: Reduction,
    trees: Sequence[Sequence[Any]],
    options: Options,
    num_cpus: int,
) -> Iterator[Any]:
    """See Executor.reduce; on the Ray cluster that this process is connected to.

    options: of each task. num_cpus: of the cluster: so many leaves are read at once, or one tree's and the next's.
    """
    tree = _Tree(ray.put(reduction), {**_OPTIONS, **options, **environment_of(reduction.base)})
    growing: deque[Reference] = deque()
    remaining = iter(trees)
    for leaves in trees:
        while len(growing) < max(LEAST_TREES, num_cpus // max(1, len(leaves))):
            following = next(remaining, None)
            if following is None:
                break
            growing.append(tree.grow(following))
        yield result_of(growing.popleft(), "A task that merges states")


_OPTIONS: Options = {"max_retries": TRIES_AGAIN, "retry_exceptions": [OSError]}


class _Tree:
    """Asks for the tasks of one tree after the other."""

    def __init__(self, reduction: Reference, options: Options) -> None:
        self._reduction = reduction
        self._options = options

    def grow(self, leaves: Sequence[Any]) -> Reference:  # Any: as above
        """To the tree's result."""
        parts = [self._ask(_read, leaf) for leaf in leaves]
        while len(parts) > FAN_IN:
            parts = [self._ask(_fold, *parts[first : first + FAN_IN]) for first in range(0, len(parts), FAN_IN)]
        return self._ask(_conclude, leaves[0], *parts)

    def _ask(self, step: Any, *arguments: Any) -> Reference:  # Any: one of the functions above, as Ray made it
        asked: Reference = step.options(**self._options).remote(self._reduction, *arguments)
        return asked
