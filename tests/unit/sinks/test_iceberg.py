"""Iceberg tables: one snapshot of exactly the run's parts, once. The catalog is one of SQLite."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from assay.build import sink
from assay.errors import DataError, RunError
from assay.records import PartFile, SinkSettings
from assay.sinks.iceberg import IcebergSink

ROWS = pa.table({"id": pa.array([2**60, 1, 2, 3], pa.int64()), "k": ["a/b", None, "é 100%", "a/b"]})
Opened = Callable[..., IcebergSink]


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}


@pytest.fixture
def catalog(properties: dict[str, str]) -> Iterator[Catalog]:
    with closing(load_catalog("local", **properties)) as made:
        made.create_namespace("scores")
        yield made


@pytest.fixture
def opened(catalog: Catalog, properties: dict[str, str]) -> Opened:
    def open_it(run: str = "run 1", partition_by: tuple[str, ...] = (), to: str = "local.scores.t") -> IcebergSink:
        made = sink(SinkSettings("iceberg", to, run, partition_by))
        assert isinstance(made, IcebergSink)
        return replace(made, catalog=properties)

    return open_it


def parts_of(to: IcebergSink) -> tuple[PartFile, ...]:
    to.begin(ROWS.schema)
    halves = {"u1": ROWS.slice(0, 2), "u2": ROWS.slice(2)}
    return tuple(file for part, rows in halves.items() for file in to.write(part, ROWS.schema, rows.to_batches()))


def rows_of(catalog: Catalog) -> list[dict[str, object]]:
    return catalog.load_table("scores.t").scan().to_arrow().sort_by("id").to_pylist()


@pytest.mark.parametrize("partition_by", [(), ("k",)])
def test_rows_are_there_after_the_commit_and_not_before(
    opened: Opened, catalog: Catalog, partition_by: tuple[str, ...]
) -> None:
    to = opened(partition_by=partition_by)
    parts = parts_of(to)
    assert rows_of(catalog) == []
    to.commit(parts, ROWS.schema)
    assert rows_of(catalog) == ROWS.sort_by("id").to_pylist()
    table = catalog.load_table("scores.t")
    assert [one.summary and one.summary.get("assay.run") for one in table.snapshots()] == ["run 1"]
    assert table.scan(row_filter="k = 'a/b'").to_arrow().sort_by("id")["id"].to_pylist() == [3, 2**60]


def test_a_second_commit_adds_nothing(opened: Opened, catalog: Catalog) -> None:
    to = opened()
    parts = parts_of(to)
    to.commit(parts, ROWS.schema)
    again = opened()
    assert parts_of(again) == parts
    again.commit(parts, ROWS.schema)
    pickle.loads(pickle.dumps(to)).commit(parts, ROWS.schema)
    assert len(catalog.load_table("scores.t").snapshots()) == 1
    assert len(rows_of(catalog)) == 4


def test_another_run_adds_its_rows_to_the_table(opened: Opened, catalog: Catalog) -> None:
    for run in ("run 1", "run 2"):
        to = opened(run)
        to.commit(parts_of(to), ROWS.schema)
    assert len(rows_of(catalog)) == 8


def test_of_two_drivers_that_commit_at_once_one_adds(
    opened: Opened, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = opened()
    parts = parts_of(to)
    add, calls = Table.add_files, list[int]()

    def late(self: Table, *args: object, **words: object) -> None:
        """The other driver commits between this one's look at the table and its own commit."""
        calls.append(1)
        if len(calls) == 1:
            to.commit(parts, ROWS.schema)
        add(self, *args, **words)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(Table, "add_files", late)
    opened().commit(parts, ROWS.schema)
    assert len(calls) == 2
    assert len(rows_of(catalog)) == 4
    assert "commit.retry.num-retries" not in catalog.load_table("scores.t").properties


def test_rows_that_others_add_meanwhile_stay(opened: Opened, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    to = opened()
    parts = parts_of(to)
    add, calls = Table.add_files, list[int]()

    def late(self: Table, *args: object, **words: object) -> None:
        calls.append(1)
        if len(calls) == 1:
            catalog.load_table("scores.t").append(ROWS.slice(0, 1))
        add(self, *args, **words)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(Table, "add_files", late)
    to.commit(parts, ROWS.schema)
    assert len(calls) == 2
    assert len(rows_of(catalog)) == 5


def test_a_table_that_changes_at_each_try_is_a_sentence(
    opened: Opened, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = opened()
    parts = parts_of(to)

    def overtaken(self: Table, *args: object, **words: object) -> None:
        raise CommitFailedException("Requirement failed: branch main has changed")

    monkeypatch.setattr(Table, "add_files", overtaken)
    with pytest.raises(RunError) as refused:
        to.commit(parts, ROWS.schema)
    assert str(refused.value) == (
        "The Iceberg table local.scores.t was changed by others at each of 5 tries to add the run's 2 parts "
        "(Requirement failed: branch main has changed). Nothing was added; resume the run once they are done."
    )
    assert rows_of(catalog) == []


def test_a_run_without_rows_leaves_an_empty_table(opened: Opened, catalog: Catalog) -> None:
    to = opened()
    to.begin(ROWS.schema)
    to.commit((), ROWS.schema)
    assert rows_of(catalog) == []


def test_a_table_with_other_columns_is_refused_before_the_first_part(opened: Opened, catalog: Catalog) -> None:
    catalog.create_table("scores.t", pa.schema({"id": pa.int32(), "other": pa.string()}))
    with pytest.raises(DataError) as refused:
        opened().begin(ROWS.schema)
    assert str(refused.value) == (
        "The Iceberg table local.scores.t does not fit the output: it has no column 'k', which the output has, it has "
        "a column 'other', which the output has not, it has 'id' as int32, not as int64. Name another table."
    )


def test_a_table_with_other_partitions_is_refused(opened: Opened, catalog: Catalog) -> None:
    opened(partition_by=("k",)).begin(ROWS.schema)
    with pytest.raises(DataError) as refused:
        opened().begin(ROWS.schema)
    assert str(refused.value) == (
        "The Iceberg table local.scores.t is partitioned by 'k', and predictions.partition_by says nothing. Make them "
        "the same, or name another table."
    )


def test_what_is_not_there_is_a_sentence(opened: Opened) -> None:
    with pytest.raises(RunError) as refused:
        opened(to="local.nowhere.t").begin(ROWS.schema)
    assert str(refused.value) == (
        "There is no namespace for the Iceberg table local.nowhere.t. Make it in the catalog."
    )
    with pytest.raises(RunError) as refused:
        opened(to="local.scores.gone").commit((), ROWS.schema)
    assert str(refused.value) == "The Iceberg table local.scores.gone is gone since the run began. Begin a new run."


def test_a_catalog_that_is_not_configured_is_a_sentence() -> None:
    unknown = sink(SinkSettings("iceberg", "nobody.scores.t", "r"))
    with pytest.raises(RunError) as refused:
        unknown.begin(ROWS.schema)
    assert str(refused.value).startswith("The Iceberg catalog 'nobody' cannot be reached: ")
    assert str(refused.value).endswith(
        ". Catalogs are configured as pyiceberg says, in ~/.pyiceberg.yaml or the environment."
    )


def test_parts_are_found_before_the_commit_and_after_it(opened: Opened) -> None:
    to = opened(partition_by=("k",))
    to.begin(ROWS.schema)
    assert not [path for path in to.found() if "part-" in path]
    paths = {part.path for part in parts_of(to)}
    assert paths == {path for path in to.found() if "part-" in path}
    to.commit(parts_of(to), ROWS.schema)
    assert paths <= to.found()
