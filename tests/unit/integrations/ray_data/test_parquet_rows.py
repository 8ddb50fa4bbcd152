"""Files found, rows numbered, row groups read: without a Ray cluster."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.errors import DataError
from assay.integrations.ray_data.parquet_rows import NumberedParquet, ParquetRows

SCHEMA = pa.schema([pa.field("x", pa.int64(), metadata={"unit": "s"}), ("text", pa.string())], {"made": "here"})


def write(path: Path, first: int, rows: int, schema: pa.Schema = SCHEMA) -> None:
    numbers = range(first, first + rows)
    table = pa.table([pa.array(numbers, schema.types[0]), pa.array([f"row {n}" for n in numbers])], schema=schema)
    pq.write_table(table, path, row_group_size=4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "b.parquet", 10, 5)
    write(tmp_path / "a.parquet", 0, 10)
    (tmp_path / "_notes.parquet").write_text("hidden")
    return tmp_path


def test_rows_are_numbered_through_in_the_order_of_paths(folder: Path) -> None:
    rows = ParquetRows(str(folder))
    assert [Path(file.path).name for file in rows.files] == ["a.parquet", "b.parquet"]
    assert rows.starts.tolist() == [0, 4, 8, 10, 14, 15]
    assert rows.num_rows == 15
    assert rows.schema.equals(SCHEMA, check_metadata=True)


def test_a_row_group_is_read_by_its_columns(folder: Path) -> None:
    table = ParquetRows(str(folder)).read_piece(3, ["text", "x"])
    assert table.to_pydict() == {"text": ["row 10", "row 11", "row 12", "row 13"], "x": [10, 11, 12, 13]}
    assert table.schema.field("x").metadata == {b"unit": b"s"}


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5, 40])
def test_read_tasks_have_each_row_once_with_its_number(folder: Path, parallelism: int) -> None:
    source = NumberedParquet(ParquetRows(str(folder)), ("x",))
    tasks = source.get_read_tasks(parallelism)
    blocks = [list(task()) for task in tasks]
    table = pa.concat_tables(block for task in blocks for block in task)
    assert table.schema.names == ["x", "row_number"]
    assert table["x"].to_pylist() == table["row_number"].to_pylist() == list(range(15))
    assert [task.metadata.num_rows for task in tasks] == [sum(map(len, task)) for task in blocks]
    assert len(tasks) == min(parallelism, 5)


def test_a_dataset_without_columns_has_the_numbers(folder: Path) -> None:
    [task] = NumberedParquet(ParquetRows(f"{folder}/b.parquet"), ()).get_read_tasks(1)
    assert pa.concat_tables(task()).to_pydict() == {"row_number": [0, 1, 2, 3, 4]}


def test_a_bucket_like_address(folder: Path) -> None:
    (folder / "_notes.parquet").unlink()
    rows = ParquetRows(folder.as_uri())
    assert rows.num_rows == 15
    assert ParquetRows((folder / "b.parquet").as_uri()).num_rows == 5


def test_files_of_another_schema_are_refused(folder: Path) -> None:
    write(folder / "c.parquet", 15, 1, SCHEMA.set(0, pa.field("x", pa.int32())))
    with pytest.raises(DataError) as caught:
        ParquetRows(str(folder))
    assert str(caught.value) == (
        f"The file '{folder}/c.parquet' differs from '{folder}/a.parquet' in 'x'. Write the files with one schema."
    )


def test_a_file_that_changes_under_way_is_refused(folder: Path) -> None:
    rows = ParquetRows(str(folder))
    write(folder / "a.parquet", 100, 10)
    with pytest.raises(DataError) as caught:
        rows.read_piece(0, ["x"])
    assert str(caught.value) == (
        f"The file '{folder}/a.parquet' has changed since ParquetRows read its footer. Start again."
    )


def test_the_column_of_numbers_may_have_another_name(folder: Path) -> None:
    with pytest.raises(DataError) as caught:
        ParquetRows(str(folder), row_column="x")
    assert str(caught.value) == (
        "The files have a column 'x' of their own. Say row_column= for another name of the column of row numbers."
    )
    [task] = NumberedParquet(ParquetRows(str(folder), row_column="n"), ("x",)).get_read_tasks(1)
    assert next(iter(task())).column_names == ["x", "n"]


def test_unknown_columns_are_all_named(folder: Path) -> None:
    with pytest.raises(DataError) as caught:
        ParquetRows(str(folder)).dataset(["y", "x", "z"])
    assert str(caught.value) == "The files have no column 'y' and 'z'."
    with pytest.raises(DataError, match=r"^columns is 'x'; expected a list of names\.$"):
        ParquetRows(str(folder)).dataset("x")


def test_what_is_no_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("hello")
    with pytest.raises(DataError) as caught:
        ParquetRows(str(tmp_path))
    assert str(caught.value).startswith(f"The file '{tmp_path}/a.parquet' cannot be read as Parquet: ")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError) as caught:
        ParquetRows((tmp_path / "empty").as_uri())
    assert str(caught.value) == (
        f"There are no Parquet files (.parquet, .parq, .pq) under '{(tmp_path / 'empty').as_uri()}'."
    )
