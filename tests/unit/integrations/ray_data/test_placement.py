"""Which nodes tasks keep off that see wide columns, and when it is none."""

from __future__ import annotations

import importlib
import re
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.data import ActorPoolStrategy, TaskPoolStrategy
from ray.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
)

from assay.integrations.ray_data import placement, steps
from assay.integrations.ray_data.placement import Node, keeping_off, place_of
from assay.integrations.ray_data.steps import STEPS_THAT_ASK_NOTHING, labels_of_steps

TYPE = "ray.io/accelerator-type"
HEAD, GPU, CPU, GONE = (letter * 56 for letter in "abcd")


def node(node_id: str, labels: dict[str, str] | None = None, **resources: float) -> Node:
    return Node(node_id, {"memory": 100, **resources}, {"ray.io/node-id": node_id, **(labels or {})})


NODES = [
    node(HEAD),
    node(GPU, {"pool": "models", "disk": "fast"}, CPU=8, GPU=2, tpu=4),
    node(CPU, {"pool": "tables"}, CPU=4),
]
"""A head without CPUs, a node of the models, one of CPUs alone."""
GPU_MODEL = [{"num_gpus": 1}]
KEPT_OFF = {"ray.io/node-id": f"!in({GPU})"}


@pytest.mark.parametrize(
    "asked",
    [
        {"num_gpus": 1},
        {"num_gpus": 0.25, "num_cpus": 1, "memory": 10},
        {"resources": {"tpu": 4, "other": 0}},
        {"label_selector": {"pool": "models"}},
        {"label_selector": {"pool": "!in(tables,others)", "disk": "in(fast,faster)"}},
        {"label_selector": {"pool": "in(models, tables)"}},  # a blank is part of a value to Ray: no node has " tables"
        {"label_selector": {"pool": "no"}, "fallback_strategy": [{"label_selector": {"pool": "models"}}]},
        {"scheduling_strategy": NodeAffinitySchedulingStrategy(GPU, soft=False)},
        {"scheduling_strategy": NodeAffinitySchedulingStrategy(GPU, soft=True)},
        {"scheduling_strategy": NodeLabelSchedulingStrategy({"pool": In("models"), "disk": Exists()})},
        {"scheduling_strategy": NodeLabelSchedulingStrategy({"pool": NotIn("tables"), "x": DoesNotExist()}),
         "num_gpus": 1},
        {"label_selector": {"pool": "no"}, "fallback_strategy": [{"label_selector": {"pool": "nor"}},
                                                                 {"label_selector": {"pool": "models"}}]},
    ],
    ids=", ".join,
)  # fmt: skip
def test_nodes_where_a_model_may_run_are_kept_off(asked: dict[str, Any]) -> None:
    assert keeping_off(NODES, [asked], {}, {}) == KEPT_OFF


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"num_cpus": 8, "memory": 50},  # may run on any node, though here it would on one alone
        {"num_gpus": 0, "resources": {"tpu": 0}, "label_selector": {}},
        {"label_selector": {"pool": "!none"}},
        {"scheduling_strategy": "SPREAD"},
        {"scheduling_strategy": NodeAffinitySchedulingStrategy(GONE, soft=True)},  # so it runs elsewhere
        {"scheduling_strategy": NodeLabelSchedulingStrategy({}, soft={"pool": In("models")})},
        {"num_gpus": 3},  # a node that has them may join, but none is known
        {"num_gpus": 1, "ray_remote_args_fn": dict},  # what it will ask for is not known
    ],
    ids=", ".join,
)
def test_the_choice_is_left_to_ray_where_nodes_cannot_be_told_or_none_is_left(asked: dict[str, Any]) -> None:
    assert keeping_off(NODES, [asked], {}, {}) == {}


def test_a_node_is_left_only_where_the_task_fits() -> None:
    gpu = [{"num_gpus": 1}]
    assert keeping_off(NODES, gpu, {"num_cpus": 4, "memory": 100}, {}) == KEPT_OFF
    assert keeping_off(NODES, gpu, {"num_cpus": 5}, {}) == {}
    assert keeping_off(NODES, gpu, {"memory": 101}, {}) == {}
    assert keeping_off(NODES[:2], gpu, {}, {}) == {}  # the head has no CPU
    assert keeping_off(NODES[:2], gpu, {"num_cpus": 0}, {}) == {}  # those that cut ask for one


def test_all_models_are_kept_off() -> None:
    """With one that asks for CPUs alone, no node is without a model."""
    nodes = [*NODES, node("d", CPU=1)]
    models = [{"num_gpus": 1}, {"label_selector": {"pool": "tables"}}]
    assert keeping_off(nodes, models, {}, {}) == {"ray.io/node-id": f"!in({GPU},{CPU})"}
    assert keeping_off(nodes, [*models, {"num_cpus": 1}], {}, {}) == {}


