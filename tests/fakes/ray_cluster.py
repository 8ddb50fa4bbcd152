"""Ray clusters of several nodes on this machine. A head that does not start within the 30 seconds that Ray gives it, as
on a busy machine, is started again, as a cluster of its own; whatever the first one left ends with this process."""

from __future__ import annotations

import os
from typing import Any

from ray.cluster_utils import Cluster

ATTEMPTS = 4


def cluster_of(**head: Any) -> Any:  # Any: Ray's class is untyped, and so is what its nodes are given
    """A cluster of a head alone; whoever made it shuts it down."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    settings = {**head, "include_dashboard": False}
    for _ in range(ATTEMPTS - 1):
        try:
            return Cluster(initialize_head=True, head_node_args=settings)
        except Exception as error:  # Ray raises no narrower kind
            if "timed out" not in str(error):
                raise
    return Cluster(initialize_head=True, head_node_args=settings)
