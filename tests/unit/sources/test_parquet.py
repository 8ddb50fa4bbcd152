"""ParquetSource: what footers say, which rows and columns are read, and every way a file can be wrong."""

from __future__ import annotations

import datetime
import pickle
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.errors import DataError
from assay.records import Chunk, ColumnStatistics, Unit
from assay.sources.parquet import ParquetSource

ROWS = 10


def write(path: Path, start: int = 0, rows: int = ROWS, **columns: pa.Array) -> None:
    x = pa.array(range(start, start + rows))
    pq.write_table(
        pa.table({"x": x, "name": pa.array([f"n{i}" for i in range(rows)]), **columns}), path, row_group_size=4
    )


@pytest.fixture
def source(tmp_path: Path) -> ParquetSource:
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", start=100, rows=3)
    return ParquetSource(["a.parquet", "b.parquet"], tmp_path)


def read(source: ParquetSource, first_row: int, num_rows: int | None, path: str = "a.parquet") -> list[Chunk]:
    return list(source.read(Unit("u", path, first_row, num_rows, 0), ["x"]))


def test_what_is_planned_of_a_column_does_not_grow_with_the_others(tmp_path: Path) -> None:
    """Seconds of this process, which a busy machine does not change; they were 7 where each column was looked for."""
    pq.write_table(pa.table({f"c{number}": [number] for number in range(3000)}), tmp_path / "wide.parquet")
    before = time.process_time()
    source = ParquetSource(["wide.parquet"], tmp_path)
    assert time.process_time() - before < 2
    assert source.statistics("c2999") == ColumnStatistics(2999, 2999, 0)


def test_long_rows_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.sources.parquet.PIECE_BYTES", 4_000)
    texts = pa.array([[f"{number:0>1000}"] for number in range(20)])
    write(tmp_path / "long.parquet", rows=20, texts=texts)  # in row groups of four
    source = ParquetSource(["long.parquet"], tmp_path)
    unit = Unit("u", "long.parquet", 3, 10, 0)
    found = list(source.read_original(unit, ["texts", "x"]))
    assert [(one.first_row, one.table.num_rows) for one in found] == [(3, 1), (4, 2), (6, 2), (8, 2), (10, 2), (12, 1)]
    assert pa.concat_tables([one.table for one in found])["texts"].to_pylist() == texts.to_pylist()[3:13]
    assert [one.table.num_rows for one in source.read_original(unit, ["x"])] == [1, 4, 4, 1]


def test_fragments_are_planned_from_footers(source: ParquetSource, tmp_path: Path) -> None:
    assert [(one.path, one.row_groups) for one in source.fragments] == [("a.parquet", (4, 4, 2)), ("b.parquet", (3,))]
    assert source.fragments[0].size_bytes == (tmp_path / "a.parquet").stat().st_size
    assert source.fragments[0].digest != source.fragments[1].digest
    assert source.schema == pa.schema({"x": pa.int64(), "name": pa.string()})


def test_a_copy_has_the_same_digest(source: ParquetSource, tmp_path: Path) -> None:
    (tmp_path / "c.parquet").write_bytes((tmp_path / "a.parquet").read_bytes())
    assert ParquetSource(["c.parquet"], tmp_path).fragments[0].digest == source.fragments[0].digest


@pytest.mark.parametrize(
    ("first_row", "num_rows", "expected"),
    [
        (0, 10, [(0, [0, 1, 2, 3]), (4, [4, 5, 6, 7]), (8, [8, 9])]),
        (4, None, [(4, [4, 5, 6, 7]), (8, [8, 9])]),
        (2, 3, [(2, [2, 3]), (4, [4])]),
        (6, 1, [(6, [6])]),
        (9, 1, [(9, [9])]),
    ],
)
def test_a_unit_is_read_row_group_by_row_group(
    source: ParquetSource, first_row: int, num_rows: int | None, expected: list[tuple[int, list[int]]]
) -> None:
    chunks = read(source, first_row, num_rows)
    assert [(chunk.first_row, chunk.table["x"].to_pylist()) for chunk in chunks] == expected


def test_only_the_columns_asked_for_are_read_in_that_order(source: ParquetSource) -> None:
    (chunk,) = source.read(Unit("u", "b.parquet", 0, 3, 0), ["name", "x"])
    assert chunk.table.column_names == ["name", "x"]
    assert read(source, 0, 1)[0].table.column_names == ["x"]


def test_a_pickled_source_reads_the_same(source: ParquetSource) -> None:
    again = pickle.loads(pickle.dumps(source))
    assert again.fragments == source.fragments
    assert read(again, 0, 10) == read(source, 0, 10)