def test_gpus_are_told_by_their_type_so_that_nodes_that_join_later_are_too() -> None:
    nodes = [
        node("a", {TYPE: "A100"}, CPU=8, GPU=8, **{"accelerator_type:A100": 1}),
        node("h", {TYPE: "H100"}, CPU=8, GPU=8, **{"accelerator_type:H100": 1}),
        node("f", CPU=8, GPU=1),
        node("c", CPU=8),
    ]
    assert keeping_off(nodes, [{"num_gpus": 1}], {}, {}) == {"ray.io/node-id": "!in(f)", TYPE: "!in(A100,H100)"}
    h100 = {"num_gpus": 1, "accelerator_type": "H100"}
    assert keeping_off(nodes, [h100], {}, {}) == {TYPE: "!in(H100)"}
    assert keeping_off([nodes[0], nodes[3]], [h100], {}, {}) == {TYPE: "!in(H100)"}  # though there is none yet
    assert keeping_off(nodes, [{"accelerator_type": "H100"}], {}, {}) == {TYPE: "!in(H100)"}
    assert keeping_off(nodes, [{"resources": {"accelerator_type:A100": 0.1}}], {}, {}) == {"ray.io/node-id": "!in(a)"}


def test_by_ids_where_all_that_is_left_has_the_type_of_the_models() -> None:
    nodes = [node("a", {TYPE: "T4"}, CPU=8, GPU=4), node("b", {TYPE: "T4"}, CPU=8, GPU=1)]
    assert keeping_off(nodes, [{"num_gpus": 4}], {}, {}) == {"ray.io/node-id": "!in(a)"}


def test_what_ray_data_asks_of_every_node_is_asked_too() -> None:
    nodes = [*NODES, node("d", {"pool": "models"}, CPU=2)]
    kept_off = {"pool": "models", **KEPT_OFF}
    assert keeping_off(nodes, [{"num_gpus": 1}], {}, {"pool": "models"}) == kept_off
    assert keeping_off(NODES, [{"num_gpus": 1}], {}, {"pool": "models"}) == {}
    assert keeping_off(nodes, [{"resources": {"tpu": 1}}], {}, {"ray.io/node-id": GPU}) == {}


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"label_selector": {"pool": "tables"}, "num_cpus": 2}, {"label_selector": {"pool": "tables"}}),
        ({"label_selector": {}}, {}),
        ({"label_selector": None}, {}),
        ({"resources": {"maker": 1, "tpu": 0}, "scheduling_strategy": "SPREAD"}, {"resources": {"maker": 1}}),
        ({"accelerator_type": "T4", "num_gpus": 0.5, "num_cpus": 2}, {"accelerator_type": "T4"}),
        ({"num_gpus": 1}, {}),  # holds for the task that appends alone
    ],
)
def test_what_the_caller_says_of_the_place_wins(task: dict[str, Any], told: dict[str, Any]) -> None:
    assert place_of(dataset(), GPU_MODEL, task).asked == told


def shown_by_ray(one: Node, alive: bool = True) -> dict[str, Any]:
    return {"NodeID": one.node_id, "Resources": one.resources, "Labels": one.labels, "Alive": alive}


