"""Who fits where on a Ray cluster, and what is said where nobody does."""

from __future__ import annotations

from typing import Any

import pytest

from assay.cluster.driver import cpus_of
from assay.cluster.nodes import (
    Demand,
    Node,
    lack,
    matches,
    most_workers,
    of_task,
    of_worker,
    options,
    reducing,
    room,
    share,
)
from assay.errors import RunError
from assay.spec.model import DataSpec, PrepareSpec, Spec, VariantSpec, WorkersSpec

SPOT, KEPT = {"ray.io/market-type": "spot"}, {"ray.io/market-type": "on-demand"}
GPU = Demand(1.0, 1.0)


def node(number: int, cpus: float, gpus: float = 0.0, labels: dict[str, str] | None = None, **others: float) -> Node:
    return Node(f"n{number}", {"CPU": cpus, "GPU": gpus, **others}, labels or {})


# ---- labels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "suits"),
    [
        ("spot", True),
        ("on-demand", False),
        ("!spot", False),
        ("!on-demand", True),
        ("in(on-demand, spot)", True),
        ("in(a,b)", False),
        ("!in(a,b)", True),
        ("!in(a,spot)", False),
    ],
)
def test_selectors_are_read_as_ray_does(value: str, suits: bool) -> None:
    assert matches(SPOT, {"ray.io/market-type": value}) is suits


def test_a_node_without_the_label_suits_what_negates_it() -> None:
    assert matches({}, {"zone": "!a"})
    assert matches({}, {"zone": "!in(a,b)"})
    assert not matches({}, {"zone": "a"})
    assert matches({"zone": "a"}, {})


def test_all_labels_must_match() -> None:
    assert matches({"zone": "a", "disk": "fast"}, {"zone": "a", "disk": "fast"})
    assert not matches({"zone": "a"}, {"zone": "a", "disk": "fast"})


# ---- placement -------------------------------------------------------------------------------------------------------


def test_without_labels_anywhere_nothing_is_selected() -> None:
    asked = options(Demand(2.0, 0.5, {"disk": 1.0}), [node(0, 8)])
    assert asked == {"num_cpus": 2.0, "num_gpus": 0.5, "resources": {"disk": 1.0}}


def test_spot_nodes_are_preferred_where_there_are_any() -> None:
    asked = options(Demand(), [node(0, 8, labels=KEPT), node(1, 8, labels=SPOT)])
    assert asked["label_selector"] == {"ray.io/market-type": "spot"}
    assert asked["fallback_strategy"] == [{"label_selector": {}}]
    assert "label_selector" not in options(Demand(), [node(0, 8, labels=KEPT)])


def test_labels_that_are_asked_for_are_required() -> None:
    asked = options(Demand(labels={"zone": "a"}), [node(0, 8, labels=SPOT)])
    assert asked["label_selector"] == {"zone": "a"}
    assert "fallback_strategy" not in asked


def test_states_are_merged_on_nodes_that_stay() -> None:
    both = [node(0, 8, labels=SPOT), node(1, 2, labels=KEPT)]
    assert reducing(WorkersSpec(), 1.0, both) == {"num_cpus": 1.0, "label_selector": {"ray.io/market-type": "!spot"}}


def test_states_are_merged_anywhere_where_no_node_that_stays_has_room() -> None:
    """As where the head of a Ray cluster has no CPUs for tasks, and all others are spot."""
    assert reducing(WorkersSpec(), 1.0, [node(0, 0), node(1, 8, labels=SPOT)]) == {"num_cpus": 1.0}
    assert reducing(WorkersSpec(), 1.0, [node(0, 8)]) == {"num_cpus": 1.0}


def test_labels_for_merging_are_required() -> None:
    asked = reducing(WorkersSpec(reduce_labels={"pool": "kept"}), 2.0, [node(0, 8, labels=SPOT)])
    assert asked == {"num_cpus": 2.0, "label_selector": {"pool": "kept"}}


def test_a_task_asks_for_the_most_that_any_of_its_preparations_does() -> None:
    tokens = PrepareSpec(function="f:g", inputs=("x",), num_cpus=2, resources={"ram": 1.0}, labels={"zone": "a"})
    images = PrepareSpec(function="f:h", inputs=("x",), num_cpus=0.5, resources={"ram": 3.0, "disk": 1.0})
    assert of_task([tokens, images]) == Demand(2.0, 0.0, {"ram": 3.0, "disk": 1.0}, {"zone": "a"})


