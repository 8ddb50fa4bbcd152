"""What the nodes of a Ray cluster have, and what a worker or a task asks of them: who fits where, and how many.

Lives here: demands, label selectors, counting, shares, and sentences on what is lacking. Not here: having actors
(`actors.py`) and tasks (`preparing.py`, `reduce.py`).

Quantities are Ray's own names ("CPU", "GPU", custom ones) -> how many. Ray places by these numbers alone, so that what
is counted here is what Ray will find room for.
"""

from __future__ import annotations

import heapq
import math
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.autoscaler.v2.schema import ClusterStatus
from ray.autoscaler.v2.sdk import get_cluster_status
from ray.exceptions import RayError

from assay.errors import RunError
from assay.records import Machine, Market
from assay.spec.model import PrepareSpec, WorkersSpec
from assay.spec.words import agree, count, series

Quantities = Mapping[str, float]
Options = dict[str, Any]
"""Keyword arguments of Ray's `.options()`. Any: Ray's own."""

NODE_TYPE_LABELS = ("ray.io/node-group", "ray.io/accelerator-type")
"""Labels of a node that say what it is; the first one that it has."""
MARKET_LABEL = "ray.io/market-type"
MARKETS: Mapping[str, Market] = {"on-demand": "on_demand", "on_demand": "on_demand", "spot": "spot"}
ANYWHERE: Options = {"label_selector": {}}
LISTED = re.compile(r"in\((.*)\)")
ROUNDING = 1e-4
"""Ray counts resources in so small parts."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one worker or one task asks of a node."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    resources: Quantities = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)  # label -> "value", "!value", "in(a, b)" or "!in(a, b)"

    @property
    def quantities(self) -> dict[str, float]:
        """Those that it asks something of."""
        asked = {"CPU": self.num_cpus, "GPU": self.num_gpus, **self.resources}
        return {name: amount for name, amount in asked.items() if amount > 0}


@dataclass(frozen=True, slots=True)
class Node:
    """A node that lives."""

    id: str
    total: Quantities
    labels: Mapping[str, str] = field(default_factory=dict)
    free: Quantities | None = None  # None: Ray does not tell
    draining: bool = False  # it will be taken away


@dataclass(frozen=True, slots=True)
class Taken:
    """The CPUs of a Ray cluster that a run's workers hold."""

    nodes: Sequence[Node]  # all that live
    by_workers: Mapping[str, float]  # node -> CPUs
    apart: float = 0.0  # by tasks that prepare, which may be on any node


# ---- demands ---------------------------------------------------------------------------------------------------------


def of_worker(spec: WorkersSpec) -> Demand:
    return Demand(spec.num_cpus, spec.num_gpus, spec.resources, spec.labels)


def of_task(specs: Iterable[PrepareSpec]) -> Demand:
    """Of a task that does all of these: the most that any of them asks for. RunError when no node can suit them all."""
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}
    num_cpus = 0.0
    for one in specs:
        num_cpus = max(num_cpus, one.num_cpus)
        for name, amount in one.resources.items():
            resources[name] = max(amount, resources.get(name, 0.0))
        for name, value in one.labels.items():
            if labels.setdefault(name, value) != value:
                raise RunError(
                    f"One task does all preparations of a unit, and these ask for nodes whose label {name!r} is "
                    f"{labels[name]!r} and {value!r}. Give them the same labels."
                )
    return Demand(num_cpus, 0.0, resources, labels)


