"""CsvSource: types from the first rows, chunks of one size, and every way a file can be wrong."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from assay.errors import DataError
from assay.records import Chunk, Unit
from assay.sources import csv
from assay.sources.csv import CHUNK_ROWS, CsvSource


def source_of(root: Path, **files: str) -> CsvSource:
    for name, text in files.items():
        (root / f"{name}.csv").write_text(text)
    return CsvSource([f"{name}.csv" for name in files], root)


def read(source: CsvSource, path: str = "a.csv", columns: tuple[str, ...] = ("x",), first: int = 0,
         rows: int | None = None) -> list[Chunk]:  # fmt: skip
    return list(source.read(Unit("u", path, first, rows, 0), columns))


def test_types_are_inferred_and_rows_unknown(tmp_path: Path) -> None:
    source = source_of(tmp_path, a="x,y,z,ts\n1,0.5,,2013-01-01 08:00:00\n2,,,\n")
    assert source.schema == pa.schema({"x": pa.int64(), "y": pa.float64(), "z": pa.string(), "ts": pa.timestamp("s")})
    assert [(one.path, one.size_bytes, one.row_groups) for one in source.fragments] == [("a.csv", 41, None)]
    assert source.statistics("x") is None
    (chunk,) = read(source, columns=("y", "x"))
    assert chunk.table.to_pydict() == {"y": [0.5, None], "x": [1, 2]}


def test_chunks_are_of_one_size(tmp_path: Path) -> None:
    rows = 2 * CHUNK_ROWS + 10
    source = source_of(tmp_path, a="x,pad\n" + "".join(f"{i},{'p' * 60}\n" for i in range(rows)))
    chunks = read(source)
    assert [(chunk.first_row, chunk.table.num_rows) for chunk in chunks] == [
        (0, CHUNK_ROWS),
        (CHUNK_ROWS, CHUNK_ROWS),
        (2 * CHUNK_ROWS, 10),
    ]
    assert pa.concat_tables([chunk.table for chunk in chunks])["x"].to_pylist() == list(range(rows))
    part = read(source, first=CHUNK_ROWS - 1, rows=3)
    assert [(chunk.first_row, chunk.table["x"].to_pylist()) for chunk in part] == [
        (CHUNK_ROWS - 1, [CHUNK_ROWS - 1]),
        (CHUNK_ROWS, [CHUNK_ROWS, CHUNK_ROWS + 1]),
    ]


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    source = source_of(tmp_path, a="x\n1\n")
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    with pytest.raises(DataError) as caught:
        read(source)
    assert (
        str(caught.value) == f"The file '{tmp_path}/a.csv' has changed since it was planned. Plan again, as a new run."
    )


def test_a_value_that_does_not_convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "INFERENCE_BYTES", 8)
    source = source_of(tmp_path, a="w,x\n1,2\n3,4\n5,six\n")
    with pytest.raises(DataError) as caught:
        read(source)
    assert str(caught.value) == (
        f"The file '{tmp_path}/a.csv', row 4 does not fit the column types: CSV conversion error to int64: invalid "
        "value 'six', in column 'x'. Types are those of the first rows of the first file; convert the column or write "
        "Parquet."
    )


def test_later_files_keep_the_first_files_types(tmp_path: Path) -> None:
    source = source_of(tmp_path, a="x\n1\n", b="x\n0.5\n")
    with pytest.raises(DataError, match=r"b\.csv', row 2 does not fit the column types: .* invalid value '0\.5'"):
        read(source, "b.csv")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": "x,y\n1,2\n", "b": "x\n1\n"}, "The file 'b.csv' has no column 'y', which 'a.csv' has."),
        ({"a": "x\n1\n", "b": "x,y\n1,2\n"}, "The file 'b.csv' has a column 'y' that 'a.csv' has not."),
        ({"a": "x,x\n1,2\n"}, "The file '{root}/a.csv' has two columns of the name 'x'. Rename one of them."),
        (
            {"a": "x\n", "b": "x\n"},
            "The data have no rows: 2 CSV file(s) under '{root}', only headers. Name data with rows in data.path; for "
            "these there is nothing to score.",
        ),
        ({"a": ""}, "The file '{root}/a.csv' cannot be read as CSV: Empty CSV file."),
    ],
)
def test_files_that_are_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(DataError) as caught:
        source_of(tmp_path, **files)
    assert str(caught.value) == message.format(root=tmp_path)


def test_a_ragged_row(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"a\.csv' cannot be read as CSV: CSV parse error: Row #3: Expected 2 columns, got 1"
    ):
        source_of(tmp_path, a="x,y\n1,2\n3\n")


def test_an_empty_text_is_null_and_no_other_is(tmp_path: Path) -> None:
    source = source_of(tmp_path, a='x,s\n1,\n2,NA\n3,""\n,b\n')
    (chunk,) = read(source, columns=("x", "s"))
    assert chunk.table.to_pydict() == {"x": [1, 2, 3, None], "s": [None, "NA", None, "b"]}


def test_types_come_from_the_first_file_that_has_rows(tmp_path: Path) -> None:
    source = source_of(tmp_path, a="x,y\n", b="x,y\n1,0.5\n", c="x,y\n2,1\n")
    assert source.schema == pa.schema({"x": pa.int64(), "y": pa.float64()})
    assert [one.table["x"].to_pylist() for path in ("a.csv", "b.csv") for one in read(source, path)] == [[1]]


def test_a_field_may_hold_line_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "BLOCK_BYTES", 100)
    source = source_of(tmp_path, a="x,s\n" + "".join(f'{i},"two\nlines, {i}"\n' for i in range(50)))
    chunks = read(source, columns=("x", "s"))
    assert [row for chunk in chunks for row in chunk.table["x"].to_pylist()] == list(range(50))
