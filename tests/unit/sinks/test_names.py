"""Names of parts and folders of partitions, as other readers take them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from assay.errors import DataError
from assay.sinks.names import folder_of, is_own, part_name

VALUES = [
    "US",
    "a/b",
    "x=y",
    "é ü",
    "100%",
    "%41",
    "a b",
    ".",
    "..",
    "q?#:",
    "C:\\d",
    "{[^]}",
    "'\"*",
    "tab\tnew\nline",
]


def test_every_reader_takes_the_values_as_they_were(tmp_path: Path) -> None:
    rows = [(number, value) for number, value in enumerate([*VALUES, None])]
    for number, value in rows:
        folder = tmp_path / folder_of({"k": value})
        folder.mkdir()
        pq.write_table(pa.table({"x": [number]}), folder / "part-0.parquet")
    read = ds.dataset(tmp_path, partitioning="hive", format="parquet").to_table().to_pylist()
    assert sorted((row["x"], row["k"]) for row in read) == rows
    by_duckdb = duckdb.sql(
        f"select x, k from read_parquet('{tmp_path}/*/*.parquet', hive_partitioning=true) order by x"
    )
    assert by_duckdb.fetchall() == rows
    assert sorted(pl.read_parquet(tmp_path, hive_partitioning=True).select("x", "k").rows()) == rows


def test_folders_nest_in_the_order_of_the_columns() -> None:
    assert folder_of({"b": "1", "a": None}) == "b=1/a=__HIVE_DEFAULT_PARTITION__/"


@pytest.mark.parametrize("value", ["", "__HIVE_DEFAULT_PARTITION__"])
def test_a_value_that_would_read_as_null_is_refused(value: str) -> None:
    sentence = (
        f"The partition column 'k' has the value '{value}'; of a folder of that name some readers make null, and "
        "some an error. Take the column out of predictions.partition_by, or leave such rows out by data.where."
    )
    with pytest.raises(DataError) as refused:
        folder_of({"k": value})
    assert str(refused.value) == sentence


def test_a_value_that_is_too_long_for_a_disk_is_refused(tmp_path: Path) -> None:
    fits = 126 * "é" + "x"  # with `k=` 255 bytes
    (tmp_path / folder_of({"k": fits})).mkdir()
    with pytest.raises(DataError) as refused:
        folder_of({"k": fits + "x"})
    assert str(refused.value) == (
        f"The partition column 'k' has a value of 128 letters ('{39 * 'é'}...), and a folder of that name would have "
        "256 bytes, of which 255 are the most. Take the column out of predictions.partition_by, or leave such rows out "
        "by data.where."
    )


def test_a_folder_that_no_reader_takes_values_from_may_have_any_name(tmp_path: Path) -> None:
    found = [folder_of({"k": value}, exact=False) for value in ("", "a", 300 * "a", 301 * "a")]
    assert found[:2] == ["k=/", "k=a/"]
    assert len(set(found)) == 4
    assert max(map(len, found)) < 50


@pytest.mark.parametrize(
    ("path", "own"),
    [
        (f"part-u1-{'a' * 32}.parquet", True),
        (f"part-u1.0000001-{'a' * 32}.csv.gz", True),
        (f"k=a%2Fb/l=__HIVE_DEFAULT_PARTITION__/part-u1-{'0' * 32}.jsonl", True),
        (f"dead-letter/part-u1-{'a' * 32}.parquet", False),
        (f"_writing/part-u1-{'a' * 32}.parquet", False),
        (f"part-u1-{'a' * 31}.parquet", False),
        (f"part-u1-{'A' * 32}.parquet", False),
        (f"part-u1-{'a' * 32}.orc", False),
        (f"part-u1-{'a' * 32}.parquet.bak", False),
        ("part-0.parquet", False),
        ("manifest.json", False),
    ],
)
def test_names_of_our_own_form(path: str, own: bool) -> None:
    assert is_own(path) is own


def test_files_of_a_part_are_sorted_by_name_in_the_order_of_their_rows() -> None:
    names = [part_name("u1", number, "f" * 32, ".csv") for number in (0, 1, 9, 10, 9_999, 10_000, 100_000)]
    assert sorted(names) == names
