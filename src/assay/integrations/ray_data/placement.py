"""Where wide columns are handled: on nodes on which no model may run, as far as such nodes can be told.

Lives here: which nodes these are, and what is said of them to Ray, also for the steps of a dataset that is yet to run.
Not here: the tasks (`blocks.py`, `late.py`).

Known of a model is what it asks of Ray: GPUs, resources, labels, a node. One that asks for CPUs and memory alone may
run anywhere, so that no node is left and the choice is Ray's.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ray
from ray.data import Dataset, ExecutionOptions, TaskPoolStrategy
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
STEPS_THAT_ASK_NOTHING = (
    "InputData", "FromArrow", "FromBlocks", "FromItems", "FromNumpy", "FromPandas", "ListFiles", "Limit", "Union",
    "Zip",
)  # fmt: skip
"""What Ray Data calls the steps of a dataset for which it takes no arguments of a task."""


class Node(NamedTuple):
    """A node that lives."""

    node_id: str
    resources: Mapping[str, float]  # all that it has, free or not
    labels: Mapping[str, str]


def place_of(ds: Dataset, models: Sequence[Asked], task: Asked) -> dict[str, Any]:
    """Ray's arguments that say on which nodes the tasks run that see wide columns of `ds`; empty leaves it to Ray.

    They are the caller's own where `task` chooses nodes, and else labels that keep tasks off the nodes of models.

    models: what each model asks of Ray. task: what the caller asks for the task that appends; a `label_selector` that
    is empty or None leaves it to Ray, while other arguments that are None, 0 or empty say nothing of nodes.
    """
    chosen = _chosen(task)
    if chosen or task.get("num_gpus") or "label_selector" in task:
        return chosen
    if not (FUSES_LABELLED_TASKS and _may_be_placed(ds)):
        return {}
    selector = keeping_off(_living(), models, task, _everywhere(ds))
    return {"label_selector": selector} if selector else {}


def labels_of_steps(ds: Dataset, models: Sequence[Asked], task: Asked) -> Selector:
    """The labels of nodes for the steps of `ds`, so that wide columns are made where `place_of` lets them be seen.

    Empty, which leaves it to Ray, unless all steps read or map in tasks that ask for CPUs and memory alone, and a node
    with these labels has as much. Actors may hold all CPUs of the nodes that are left, so that the steps before wait.
    """
    if not (LABELS_WHOLE_DATASETS and _may_be_placed(ds)):
        return {}
    try:
        steps = asked_by_steps(ds._logical_plan.dag)
    except AttributeError:  # Ray Data's own, which another release may call otherwise
        return {}
    if steps is None:
        return {}
    most = {
        "num_cpus": max([1, *(asked.get("num_cpus") or 0 for asked in steps)]),
        "memory": max([0, *(asked.get("memory") or 0 for asked in steps)]),
    }
    selector: Selector = place_of(ds, models, task).get("label_selector") or {}
    labels = {**_everywhere(ds), **selector}
    fit = any(_has_labels(node, _conditions(labels)) and _fits(node, most) for node in _living())
    return labels if selector and fit else {}


def asked_by_steps(last: Any) -> list[Asked] | None:  # Any: Ray Data's own operator
    """What the tasks of this step and of those before ask of Ray; None where one chooses nodes, or may.

    AttributeError for a step of another kind than those that read and map (a shuffle, say).
    """
    asked: list[Asked] = []
    steps = [last]
    while steps:
        step = steps.pop()
        steps += step.input_dependencies
        if type(step).__name__ in STEPS_THAT_ASK_NOTHING:
            continue
        in_tasks = step.compute is None or isinstance(step.compute, TaskPoolStrategy)
        said = step.ray_remote_args or {}
        if not in_tasks or step.ray_remote_args_fn or said.get("num_gpus") or _chosen(said):
            return None
        asked.append(said)
    return asked


def _chosen(task: Asked) -> dict[str, Any]:
    """The arguments by which a task chooses nodes."""
    amounts = {name: amount for name, amount in (task.get("resources") or {}).items() if amount}
    said = {**task, "resources": amounts}
    chosen = {name: said[name] for name in NODE_ARGUMENTS if said.get(name)}
    if chosen.get("scheduling_strategy") in STRATEGIES_FOR_ANY_NODE:
        del chosen["scheduling_strategy"]
    return chosen


def _may_be_placed(ds: Dataset) -> bool:
    """Whether nodes are known, and the dataset's context does not place its tasks itself."""
    strategies = (ds.context.scheduling_strategy, ds.context.scheduling_strategy_large_args)
    return ray.is_initialized() and all(isinstance(one, str) for one in strategies)


def _everywhere(ds: Dataset) -> Selector:
    """The labels that Ray Data asks of every node of the dataset."""
    return (ds.context.execution_options.label_selector or {}) if LABELS_WHOLE_DATASETS else {}


def _living() -> list[Node]:
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
        left = [node for node in nodes if _has_labels(node, _conditions(selector)) and _fits(node, task)]
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
    wanted = {"GPU": asked.get("num_gpus"), **(asked.get("resources") or {})}
    if asked.get("accelerator_type"):
        wanted[f"accelerator_type:{asked['accelerator_type']}"] = 0.001  # as Ray puts it
    if any(node.resources.get(name, 0) < (amount or 0) for name, amount in wanted.items()):
        return False
    others = [one.get("label_selector") or {} for one in asked.get("fallback_strategy") or ()]
    if not any(_has_labels(node, _conditions(one)) for one in (asked.get("label_selector") or {}, *others)):
        return False
    strategy = asked.get("scheduling_strategy")
    if isinstance(strategy, NodeAffinitySchedulingStrategy):
        gone = all(strategy.node_id != one.node_id for one in nodes)
        return bool(strategy.node_id == node.node_id or (strategy.soft and gone))
    if isinstance(strategy, NodeLabelSchedulingStrategy):
        return _has_labels(node, ((one.key, one.operator) for one in strategy.hard))
    return True


def _fits(node: Node, task: Asked) -> bool:
    cpus = task.get("num_cpus")
    needed = {"CPU": 1 if cpus is None else cpus, "memory": task.get("memory") or 0}
    return all(node.resources.get(name, 0) >= amount for name, amount in needed.items())


def _has_labels(node: Node, conditions: Iterator[Condition]) -> bool:
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
    """`value`, `!value`, `in(one,other)`, `!in(one,other)`."""
    for key, said in selector.items():
        values = said.removeprefix("!")
        if values.startswith("in(") and values.endswith(")"):
            values = values[3:-1]
        kind = NotIn if said.startswith("!") else In
        yield key, kind(*(value.strip() for value in values.split(",")))