def dataset(labels: dict[str, str] | None = None, strategy: Any = "SPREAD", large: Any = "DEFAULT") -> Any:
    options = SimpleNamespace(label_selector=labels)
    context = SimpleNamespace(
        execution_options=options, scheduling_strategy=strategy, scheduling_strategy_large_args=large
    )
    return SimpleNamespace(context=context)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The nodes of a cluster that this process is connected to, by a release of Ray that has labels everywhere."""
    nodes = [shown_by_ray(one) for one in NODES]
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    monkeypatch.setattr(placement, "FUSES_LABELLED_TASKS", True)
    for module in (placement, steps):
        monkeypatch.setattr(module, "LABELS_WHOLE_DATASETS", True)
    return nodes


@pytest.mark.parametrize(
    "task",
    [
        {},
        {"num_gpus": 0},
        {"num_gpus": None},
        {"resources": {}},
        {"resources": None},
        {"resources": {"tpu": 0}},
        {"accelerator_type": None},
        {"fallback_strategy": []},
        {"scheduling_strategy": None},
        {"scheduling_strategy": "DEFAULT"},
        {"scheduling_strategy": "SPREAD"},
    ],
    ids=repr,
)
def test_what_names_no_place_leaves_the_keeping_off_as_it_is(shown: list[Any], task: dict[str, Any]) -> None:
    assert place_of(dataset(), GPU_MODEL, task).asked == {"label_selector": KEPT_OFF}


def test_what_the_appending_task_needs_is_asked_of_the_nodes(shown: list[Any]) -> None:
    assert place_of(dataset(), GPU_MODEL, {"num_cpus": 5}).asked == {}


def test_dead_nodes_are_no_place_and_need_no_keeping_off(shown: list[Any]) -> None:
    shown.append(shown_by_ray(node(GONE, CPU=8, GPU=8), alive=False))
    assert place_of(dataset(), GPU_MODEL, {}).asked == {"label_selector": KEPT_OFF}
    shown[2]["Alive"] = False  # the one of CPUs alone
    assert place_of(dataset(), GPU_MODEL, {}).asked == {}


def test_labels_of_the_whole_dataset_are_asked_for_too(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    tables = dataset({"pool": "tables"})
    assert place_of(tables, [{"num_gpus": 1}, {"resources": {"tpu": 1}}], {}).asked == {}  # keep the models off as well
    shown.append(shown_by_ray(node(GONE, {"pool": "tables"}, CPU=8, GPU=8)))
    kept_off = {"pool": "tables", "ray.io/node-id": f"!in({GONE})"}
    assert place_of(tables, GPU_MODEL, {}).asked == {"label_selector": kept_off}
    monkeypatch.setattr(placement, "LABELS_WHOLE_DATASETS", False)  # where options have no such attribute
    del tables.context.execution_options.label_selector
    assert place_of(tables, GPU_MODEL, {}).asked == {"label_selector": {"ray.io/node-id": f"!in({GPU},{GONE})"}}


@pytest.mark.parametrize("place", [{"strategy": object()}, {"large": object()}], ids=", ".join)
def test_a_dataset_with_a_place_of_its_own_stays_there(shown: list[Any], place: dict[str, Any]) -> None:
    """Such as a placement group's, of which a task must not be told to keep off."""
    assert place_of(dataset(**place), GPU_MODEL, {"scheduling_strategy": "SPREAD"}).asked == {}


def test_labels_that_would_keep_a_task_from_being_fused_are_not_given(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "FUSES_LABELLED_TASKS", False)
    assert place_of(dataset(), GPU_MODEL, {}).asked == {}


