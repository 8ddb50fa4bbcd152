"""Columns of Parquet files as they lie there: which row groups a unit is made of, and what is not looked into."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.errors import DataError
from assay.footers import Footer, OfChunk, OfFile, OfGroup
from assay.records import Unit
from assay.sources import parquet
from assay.sources.encoded import encoded_rows
from assay.sources.parquet import ParquetSource
from assay.thrift import BINARY, LIST, STRUCT, Field, Items, write_struct


@pytest.fixture
def source(tmp_path: Path) -> ParquetSource:
    """Row groups of 4, 4 and 2 rows."""
    table = pa.table({"a": range(10), "b": [["x"]] * 10, "c": [0.5] * 10})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=4)
    return ParquetSource(["a.parquet"], tmp_path)


def unit(first_row: int, num_rows: int | None) -> Unit:
    return Unit("u", "a.parquet", first_row, num_rows, 0)


@pytest.mark.parametrize(
    ("first_row", "num_rows", "expected"),
    [(0, None, (4, 4, 2)), (0, 8, (4, 4)), (4, 4, (4,)), (8, 2, (2,)), (4, None, (4, 2))],
)
def test_a_unit_of_whole_row_groups_has_these(
    source: ParquetSource, first_row: int, num_rows: int | None, expected: tuple[int, ...]
) -> None:
    found = source.encoded(unit(first_row, num_rows), ["b", "a"])
    assert found is not None
    assert found.group_rows == expected
    assert [len(column.chunks) for column in found.columns.values()] == [len(expected)] * 2
    assert found.types == pa.schema([("b", pa.list_(pa.field("element", pa.string()))), ("a", pa.int64())])


@pytest.mark.parametrize(("first_row", "num_rows"), [(0, 3), (2, 2), (4, 5)])
def test_a_unit_with_a_part_of_one_has_none(source: ParquetSource, first_row: int, num_rows: int) -> None:
    assert source.encoded(unit(first_row, num_rows), ["a"]) is None


def test_row_groups_without_rows_are_passed_over(tmp_path: Path) -> None:
    table = pa.table({"a": range(4)})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema) as writer:
        for piece in (table.slice(0, 0), table, table.slice(0, 0)):
            writer.write_table(piece)
    found = ParquetSource(["a.parquet"], tmp_path).encoded(unit(0, 4), ["a"])
    assert found is not None
    assert found.group_rows == (4,)


def test_a_file_that_has_changed_is_refused(source: ParquetSource, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": range(9), "b": [["x"]] * 9, "c": [0.5] * 9}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet' has changed since it was planned\. Plan again, as a new run\."):
        source.encoded(unit(0, None), ["a"])


def test_a_footer_of_very_many_chunks_is_not_looked_through(
    source: ParquetSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MOST_CHUNKS", 9)
    assert source.encoded(unit(0, None), ["a"]) is not None
    monkeypatch.setattr(parquet, "MOST_CHUNKS", 8)
    assert source.encoded(unit(0, None), ["a"]) is None


@pytest.mark.parametrize("what", ["elsewhere", "encrypted", "untold"])
def test_a_column_whose_bytes_are_not_told_plainly_is_not_looked_into(tmp_path: Path, what: str) -> None:
    table = pa.table({"a": range(4), "b": range(4)})
    pq.write_table(table, tmp_path / "a.parquet")
    footer = Footer.of(memoryview((tmp_path / "a.parquet").read_bytes()))
    chunk = footer.groups[0][OfGroup.COLUMNS].value.values[1]
    if what == "untold":
        del chunk[OfChunk.METADATA]
    elif what == "elsewhere":
        chunk[OfChunk.FILE] = Field(BINARY, b"elsewhere.parquet")
    else:
        chunk[OfChunk.ENCRYPTION] = Field(STRUCT, {})
    data = write_struct({number: _sorted(field) for number, field in footer.file.items()})
    assert encoded_rows(tmp_path / "a.parquet", data, range(1), ["a"], table.schema) is not None
    assert encoded_rows(tmp_path / "a.parquet", data, range(1), ["a", "b"], table.schema) is None


def test_nothing_is_told_of_an_encrypted_file_or_of_a_column_that_is_not_there(tmp_path: Path) -> None:
    table = pa.table({"a": range(4)})
    pq.write_table(table, tmp_path / "a.parquet")
    file = Footer.of(memoryview((tmp_path / "a.parquet").read_bytes())).file
    path = tmp_path / "a.parquet"
    assert encoded_rows(path, write_struct(file), range(1), ["b"], table.schema) is None
    encrypted = write_struct(file | {OfFile.ENCRYPTION: Field(STRUCT, {})})
    assert encoded_rows(path, encrypted, range(1), ["a"], table.schema) is None


def _sorted(field: Field) -> Field:
    """With the fields of all structs in it in ascending order."""
    if field.kind == STRUCT:
        return Field(STRUCT, {number: _sorted(one) for number, one in sorted(field.value.items())})
    if field.kind == LIST and field.value.kind == STRUCT:
        values = [_sorted(Field(STRUCT, one)).value for one in field.value.values]
        return Field(LIST, Items(STRUCT, values))
    return field


def test_bytes_that_are_no_footer_tell_nothing(tmp_path: Path) -> None:
    assert encoded_rows(tmp_path / "a.parquet", b"\x15", range(1), ["a"], pa.schema([("a", pa.int64())])) is None
