"""Where wide columns are handled: on nodes on which no model may run, as far as such nodes can be told.

Lives here: which nodes these are, and what is said of them to Ray. Not here: the tasks (`blocks.py`, `late.py`), and
the steps of a dataset that is yet to run (`steps.py`).

Known of a model is what it asks of Ray: GPUs, resources, labels, a node. One that asks for CPUs and memory alone may
run anywhere, so that no node is left and the choice is Ray's.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ray
from ray.data import Dataset, ExecutionOptions
from ray.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
)

Asked = Mapping[str, Any]  # Any: Ray's arguments of a task or an actor
Selector = dict[str, str]
Condition = tuple[str, Any]  # a label's key, and one of Ray's untyped In, NotIn, Exists, DoesNotExist
NODE_ID, ACCELERATOR_TYPE = "ray.io/node-id", "ray.io/accelerator-type"
NODE_ARGUMENTS = ("label_selector", "fallback_strategy", "scheduling_strategy", "resources", "accelerator_type")
"""Ray's arguments by which a caller chooses nodes. `num_gpus` does too, but cutting needs no GPU."""
STRATEGIES_FOR_ANY_NODE = ("DEFAULT", "SPREAD")
FUSES_LABELLED_TASKS = "label_selector" in inspect.signature(Dataset.map_batches).parameters
"""Whether this release of Ray Data fuses a task that has labels with what follows it, such as a write."""
LABELS_WHOLE_DATASETS = "label_selector" in inspect.signature(ExecutionOptions).parameters
"""Whether in this release the execution options of a dataset have labels for all its tasks."""


class Node(NamedTuple):
    """A node that lives."""

    node_id: str
    resources: Mapping[str, float]  # all that it has, free or not
    labels: Mapping[str, str]


class Place(NamedTuple):
    """Where the tasks run that see wide columns."""

    asked: dict[str, Any]  # Ray's arguments that say so; empty leaves it to Ray
    warning: str = ""  # what the caller may not expect of it


def place_of(ds: Dataset, models: Sequence[Asked], task: Asked) -> Place:
    """Of the tasks that see wide columns of `ds`.

    It is the caller's own where `task` chooses nodes, and else on labels that keep tasks off the nodes of models. Where
    there are several nodes and none is kept off, or none has the caller's labels, there is a warning.

    models: what each model asks of Ray. task: what the caller asks for the task that appends; a `label_selector` that
    is empty or None leaves it to Ray, while other arguments that are None, 0 or empty say nothing of nodes.
    """
    own = chosen(task)
    if own or task.get("num_gpus") or "label_selector" in task:
        return Place(own, _unmatched(own, everywhere(ds)))
    if not may_be_placed(ds):
        return Place({})
    nodes = living()
    selector = keeping_off(nodes, models, task, everywhere(ds)) if FUSES_LABELLED_TASKS else {}
    if selector:
        return Place({"label_selector": selector})
    return Place({}, _not_kept_off() if sum(fits(node, {}) for node in nodes) > 1 else "")


def _unmatched(own: Asked, everywhere: Mapping[str, str]) -> str:
    """own: what the caller says of nodes."""
    selectors = [{**everywhere, **one} for one in _selectors(own)]
    nodes = living() if ray.is_initialized() and own.get("label_selector") else []
    if not nodes or any(has_labels(node, one) for node in nodes for one in selectors):
        return ""
    return f"No node has the labels {selectors[0]} that late tasks ask for, so they wait until one joins."


def _selectors(asked: Asked) -> list[Mapping[str, str]]:
    """The labels that a task asks for, and those that will do too."""
    others = [one.get("label_selector") or {} for one in asked.get("fallback_strategy") or ()]
    return [asked.get("label_selector") or {}, *others]


def _not_kept_off() -> str:
    if FUSES_LABELLED_TASKS:
        why = (
            "no node is left on which no model may run and that has the CPUs and memory of a task (a model that asks "
            "for CPUs and memory alone may run on any)"
        )
    else:
        why = f"Ray {ray.__version__} does not keep tasks off nodes, as 2.60 does"
    return (
        f"Wide columns may be handled on nodes where models run: {why}. Let models ask for something that only some "
        "nodes have (num_gpus, resources, label_selector), or say where the tasks run by "
        "late_ray_remote_args={'label_selector': ...}; an empty one says that any node will do."
    )


def chosen(task: Asked) -> dict[str, Any]:
    """The arguments by which a task chooses nodes."""
    amounts = {name: amount for name, amount in (task.get("resources") or {}).items() if amount}
    said = {**task, "resources": amounts}
    own = {name: said[name] for name in NODE_ARGUMENTS if said.get(name)}
    if own.get("scheduling_strategy") in STRATEGIES_FOR_ANY_NODE:
        del own["scheduling_strategy"]
    return own


def may_be_placed(ds: Dataset) -> bool:
    """Whether nodes are known, and the dataset's context does not place its tasks itself."""
    strategies = (ds.context.scheduling_strategy, ds.context.scheduling_strategy_large_args)
    return ray.is_initialized() and all(isinstance(one, str) for one in strategies)


