"""Waiting for blocks that may be gone, and telling whether one is what it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import ray
from ray.exceptions import GetTimeoutError, ObjectLostError

from assay.errors import DataError, RunError
from assay.integrations.ray_data import fetching
from assay.integrations.ray_data.fetching import Expected, check_block, fetched, marks_of, num_lost, patience_for

BLOCK = pa.table(
    {
        "x": pa.array([1.5, None, 3.0]),
        "word": pa.array(["a", None, "b"]).dictionary_encode(),
        "image": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12).reshape(3, 2, 2)),
        "nested": [[{"a": 1}], None, []],
        "nothing": pa.nulls(3),
    }
)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What `ray.get` gives next, or raises; all of it has to be asked for."""
    left: list[Any] = []

    def get(wanted: str, timeout: float) -> Any:
        assert (wanted, timeout) == ("block", 7.0)
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(ray, "get", get)
    yield left
    assert not left


def missing(*numbers: int) -> Any:
    """As many blocks are gone as each time is said."""
    return iter(numbers).__next__


def test_it_waits_as_long_as_blocks_come_back(answers: list[Any]) -> None:
    answers += [GetTimeoutError(), GetTimeoutError(), GetTimeoutError(), "rows"]
    assert fetched("block", missing(5, 4, 1), "Rows 0 to 9", 7.0) == "rows"


def test_a_worker_gives_up_where_none_does(answers: list[Any]) -> None:
    answers += [GetTimeoutError(), GetTimeoutError(), GetTimeoutError()]
    with pytest.raises(RunError) as caught:
        fetched("block", missing(3, 2, 2), "Rows 0 to 9", 7.0)
    assert str(caught.value) == (
        "Rows 0 to 9 of the dataset have not come for 21 seconds. 2 blocks of it went with their nodes, and none is "
        "made again: the workers may hold all CPUs of the Ray cluster. Name fewer `workers`, so that one stays free. "
        "Write the dataset to Parquet (ds.write_parquet) and evaluate the files where that is no way."
    )


def test_where_nothing_is_gone_it_waits_for_longer(answers: list[Any]) -> None:
    answers += [GetTimeoutError(), GetTimeoutError(), GetTimeoutError(), "rows"]
    assert fetched("block", missing(0, 0, 0), "Rows 0 to 9", 7.0) == "rows"


def test_nothing_is_gone_and_nothing_comes(answers: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MOST_PATIENCE_SECONDS", 20.0)
    answers += [GetTimeoutError(), GetTimeoutError(), GetTimeoutError()]
    with pytest.raises(RunError) as caught:
        fetched("block", missing(0, 0, 0), "Rows 0 to 9", 7.0)
    assert str(caught.value) == (
        "Rows 0 to 9 of the dataset have not come for 21 seconds, though Ray names no block that is gone: a node may "
        "be out of reach, or an object store full. `ray status` shows the nodes, `ray memory --stats-only` the object "
        "stores. Where one is full, start the nodes with a larger one (`ray start --object-store-memory`), or name "
        "fewer `workers`. Write the dataset to Parquet (ds.write_parquet) and evaluate the files where that is no way."
    )


def test_one_wait_is_enough_where_it_is_the_longest_and_nothing_is_gone(
    answers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "MOST_PATIENCE_SECONDS", 7.0)
    answers.append(GetTimeoutError())
    with pytest.raises(RunError, match=r"^Rows 0 to 9 of the dataset have not come for 7 seconds, though Ray names "):
        fetched("block", missing(0), "Rows 0 to 9", 7.0)


def test_after_however_long_it_waits_for_a_second_count(answers: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One count does not tell whether lost blocks come back, and where the last one just did, rows may follow."""
    monkeypatch.setattr(fetching, "MOST_PATIENCE_SECONDS", 7.0)
    answers += [GetTimeoutError(), GetTimeoutError(), "rows"]
    assert fetched("block", missing(2, 0), "Rows 0 to 9", 7.0) == "rows"


def test_what_cannot_be_made_again_is_said(answers: list[Any]) -> None:
    answers.append(ObjectLostError("ab" * 28, None, ""))
    with pytest.raises(
        DataError, match=r"^Rows 0 to 9 of the dataset cannot be had: a block went with its node, and Ray "
    ):
        fetched("block", missing(), "Rows 0 to 9", 7.0)


def test_patience_is_what_the_dataset_took_within_limits() -> None:
    assert [patience_for(seconds) for seconds in (1.0, 100.0, 5000.0)] == [30.0, 100.0, 600.0]


def expected() -> Expected:
    return Expected(BLOCK.num_rows, marks_of(BLOCK, BLOCK.column_names))


def test_a_block_is_known_again_by_its_values() -> None:
    check_block(BLOCK, expected())
    in_chunks = pa.concat_tables([BLOCK.slice(0, 1), BLOCK.slice(1)])
    assert in_chunks["x"].num_chunks == 2
    check_block(in_chunks, expected())
    check_block(BLOCK, Expected(3, {}))
    check_block(BLOCK.slice(0, 0), Expected(0, marks_of(BLOCK.slice(0, 0), ["x", "image"])))


def test_what_lies_under_a_null_is_no_value() -> None:
    garbage = pa.Array.from_buffers(
        pa.float64(), 3, [BLOCK["x"].chunk(0).buffers()[0], pa.py_buffer(np.array([1.5, 99.0, 3.0]))]
    )
    check_block(BLOCK.set_column(0, "x", garbage), expected())


@pytest.mark.parametrize(
    ("other", "how"),
    [
        (BLOCK.slice(0, 2), "has 2 rows where it had 3"),
        (BLOCK.set_column(0, "x", pa.array([1.5, None, 3.5])), "has other values of 'x'"),
        (BLOCK.set_column(0, "x", pa.array([1.5, 0.0, 3.0])), "has other values of 'x'"),
        (BLOCK.set_column(1, "word", pa.array(["b", None, "a"]).dictionary_encode()), "has other values of 'word'"),
    ],
)
def test_other_rows_are_found(other: pa.Table, how: str) -> None:
    with pytest.raises(DataError) as caught:
        check_block(other, expected())
    assert str(caught.value) == (
        f"A block of the dataset was lost with its node, was made again, and {how}: a step of the dataset gives other "
        "rows each time, so that some would count twice and others never. Give that step a seed. Write the dataset to "
        "Parquet (ds.write_parquet) and evaluate the files where it has none."
    )


def test_few_rows_of_many_are_looked_at() -> None:
    """First, last, and others between: an order that changes is found."""
    rows = np.arange(100_000)
    table = pa.table({"x": rows})
    marks = marks_of(table, ["x"])
    assert marks == marks_of(pa.table({"x": rows.copy()}), ["x"])
    assert marks != marks_of(pa.table({"x": np.random.default_rng(0).permutation(rows)}), ["x"])
    assert fetching.MARKED_ROWS == 16


def test_where_blocks_are_is_unknown_where_ray_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    places: dict[str, Any] = {"a": {"node_ids": ["n"]}, "b": {"node_ids": []}}
    monkeypatch.setattr(
        fetching, "get_object_locations", lambda blocks, timeout_ms: {one: places[one] for one in blocks}
    )
    assert num_lost(["a", "b"]) == 1

    def silent(blocks: Any, timeout_ms: int) -> Any:
        raise GetTimeoutError

    monkeypatch.setattr(fetching, "get_object_locations", silent)
    assert num_lost(["a", "b"]) is None
