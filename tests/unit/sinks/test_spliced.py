"""Parquet files in which some columns are copied from another: what every reader finds, and what is not copied."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import assay.sinks.spliced
from assay.errors import DataError
from assay.footers import Footer, OfColumn, OfGroup
from assay.records import EncodedRows, SinkSettings, Unit
from assay.sinks.folder import FolderSink
from assay.sinks.parquet import parquet_sink
from assay.sources.parquet import ParquetSource
from assay.store.folder import open_folder
from assay.thrift import I64, Field

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
    "required": pa.array([{"a": row} for row in range(ROWS)], pa.struct([pa.field("a", pa.int64(), nullable=False)])),
    "map": pa.array([[("key", row)] for row in range(ROWS)], pa.map_(pa.string(), pa.int64())),
    "bytes": pa.array([b"\0" * (row % 9) for row in range(ROWS)]),
    "null": pa.nulls(ROWS),
    "a.b": pa.array(range(ROWS)),
}
OWN = pa.table({"score": pa.array([row / ROWS for row in range(ROWS)], pa.float32()), "_row": list(range(ROWS))})


def source(folder: Path, table: pa.Table, **how: Any) -> ParquetSource:  # Any: as pyarrow's writer takes them
    pq.write_table(table, folder / "data.parquet", **{"row_group_size": GROUP, **how})
    return ParquetSource(["data.parquet"], folder)


def encoded(of: ParquetSource, columns: Sequence[str], first: int = 0, rows: int | None = None) -> EncodedRows:
    found = of.encoded(Unit("u", "data.parquet", first, rows, 0), columns)
    assert found is not None
    return found


def sink(folder: Path, **said: Any) -> FolderSink:  # Any: fields of SinkSettings
    return parquet_sink(SinkSettings("parquet", str(folder / "out"), "run", **said), open_folder)


def schema(of: ParquetSource, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([*(of.original.field(name) for name in columns), *OWN.schema], of.original.metadata)


def spliced(folder: Path, of: ParquetSource, columns: Sequence[str], **said: Any) -> Path | None:  # Any: as of `sink`
    """The file; None where it was not made so."""
    return put_together(folder, encoded(of, columns), schema(of, columns), **said)


def put_together(folder: Path, rows: EncodedRows, kinds: pa.Schema, **said: Any) -> Path | None:  # Any: as of `sink`
    to = sink(folder, **said)
    parts = to.splice("part", kinds, rows, lambda: OWN) if to.splices else None
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
    "zstd, checksums": {"compression": "zstd", "write_page_checksum": True},
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
    rows = encoded(of, ["text"], first=GROUP, rows=GROUP)
    parts = sink(tmp_path).splice("part", schema(of, ["text"]), rows, lambda: OWN.slice(GROUP, GROUP))
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
    rows = of.encoded(Unit("u", "other.parquet", 0, None, 0), ["text"])
    assert rows is not None
    assert put_together(tmp_path, rows, schema(of, ["text"])) is not None


def test_the_footer_says_of_columns_what_arrow_would(tmp_path: Path) -> None:
    of = source(tmp_path, pa.table({"text": KINDS["text"], "dictionary": KINDS["dictionary"]}))
    path = spliced(tmp_path, of, ["text", "dictionary"])
    assert path is not None
    pq.write_table(pq.read_table(path), tmp_path / "again.parquet", row_group_size=GROUP, compression="snappy")
    after, before = pq.read_metadata(path), pq.read_metadata(tmp_path / "again.parquet")
    assert (after.num_rows, after.num_row_groups, after.schema) == (before.num_rows, 3, before.schema)
    end = len(b"PAR1")
    for number in range(3):
        group, other = after.row_group(number), before.row_group(number)
        columns = [group.column(position) for position in range(group.num_columns)]
        assert (group.num_rows, [one.num_values for one in columns]) == (other.num_rows, [GROUP] * 4)
        assert group.total_byte_size == sum(one.total_uncompressed_size for one in columns)
        for one in columns:  # one after the other, without a gap
            assert end == (one.dictionary_page_offset if one.has_dictionary_page else one.data_page_offset)
            end += one.total_compressed_size
    footer = Footer.of(memoryview(path.read_bytes()))
    assert [group[OfGroup.ORDINAL].value for group in footer.groups] == [0, 1, 2]
    sizes = [
        sum(chunk.num_bytes for name in footer.elements for chunk in footer.chunks(group, name))
        for group in footer.groups
    ]
    assert [group[OfGroup.COMPRESSED_BYTES].value for group in footer.groups] == sizes
    assert [group[OfGroup.OFFSET].value for group in footer.groups] == [4, 4 + sizes[0], 4 + sizes[0] + sizes[1]]


# ---- footers and pages as others write them --------------------------------------------------------------------------


@pytest.fixture
def text(tmp_path: Path) -> tuple[ParquetSource, EncodedRows]:
    """A column without dictionaries."""
    of = source(tmp_path, pa.table({"text": KINDS["text"]}), use_dictionary=False)
    return of, encoded(of, ["text"])


def with_chunk(rows: EncodedRows, **said: Any) -> EncodedRows:  # Any: of many fields
    """With other words on the second row group; `metadata`: fields put into it."""
    column = rows.columns["text"]
    first, [second], *rest = column.chunks
    fields = second.metadata | said.pop("metadata", {})
    changed = second._replace(metadata=dict(sorted(fields.items())), **said)
    return replace(rows, columns={"text": replace(column, chunks=(first, (changed,), *rest))})


def test_a_dictionary_at_0_is_none(tmp_path: Path, text: tuple[ParquetSource, EncodedRows]) -> None:
    of, rows = text
    told = with_chunk(rows, metadata={OfColumn.DICTIONARY_OFFSET: Field(I64, 0)})
    path = put_together(tmp_path, told, schema(of, ["text"]))
    assert path is not None
    assert pq.read_table(path)["text"].equals(pa.chunked_array([KINDS["text"]]))
    assert not pq.read_metadata(path).row_group(1).column(0).has_dictionary_page


def test_filters_and_indexes_that_lie_elsewhere_are_left_behind(
    tmp_path: Path, text: tuple[ParquetSource, EncodedRows]
) -> None:
    of, rows = text
    elsewhere = {OfColumn.INDEX_OFFSET, OfColumn.BLOOM_OFFSET, OfColumn.BLOOM_BYTES}
    path = put_together(
        tmp_path, with_chunk(rows, metadata=dict.fromkeys(elsewhere, Field(I64, 77))), schema(of, ["text"])
    )
    assert path is not None
    footer = Footer.of(memoryview(path.read_bytes()))
    [chunk] = footer.chunks(footer.groups[1], "text")
    assert not elsewhere & chunk.metadata.keys()


@pytest.mark.parametrize(
    "said",
    [
        {"num_values": GROUP - 1},
        {"num_bytes": 100},
        {"codec": 5},
        {"start": 4},
    ],
)
def test_a_chunk_that_is_not_what_its_footer_says_is_not_copied(
    tmp_path: Path, text: tuple[ParquetSource, EncodedRows], said: dict[str, int]
) -> None:
    of, rows = text
    assert put_together(tmp_path, with_chunk(rows, **said), schema(of, ["text"])) is None


def test_a_file_that_does_not_say_how_its_statistics_are_ordered_is_not_copied(
    tmp_path: Path, text: tuple[ParquetSource, EncodedRows]
) -> None:
    of, rows = text
    untold = replace(rows, columns={"text": replace(rows.columns["text"], orders=())})
    assert put_together(tmp_path, untold, schema(of, ["text"])) is None


OF_DUCKDB = """
select range::bigint as "big", range::usmallint as "small", (range / 7)::decimal(12, 3) as "decimal",
    'e' || (range % 3) as "text", ('e' || (range % 2))::enum('e0', 'e1') as "word", uuid() as "uuid",
    timestamp '2024-05-01' + interval (range) second as "moment", date '2024-05-01' as "day", time '12:00:00' as "time",
    range % 2 = 0 as "boolean", range::hugeint as "huge", ('x' || range)::blob as "bytes", [range, null] as "list",
    {'a': range, 'b': ['c']} as "struct", map {'k': range} as "map"