def matches(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Does a node with these labels suit? As Ray reads selectors: a node without a label suits what negates it.

    >>> matches({"zone": "b"}, {"zone": "in(a, b)", "disk": "!slow"})
    True
    """
    return all(_matches(labels.get(name), value) for name, value in selector.items())


def _matches(label: str | None, value: str) -> bool:
    negated, plain = value.startswith("!"), value.removeprefix("!")
    several = LISTED.fullmatch(plain)
    wanted = [one.strip() for one in several[1].split(",")] if several else [plain]
    return (label in wanted) != negated


def options(demand: Demand, nodes: Iterable[Node]) -> Options:
    """For scoring and preparing: they run on preemptible nodes where there are any and these have room, unless labels
    are asked for."""
    chosen: Options = {"num_cpus": demand.num_cpus, "num_gpus": demand.num_gpus, "resources": dict(demand.resources)}
    if demand.labels:
        return {**chosen, "label_selector": dict(demand.labels)}
    if any(_is_spot(node) for node in nodes):
        return {**chosen, "label_selector": {MARKET_LABEL: "spot"}, "fallback_strategy": [ANYWHERE]}
    return chosen


def reduce_options(spec: WorkersSpec, num_cpus: float = 1.0) -> Options:
    """For tasks that merge, on the cluster that this process is connected to."""
    return reducing(spec, num_cpus, nodes())


def reducing(spec: WorkersSpec, num_cpus: float, known: Sequence[Node]) -> Options:
    """What is merged is not to be lost: such a task runs on a node that is not preemptible, where one has room."""
    chosen: Options = {"num_cpus": num_cpus}
    if spec.reduce_labels:
        return {**chosen, "label_selector": dict(spec.reduce_labels)}
    kept = Demand(num_cpus, labels={MARKET_LABEL: "!spot"})
    if any(_is_spot(node) for node in known) and any(room(node, kept) for node in known):
        return {**chosen, "label_selector": dict(kept.labels)}
    return chosen


def _is_spot(node: Node) -> bool:
    return MARKETS.get(node.labels.get(MARKET_LABEL, "")) == "spot"


# ---- counting --------------------------------------------------------------------------------------------------------


def room(node: Node, demand: Demand, taken: Quantities | None = None) -> int:
    """How many of these fit a node of which so much is taken. Of one that asks for nothing, one."""
    if node.draining or not matches(node.labels, demand.labels):
        return 0
    return _fit(node.total, demand, taken or {})


def _fit(total: Quantities, demand: Demand, taken: Quantities) -> int:
    left = [
        int((total.get(name, 0.0) - taken.get(name, 0.0) + ROUNDING) / amount)
        for name, amount in demand.quantities.items()
    ]
    return max(0, min(left, default=1))


def most_workers(known: Sequence[Node], worker: Demand, task: Demand | None = None, num_tasks: int = 0) -> int:
    """How many workers fit beside the tasks, which come where they take the fewest workers' places; at least one, which
    a node that is not there yet may have room for."""
    if task is None:
        return max(1, sum(room(node, worker) for node in known))
    taken: list[dict[str, float]] = [{} for _ in known]

    def cost(index: int) -> int:
        """Workers that one task more would take the place of."""
        after = _plus(taken[index], task.quantities)
        return room(known[index], worker, taken[index]) - room(known[index], worker, after)

    places = [(cost(index), index) for index, node in enumerate(known) if room(node, task)]
    heapq.heapify(places)
    for _ in range(num_tasks):
        if not places:
            break
        _, index = heapq.heappop(places)
        taken[index] = _plus(taken[index], task.quantities)
        if room(known[index], task, taken[index]):
            heapq.heappush(places, (cost(index), index))
    return max(1, sum(room(node, worker, used) for node, used in zip(known, taken, strict=True)))


def free_cpus(taken: Taken, selector: Mapping[str, str], own: int) -> int:
    """Whole CPUs of nodes with such labels that nobody holds but tasks of our own. own: so many of these ran when the
    nodes were seen: where Ray tells what was free then, it left them out."""
    suited = [node for node in taken.nodes if not node.draining and matches(node.labels, selector)]
    left = sum(_whole(node.total.get("CPU", 0.0) - taken.by_workers.get(node.id, 0.0)) for node in suited)
    left -= math.ceil(taken.apart)
    told = [_whole(node.free.get("CPU", 0.0)) for node in suited if node.free is not None]
    return max(0, min(left, sum(told) + own) if len(told) == len(suited) else left)


def _whole(cpus: float) -> int:
    return max(0, int(cpus + ROUNDING))


def share(node: Node, demand: Demand) -> float:
    """Of a machine, that one worker takes: the largest of its shares of CPUs and GPUs."""
    asked = demand.quantities
    shares = [asked[name] / node.total[name] for name in ("CPU", "GPU") if asked.get(name) and node.total.get(name)]
    return min(1.0, max(shares, default=1.0))


def _plus(left: Quantities, right: Quantities) -> dict[str, float]:
    return {name: left.get(name, 0.0) + right.get(name, 0.0) for name in left.keys() | right.keys()}


# ---- sentences -------------------------------------------------------------------------------------------------------


def lack(demand: Demand, known: Sequence[Node], who: str = "A worker") -> str:
    """What is asked for and what there is: "A worker needs 1 GPU; the Ray cluster has 4 GPUs, of which 0 are free."."""
    suited = [node for node in known if matches(node.labels, demand.labels)]
    names = list(demand.quantities) or ["CPU"]
    needs, place = series(amount_words(name, demand.quantities.get(name, 0.0)) for name in names), "the Ray cluster has"
    if demand.labels:
        labels = series(f"{name}={value}" for name, value in demand.labels.items())
        needs += f" on a node with {labels}"
        place = f"the Ray cluster has {count(len(suited), 'such node')} with"
    has = series(amount_words(name, sum(node.total.get(name, 0.0) for node in suited)) for name in names)
    return f"{who} needs {needs}; {place} {has}{_free_words(suited, names)}{_draining_words(known)}."


def _free_words(suited: Sequence[Node], names: Sequence[str]) -> str:
    free = [node.free for node in suited if node.free is not None]
    if len(free) < len(suited):
        return ""
    return f", of which {series(f'{sum(one.get(name, 0.0) for one in free):g}' for name in names)} are free"


def _draining_words(known: Sequence[Node]) -> str:
    draining = sum(node.draining for node in known)
    return f", and {count(draining, 'node')} {agree(draining, 'is', 'are')} being drained" if draining else ""


def amount_words(name: str, amount: float) -> str:
    """
    >>> amount_words("GPU", 0.25), amount_words("CPU", 8.0), amount_words("disk", 2.0)
    ('0.25 GPUs', '8 CPUs', "2 of 'disk'")
    """
    if name in ("CPU", "GPU"):
        return f"{amount:g} {name}{'' if amount == 1 else 's'}"
    return f"{amount:g} of {name!r}"


# ---- asking Ray ------------------------------------------------------------------------------------------------------


def nodes() -> tuple[Node, ...]:
    """Those that live."""
    known: Sequence[Mapping[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # Any: untyped in Ray
    told = _told()
    return tuple(
        Node(one["NodeID"], one["Resources"], one.get("Labels") or {}, *told.get(one["NodeID"], (None, False)))
        for one in known
        if one["Alive"]
    )


def cluster_cpus() -> int:
    """Of all nodes together, at least one."""
    return total_cpus(nodes())


def total_cpus(known: Iterable[Node]) -> int:
    """At least one."""
    return round(sum(node.total.get("CPU", 0.0) for node in known)) or 1


def may_grow() -> bool:
    """Does an autoscaler, as far as Ray tells, bring nodes to this cluster?"""
    status = _status()
    if status is None:
        return False
    return bool(status.pending_nodes or status.pending_launches) or status.stats.autoscaler_version not in (None, "0")


def _told() -> dict[str, tuple[Quantities | None, bool]]:
    """What `ray status` says of each node: what is free, and whether Ray was told to drain it."""
    status = _status()
    told: dict[str, tuple[Quantities | None, bool]] = {}
    for node in (*status.active_nodes, *status.idle_nodes) if status else ():
        usage = node.resource_usage.usage if node.resource_usage else None
        free = None if usage is None else {one.resource_name: one.total - one.used for one in usage}
        told[node.node_id or ""] = (free, node.node_status == "DRAINING")
    return told


def _status() -> ClusterStatus | None:
    """None where it does not answer, as where this process is connected through a proxy."""
    try:
        return get_cluster_status(ray.get_runtime_context().gcs_address)
    except (RayError, RuntimeError, OSError):
        return None


def machine() -> Machine:
    """The one of this process: what its node's labels say, which whoever starts the cluster sets."""
    labels: Mapping[str, Any] = ray.get_runtime_context().get_node_labels()  # Any: Ray's own type is wrong
    named = [str(labels[key]) for key in NODE_TYPE_LABELS if labels.get(key)]
    market = MARKETS.get(labels.get(MARKET_LABEL, ""), "")
    return Machine(named[0] if named else "local", market, socket.gethostname())
