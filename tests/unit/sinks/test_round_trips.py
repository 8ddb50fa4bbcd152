"""What comes out of each format for each type that goes in, read by several libraries; and what is refused."""

from __future__ import annotations

import io
import json
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from assay.build import sink
from assay.errors import DataError
from assay.records import SinkSettings
from assay.sinks import delta, iceberg
from assay.sinks.forms import Form
from assay.store.folder import open_folder

NOON = datetime(2024, 1, 31, 12, 0, 0, 250_000)
VALUES: dict[str, tuple[object, pa.DataType]] = {
    "large_id": (2**53 + 1, pa.int64()),
    "unsigned": (2**32 - 1, pa.uint32()),
    "unsigned_64": (2**64 - 1, pa.uint64()),
    "small": (-128, pa.int8()),
    "half": (0.5, pa.float16()),
    "single": (0.1, pa.float32()),
    "double": (0.1, pa.float64()),
    "flag": (True, pa.bool_()),
    "text": ("é", pa.string()),
    "large_text": ('a"b,\nc', pa.large_string()),
    "bytes": (b"\xff\x00", pa.binary()),
    "fixed_bytes": (b"abcd", pa.binary(4)),
    "decimal": (Decimal("12345678901234567.10"), pa.decimal128(20, 2)),
    "wide_decimal": (Decimal("1.5"), pa.decimal256(50, 1)),
    "day": (date(2024, 1, 31), pa.date32()),
    "clock": (time(12, 0, 0, 5), pa.time64("us")),
    "moment": (NOON, pa.timestamp("us")),
    "moment_ns": (NOON, pa.timestamp("ns")),
    "moment_there": (NOON.replace(tzinfo=UTC), pa.timestamp("us", "Europe/Berlin")),
    "duration": (timedelta(seconds=2), pa.duration("ms")),
    "nothing": (None, pa.null()),
    "coded": ("x", pa.dictionary(pa.int16(), pa.string())),
    "list": ([1, None], pa.list_(pa.int64())),
    "embedding": ([0.5, 1.5], pa.list_(pa.float32(), 2)),
    "lists": ([["a"], None, []], pa.large_list(pa.list_(pa.string()))),
    "record": ({"a": 1, "b": "x"}, pa.struct([("a", pa.int32()), ("b", pa.string())])),
    "map": ([("k", 1)], pa.map_(pa.string(), pa.int32())),
    "coded_list": (["x"], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
}
"""Column -> a value and its type; the second row of each column is null."""


def table_of(*names: str) -> pa.Table:
    schema = pa.schema(
        [pa.field(name, VALUES[name][1], metadata={"unit": name}) for name in names], metadata={"made by": "a test"}
    )
    return pa.table([pa.array([VALUES[name][0], None], VALUES[name][1]) for name in names], schema=schema)


def written(path: Path, format: str, table: pa.Table) -> Path:
    to = sink(SinkSettings(format, str(path), "run"))
    (file,) = to.write("u1", table.schema, table.to_batches())
    return path / file.path


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_parquet_and_arrow_give_back_all_that_went_in(tmp_path: Path, format: str) -> None:
    table = table_of(*VALUES)
    assert sink(SinkSettings(format, str(tmp_path), "run")).check(table.schema) == ()
    path = written(tmp_path, format, table)
    read = pq.read_table(path) if format == "parquet" else pa.ipc.open_file(path).read_all()
    assert read.equals(table)  # the names of items in lists are Parquet's own and no part of a type
    assert read.schema.metadata == table.schema.metadata
    assert [field.metadata for field in read.schema] == [field.metadata for field in table.schema]


@pytest.mark.parametrize(
    ("kind", "returned"),
    [
        (pa.date64(), "date32[day]"),
        (pa.timestamp("s"), "timestamp[ms]"),
        (pa.dictionary(pa.int8(), pa.int64()), "int64"),
    ],
)
def test_parquet_says_which_types_come_back_as_others(tmp_path: Path, kind: pa.DataType, returned: str) -> None:
    table = pa.table({"x": pa.nulls(2, kind)})
    note = f"The column 'x' of type {kind} is written as {returned}."
    assert sink(SinkSettings("parquet", str(tmp_path), "run")).check(table.schema) == (note,)
    assert str(pq.read_table(written(tmp_path, "parquet", table)).schema.field("x").type) == returned


def test_other_libraries_read_the_values_of_parquet(tmp_path: Path) -> None:
    names = ("large_id", "unsigned_64", "single", "text", "decimal", "moment_there", "coded", "list", "embedding")
    path = written(tmp_path, "parquet", table_of(*names))
    berlin = NOON.replace(tzinfo=UTC)
    expected = [2**53 + 1, 2**64 - 1, 0.10000000149011612, "é", Decimal("12345678901234567.10"), berlin, "x", [1, None]]
    by_polars = list(pl.read_parquet(path).row(0))
    assert [list(one) if isinstance(one, pl.Series) else one for one in by_polars] == [*expected, [0.5, 1.5]]
    by_duckdb = duckdb.sql(f"select * from '{path}'").fetchall()
    assert list(by_duckdb[0]) == [*expected, [0.5, 1.5]]
    assert by_duckdb[1] == (None,) * len(names)
    by_pandas = pd.read_parquet(path, dtype_backend="pyarrow")
    assert [by_pandas[name][0] for name in ("large_id", "unsigned_64", "decimal", "text")] == [
        expected[0],
        expected[1],
        expected[4],
        "é",
    ]


def test_other_libraries_read_arrow(tmp_path: Path) -> None:
    path = written(tmp_path, "arrow", table_of("large_id", "text", "coded", "embedding"))
    assert pl.read_ipc(path).rows() == [(2**53 + 1, "é", "x", [0.5, 1.5]), (None,) * 4]
    assert pd.read_feather(path)["coded"].tolist()[0] == "x"


TEXTS = {
    "large_id": "9007199254740993",
    "unsigned": "4294967295",
    "unsigned_64": "18446744073709551615",
    "small": "-128",
    "half": "0.5",
    "single": "0.1",
    "double": "0.1",
    "flag": "true",
    "text": '"é"',
    "large_text": '"a""b,\nc"',
    "decimal": "12345678901234567.10",
    "wide_decimal": "1.5",
    "day": "2024-01-31",
    "clock": "12:00:00.000005",
    "moment": "2024-01-31 12:00:00.250000",
    "moment_ns": "2024-01-31 12:00:00.250000000",
    "moment_there": "2024-01-31 12:00:00.250000Z",
    "duration": "2000",
    "nothing": "",
    "coded": '"x"',
}


def test_csv_is_this_text(tmp_path: Path) -> None:
    path = written(tmp_path, "csv", table_of(*TEXTS))
    header = ",".join(f'"{name}"' for name in TEXTS)
    assert path.read_text() == f"{header}\n{','.join(TEXTS.values())}\n{',' * (len(TEXTS) - 1)}\n"


def test_readers_of_csv_tell_null_from_an_empty_text(tmp_path: Path) -> None:
    path = written(tmp_path, "csv", pa.table({"x": ["", None, "NA"], "n": [float("nan"), None, float("-inf")]}))
    assert path.read_text() == '"x","n"\n"",nan\n,\n"NA",-inf\n'
    convert = pv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""])
    assert pv.read_csv(path, convert_options=convert)["x"].to_pylist() == ["", None, "NA"]


