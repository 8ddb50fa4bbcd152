"""Delta tables: one transaction of exactly the run's parts, once."""

from __future__ import annotations

import pickle
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from assay.build import sink
from assay.errors import DataError, RunError
from assay.protocols import Sink
from assay.records import PartFile, SinkSettings
from assay.sinks import delta

ROWS = pa.table({"id": pa.array([2**60, 1, 2, 3], pa.int64()), "k": ["a/b", None, "é 100%", "a/b"]})


def opened(path: Path, run: str = "run 1", partition_by: tuple[str, ...] = ()) -> Sink:
    return sink(SinkSettings("delta", str(path), run, partition_by))


def begun(path: Path, run: str = "run 1", partition_by: tuple[str, ...] = ()) -> tuple[Sink, tuple[PartFile, ...]]:
    """A sink with its parts written; those of the run u1 and u2."""
    to = opened(path, run, partition_by)
    to.begin(ROWS.schema)
    halves = {"u1": ROWS.slice(0, 2), "u2": ROWS.slice(2)}
    parts = [file for part, rows in halves.items() for file in to.write(part, ROWS.schema, rows.to_batches())]
    return to, tuple(parts)


def rows_of(path: Path) -> list[dict[str, object]]:
    table = pa.table(pl.read_delta(str(path)).select("id", "k").to_arrow())
    return table.sort_by("id").to_pylist()


@pytest.mark.parametrize("partition_by", [(), ("k",)])
def test_rows_are_there_after_the_commit_and_not_before(tmp_path: Path, partition_by: tuple[str, ...]) -> None:
    to, parts = begun(tmp_path, partition_by=partition_by)
    assert DeltaTable(str(tmp_path)).version() == 0
    assert rows_of(tmp_path) == []
    to.commit(parts, ROWS.schema)
    assert rows_of(tmp_path) == ROWS.sort_by("id").to_pylist()
    table = DeltaTable(str(tmp_path))
    assert table.version() == 1
    assert table.to_pyarrow_table().sort_by("id").select(["id", "k"]).to_pylist() == ROWS.sort_by("id").to_pylist()
    assert table.history(1)[0]["assay.run"] == "run 1"


def test_a_second_commit_adds_nothing(tmp_path: Path) -> None:
    to, parts = begun(tmp_path)
    to.commit(parts, ROWS.schema)
    again, same = begun(tmp_path)
    assert same == parts
    again.commit(same, ROWS.schema)
    pickle.loads(pickle.dumps(to)).commit(parts, ROWS.schema)
    assert DeltaTable(str(tmp_path)).version() == 1
    assert len(rows_of(tmp_path)) == 4


def test_another_run_adds_its_rows_to_the_table(tmp_path: Path) -> None:
    for run in ("run 1", "run 2"):
        to, parts = begun(tmp_path, run)
        to.commit(parts, ROWS.schema)
    assert len(rows_of(tmp_path)) == 8


def test_of_two_drivers_that_commit_at_once_one_adds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to, parts = begun(tmp_path)
    add, calls = delta.DeltaSink._add, list[int]()

    def late(self: delta.DeltaSink, table: DeltaTable, some: tuple[PartFile, ...]) -> None:
        """The other driver commits between this one's look at the table and its own commit."""
        calls.append(1)
        if len(calls) == 1:
            to.commit(parts, ROWS.schema)
        add(self, table, some)

    monkeypatch.setattr(delta.DeltaSink, "_add", late)
    opened(tmp_path).commit(parts, ROWS.schema)
    assert len(calls) == 2
    assert DeltaTable(str(tmp_path)).version() == 1
    assert len(rows_of(tmp_path)) == 4


def test_rows_that_others_add_meanwhile_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to, parts = begun(tmp_path)
    add = delta.DeltaSink._add

    def late(self: delta.DeltaSink, table: DeltaTable, some: tuple[PartFile, ...]) -> None:
        write_deltalake(str(tmp_path), ROWS.slice(0, 1), mode="append")
        add(self, table, some)

    monkeypatch.setattr(delta.DeltaSink, "_add", late)
    to.commit(parts, ROWS.schema)
    assert len(rows_of(tmp_path)) == 5


def test_a_table_that_changes_at_each_try_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to, parts = begun(tmp_path)

    def overtaken(self: delta.DeltaSink, table: DeltaTable, some: tuple[PartFile, ...]) -> None:
        raise delta.CommitFailedError("Metadata changed since last commit.")

    monkeypatch.setattr(delta.DeltaSink, "_add", overtaken)
    sentence = (
        f"The Delta table {tmp_path} was changed by others at each of 5 tries to add the run's 2 parts (Metadata "
        "changed since last commit). Nothing was added; resume the run once they are done."
    )
    with pytest.raises(RunError) as refused:
        to.commit(parts, ROWS.schema)
    assert str(refused.value) == sentence
    assert rows_of(tmp_path) == []


def test_a_run_without_rows_leaves_an_empty_table(tmp_path: Path) -> None:
    to = opened(tmp_path)
    to.begin(ROWS.schema)
    to.commit((), ROWS.schema)
    to.commit((), ROWS.schema)
    assert rows_of(tmp_path) == []


def test_a_table_with_other_columns_is_refused_before_the_first_part(tmp_path: Path) -> None:
    old = pa.table({"id": pa.array([1], pa.int32()), "other": ["x"]})
    write_deltalake(str(tmp_path), old)
    sentence = (
        f"The Delta table {tmp_path} does not fit the output: it has no column 'k', which the output has, it has a "
        "column 'other', which the output has not, it has 'id' as int32, not as int64. Name another table."
    )
    with pytest.raises(DataError) as refused:
        opened(tmp_path).begin(ROWS.schema)
    assert str(refused.value) == sentence


def test_a_table_that_takes_no_null_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), pa.schema([pa.field("id", pa.int64(), nullable=False), ("k", pa.string())]))
    with pytest.raises(DataError, match=r"it takes no null in 'id'\. Name another table\.$"):
        opened(tmp_path).begin(ROWS.schema)


def test_a_table_with_other_partitions_is_refused(tmp_path: Path) -> None:
    begun(tmp_path, partition_by=("k",))
    sentence = (
        f"The Delta table {tmp_path} is partitioned by 'k', and predictions.partition_by says nothing. Make them the "
        "same, or name another table."
    )
    with pytest.raises(DataError) as refused:
        opened(tmp_path).begin(ROWS.schema)
    assert str(refused.value) == sentence


def test_a_table_that_is_gone_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunError) as refused:
        opened(tmp_path / "t").commit((), ROWS.schema)
    assert str(refused.value) == f"The Delta table {tmp_path}/t is gone since the run began. Begin a new run."


def test_parts_are_found_before_the_commit_and_after_it(tmp_path: Path) -> None:
    to, parts = begun(tmp_path / "t", partition_by=("k",))
    paths = {part.path for part in parts}
    assert paths == {path for path in to.found() if "part-" in path}
    to.commit(parts, ROWS.schema)
    assert paths <= set(to.found())
