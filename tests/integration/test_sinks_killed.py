"""A process that is killed while it writes a part: readers see nothing of it, and the part can be written again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pyarrow as pa
import pytest

from assay.build import sink
from assay.records import SinkSettings

SCRIPT = """
import sys
import pyarrow as pa
from assay.build import sink
from assay.records import SinkSettings

format, to = sys.argv[1:]
rows = pa.table({"x": pa.array(range(200_000), pa.int64())})

def batches():
    yield from rows.slice(0, 100_000).to_batches()
    print("half", flush=True)
    sys.stdin.read()

sink(SinkSettings(format, to, "run")).write("u1", rows.schema, batches())
"""


@pytest.mark.parametrize("format", ["parquet", "arrow", "csv", "jsonl"])
def test_a_killed_writer_leaves_nothing_that_a_reader_sees(tmp_path: Path, format: str) -> None:
    rows = pa.table({"x": pa.array(range(200_000), pa.int64())})
    to = sink(SinkSettings(format, str(tmp_path), "run"))
    to.begin(rows.schema)
    with subprocess.Popen([sys.executable, "-c", SCRIPT, format, str(tmp_path)], stdin=PIPE, stdout=PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        writer.kill()
        writer.wait(60)
    drafts = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "_run-run"]
    assert [path.parent.parent.name for path in drafts] == ["_writing"]
    assert drafts[0].stat().st_size > 0
    parts = to.write("u1", rows.schema, rows.to_batches())
    to.commit(parts, rows.schema)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_run-run", parts[0].path]