def test_other_libraries_read_csv(tmp_path: Path) -> None:
    names = ("large_id", "unsigned_64", "double", "flag", "text", "large_text", "day")
    path = written(tmp_path, "csv", table_of(*names))
    expected = (2**53 + 1, 2**64 - 1, 0.1, True, "é", 'a"b,\nc', date(2024, 1, 31))
    assert pl.read_csv(path, try_parse_dates=True).row(0)[2:] == expected[2:]
    assert pl.read_csv(path).row(0)[0] == expected[0]
    assert duckdb.sql(f"select large_id, double, flag, text, large_text, day from '{path}'").fetchall()[0] == (
        expected[0],
        *expected[2:],
    )
    assert pv.read_csv(path, parse_options=pv.ParseOptions(newlines_in_values=True))["large_id"][0].as_py() == 2**53 + 1
    assert pd.read_csv(path, dtype_backend="pyarrow")["large_id"][0] == 2**53 + 1


def test_json_lines_are_this_text(tmp_path: Path) -> None:
    names = [name for name in VALUES if "bytes" not in name]
    first, second = written(tmp_path, "jsonl", table_of(*names)).read_text().splitlines()
    assert json.loads(second) == dict.fromkeys(names)
    assert first == (
        '{"large_id":9007199254740993,"unsigned":4294967295,"unsigned_64":18446744073709551615,"small":-128,"half":0.5,'
        '"single":0.1,"double":0.1,"flag":true,"text":"é","large_text":"a\\"b,\\nc","decimal":"12345678901234567.10",'
        '"wide_decimal":"1.5","day":"2024-01-31","clock":"12:00:00.000005","moment":"2024-01-31T12:00:00.250000",'
        '"moment_ns":"2024-01-31T12:00:00.250000000","moment_there":"2024-01-31T12:00:00.250000Z","duration":2000,'
        '"nothing":null,"coded":"x","list":[1,null],"embedding":[0.5,1.5],"lists":[["a"],null,[]],'
        '"record":{"a":1,"b":"x"},"map":[{"key":"k","value":1}],"coded_list":["x"]}'
    )


