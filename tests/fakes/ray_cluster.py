"""Ray clusters of several nodes on this machine. A node that does not start within the 30 seconds that Ray gives it, as
on a busy machine, is started again."""

from __future__ import annotations

import os
from typing import Any

from ray.cluster_utils import Cluster

ATTEMPTS = 4


def cluster_of(**head: Any) -> Any:  # Any: Ray's class is untyped, and so is what its nodes are given
    """A cluster of a head alone; whoever made it shuts it down."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster()
    add_node(made, include_dashboard=False, **head)
    return made


def add_node(cluster: Any, **node: Any) -> Any:
    """One that has started."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return cluster.add_node(**node)
        except Exception as error:  # Ray raises no narrower kind
            if attempt == ATTEMPTS or "timed out" not in str(error):
                raise
    raise AssertionError("each attempt returns or raises")
