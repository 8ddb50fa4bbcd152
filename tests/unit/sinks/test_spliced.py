"""Parquet files in which some columns are copied from another: what every reader finds, and what is not copied."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.footers import Footer
from assay.records import SinkSettings, StoredRows, Unit
from assay.sinks.folder import FolderSink
from assay.sinks.parquet import parquet_sink
from assay.sources.parquet import ParquetSource
from assay.store.folder import open_folder

ROWS, GROUP = 15_000, 5_000
KINDS: dict[str, pa.Array] = {
    "int64": pa.array([2**53 + row for row in range(ROWS)]),
    "with nulls": pa.array([None if row % 3 else row for row in range(ROWS)], pa.int16()),
    "text": pa.array([f"t{row}" for row in range(ROWS)]),
    "large_text": pa.array([f"t{row % 7}" for row in range(ROWS)], pa.large_string()),
    "dictionary": pa.array([f"t{row % 7}" for row in range(ROWS)]).dictionary_encode(),
    "decimal": pa.array([Decimal(row) / 100 for row in range(ROWS)], pa.decimal128(20, 2)),
    "zoned": pa.array(range(ROWS), pa.timestamp("us", "Europe/Berlin")),
    "nanoseconds": pa.array(range(ROWS), pa.timestamp("ns")),
    "day": pa.array(range(ROWS), pa.date32()),
    "duration": pa.array(range(ROWS), pa.duration("ms")),
    "half": pa.array([row / 8 for row in range(ROWS)], pa.float16()),
    "boolean": pa.array([None if row % 5 == 0 else row % 2 == 0 for row in range(ROWS)]),
    "list": pa.array([None if row % 4 == 3 else [float(row)] * (row % 4) for row in range(ROWS)]),
    "embedding": pa.array([[float(row), 0.5] for row in range(ROWS)], pa.list_(pa.float32(), 2)),
    "struct": pa.array([None if row % 6 == 0 else {"a": row, "b.c": [f"{row}"]} for row in range(ROWS)]),
    "map": pa.array([[("key", row)] for row in range(ROWS)], pa.map_(pa.string(), pa.int64())),
    "bytes": pa.array([b"\0" * (row % 9) for row in range(ROWS)]),
    "null": pa.nulls(ROWS),
    "a.b": pa.array(range(ROWS)),
}
OWN = pa.table({"score": pa.array([row / ROWS for row in range(ROWS)], pa.float32()), "_row": list(range(ROWS))})


def source(folder: Path, table: pa.Table, **how: Any) -> ParquetSource:  # Any: as pyarrow's writer takes them
    pq.write_table(table, folder / "data.parquet", **{"row_group_size": GROUP, **how})
    return ParquetSource(["data.parquet"], folder)


def stored(of: ParquetSource, columns: Sequence[str], first: int = 0, rows: int | None = None) -> StoredRows | None:
    return of.stored(Unit("u", "data.parquet", first, rows, 0), columns)


def sink(folder: Path, **said: Any) -> FolderSink:  # Any: fields of SinkSettings
    return parquet_sink(SinkSettings("parquet", str(folder / "out"), "run", **said), open_folder)


def schema(of: ParquetSource, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([*(of.original.field(name) for name in columns), *OWN.schema], of.original.metadata)


def spliced(folder: Path, of: ParquetSource, columns: Sequence[str], **said: Any) -> Path | None:  # Any: as of `sink`
    """The file; None where it was not made so."""
    rows = stored(of, columns)
    assert rows is not None
    parts = sink(folder, **said).splice("part", schema(of, columns), rows, OWN)
    if parts is None:
        assert not list(folder.glob("out/*.parquet"))
        return None
    [part] = parts
    path = folder / "out" / part.path
    assert (part.rows, part.bytes, part.partition) == (ROWS, path.stat().st_size, {})
    return path


WRITERS: dict[str, dict[str, Any]] = {
    "as pyarrow does it": {},
    "second version of pages, with indexes": {"data_page_version": "2.0", "write_page_index": True},
    "zstd, bloom-less, checksums": {"compression": "zstd", "write_page_checksum": True},
    "many pages, no dictionaries": {"compression": "gzip", "use_dictionary": False, "data_page_size": 500},
    "bare": {"compression": "none", "write_statistics": False},
    "one row group": {"row_group_size": ROWS},
}


@pytest.mark.parametrize("writer", WRITERS)
def test_every_type_comes_out_as_it_went_in(tmp_path: Path, writer: str) -> None:
    fields = [pa.field(name, values.type, metadata={"unit": name}) for name, values in KINDS.items()]
    fields[0] = fields[0].with_nullable(False)
    table = pa.table(list(KINDS.values()), schema=pa.schema(fields, {"who": "me"}))
    of = source(tmp_path, table, **WRITERS[writer])
    path = spliced(tmp_path, of, table.schema.names)
    assert path is not None
    found = pq.read_table(path)
    expected = pq.read_table(tmp_path / "data.parquet")
    for name in table.schema.names:
        assert found[name].equals(expected[name]), name
        assert found.schema.field(name).equals(expected.schema.field(name), check_metadata=True)
    assert found.select(OWN.schema.names).equals(OWN)
    assert found.schema.metadata == expected.schema.metadata


def test_pages_are_the_same_bytes(tmp_path: Path) -> None:
    of = source(tmp_path, pa.table({"text": KINDS["text"]}), compression="brotli")
    path = spliced(tmp_path, of, ["text"])
    assert path is not None
    before, after = (pq.read_metadata(one).row_group(1).column(0) for one in (tmp_path / "data.parquet", path))
    size = before.total_compressed_size
    start, moved = before.dictionary_page_offset, after.dictionary_page_offset
    assert (tmp_path / "data.parquet").read_bytes()[start : start + size] == path.read_bytes()[moved : moved + size]
    assert after.compression == "BROTLI"
    assert (after.statistics.min, after.statistics.max) == (before.statistics.min, before.statistics.max)


def test_other_readers_read_it(tmp_path: Path) -> None:
    names = ["int64", "text", "zoned", "list"]
    of = source(tmp_path, pa.table({name: KINDS[name] for name in names}))
    path = spliced(tmp_path, of, names)
    asked = f"""select count(*), max("int64"), min("text"), sum(len("list")), max(_row), max("zoned") from '{path}'"""
    counted, most, least, items, row, moment = duckdb.sql(asked).fetchall()[0]
    assert (counted, most, least, items, row) == (ROWS, 2**53 + ROWS - 1, "t0", ROWS // 4 * 3, ROWS - 1)
    assert moment.astimezone(datetime.UTC).replace(tzinfo=None) == datetime.datetime(1970, 1, 1, 0, 0, 0, ROWS - 1)
    frame = pl.scan_parquet(path).filter(pl.col("int64") >= 2**53 + ROWS - 3).select("text", "_row").collect()
    assert frame.rows() == [(f"t{row}", row) for row in range(ROWS - 3, ROWS)]


def test_some_of_the_row_groups_are_some_of_the_rows(tmp_path: Path) -> None:
    of = source(tmp_path, pa.table({"text": KINDS["text"]}))
    rows = stored(of, ["text"], first=GROUP, rows=GROUP)
    assert rows is not None
    parts = sink(tmp_path).splice("part", schema(of, ["text"]), rows, OWN.slice(GROUP, GROUP))
    assert parts is not None
    found = pq.read_table(tmp_path / "out" / parts[0].path)
    assert found["text"].to_pylist() == [f"t{row}" for row in range(GROUP, 2 * GROUP)]
    assert found["_row"].to_pylist() == list(range(GROUP, 2 * GROUP))


def test_the_same_rows_are_the_same_bytes(tmp_path: Path) -> None:
    of = source(tmp_path, pa.table({"text": KINDS["text"]}))
    first = spliced(tmp_path, of, ["text"])
    assert first is not None
    assert spliced(tmp_path, of, ["text"]) == first  # the name has the digest
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 1


@pytest.mark.parametrize(
    ("said", "is_copied"),
    [
        ({}, True),
        ({"compression": "snappy"}, True),
        ({"compression": "zstd"}, False),
        ({"row_group_rows": GROUP}, False),
        ({"file_rows": 2 * ROWS}, False),
        ({"partition_by": ("text",)}, False),
    ],
)
def test_what_the_user_says_of_the_files_holds(tmp_path: Path, said: dict[str, Any], is_copied: bool) -> None:
    of = source(tmp_path, pa.table({"text": KINDS["large_text"]}), compression="snappy")
    assert (spliced(tmp_path, of, ["text"], **said) is not None) == is_copied


def test_short_row_groups_are_put_together_by_others(tmp_path: Path) -> None:
    of = source(tmp_path, pa.table({"text": KINDS["text"]}), row_group_size=1_000)
    assert spliced(tmp_path, of, ["text"]) is None


def test_a_column_that_other_writers_describe_otherwise_is_not_copied(tmp_path: Path) -> None:
    table = pa.table({"nanoseconds": KINDS["nanoseconds"]})
    of = source(tmp_path, table, use_deprecated_int96_timestamps=True)
    assert of.original.field("nanoseconds").type == pa.timestamp("ns")
    assert spliced(tmp_path, of, ["nanoseconds"]) is None


def test_a_column_that_another_file_has_with_nulls_is_not_copied_where_it_has_none(tmp_path: Path) -> None:
    for name, nullable in (("data", False), ("other", True)):
        field = pa.field("text", pa.string(), nullable)
        pq.write_table(pa.table([KINDS["text"]], schema=pa.schema([field])), tmp_path / f"{name}.parquet")
    of = ParquetSource(["data.parquet", "other.parquet"], tmp_path)
    assert of.original.field("text").nullable
    assert spliced(tmp_path, of, ["text"]) is None
    rows = of.stored(Unit("u", "other.parquet", 0, None, 0), ["text"])
    assert rows is not None
    assert sink(tmp_path).splice("part", schema(of, ["text"]), rows, OWN) is not None


def test_a_chunk_that_is_not_whole_pages_is_not_copied(tmp_path: Path) -> None:
    of = source(tmp_path, pa.table({"text": KINDS["text"]}))
    path = tmp_path / "data.parquet"
    [chunk] = Footer.of(memoryview(path.read_bytes())).chunks(
        Footer.of(memoryview(path.read_bytes())).groups[1], "text"
    )
    start = chunk[3].value[9].value  # of its data
    data = bytearray(path.read_bytes())
    data[start : start + 8] = b"\xff" * 8
    path.write_bytes(data)
    assert spliced(tmp_path, of, ["text"]) is None


def test_statistics_whose_order_the_file_does_not_tell_are_left_out(tmp_path: Path) -> None:
    of = source(tmp_path, pa.table({"text": KINDS["text"]}))
    rows = stored(of, ["text"])
    assert rows is not None
    column = rows.columns["text"]
    untold = StoredRows(
        rows.path, rows.group_rows, {"text": type(column)(column.elements, (), column.chunks)}, rows.types
    )
    parts = sink(tmp_path).splice("part", schema(of, ["text"]), untold, OWN)
    assert parts is not None
    group = pq.read_metadata(tmp_path / "out" / parts[0].path).row_group(0)
    assert [group.column(0).is_stats_set, group.column(1).is_stats_set] == [False, True]
