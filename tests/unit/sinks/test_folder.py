"""A folder that one run has to itself: what is in it at the end is what the run lists."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from assay.build import sink
from assay.errors import DataError, RunError
from assay.protocols import Sink
from assay.records import SinkSettings
from assay.store.folder import DiskFolder

ROWS = pa.table({"x": [1, 2, 3]})


def opened(path: Path, run: str = "run 1") -> Sink:
    return sink(SinkSettings("parquet", str(path), run))


def write(to: Sink, part: str, rows: pa.Table = ROWS) -> str:
    (file,) = to.write(part, rows.schema, rows.to_batches())
    return file.path


def test_the_commit_leaves_the_listed_parts_and_what_is_not_ours(tmp_path: Path) -> None:
    to = opened(tmp_path)
    to.begin(ROWS.schema)
    kept = to.write("u1", ROWS.schema, ROWS.to_batches())
    stale = write(to, "u1", ROWS.slice(1))
    lost = write(to, "u2")
    others = [
        f"dead-letter/part-u1-{'0' * 32}.parquet",
        "notes.parquet",
        "manifest.json",
        f"part-u3-{'0' * 31}.parquet",
    ]
    (tmp_path / "dead-letter").mkdir()
    for other in others:
        (tmp_path / other).touch()
    nested = tmp_path / f"k=1/part-u1-{'0' * 32}.parquet"
    nested.parent.mkdir()
    nested.touch()
    assert {stale, lost} <= {path.name for path in tmp_path.iterdir()}
    for _ in range(2):
        to.commit(kept, ROWS.schema)
        left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
        assert left == {kept[0].path, "_run-run%201", *others}


def test_a_part_that_was_removed_is_missed_before_anything_is_deleted(tmp_path: Path) -> None:
    to = opened(tmp_path)
    to.begin(ROWS.schema)
    parts = [file for part in ("u1", "u2") for file in to.write(part, ROWS.schema, ROWS.to_batches())]
    unlisted = write(to, "u3")
    (tmp_path / parts[0].path).unlink()
    sentence = (
        f"1 of 2 parts are not in {tmp_path} any more, the first is '{parts[0].path}'. Someone has removed them; run "
        "again with another --out."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        to.commit(parts, ROWS.schema)
    assert (tmp_path / unlisted).exists()


def test_drafts_of_killed_processes_are_removed(tmp_path: Path) -> None:
    to = opened(tmp_path)
    to.begin(ROWS.schema)
    other = opened(tmp_path, "run 2")
    with to.parts.place.draft() as draft, other.parts.place.draft() as strange:  # type: ignore[attr-defined]  # a FolderSink
        draft.write_bytes(b"half")
        strange.write_bytes(b"half")
        to.commit((), ROWS.schema)
        assert not draft.exists()
        assert strange.exists()


def test_a_run_goes_on_in_its_folder_and_no_other_begins_there(tmp_path: Path) -> None:
    to = opened(tmp_path)
    to.begin(ROWS.schema)
    path = write(to, "u1")
    opened(tmp_path).begin(ROWS.schema)
    sentence = (
        f"{tmp_path} holds the predictions of another run (run 1); this one is run 2. Name another folder in "
        "predictions.to, or remove that one with all that is in it."
    )
    with pytest.raises(RunError) as refused:
        opened(tmp_path, "run 2").begin(ROWS.schema)
    assert str(refused.value) == sentence
    with pytest.raises(RunError) as refused:
        opened(tmp_path, "run 2").commit((), ROWS.schema)
    assert str(refused.value) == sentence
    assert (tmp_path / path).exists()


def test_of_two_runs_that_claim_a_folder_at_once_none_goes_on_with_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run's claim appears between this one's look at the folder and its own claim."""
    to = opened(tmp_path)
    put_new = DiskFolder.put_new

    def late(self: DiskFolder, path: str, data: bytes) -> bool:
        put_new(self, "_run-other", b"")
        return put_new(self, path, data)

    monkeypatch.setattr(DiskFolder, "put_new", late)
    with pytest.raises(RunError, match=r"holds the predictions of another run \(other\); this one is run 1\."):
        to.begin(ROWS.schema)
    assert [path.name for path in tmp_path.iterdir()] == ["_run-other"]


def test_a_folder_with_files_of_others_is_refused(tmp_path: Path) -> None:
    for hidden in ("_SUCCESS", ".crc"):
        (tmp_path / hidden).touch()
    (tmp_path / "old.parquet").touch()
    sentence = (
        f"{tmp_path} is not empty: it holds 'old.parquet', which readers of the predictions would read too. Name "
        "another folder in predictions.to, or empty it."
    )
    with pytest.raises(RunError) as refused:
        opened(tmp_path).begin(ROWS.schema)
    assert str(refused.value) == sentence
    (tmp_path / "old.parquet").unlink()
    opened(tmp_path).begin(ROWS.schema)
    assert (tmp_path / "_run-run%201").exists()


@pytest.mark.parametrize("format", ["parquet", "arrow", "csv", "jsonl"])
@pytest.mark.parametrize("column", ["_variant", ".k"])
def test_partitions_that_readers_of_folders_pass_over_are_refused(tmp_path: Path, format: str, column: str) -> None:
    to = sink(SinkSettings(format, str(tmp_path), "r", (column,)))
    with pytest.raises(DataError) as refused:
        to.check(pa.schema({"x": pa.int64(), column: pa.string()}))
    assert str(refused.value) == (
        f"partition_by names the column '{column}', and readers pass over folders whose names begin with an "
        "underscore or a dot: they would find no rows. Take a column of another name, or write a Delta or Iceberg "
        "table."
    )


def test_a_sink_travels(tmp_path: Path) -> None:
    to = opened(tmp_path)
    assert write(pickle.loads(pickle.dumps(to)), "u1") == write(to, "u1")