def test_statistics_are_merged_over_files(source: ParquetSource) -> None:
    assert source.statistics("x") == ColumnStatistics(0.0, 102.0, 0)
    assert source.statistics("name") == ColumnStatistics(None, None, 0)
    assert source.statistics("missing") is None


def test_a_row_group_without_statistics_leaves_them_unknown(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1], "name": ["n"]}), tmp_path / "b.parquet", write_statistics=False)
    assert ParquetSource(["a.parquet", "b.parquet"], tmp_path).statistics("x") == ColumnStatistics(None, None, None)


def test_nulls_are_counted_and_hide_no_range(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", w=pa.array([None, None, None, None, 1.5, 2.5, None, 0.5, 1.0, 1.0]))
    source = ParquetSource(["a.parquet"], tmp_path)
    assert source.statistics("w") == ColumnStatistics(0.5, 2.5, 5)
    assert source.first_values("w") is None


def test_the_size_of_a_column_is_that_of_its_values_in_all_files(tmp_path: Path) -> None:
    image = pa.FixedSizeListArray.from_arrays(pa.array(range(8 * ROWS), pa.int64()), 8)
    nested = pa.array([{"left": i, "right": i} for i in range(ROWS)])
    table = pa.table({"x": pa.array(range(ROWS)), "image": image, "nested": nested, "a.b": pa.array(range(ROWS))})
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(table, tmp_path / name, row_group_size=4, use_dictionary=False, compression="none")
    source = ParquetSource(["a.parquet", "b.parquet"], tmp_path)
    sizes = {name: source.column_bytes(name) for name in (*source.schema.names, "zzz")}
    assert sizes["zzz"] == 0
    assert 2 * 8 * ROWS <= sizes["x"] == sizes["a.b"] < 1000
    assert sizes["image"] > 2 * 64 * ROWS
    assert sizes["nested"] == 2 * sizes["x"]


def test_first_values_are_the_least_of_each_row_group(source: ParquetSource, tmp_path: Path) -> None:
    assert source.first_values("x") == {"a.parquet": (0.0, 4.0, 8.0), "b.parquet": (100.0,)}
    assert source.first_values("name") is None
    times = pa.array([datetime.datetime(1970, 1, 1, 0, 0, 1)] * ROWS, pa.timestamp("us"))
    write(tmp_path / "c.parquet", ts=times)
    assert ParquetSource(["c.parquet"], tmp_path).first_values("ts") == {"c.parquet": (1e6, 1e6, 1e6)}


def test_dictionaries_have_one_index_width(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", c=pa.array(["u"] * ROWS).cast(pa.dictionary(pa.int8(), pa.string())))
    write(tmp_path / "b.parquet", c=pa.array(["v"] * ROWS).cast(pa.dictionary(pa.int16(), pa.string())))
    source = ParquetSource(["a.parquet", "b.parquet"], tmp_path)
    (chunk,) = source.read(Unit("u", "b.parquet", 0, 2, 0), ["c"])
    assert chunk.table.schema.field("c").type == pa.dictionary(pa.int32(), pa.string())
    assert chunk.table["c"].to_pylist() == ["v", "v"]


def refusal(paths: list[str], root: Path) -> str:
    with pytest.raises(DataError) as caught:
        ParquetSource(paths, root)
    return str(caught.value)


@pytest.mark.parametrize("size", [0, 3, 100, -1])
def test_a_truncated_file(tmp_path: Path, size: int) -> None:
    write(tmp_path / "a.parquet")
    path = tmp_path / "a.parquet"
    path.write_bytes(path.read_bytes()[:size])
    assert refusal(["a.parquet"], tmp_path) == (
        f"The file '{path}' ({path.stat().st_size} bytes) is not a complete Parquet file: it does not end with a "
        "footer. It may be truncated or of another format; write it again or leave it out."
    )


def test_a_damaged_footer(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1" + b"\xff" * 40 + (40).to_bytes(4, "little") + b"PAR1")
    assert refusal(["a.parquet"], tmp_path).startswith(f"The file '{path}' cannot be read as Parquet: ")


def test_damaged_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path)
    content = path.read_bytes()
    source = ParquetSource(["a.parquet"], tmp_path)
    path.write_bytes(content[:4] + b"\xff" * 60 + content[64:])
    with pytest.raises(DataError) as caught:
        read(source, 0, 10)
    assert str(caught.value).startswith(f"Row group 0 of the file '{path}' cannot be read: ")


def test_a_changed_file_is_refused(source: ParquetSource, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", start=1)
    with pytest.raises(DataError) as caught:
        read(source, 0, 10)
    assert str(caught.value) == (
        f"The file '{tmp_path}/a.parquet' has changed since it was planned. Plan again, as a new run."
    )


def test_a_file_that_is_gone(source: ParquetSource, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(DataError, match=r"^The file '.*a\.parquet' cannot be read as Parquet: .*No such file"):
        read(source, 0, 10)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"x": [1.5], "name": ["n"]}, "The column 'x' is double in the file 'b.parquet', but int64 in 'a.parquet'."),
        ({"x": [1]}, "The file 'b.parquet' has no column 'name', which 'a.parquet' has as string."),
        (
            {"x": [1], "name": ["n"], "more": [True]},
            "The file 'b.parquet' has a column 'more' (bool) that 'a.parquet' has not.",
        ),
    ],
)
def test_columns_must_agree(tmp_path: Path, table: dict[str, list[object]], message: str) -> None:
    write(tmp_path / "a.parquet")
    pq.write_table(pa.table(table), tmp_path / "b.parquet")
    assert refusal(["a.parquet", "b.parquet"], tmp_path) == message