def test_other_libraries_read_json_lines(tmp_path: Path) -> None:
    names = ("large_id", "double", "text", "large_text", "list", "record")
    path = written(tmp_path, "jsonl", table_of(*names))
    expected = (2**53 + 1, 0.1, "é", 'a"b,\nc', [1, None], {"a": 1, "b": "x"})
    assert duckdb.sql(f"select * from read_json('{path}')").fetchall() == [expected, (None,) * 6]
    assert pl.read_ndjson(path).rows() == [expected, (None,) * 6]
    by_pandas = pd.read_json(io.BytesIO(path.read_bytes()), lines=True, dtype_backend="pyarrow", engine="pyarrow")
    assert by_pandas["large_id"][0] == 2**53 + 1


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@pytest.mark.parametrize(("compression", "ending"), [("gzip", ".gz"), ("zstd", ".zst")])
def test_texts_are_compressed_and_read(tmp_path: Path, format: str, compression: str, ending: str) -> None:
    rows = pa.table({"x": range(10_000)})
    to = sink(SinkSettings(format, str(tmp_path), "run", compression=compression))
    (file,) = to.write("u1", rows.schema, rows.to_batches(max_chunksize=999))
    assert file.path.endswith(f".{format}{ending}")
    reader = "read_csv" if format == "csv" else "read_json"
    read = duckdb.sql(f"select count(*), sum(x) from {reader}('{tmp_path / file.path}')").fetchall()
    assert read == [(10_000, sum(range(10_000)))]


HELD_BY_DELTA: dict[str, object] = {
    "large_id": 2**53 + 1,
    "unsigned": 2**32 - 1,
    "small": -128,
    "half": 0.5,
    "single": 0.10000000149011612,
    "double": 0.1,
    "flag": True,
    "text": "é",
    "large_text": 'a"b,\nc',
    "bytes": b"\xff\x00",
    "decimal": Decimal("12345678901234567.10"),
    "day": date(2024, 1, 31),
    "moment": NOON,
    "moment_there": NOON.replace(tzinfo=UTC),
    "coded": "x",
    "list": [1, None],
    "embedding": [0.5, 1.5],
    "lists": [["a"], None, []],
    "record": {"a": 1, "b": "x"},
    "map": [("k", 1)],
    "coded_list": ["x"],
}