from range(15000)
"""


def as_duckdb_writes(path: Path) -> None:
    duckdb.sql(f"copy ({OF_DUCKDB}) to '{path}' (row_group_size 5000)")


def as_polars_writes(path: Path) -> None:
    duckdb.sql(OF_DUCKDB).pl().write_parquet(path, row_group_size=GROUP)


def as_delta_writes(path: Path) -> None:
    write_deltalake(
        str(path.parent / "table"),
        duckdb.sql(f"""select * exclude("uuid", "time") from ({OF_DUCKDB})""").to_arrow_table(),
    )
    [file] = (path.parent / "table").glob("*.parquet")
    file.rename(path)


@pytest.mark.parametrize(
    ("write", "others"),
    [
        (as_duckdb_writes, ["decimal"]),
        (as_polars_writes, ["decimal"]),
        (as_delta_writes, ["decimal", "list", "struct", "map"]),
    ],
)
def test_files_of_other_writers_are_copied_as_those_of_arrow(
    tmp_path: Path, write: Callable[[Path], None], others: list[str]
) -> None:
    """others: columns of which Arrow would write other pages."""
    write(tmp_path / "data.parquet")
    of = ParquetSource(["data.parquet"], tmp_path)
    before = pq.read_table(tmp_path / "data.parquet")
    decoded = []
    for name in of.original.names:
        path = spliced(tmp_path, of, [name])
        if path is None:
            decoded.append(name)
            continue
        assert pq.read_table(path)[name].equals(before[name]), name
        found, expected = (pl.read_parquet(one, columns=[name]) for one in (path, tmp_path / "data.parquet"))
        assert found.equals(expected), name
        path.unlink()
    assert decoded == others


HEADERS = {
    "no struct": b"\xff" * 40,
    "a size below 0": bytes.fromhex("15 00 15 00 15 0d 00"),  # of as many bytes as this has
    "a size that is text": bytes.fromhex("15 00 15 00 18 01 61 00"),
    "no size": bytes.fromhex("15 00 00"),
    "a number for a struct": bytes.fromhex("15 00 15 00 15 00 25 00 00"),
    "structs in structs": b"\x1c" * 5_000,
}


@pytest.mark.parametrize("header", HEADERS)
def test_a_page_with_a_damaged_header_is_not_copied(
    tmp_path: Path, text: tuple[ParquetSource, EncodedRows], header: str
) -> None:
    of, rows = text
    [chunk] = rows.columns["text"].chunks[1]
    data = bytearray(rows.path.read_bytes())
    data[chunk.start : chunk.start + len(HEADERS[header])] = HEADERS[header]
    rows.path.write_bytes(data)
    assert put_together(tmp_path, rows, schema(of, ["text"])) is None


@pytest.mark.parametrize("left", [0, 1_000])
def test_a_file_that_is_cut_off_by_now_is_for_those_who_decode_it(
    tmp_path: Path, text: tuple[ParquetSource, EncodedRows], left: int
) -> None:
    of, rows = text
    os.truncate(rows.path, left)
    assert put_together(tmp_path, rows, schema(of, ["text"])) is None


def test_a_file_that_is_gone_by_now_is_told(tmp_path: Path, text: tuple[ParquetSource, EncodedRows]) -> None:
    of, rows = text
    rows.path.unlink()
    with pytest.raises(DataError, match=r"^The file '.*/data\.parquet' cannot be read: No such file or directory\.$"):
        put_together(tmp_path, rows, schema(of, ["text"]))


def test_row_groups_that_arrow_would_cut_are_not_copied(
    tmp_path: Path, text: tuple[ParquetSource, EncodedRows], monkeypatch: pytest.MonkeyPatch
) -> None:
    of, rows = text
    monkeypatch.setattr(assay.sinks.spliced, "MOST_GROUP_ROWS", GROUP - 1)
    assert put_together(tmp_path, rows, schema(of, ["text"])) is None


def test_what_goes_wrong_with_own_columns_is_not_told_of_the_predictions(
    tmp_path: Path, text: tuple[ParquetSource, EncodedRows]
) -> None:
    of, rows = text

    def own() -> pa.Table:
        raise OSError("outputs")

    with pytest.raises(OSError, match=r"^outputs$"):
        sink(tmp_path).splice("part", schema(of, ["text"]), rows, own)


def test_own_columns_are_asked_for_only_where_they_are_needed(tmp_path: Path) -> None:
    of = source(tmp_path, pa.table({"text": KINDS["text"]}), row_group_size=1_000)

    def own() -> pa.Table:
        raise AssertionError("asked for")

    assert sink(tmp_path).splice("part", schema(of, ["text"]), encoded(of, ["text"]), own) is None