def test_where_ray_does_not_run_yet_no_nodes_are_asked_for(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """`ray.nodes` would start it, or fail."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    assert place_of(dataset(), GPU_MODEL, {}).asked == {}


NO_NODES = {"label_selector": {"pool": "typo"}}


@pytest.mark.parametrize(
    ("models", "task", "why"),
    [
        ([{"num_cpus": 1}], {}, "no node is left on which no model may run and that has the CPUs and memory of a task"),
        (GPU_MODEL, {"num_cpus": 5}, "no node is left on which no model may run and that has the CPUs"),
        (
            GPU_MODEL,
            NO_NODES,
            "^No node has the labels {'pool': 'typo'} that late tasks ask for, so they wait until one joins",
        ),
    ],
    ids=["cpus", "no room", "no such label"],
)
def test_what_the_caller_may_not_expect(
    shown: list[Any], models: list[dict[str, Any]], task: dict[str, Any], why: str
) -> None:
    assert re.search(why, place_of(dataset(), models, task).warning)


def test_a_release_that_keeps_no_task_off_says_so(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "FUSES_LABELLED_TASKS", False)
    assert f"Ray {ray.__version__} does not keep tasks off nodes" in place_of(dataset(), GPU_MODEL, {}).warning


def test_there_is_no_warning_where_all_is_as_expected_or_cannot_be_otherwise(shown: list[Any]) -> None:
    assert not place_of(dataset(), GPU_MODEL, {}).warning
    assert not place_of(dataset(), [{"num_cpus": 1}], {"label_selector": {}}).warning
    assert not place_of(dataset(), GPU_MODEL, {"label_selector": {"pool": "tables"}}).warning
    falling_back = {**NO_NODES, "fallback_strategy": [{"label_selector": {"pool": "tables"}}]}
    assert not place_of(dataset(), GPU_MODEL, falling_back).warning
    assert not place_of(dataset(strategy=object()), [{"num_cpus": 1}], {}).warning
    shown.pop()  # one node with CPUs is left
    assert not place_of(dataset(), GPU_MODEL, {}).warning


def test_a_models_own_label_is_asked_for_in_the_place_of_the_datasets() -> None:
    nodes = [*NODES, node("d", {"pool": "others"}, CPU=2)]
    assert keeping_off(nodes, [{"label_selector": {"pool": "tables"}}], {}, {"pool": "others"}) == {
        "pool": "others",
        "ray.io/node-id": f"!in({CPU})",
    }


def test_the_steps_that_ask_nothing_are_ray_datas() -> None:
    operators = importlib.import_module("ray.data._internal.logical.operators")
    known = {name: getattr(operators, name, None) for name in STEPS_THAT_ASK_NOTHING}
    asked = {name for name, kind in known.items() if "ray_remote_args" in getattr(kind, "__dataclass_fields__", ())}
    assert not asked
    assert "ray_remote_args" in operators.MapBatches.__dataclass_fields__
    assert {name for name, kind in known.items() if kind is None} <= {"FromBlocks", "ListFiles"}  # which not all have
    assert not {"Sort", "Join", "Repartition", "Aggregate", "RandomShuffle"} & set(STEPS_THAT_ASK_NOTHING)


class InputData:
    """A step that asks Ray for nothing, by its name."""

    input_dependencies = ()


def step(*before: Any, compute: Any = None, function: Any = None, **asked: Any) -> Any:
    """One that reads or maps, as Ray Data keeps it."""
    return SimpleNamespace(
        input_dependencies=before, compute=compute, ray_remote_args_fn=function, ray_remote_args=asked
    )


def placed_steps(ds: Any, models: list[dict[str, Any]], task: dict[str, Any]) -> dict[str, str]:
    return labels_of_steps(ds, place_of(ds, models, task))


def to_run(last: Any, **settings: Any) -> Any:
    ds = dataset(**settings)
    ds._logical_plan = SimpleNamespace(dag=last)
    return ds


@pytest.mark.parametrize(
    "last",
    [
        InputData(),
        step(scheduling_strategy="SPREAD"),
        step(step(InputData(), num_cpus=4, memory=100), compute=TaskPoolStrategy(), num_gpus=0, resources={"tpu": 0}),
        step(num_cpus=0.5, label_selector=None, runtime_env={"env_vars": {}}),
    ],
    ids=["none", "read", "several", "small"],
)
def test_steps_that_may_run_anywhere_keep_off_the_nodes_of_models(shown: list[Any], last: Any) -> None:
    assert placed_steps(to_run(last), GPU_MODEL, {}) == KEPT_OFF


@pytest.mark.parametrize(
    "one",
    [
        step(num_gpus=0.5),
        step(resources={"tpu": 1}),
        step(accelerator_type="T4"),
        step(label_selector={"pool": "models"}),
        step(fallback_strategy=[{"label_selector": {"pool": "models"}}]),
        step(scheduling_strategy=NodeAffinitySchedulingStrategy(GPU, soft=True)),
        step(function=lambda: {"num_gpus": 1}),
        step(compute=ActorPoolStrategy(size=1)),  # which may hold all CPUs of the nodes that are left
        step(num_cpus=5),  # only the node of the models has as many
        step(memory=101),
        SimpleNamespace(input_dependencies=(), ray_remote_args={}),  # a shuffle, or a step of another release
        SimpleNamespace(),
    ],
    ids=[
        "gpu",
        "resource",
        "type",
        "labels",
        "fallback",
        "node",
        "function",
        "actors",
        "cpus",
        "memory",
        "shuffle",
        "?",
    ],
)
def test_one_step_that_has_or_may_have_a_place_of_its_own_leaves_all_to_ray(shown: list[Any], one: Any) -> None:
    assert placed_steps(to_run(one), GPU_MODEL, {}) == {}
    assert placed_steps(to_run(step(step(InputData()), one)), GPU_MODEL, {}) == {}


def test_steps_go_where_the_caller_sends_the_appending_task_by_labels_alone(shown: list[Any]) -> None:
    """And where all tasks of the dataset go."""
    shown.append(shown_by_ray(node(GONE, {"pool": "tables", "disk": "fast"}, CPU=2)))
    tables = {"label_selector": {"pool": "tables"}}
    assert placed_steps(to_run(step()), GPU_MODEL, tables) == {"pool": "tables"}
    fast = to_run(step(), labels={"disk": "fast"})
    assert placed_steps(fast, GPU_MODEL, tables) == {"disk": "fast", "pool": "tables"}
    assert placed_steps(to_run(step(), labels={"disk": "slow"}), GPU_MODEL, tables) == {}  # there is none
    assert placed_steps(to_run(step(), labels={"pool": "models"}), GPU_MODEL, tables) == {"pool": "tables"}
    assert placed_steps(to_run(step()), GPU_MODEL, {"label_selector": {}}) == {}
    assert placed_steps(to_run(step()), GPU_MODEL, {"resources": {"tpu": 1}}) == {}


def test_steps_are_left_to_ray_where_the_place_cannot_be_said(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {"label_selector": {"pool": "tables"}}
    assert placed_steps(to_run(step(), strategy=object()), GPU_MODEL, tables) == {}
    assert placed_steps(to_run(step()), [{"num_cpus": 1}], {}) == {}
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    assert placed_steps(to_run(step()), GPU_MODEL, tables) == {}
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    assert placed_steps(to_run(step()), GPU_MODEL, tables) == {"pool": "tables"}
    monkeypatch.setattr(steps, "LABELS_WHOLE_DATASETS", False)
    assert placed_steps(to_run(step()), GPU_MODEL, tables) == {}
