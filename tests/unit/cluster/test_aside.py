"""How many tasks may be out beside the workers of a run, as nodes and workers come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import ray
from ray.exceptions import NodeDiedError, RayTaskError

from assay.cluster import aside
from assay.cluster.aside import TasksAside
from assay.cluster.nodes import Node, Taken
from assay.errors import DataError, RunError
from assay.records import Machine, Worked
from assay.spec.model import WorkersSpec


class Tasks:
    """Tasks that end when the test says so; a call is a number."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Any]] = []  # Any: items and Ray's options
        self.ended: dict[int, Worked | Exception] = {}
        self.given_up: list[int] = []

    def see(self, known: Sequence[Node]) -> None: ...

    def ask(self, work: Any, item: Any, options: Any) -> int:
        self.asked.append((item, options))
        return len(self.asked) - 1

    def told(self, number: int, call: int, task: str) -> Worked:
        found = self.ended[call]
        if isinstance(found, Exception):
            raise found
        return Worked(number, found.result, found.machine, found.seconds)

    def wait(self, calls: list[int], num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        ready = [call for call in calls if call in self.ended][:num_returns]
        return ready, [call for call in calls if call not in ready]


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Tasks:
    found = Tasks()
    monkeypatch.setattr(aside, "Tasks", lambda: found)
    monkeypatch.setattr(aside, "give_up", found.given_up.append)
    monkeypatch.setattr(ray, "wait", found.wait)
    return found


GPU = Node("gpu", {"CPU": 8.0, "GPU": 4.0})
CPU = Node("cpu", {"CPU": 6.0})


def beside(taken: Taken | None, workers: WorkersSpec | None = None) -> TasksAside:
    found = TasksAside(workers or WorkersSpec())
    found.watch(lambda: taken)
    return found


def done(result: int) -> Worked:
    return Worked(0, result, Machine("cpu"), 2.0)


def test_there_is_room_for_as_many_as_there_are_cpus_that_no_worker_holds(tasks: Tasks) -> None:
    found = beside(Taken((GPU, CPU), {"gpu": 4.0}))
    assert found.room() == 10
    for number in range(10):
        found.begin(_work, number, f"item {number}")
    assert found.room() == 0
    tasks.ended[3] = done(9)
    assert [one.number for one in found.done()] == [3]
    assert found.room() == 1


def test_before_a_run_and_after_it_and_while_a_worker_waits_for_its_place_there_is_none(tasks: Tasks) -> None:
    found = TasksAside(WorkersSpec())
    assert found.room() == 0
    found.watch(lambda: None)
    assert found.room() == 0
    found.watch(lambda: Taken((CPU,), {}))
    assert found.room() == 6
    found.watch(None)
    assert found.room() == 0


def test_where_workers_hold_all_cpus_there_is_none(tasks: Tasks) -> None:
    assert beside(Taken((CPU,), {"cpu": 6.0})).room() == 0
    assert beside(Taken((CPU,), {"cpu": 5.5})).room() == 0
    assert beside(Taken((CPU,), {"cpu": 2.0}, apart=3.0)).room() == 1
    assert beside(Taken((CPU, GPU), {"cpu": 5.5, "gpu": 7.5})).room() == 0  # halves on two nodes are no CPU


def test_a_cluster_that_grows_has_more_and_a_node_that_is_drained_none(tasks: Tasks) -> None:
    nodes: list[tuple[Node, ...]] = [(GPU,)]
    found = TasksAside(WorkersSpec())
    found.watch(lambda: Taken(nodes[-1], {"gpu": 8.0}))
    assert found.room() == 0
    nodes.append((GPU, CPU))
    assert found.room() == 6
    nodes.append((GPU, Node("cpu", {"CPU": 6.0}, draining=True)))
    assert found.room() == 0


def test_what_others_hold_is_not_free_but_what_its_own_tasks_hold_is_counted_once(tasks: Tasks) -> None:
    nodes: list[tuple[Node, ...]] = [(Node("cpu", {"CPU": 6.0}, free={"CPU": 3.0}),)]
    found = TasksAside(WorkersSpec())
    found.watch(lambda: Taken(nodes[-1], {"cpu": 1.0}))
    assert found.room() == 3
    for number in range(2):
        found.begin(_work, number, number)
    assert found.room() == 1
    nodes.append((Node("cpu", {"CPU": 6.0}, free={"CPU": 1.0}),))  # as Ray sees it with these two
    assert found.room() == 1


def test_it_runs_where_merging_does(tasks: Tasks) -> None:
    spot = Node("gpu", {"CPU": 8.0}, {"ray.io/market-type": "spot"})
    found = beside(Taken((spot, CPU), {}))
    assert found.room() == 6
    found.begin(_work, 0, "item")
    assert tasks.asked == [("item", {"num_cpus": 1.0, "label_selector": {"ray.io/market-type": "!spot"}})]
    labelled = beside(Taken((spot, CPU), {}), WorkersSpec(reduce_labels={"disk": "fast"}))
    assert labelled.room() == 0


def test_what_the_work_raised_is_raised_and_the_next_call_tells_of_the_others(tasks: Tasks) -> None:
    found = beside(Taken((CPU,), {}))
    assert found.room() == 6
    for number in range(4):
        found.begin(_work, number, number)
    tasks.ended = {0: done(0), 1: DataError("The column 'p' cannot be written."), 3: done(3)}
    with pytest.raises(DataError, match=r"^The column 'p' cannot be written\.$"):
        found.done()
    assert [one.number for one in found.done()] == [0, 3]
    found.close()
    assert tasks.given_up == [2]


def test_one_that_was_lost_again_and_again_is_told_without_a_result(tasks: Tasks) -> None:
    found = beside(Taken((CPU,), {}))
    found.room()
    found.begin(_work, 7, "item")
    lost = RunError("A task failed.")
    lost.__cause__ = NodeDiedError("its node died")
    tasks.ended = {0: lost}
    [told] = found.done()
    assert (told.number, told.result, told.lost) == (7, None, "its node died")


def test_any_other_error_in_a_task_ends_the_run_with_a_sentence(tasks: Tasks) -> None:
    found = beside(Taken((CPU,), {}))
    found.room()
    found.begin(_work, 0, "item")
    raised = RunError("A task failed.")
    raised.__cause__ = RayTaskError("f", "the traceback", KeyError("p"))  # type: ignore[no-untyped-call]
    tasks.ended = {0: raised}
    with pytest.raises(RunError) as caught:
        found.done()
    assert str(caught.value) == "A task beside the workers failed: KeyError: 'p'. What is committed stays."


def _work(item: Any) -> Any:
    return item


_work.base, _work.workers = "", WorkersSpec()  # type: ignore[attr-defined]