def test_no_rows(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", rows=0)
    assert (
        refusal(["a.parquet"], tmp_path)
        == f"The data have no rows: 1 Parquet file(s) under '{tmp_path}', all empty. Name data with rows in data.path; "
        "for these there is nothing to score."
    )


def test_a_long_row_group_is_read_in_part(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": np.arange(100_000)}), tmp_path / "a.parquet", row_group_size=100_000)
    source = ParquetSource(["a.parquet"], tmp_path)
    (chunk,) = read(source, 40_000, 5)
    assert (chunk.first_row, chunk.table["x"].to_pylist()) == (40_000, list(range(40_000, 40_005)))


def test_a_file_that_was_written_from_views_can_be_filtered(tmp_path: Path) -> None:
    pq.write_table(pa.table({"s": pa.array(["a", None], pa.string_view())}), tmp_path / "a.parquet")
    source = ParquetSource(["a.parquet"], tmp_path)
    (chunk,) = source.read(Unit("u", "a.parquet", 0, 2, 0), ["s"])
    assert chunk.table.filter(pa.array([True, True])).to_pydict() == {"s": ["a", None]}


# ---- columns as they were written ------------------------------------------------------------------------------------


def test_columns_come_as_they_were_written(tmp_path: Path) -> None:
    kinds = {"view": pa.string_view(), "code": pa.dictionary(pa.int8(), pa.string())}
    fields = [pa.field(name, kind, metadata={"of": name}) for name, kind in kinds.items()]
    table = pa.table({"view": ["a", None, "b"], "code": ["u", "v", None]}).cast(pa.schema(fields, {"owner": "me"}))
    pq.write_table(table, tmp_path / "a.parquet")
    source = ParquetSource(["a.parquet"], tmp_path)
    assert source.original.equals(table.schema, check_metadata=True)
    [chunk] = source.read_original(Unit("u", "a.parquet", 0, 3, 0), ["code", "view"])
    assert chunk.table.equals(table.select(["code", "view"]), check_metadata=True)
    assert source.schema.types == [pa.large_string(), pa.dictionary(pa.int32(), pa.string())]


def test_a_type_that_differs_between_files_is_the_one_that_is_read(tmp_path: Path) -> None:
    for name, kind in {"a": pa.string_view(), "b": pa.large_string()}.items():
        pq.write_table(pa.table({"text": pa.array(["x"], kind)}), tmp_path / f"{name}.parquet")
    source = ParquetSource(["a.parquet", "b.parquet"], tmp_path)
    assert source.original.field("text").type == pa.large_string()
    [chunk] = source.read_original(Unit("u", "a.parquet", 0, 1, 0), ["text"])
    assert chunk.table.schema.field("text").type == pa.large_string()


def test_pieces_of_row_groups_from_the_middle_of_one(source: ParquetSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.sources.parquet.PIECE_ROWS", 3)
    chunks = list(source.read_original(Unit("u", "a.parquet", 1, 8, 0), ["x"]))
    assert [(chunk.first_row, chunk.table["x"].to_pylist()) for chunk in chunks] == [
        (1, [1, 2]),
        (3, [3]),
        (4, [4, 5, 6]),
        (7, [7]),
        (8, [8]),
    ]


def test_a_file_that_changed_is_not_joined(source: ParquetSource, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", start=1)
    with pytest.raises(DataError, match="has changed since it was planned"):
        list(source.read_original(Unit("u", "a.parquet", 0, 10, 0), ["x"]))
