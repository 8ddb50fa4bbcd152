"""Predictions written to a real S3-compatible server: whole objects alone, the bytes of a disk, one commit."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from fakes import s3

from assay.build import sink
from assay.errors import RunError
from assay.records import SinkSettings
from assay.store import objects
from assay.store.folder import open_folder

ROWS = pa.table(
    {"id": pa.array(range(1000), pa.int64()), "k": [("a/b", None, "é 100%")[row % 3] for row in range(1000)]}
)


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    with s3.server("out") as port:
        yield port


@pytest.fixture
def bucket(server: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    for name, value in s3.environment(server).items():
        monkeypatch.setenv(name, value)
    return f"s3://out/a {re.sub('[^a-z0-9]', '-', request.node.name)}"


@pytest.mark.parametrize("format", ["parquet", "arrow", "csv", "jsonl"])
@pytest.mark.parametrize("partition_by", [(), ("k",)])
def test_a_bucket_holds_the_bytes_of_a_disk(
    bucket: str, tmp_path: Path, format: str, partition_by: tuple[str, ...]
) -> None:
    made = [sink(SinkSettings(format, to, "run", partition_by, file_rows=400)) for to in (bucket, str(tmp_path))]
    for to in made:
        to.begin(ROWS.schema)
        to.begin(ROWS.schema)
    there, here = (pickle.loads(pickle.dumps(to)).write("u1", ROWS.schema, ROWS.to_batches()) for to in made)
    assert there == here
    stale = made[0].write("u0", ROWS.schema, ROWS.to_batches())
    place = open_folder(bucket, "reader")
    assert {file.path for file in (*there, *stale)} < set(place.list())
    made[0].commit(there, ROWS.schema)
    assert set(place.list()) == {"_run-run", *(file.path for file in there)}
    assert [place.get(file.path) for file in there] == [(tmp_path / file.path).read_bytes() for file in there]
    with pytest.raises(RunError, match="holds the predictions of another run"):
        sink(SinkSettings(format, bucket, "other run")).begin(ROWS.schema)


def test_a_large_object_goes_in_pieces(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PIECE_BYTES", 5 << 20)
    content = np.random.default_rng(1).bytes(12 << 20)
    place = open_folder(bucket, "run")
    with place.draft() as draft:
        draft.write_bytes(content)
        place.publish(draft, "large")
        assert place.list() == ("large",)
    assert place.get("large") == content
    assert not draft.exists()


def test_a_delta_table_in_a_bucket(bucket: str) -> None:
    to = sink(SinkSettings("delta", bucket.replace(" ", "-"), "run", ("k",)))
    to.begin(ROWS.schema)
    parts = to.write("u1", ROWS.schema, ROWS.to_batches())
    for _ in range(2):
        pickle.loads(pickle.dumps(to)).commit(parts, ROWS.schema)
    table = DeltaTable(bucket.replace(" ", "-"))
    assert table.version() == 1
    read = table.to_pyarrow_table().sort_by("id")
    assert read["id"].to_pylist() == list(range(1000))
    assert read["k"].to_pylist() == ROWS["k"].to_pylist()
