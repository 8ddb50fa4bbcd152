"""Where blocks are looked at and cut, and what is left of the dataset's settings."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import ray
import ray.data

from assay.errors import DataError
from assay.integrations.ray_data import blocks
from assay.integrations.ray_data.blocks import run, split

BLOCKS = [pa.table({"x": [1, 2], "text": ["a", "b"]}), pa.table({"x": [3], "text": ["c"]})]
OFF = {"ray.io/node-id": "!in(a)"}


class Task:
    """A remote function that runs at once, and notes what it was asked for."""

    def __init__(self, function: Callable[..., Any], told: list[dict[str, Any]]) -> None:
        self._function, self._told = function, told

    def options(self, **place: Any) -> Task:
        self._told.append(place)
        return self

    def remote(self, *args: Any) -> Any:
        return self._function(*args)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of each task that looks at a block or cuts it; blocks stand for their references."""
    options: list[dict[str, Any]] = []
    for name in ("_measure", "_cut"):
        monkeypatch.setattr(blocks, name, Task(getattr(blocks, name)._function, options))
    monkeypatch.setattr(blocks, "LABELS_WHOLE_DATASETS", True)
    monkeypatch.setattr(ray, "get", lambda refs: refs)
    monkeypatch.setattr(ray.data, "from_arrow_refs", Made)
    return options


class Settings(SimpleNamespace):
    """Of a dataset, as Ray Data keeps them."""

    def copy(self) -> Settings:
        return deepcopy(self)


def settings(labels: dict[str, str] | None = None, **others: Any) -> Settings:
    return Settings(execution_options=SimpleNamespace(label_selector=labels), **others)


def has_a_turn() -> bool:
    """Whether this thread may change a dataset's settings now."""
    if not blocks._TURN.acquire(blocking=False):
        return False
    blocks._TURN.release()
    return True


class Made:
    """A dataset of these tables, with the settings of the process."""

    def __init__(self, tables: list[pa.Table]) -> None:
        self.table = pa.concat_tables(tables)
        self.context = settings({"pool": "of the process"})


class Data:
    """A dataset that has run; it notes the labels that its own tasks are given."""

    def __init__(self, tables: list[pa.Table], labels: dict[str, str] | None = None) -> None:
        self.context = settings(labels)
        self.labels_of_tasks: Any = "it was not asked"
        self._tables = tables

    def to_arrow_refs(self) -> list[pa.Table]:
        self.labels_of_tasks = getattr(self.context.execution_options, "label_selector", "there are none")
        return self._tables

    def materialize(self) -> Data:
        """As Ray Data does it, with a copy of the settings."""
        labels = getattr(self.context.execution_options, "label_selector", "there are none")
        self.labels_of_tasks = labels
        with ThreadPoolExecutor(1) as other:
            self.others_wait = not other.submit(has_a_turn).result()
        return Data(self._tables, labels)


def test_the_narrow_part_and_the_numbers_of_rows_are_cut_off(told: list[Any]) -> None:
    ds: Any = Data([BLOCKS[0], BLOCKS[0].slice(0, 0), BLOCKS[1]])
    narrow, wide = split(ds, ["x", "x", "absent"], {})
    found: Any = narrow
    assert found.table.to_pydict() == {"x": [1, 2, 3], "row_number": [0, 1, 2]}
    assert (wide.starts.tolist(), wide.schema.names, wide.row_column) == ([0, 2, 3], ["x", "text"], "row_number")
    assert told == [{}] * 5  # three are looked at, two have rows
    assert ds.labels_of_tasks is None


@pytest.mark.parametrize(
    ("place", "strategy"),
    [
        ({"label_selector": OFF}, "DEFAULT"),  # not the placement group of who calls, which may be the models'
        ({"resources": {"maker": 1}}, "DEFAULT"),
        ({"scheduling_strategy": "a node"}, "a node"),
    ],
)
def test_all_tasks_go_where_they_are_told(told: list[Any], place: dict[str, Any], strategy: str) -> None:
    ds: Any = Data(BLOCKS)
    split(ds, ["x"], place)
    assert told == [{**place, "scheduling_strategy": strategy}] * 4


def test_what_is_left_has_the_settings_of_the_dataset_and_not_those_of_the_process(told: list[Any]) -> None:
    """A placement group for its tasks, say."""
    ds: Any = Data(BLOCKS)
    ds.context = settings({"pool": "tables"}, scheduling_strategy="a group", max_errored_blocks=7)
    narrow, _ = split(ds, ["x"], {})
    assert narrow.context == ds.context
    narrow.context.execution_options.label_selector = None
    assert ds.context.execution_options.label_selector == {"pool": "tables"}


def test_tasks_of_ray_data_go_there_too_and_its_settings_are_put_back(told: list[Any]) -> None:
    ds: Any = Data(BLOCKS, {"pool": "tables"})
    split(ds, ["x"], {"label_selector": OFF})
    assert ds.labels_of_tasks == OFF
    assert ds.context.execution_options.label_selector == {"pool": "tables"}


def test_a_dataset_runs_where_it_is_told_and_nothing_of_it_is_left_in_its_settings_or_those_of_what_has_run(
    told: list[Any],
) -> None:
    ds: Any = Data(BLOCKS, {"pool": "tables"})
    kept = run(ds, OFF)
    assert ds.labels_of_tasks == OFF
    assert ds.others_wait  # threads would each put back what another has set
    assert ds.context.execution_options.label_selector == {"pool": "tables"}
    assert kept.context.execution_options.label_selector == {"pool": "tables"}
    run(ds, {})
    assert ds.labels_of_tasks == {"pool": "tables"}


def test_a_dataset_may_run_while_another_does(told: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As where reading one is planned by running the other."""
    outer: Any = Data(BLOCKS)
    inner: Any = Data(BLOCKS)
    materialize = outer.materialize
    monkeypatch.setattr(outer, "materialize", lambda: (run(inner, OFF), materialize())[1])
    run(outer, OFF)
    assert (inner.labels_of_tasks, outer.labels_of_tasks) == (OFF, OFF)
    assert outer.context.execution_options.label_selector is None


def test_settings_are_put_back_after_a_failure(told: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    ds: Any = Data(BLOCKS, {"pool": "tables"})

    def fails() -> None:
        raise ValueError("no frame")

    monkeypatch.setattr(ds, "to_arrow_refs", fails)
    with pytest.raises(ValueError, match=r"^no frame$"):
        split(ds, ["x"], {"label_selector": OFF})
    assert ds.context.execution_options.label_selector == {"pool": "tables"}


def test_releases_without_such_settings_are_left_alone(told: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LABELS_WHOLE_DATASETS", False)
    ds: Any = Data(BLOCKS)
    del ds.context.execution_options.label_selector
    split(ds, ["x"], {"label_selector": OFF})
    assert ds.labels_of_tasks == "there are none"
    run(ds, OFF)
    assert ds.labels_of_tasks == "there are none"
    assert not hasattr(ds.context.execution_options, "label_selector")


def test_data_that_cannot_be_split(told: list[Any]) -> None:
    empty: Any = Data([BLOCKS[0].slice(0, 0)])
    with pytest.raises(DataError, match=r"^The dataset has no rows, so there is nothing to score\.$"):
        split(empty, ["x"], {})
    numbered: Any = Data([pa.table({"row_number": [1]})])
    with pytest.raises(DataError, match=r"^The dataset has a column 'row_number', which late=True needs for itself\. "):
        split(numbered, [], {})
