"""A part: the same rows give the same files, whole or not at all, in memory of a piece."""

from __future__ import annotations

import gc
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import xxhash

from assay.build import SINKS, sink
from assay.errors import DataError, RunError
from assay.records import SinkSettings
from assay.sinks.folder import FolderSink
from assay.sinks.spool import MAX_PARTITIONS

FOLDERS = ("parquet", "arrow", "csv", "jsonl")


def table(rows: int = 1000) -> pa.Table:
    chance = np.random.default_rng(5)
    words = pa.array([None if number % 7 == 0 else f"word {number % 13}" for number in range(rows)])
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "score": pa.array(chance.random(rows), pa.float32()),
            "word": words,
            "coded": words.dictionary_encode(),
            "k": pa.array([("a", "b", None)[number % 3] for number in range(rows)]),
        }
    )


def folder(path: Path, format: str = "parquet", **settings: object) -> FolderSink:
    made = sink(SinkSettings(format, str(path), "run 1", **settings))  # type: ignore[arg-type]  # a test's own words
    assert isinstance(made, FolderSink)
    return made


def shuffled_batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Of 1, 2, 3, ... rows, some empty ones between."""
    start = 0
    for size in range(1, len(rows)):
        yield from rows.slice(start, size).combine_chunks().to_batches()
        yield _empty(rows)
        start += size
        if start >= len(rows):
            return


def _empty(rows: pa.Table) -> pa.RecordBatch:
    return rows.to_batches()[0].slice(0, 0)


@pytest.mark.parametrize("format", FOLDERS)
@pytest.mark.parametrize("partition_by", [(), ("k",)])
def test_the_same_rows_give_the_same_files_however_they_come(
    tmp_path: Path, format: str, partition_by: tuple[str, ...]
) -> None:
    rows = table()
    whole = folder(tmp_path / "a", format, partition_by=partition_by, file_rows=100)
    pieces = folder(tmp_path / "b", format, partition_by=partition_by, file_rows=100)
    once = whole.write("u1", rows.schema, rows.to_batches())
    assert pieces.write("u1", rows.schema, shuffled_batches(rows)) == once
    assert whole.write("u1", rows.schema, shuffled_batches(rows)) == once
    assert sum(file.rows for file in once) == 1000
    for file in once:
        content = (tmp_path / "a" / file.path).read_bytes()
        assert content == (tmp_path / "b" / file.path).read_bytes()
        assert (xxhash.xxh3_128_hexdigest(content), len(content)) == (file.digest, file.bytes)
    assert sorted(whole.parts.place.list()) == sorted(file.path for file in once)


def test_files_and_row_groups_have_the_sizes_that_were_asked_for(tmp_path: Path) -> None:
    rows = table()
    files = folder(tmp_path, row_group_rows=60, file_rows=400, compression="gzip").write(
        "u1", rows.schema, shuffled_batches(rows)
    )
    footers = [pq.read_metadata(tmp_path / file.path) for file in files]
    sizes = [[footer.row_group(group).num_rows for group in range(footer.num_row_groups)] for footer in footers]
    assert sizes == [[60] * 6 + [40], [60] * 6 + [40], [60, 60, 60, 20]]
    assert {footer.row_group(0).column(0).compression for footer in footers} == {"GZIP"}
    assert [file.path.split("-")[1] for file in files] == ["u1", "u1.0000001", "u1.0000002"]
    read = pa.concat_tables(pq.read_table(tmp_path / file.path) for file in files)
    assert read["id"].to_pylist() == list(range(1000))


def test_a_file_that_is_full_with_the_last_row_has_no_empty_one_behind_it(tmp_path: Path) -> None:
    rows = table(200)
    assert [file.rows for file in folder(tmp_path, file_rows=100).write("u1", rows.schema, rows.to_batches())] == [
        100
    ] * 2


def test_partitions_hold_their_rows_in_order_and_leave_their_column_to_the_folder(tmp_path: Path) -> None:
    rows = table(10)
    files = folder(tmp_path, partition_by=("k",)).write("u1", rows.schema, rows.to_batches(max_chunksize=4))
    assert [(file.partition, file.rows) for file in files] == [({"k": "a"}, 4), ({"k": "b"}, 3), ({"k": None}, 3)]
    contents = [pq.ParquetFile(tmp_path / file.path).read() for file in files]
    assert [content["id"].to_pylist() for content in contents] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert {tuple(content.column_names) for content in contents} == {("id", "score", "word", "coded")}
    read = ds.dataset(tmp_path, partitioning="hive").to_table().sort_by("id")
    assert read["k"].to_pylist() == rows["k"].to_pylist()


def test_views_can_be_cut_into_partitions_and_stay_views(tmp_path: Path) -> None:
    rows = pa.table({"k": ["a", "b", "a"], "text": ["x", None, "z"], "lists": [[b"1"], [], None]})
    views = [pa.string_view(), pa.string_view(), pa.list_(pa.binary_view())]
    seen = rows.cast(pa.schema(list(zip(rows.column_names, views, strict=True))))
    parts = folder(tmp_path, partition_by=("k",)).write("00000-u", seen.schema, seen.to_batches())
    assert [part.partition for part in parts] == [{"k": "a"}, {"k": "b"}]
    with pq.ParquetFile(tmp_path / parts[0].path) as file:
        assert file.read().to_pylist() == [{"text": "x", "lists": [b"1"]}, {"text": "z", "lists": None}]
        assert file.schema_arrow.types == views[1:]


def test_two_columns_and_all_kinds_of_them(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "day": pa.array([19_000, 19_000, None], pa.date32()),
            "flag": [True, False, True],
            "code": pa.array(["x", "y", "x"]).dictionary_encode(),
            "number": pa.array([2**60, -1, 7], pa.int64()),
            "value": [1.0, 2.0, 3.0],
        }
    )
    files = folder(tmp_path, partition_by=("day", "flag", "code", "number")).write("u", rows.schema, rows.to_batches())
    assert [file.path.rpartition("/")[0] for file in files] == [
        "day=2022-01-08/flag=false/code=y/number=-1",
        f"day=2022-01-08/flag=true/code=x/number={2**60}",
        "day=__HIVE_DEFAULT_PARTITION__/flag=true/code=x/number=7",
    ]


@pytest.mark.parametrize("format", FOLDERS)
def test_no_rows_make_no_file(tmp_path: Path, format: str) -> None:
    rows = table(3)
    assert folder(tmp_path, format).write("u1", rows.schema, [_empty(rows)]) == ()
    assert folder(tmp_path, format, partition_by=("k",)).write("u1", rows.schema, []) == ()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("format", FOLDERS)
@pytest.mark.parametrize("partition_by", [(), ("k",)])
def test_a_part_that_fails_shows_nothing(tmp_path: Path, format: str, partition_by: tuple[str, ...]) -> None:
    rows = table()

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches()
        raise DataError("The file is gone.")

    writer = folder(tmp_path, format, partition_by=partition_by)
    with pytest.raises(DataError, match=r"^The file is gone\.$"):
        writer.write("u1", rows.schema, batches())
    gc.collect()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_while_it_is_written_a_reader_sees_nothing(tmp_path: Path) -> None:
    rows, seen = table(), list[list[Path]]()

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows.to_batches(max_chunksize=100):
            seen.append(list(tmp_path.rglob("part-*")))
            yield batch

    folder(tmp_path, row_group_rows=50).write("u1", rows.schema, batches())
    assert seen == [[]] * 10
    assert len(list(tmp_path.rglob("part-*"))) == 1


@pytest.mark.parametrize("partition_by", [(), ("k",)])
def test_memory_holds_a_piece_and_not_the_part(tmp_path: Path, partition_by: tuple[str, ...]) -> None:
    before, taken = pa.total_allocated_bytes(), list[int]()
    keys = pa.array(["a", "b"] * 25_000)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(40):
            numbers = pc.add(pa.array(np.arange(50_000) / 7), float(start))
            yield pa.record_batch({"x": numbers, "k": keys})
            del numbers
            taken.append(pa.total_allocated_bytes() - before)

    schema = pa.schema({"x": pa.float64(), "k": pa.string()})
    folder(tmp_path, row_group_rows=50_000, partition_by=partition_by).write("u1", schema, batches())
    assert max(taken[20:]) <= max(taken[:20])
    assert max(taken) < 40 * 50_000 * 8  # the numbers of all batches


@pytest.mark.parametrize("partition_by", [(), ("k",)])
@pytest.mark.parametrize("format", ["parquet", "arrow", "jsonl"])
def test_rows_that_no_chunk_holds_together_are_written_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, partition_by: tuple[str, ...]
) -> None:
    rows = table(100).drop_columns(["coded"])
    settings = {"partition_by": partition_by, "row_group_rows": None if format == "jsonl" else 40}
    whole = folder(tmp_path / "whole", format, **settings).write("u1", rows.schema, rows.to_batches())
    monkeypatch.setattr("assay.sinks.feed.MOST_BYTES", 300)
    pieces = folder(tmp_path / "pieces", format, **settings).write("u1", rows.schema, rows.to_batches())
    assert len(whole) == len(pieces)
    for one, other in zip(whole, pieces, strict=True):
        found = [
            ds.dataset(tmp_path / name / part.path, format={"arrow": "ipc", "jsonl": "json"}.get(format, format))
            for name, part in (("whole", one), ("pieces", other))
        ]
        assert found[0].to_table().equals(found[1].to_table())
        assert one.partition == other.partition
    if format == "arrow":
        first = pa.ipc.open_file(tmp_path / "pieces" / pieces[0].path)
        assert first.get_batch(0).nbytes <= 300


def test_rows_that_cannot_be_set_aside_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "aside"))
    (tmp_path / "aside").mkdir()
    rows = pa.table({"k": ["a", "b"], "x": [1, 2]})

    def batches() -> Iterator[pa.RecordBatch]:
        shutil.rmtree(tmp_path / "aside")
        yield from rows.to_batches()

    with pytest.raises(RunError) as caught:
        folder(tmp_path / "out", partition_by=("k",)).write("u1", rows.schema, batches())
    assert re.sub("'.*'", "PATH", str(caught.value)) == (
        f"Rows of a part cannot be set aside in {tmp_path}/aside: [Errno 2] Failed to open local file PATH. Detail: "
        "[errno 2] No such file or directory. Set TMPDIR to a folder with room for the rows of a unit."
    )


@pytest.mark.parametrize("format", FOLDERS)
def test_a_part_of_too_many_partitions_is_refused(tmp_path: Path, format: str) -> None:
    rows = pa.table({"k": range(MAX_PARTITIONS + 1), "x": range(MAX_PARTITIONS + 1)})
    sentence = (
        r"partition_by \(k\) cuts the rows of one part into more than 256 partitions, each a file of its own. Take "
        "columns with fewer values, or none."
    )
    with pytest.raises(DataError, match=f"^{sentence}$"):
        folder(tmp_path, format, partition_by=("k",)).write("u1", rows.schema, rows.to_batches())
    assert folder(tmp_path, format, partition_by=("k",)).write("u1", rows.schema, rows.slice(1).to_batches())


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_dictionaries_of_several_batches_come_together(tmp_path: Path, format: str, ordered: bool) -> None:
    kind = pa.dictionary(pa.int8(), pa.string(), ordered)
    words = [["low", "high"], ["high", "top", None], ["low"]]
    batches = [pa.record_batch([pa.array(some, pa.string()).cast(kind)], ["d"]) for some in words]
    if ordered:  # an order is one
        levels = pa.array(["low", "high", "top"])
        codes = [
            pa.array([None if word is None else levels.to_pylist().index(word) for word in some]) for some in words
        ]
        arrays = [pa.DictionaryArray.from_arrays(some.cast(pa.int8()), levels, ordered=True) for some in codes]
        batches = [pa.record_batch([one], ["d"]) for one in arrays]
    files = folder(tmp_path, format, row_group_rows=2).write("u", pa.schema({"d": kind}), batches)
    read = ds.dataset(tmp_path / files[0].path, format="ipc" if format == "arrow" else format).to_table()
    assert read["d"].to_pylist() == [word for some in words for word in some]


def test_codes_that_are_too_small_for_all_words_are_refused(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    batches = [
        pa.record_batch([pa.array([f"{start + number}" for number in range(100)]).cast(kind)], ["d"])
        for start in (0, 100)
    ]
    with pytest.raises(DataError, match=r"^Rows of several batches cannot be put together: .* cast the column to text"):
        folder(tmp_path).write("u", pa.schema({"d": kind}), batches)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    rows = table(3)
    with pytest.raises(RunError, match=f"^{tmp_path}/file/_writing/[0-9a-f]+ cannot be made: Not a directory.$"):
        folder(tmp_path / "file").write("u1", rows.schema, rows.to_batches())


@pytest.mark.parametrize("format", SINKS)
def test_columns_that_cannot_be_partitions(tmp_path: Path, format: str) -> None:
    kinds = {"x": pa.float64(), "k": pa.string(), "country": pa.string(), "at": pa.timestamp("us", "UTC")}
    schema = pa.schema(kinds)
    to = "c.n.t" if format == "iceberg" else str(tmp_path)

    def refusal(*partition_by: str) -> str:
        with pytest.raises(DataError) as refused:
            sink(SinkSettings(format, to, "r", partition_by)).check(schema)
        return str(refused.value)

    assert refusal("yonder") == (
        "predictions.partition_by[0]: the output has no column 'yonder'. Columns of the data are in it once carry_over "
        "names them."
    )
    assert refusal("k", "contry") == (
        "predictions.partition_by[1]: the output has no column 'contry'; did you mean 'country'?"
    )
    assert refusal("x") == (
        "predictions.partition_by[0]: the values of the column 'x', of type double, cannot name folders. Take a column "
        "of texts, integers, booleans or days."
    )
    assert "'at', of type timestamp[us, tz=UTC], cannot name folders" in refusal("at")
    only = pa.schema({"k": pa.string()})
    with pytest.raises(
        DataError,
        match=r"^predictions\.partition_by: names every column of the output, so that files would hold none\.$",
    ):
        sink(SinkSettings(format, to, "r", ("k",))).check(only)


@pytest.mark.parametrize(
    ("format", "settings", "sentence"),
    [
        (
            "csv",
            {"row_group_rows": 5},
            "predictions.row_group_rows: got 5, but csv has no row groups. Leave it out, or write parquet.",
        ),
        (
            "jsonl",
            {"compression": "gzp"},
            "predictions.compression: jsonl has no compression 'gzp'; did you mean 'gzip'?",
        ),
        (
            "arrow",
            {"compression": "snappy"},
            "predictions.compression: arrow has no compression 'snappy'; expected 'none', 'lz4' or 'zstd'.",
        ),
        (
            "delta",
            {"compression": "zip"},
            "predictions.compression: delta has no compression 'zip'; did you mean 'gzip'?",
        ),
        (
            "iceberg",
            {"to": "table"},
            "predictions.to: got 'table', expected catalog.namespace.table for an Iceberg table.",
        ),
    ],
)
def test_settings_without_effect(tmp_path: Path, format: str, settings: dict[str, object], sentence: str) -> None:
    words = {"format": format, "to": str(tmp_path), "run": "r"} | settings
    with pytest.raises(DataError) as refused:
        sink(SinkSettings(**words))  # type: ignore[arg-type]  # a test's own words
    assert str(refused.value) == sentence


@pytest.mark.parametrize(("format", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, format: str, package: str) -> None:
    monkeypatch.delitem(sys.modules, f"assay.sinks.{format}", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # type: ignore[arg-type]  # so that it cannot be imported
    sentence = (
        f"The format '{format}' cannot be written: the package '{package}' is not installed; pip install "
        f"'assay[{format}]'."
    )
    with pytest.raises(RunError) as refused:
        sink(SinkSettings(format, "c.n.t", "r"))
    assert str(refused.value) == sentence