def test_preparations_of_one_task_cannot_ask_for_different_nodes() -> None:
    specs = [PrepareSpec(function="f:g", inputs=("x",), labels={"zone": zone}) for zone in "ab"]
    sentence = (
        "One task does all preparations of a unit, and these ask for nodes whose label 'zone' is 'a' and 'b'. Give "
        "them the same labels."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        of_task(specs)


# ---- counting --------------------------------------------------------------------------------------------------------


def test_the_scarcest_resource_of_a_node_decides() -> None:
    one = node(0, 8, 2, disk=5)
    assert room(one, Demand()) == 8
    assert room(one, GPU) == 2
    assert room(one, Demand(1.0, 0.25)) == 8
    assert room(one, Demand(1.0, 0.5)) == 4
    assert room(one, Demand(3.0)) == 2
    assert room(one, Demand(1.0, 0.0, {"disk": 2.0})) == 2
    assert room(one, Demand(1.0, 0.0, {"tape": 1.0})) == 0
    assert room(node(0, 0.3), Demand(0.1)) == 3  # though 0.3 / 0.1 is a little less in floating point


def test_only_nodes_that_suit_and_stay_have_room() -> None:
    assert room(node(0, 8, labels=KEPT), Demand(labels={"ray.io/market-type": "!spot"})) == 8
    assert room(node(0, 8, labels=SPOT), Demand(labels={"ray.io/market-type": "!spot"})) == 0
    assert room(Node("n", {"CPU": 8.0}, draining=True), Demand()) == 0


def test_workers_fill_each_node_by_itself() -> None:
    """Two halves of a worker on two nodes are none."""
    assert most_workers([node(0, 3), node(1, 3)], Demand(2.0)) == 2
    assert most_workers([node(0, 8), node(1, 8, 1)], GPU) == 1


def test_one_is_asked_for_where_none_fits_now() -> None:
    assert most_workers([node(0, 8)], GPU) == 1
    assert most_workers([], Demand()) == 1


def test_tasks_take_the_places_that_workers_need_least() -> None:
    apart = [node(0, 4), node(1, 4, 1)]
    assert most_workers(apart, GPU, Demand(), 4) == 1
    assert most_workers([node(0, 4)], Demand(), Demand(), 3) == 1
    assert most_workers([node(0, 8), node(1, 8)], Demand(2.0), Demand(), 3) == 6  # of 8: three CPUs cost two
    assert most_workers([node(0, 4)], Demand(), Demand(labels={"zone": "a"}), 3) == 4  # tasks do not fit there


def test_a_worker_pays_the_larger_of_its_shares_of_a_node() -> None:
    assert share(node(0, 8, 2), Demand()) == 1 / 8
    assert share(node(0, 8, 2), GPU) == 1 / 2
    assert share(node(0, 8, 4), Demand(4.0, 0.5)) == 1 / 2
    assert share(node(0, 8), Demand(0.0)) == 1.0  # nothing is known of what it takes


# ---- sentences -------------------------------------------------------------------------------------------------------


def test_what_is_lacking_is_said() -> None:
    known = [
        Node("n0", {"CPU": 8.0}, free={"CPU": 3.0}),
        Node("n1", {"CPU": 4.0, "GPU": 1.0}, free={"CPU": 1.0, "GPU": 0.5}, draining=True),
    ]
    assert lack(GPU, known) == (
        "A worker needs 1 CPU and 1 GPU; the Ray cluster has 12 CPUs and 1 GPU, of which 4 and 0.5 are free, and "
        "1 node is being drained."
    )
    assert lack(Demand(0.0, 0.0, {"disk": 2.0}), known) == (
        "A worker needs 2 of 'disk'; the Ray cluster has 0 of 'disk', of which 0 are free, and 1 node is being drained."
    )


def test_only_nodes_with_the_labels_that_are_asked_for_count() -> None:
    known = [Node("n0", {"CPU": 8.0}, {"zone": "a"}, {"CPU": 3.0}), Node("n1", {"CPU": 4.0}, {}, {"CPU": 4.0})]
    assert lack(Demand(labels={"zone": "a"}), known) == (
        "A worker needs 1 CPU on a node with zone=a; the Ray cluster has 1 such node with 8 CPUs, of which 3 are free."
    )


def test_what_ray_does_not_tell_is_not_said() -> None:
    assert lack(Demand(), [node(0, 8)]) == "A worker needs 1 CPU; the Ray cluster has 8 CPUs."


def test_the_default_of_the_spec_is_one_cpu() -> None:
    assert of_worker(WorkersSpec()) == Demand(1.0, 0.0, {}, {})


# ---- a cluster of its own --------------------------------------------------------------------------------------------


def spec(**more: Any) -> Spec:
    return Spec(data=DataSpec(path="data.parquet"), variants=(VariantSpec(name="a", column="p"),), **more)


def test_a_cluster_of_its_own_has_room_for_all_workers_and_tasks() -> None:
    assert cpus_of(spec(), 3) == 3
    assert cpus_of(spec(workers=WorkersSpec(num_cpus=1.5)), 3) == 5
    assert cpus_of(spec(workers=WorkersSpec(num_cpus=0)), 3) == 1
    tokens = PrepareSpec(function="f:g", inputs=("x",), tasks=4, num_cpus=0.5)
    here = PrepareSpec(function="f:g", inputs=("x",), num_cpus=8)
    assert cpus_of(spec(prepare={"tokens": tokens, "here": here}), 3) == 5
