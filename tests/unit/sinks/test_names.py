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
from assay.sinks.names import folder_of, is_own

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
        f"The partition column 'k' has the value '{value}', and a folder of that name would read as null. Take the "
        "column out of partition_by, or write another value."
    )
    with pytest.raises(DataError, match=f"^{sentence}$"):
        folder_of({"k": value})


@pytest.mark.parametrize(
    ("path", "own"),
    [
        (f"part-u1-{'a' * 32}.parquet", True),
        (f"part-u1.0001-{'a' * 32}.csv.gz", True),
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
