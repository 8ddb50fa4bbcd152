"""A Ray cluster of fake nodes on this machine, each a raylet with one CPU: they come, go, are drained and freeze."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from fakes.ray_cluster import cluster_of
from ray._raylet import GcsClient
from ray.core.generated.autoscaler_pb2 import DrainNodeReason

SETTINGS = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 3000,
    "health_check_failure_threshold": 2,
    "prestart_worker_first_driver": False,
    "worker_niceness": 0,
}
"""A node that does not answer is given up after about six seconds; by default it takes longer."""
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
OBJECT_STORE_BYTES = 80 << 20
LABELS = {"ray.io/market-type": "spot", "ray.io/node-group": "fake"}

GONE = ("Z", "X")
"""States of processes that live no more."""

Node = Any  # Ray's own class has no public name


class Nodes:
    """The head has no CPU, so that drivers, which are connected to it, outlive every other node."""

    def __init__(self) -> None:
        os.environ.update(ENVIRONMENT)
        self._cluster = cluster_of(num_cpus=0, object_store_memory=OBJECT_STORE_BYTES, _system_config=SETTINGS)
        self._worn: list[Node] = []  # drained or frozen: no scenario begins with them

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    @property
    def alive(self) -> list[Node]:
        return sorted(self._cluster.worker_nodes, key=lambda node: str(node.node_id))

    def restore(self, number: int) -> None:
        """So many nodes, each as new."""
        for node in [*self._worn, *self.alive[number:]]:
            self.lose(node)
        while len(self.alive) < number:
            self.add()

    def add(self) -> Node:
        return self._cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE_BYTES, labels=LABELS)

    def lose(self, node: Node) -> None:
        """Its raylet is killed, and all that it started dies soon after."""
        if node in self._cluster.worker_nodes:
            self._cluster.remove_node(node, allow_graceful=False)
        self._worn = [one for one in self._worn if one is not node]

    def drain(self, node: Node, seconds: float) -> None:
        """What a cloud does that will take a machine away."""
        self._worn.append(node)
        deadline = int((time.time() + seconds) * 1000)
        reason = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
        accepted, why = GcsClient(address=self.address).drain_node(node.node_id, reason, "taken away", deadline)
        assert accepted, why

    def freeze(self, node: Node) -> None:
        """Its raylet stands still, while its workers go on: the others take it for dead."""
        self._worn.append(node)
        os.kill(_raylet(node), signal.SIGSTOP)

    def thaw(self, node: Node) -> None:
        os.kill(_raylet(node), signal.SIGCONT)

    def of(self, process: int) -> Node | None:
        """The node of a worker; None when either is gone."""
        try:
            state, parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            return None
        found = [node for node in self.alive if _raylet(node) == int(parent)]
        return found[0] if found and state not in GONE else None

    def close(self) -> None:
        self._cluster.shutdown()


def _raylet(node: Node) -> int:
    [raylet] = node.all_processes["raylet"]
    return int(raylet.process.pid)