def test_what_a_delta_table_gives_back(tmp_path: Path) -> None:
    table = table_of(*HELD_BY_DELTA)
    to = sink(SinkSettings("delta", str(tmp_path), "run"))
    notes = to.check(table.schema)
    assert "The column 'unsigned' of type uint32 is written as int64." in notes
    to.begin(table.schema)
    to.commit(to.write("u1", table.schema, table.to_batches()), table.schema)
    read = pa.table(DeltaTable(str(tmp_path)).to_pyarrow_table())
    first = read.to_pylist()[0]
    assert {name: first[name] for name in HELD_BY_DELTA} == HELD_BY_DELTA
    assert _types(delta.FORM.stored(read.schema)) == _types(delta.FORM.stored(table.schema))
    assert read.to_pylist()[1] == dict.fromkeys(HELD_BY_DELTA)
    by_polars: Any = pl.read_delta(str(tmp_path)).to_dicts()[0]  # Any: of many types
    assert by_polars["large_id"] == 2**53 + 1
    assert by_polars["decimal"] == Decimal("12345678901234567.10")


def test_what_an_iceberg_table_gives_back(tmp_path: Path) -> None:
    names = [*HELD_BY_DELTA, "clock", "fixed_bytes"]
    table = table_of(*names)
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    with closing(load_catalog("local", **properties)) as catalog:
        catalog.create_namespace("n")
    to = iceberg.IcebergSink("local.n.t", SinkSettings("iceberg", "local.n.t", "run"), open_folder, properties)
    assert "The column 'small' of type int8 is written as int32." in to.check(table.schema)
    to.begin(table.schema)
    to.commit(to.write("u1", table.schema, table.to_batches()), table.schema)
    with closing(load_catalog("local", **properties)) as catalog:
        read = catalog.load_table("n.t").scan().to_arrow()
    expected = HELD_BY_DELTA | {"clock": VALUES["clock"][0], "fixed_bytes": b"abcd"}
    assert read.to_pylist()[0] == expected
    assert read.to_pylist()[1] == dict.fromkeys(names)
    assert _types(iceberg.FORM.stored(read.schema)) == _types(iceberg.FORM.stored(table.schema))


def _types(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema}


REFUSED = {
    "csv": ["bytes", "fixed_bytes", "list", "embedding", "lists", "record", "map", "coded_list"],
    "jsonl": ["bytes", "fixed_bytes"],
    "delta": ["unsigned_64", "wide_decimal", "clock", "moment_ns", "duration", "nothing"],
    "iceberg": ["unsigned_64", "wide_decimal", "moment_ns", "duration", "nothing"],
}
FORMATS = {"csv": "CSV", "jsonl": "JSON lines", "delta": "Delta", "iceberg": "Iceberg"}


@pytest.mark.parametrize("format", REFUSED)
def test_every_column_that_a_format_cannot_hold_is_named_at_once(tmp_path: Path, format: str) -> None:
    to = sink(SinkSettings(format, "c.n.t" if format == "iceberg" else str(tmp_path), "run"))
    with pytest.raises(DataError) as refused:
        to.check(table_of(*VALUES).schema)
    assert str(refused.value).splitlines() == [
        f"The column {name!r} is of type {VALUES[name][1]}, which {FORMATS[format]} cannot hold. Write another format "
        "(parquet and arrow hold the most types), or leave it out: of carry_over, or of the variant's outputs."
        for name in REFUSED[format]
    ]
    to.check(table_of(*(name for name in VALUES if name not in REFUSED[format])).schema)


@pytest.mark.parametrize(
    "kind", [pa.month_day_nano_interval(), pa.struct([]), pa.sparse_union([pa.field("a", pa.int8())])]
)
def test_parquet_refuses_what_it_cannot_write(tmp_path: Path, kind: pa.DataType) -> None:
    with pytest.raises(DataError, match=r"^The column 'x' is of type .*, which Parquet cannot hold"):
        sink(SinkSettings("parquet", str(tmp_path), "run")).check(pa.schema({"x": kind}))
    assert sink(SinkSettings("arrow", str(tmp_path), "run")).check(pa.schema({"x": kind})) == ()


def test_two_columns_of_a_name_are_refused() -> None:
    schema = pa.schema([("x", pa.int64()), ("x", pa.int8())])
    with pytest.raises(DataError, match=r"^Two columns are named 'x'\. Give one of them another name\.$"):
        Form("Any", lambda kind: kind).stored(schema)