def everywhere(ds: Dataset) -> Selector:
    """The labels that Ray Data asks of every node of the dataset."""
    return (ds.context.execution_options.label_selector or {}) if LABELS_WHOLE_DATASETS else {}


def living() -> list[Node]:
    found: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # Ray's own
    return [Node(node["NodeID"], node["Resources"], node["Labels"]) for node in found if node["Alive"]]


def keeping_off(nodes: Sequence[Node], models: Sequence[Asked], task: Asked, everywhere: Mapping[str, str]) -> Selector:
    """The labels of nodes where no model may run and the task fits; empty when there is no such node, or no other.

    Nodes of models that want a GPU are told by its type, which those that join later have too, unless all that would be
    left without them have that type; all others by their ids.

    everywhere: the labels that Ray Data asks of every node of the dataset.

    >>> both = {"a": {"CPU": 8, "GPU": 1}, "b": {"CPU": 8}}
    >>> nodes = [Node(name, resources, {"ray.io/node-id": name}) for name, resources in both.items()]
    >>> keeping_off(nodes, [{"num_gpus": 1}], {}, {})
    {'ray.io/node-id': '!in(a)'}
    >>> keeping_off(nodes, [{"num_cpus": 4}], {}, {})
    {}
    """
    models = [{**asked, "label_selector": {**everywhere, **(asked.get("label_selector") or {})}} for asked in models]
    taken = [node for node in nodes if any(_may_run(node, asked, nodes) for asked in models)]
    for types in (_types(nodes, models), []):
        ids = sorted(node.node_id for node in taken if node.labels.get(ACCELERATOR_TYPE) not in types)
        away = {
            key: f"!in({','.join(values)})" for key, values in ((NODE_ID, ids), (ACCELERATOR_TYPE, types)) if values
        }
        selector = {**everywhere, **away}
        left = [node for node in nodes if has_labels(node, selector) and fits(node, task)]
        if away and left and not any(key in everywhere for key in away):
            return selector
    return {}


def _types(nodes: Sequence[Node], models: Sequence[Asked]) -> list[str]:
    """Of the accelerators that models ask for, or of the nodes where models may run that ask for some."""
    on_gpus = [asked for asked in models if asked.get("num_gpus") or asked.get("accelerator_type")]
    named = {asked["accelerator_type"] for asked in on_gpus if asked.get("accelerator_type")}
    found = {node.labels.get(ACCELERATOR_TYPE) for node in nodes for asked in on_gpus if _may_run(node, asked, nodes)}
    return sorted(one for one in (*named, *(found - named)) if one)


def _may_run(node: Node, asked: Asked, nodes: Sequence[Node]) -> bool:
    """Its CPUs and memory are left aside: few nodes can be told by them."""
    if asked.get("ray_remote_args_fn"):
        return True  # what it will ask for is not known yet
    wanted = {"GPU": asked.get("num_gpus"), **(asked.get("resources") or {})}
    if asked.get("accelerator_type"):
        wanted[f"accelerator_type:{asked['accelerator_type']}"] = 0.001  # as Ray puts it
    if any(node.resources.get(name, 0) < (amount or 0) for name, amount in wanted.items()):
        return False
    if not any(has_labels(node, one) for one in _selectors(asked)):
        return False
    strategy = asked.get("scheduling_strategy")
    if isinstance(strategy, NodeAffinitySchedulingStrategy):
        gone = all(strategy.node_id != one.node_id for one in nodes)
        return bool(strategy.node_id == node.node_id or (strategy.soft and gone))
    if isinstance(strategy, NodeLabelSchedulingStrategy):
        return _has(node, ((one.key, one.operator) for one in strategy.hard))
    return True


def fits(node: Node, task: Asked) -> bool:
    """Whether it has what the task asks for, and the CPU of those tasks that ask for one whatever the caller says."""
    needed = {"CPU": max(1, task.get("num_cpus") or 0), "memory": task.get("memory") or 0}
    return all(node.resources.get(name, 0) >= amount for name, amount in needed.items())


def has_labels(node: Node, selector: Mapping[str, str]) -> bool:
    return _has(node, _conditions(selector))


def _has(node: Node, conditions: Iterator[Condition]) -> bool:
    """As Ray matches them: a label that is not there is none of any values."""
    return all(_matches(node.labels.get(key), operator) for key, operator in conditions)


def _matches(value: str | None, operator: Any) -> bool:  # Any: Ray's own, untyped
    match operator:
        case In(values=values):
            return value in values
        case NotIn(values=values):
            return value not in values
        case Exists():
            return value is not None
        case DoesNotExist():
            return value is None
    return True


def _conditions(selector: Mapping[str, str]) -> Iterator[Condition]:
    """`value`, `!value`, `in(one,other)`, `!in(one,other)`. Blanks are part of a value, as they are to Ray."""
    for key, said in selector.items():
        values = said.removeprefix("!")
        if values.startswith("in(") and values.endswith(")"):
            values = values[3:-1]
        kind = NotIn if said.startswith("!") else In
        yield key, kind(*values.split(","))
