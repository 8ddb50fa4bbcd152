"""Entries as bytes, and a long log that is read from its volumes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.errors import RunError
from assay.records import CommittedFile, Receipt
from assay.store import entries as log_entries
from assay.store import log as commit_log
from assay.store.entries import encode, read_entries
from assay.store.log import CommitLog
from assay.store.objects import RunStore
from assay.store.run import RunDirectory


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A run whose volumes hold 4 entries each."""
    for module in (log_entries, commit_log):
        monkeypatch.setattr(module, "VOLUME", 4)
    run = RunDirectory.create(str(tmp_path / "run"))
    run.save_state("abc", b"")
    return run


def write(run: RunDirectory, number: int) -> None:
    """A takeover and so many commits."""
    with CommitLog(run) as log:
        for unit in range(number):
            log.commit([CommittedFile("abc", (Receipt(f"u{unit}", 10, "d1", ("b",)),))], [], [f"lost{unit}"])


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The objects that are read."""
    found: list[str] = []
    get = RunStore.get
    monkeypatch.setattr(RunStore, "get", lambda store, path: (found.append(path), get(store, path))[1])
    return found


def test_an_entry_is_a_line_that_ends_with_its_digest(run: RunDirectory) -> None:
    write(run, 1)
    data = run.store.get("commits/000002.json")
    assert data.endswith(b'"}\n')
    assert data.count(b"\n") == 1
    assert list(json.loads(data)) == ["number", "kind", "driver", "process", "files", "lost", "digest"]
    assert encode(read_entries(run)[1]) == data


def test_a_receipt_tells_of_deviations_where_there_are_some(run: RunDirectory) -> None:
    plain = Receipt("u0", 10, "d1")
    deviating = Receipt("u1", 10, "d2", ("b",), ("variant a: 1 row per call",))
    with CommitLog(run) as log:
        log.commit([CommittedFile("abc", (plain, deviating))], [], [])
    fields = json.loads(run.store.get("commits/000002.json"))["files"][0]["receipts"]
    assert "deviations" not in fields[0]
    assert fields[1]["deviations"] == ["variant a: 1 row per call"]
    assert read_entries(run)[1].files[0].receipts == (plain, deviating)


def test_a_long_log_is_read_from_volumes(run: RunDirectory, reads: list[str]) -> None:
    write(run, 9)
    reads.clear()
    entries = read_entries(run)
    assert reads == ["volumes/000001.jsonl", "volumes/000002.jsonl", "commits/000009.json", "commits/000010.json"]
    assert [entry.number for entry in entries] == list(range(1, 11))
    assert entries == read_entries(run, volumes=False)
    assert run.store.get("volumes/000001.jsonl") == b"".join(map(encode, entries[:4]))


def test_of_what_is_known_nothing_is_read_again(run: RunDirectory, reads: list[str]) -> None:
    write(run, 9)
    known = read_entries(run)[:9]
    reads.clear()
    assert len(read_entries(run, known)) == 10
    assert reads == ["commits/000010.json"]


@pytest.mark.parametrize("content", [b"", b"torn", None])
def test_a_volume_that_is_damaged_or_missing_is_passed_over(
    run: RunDirectory, tmp_path: Path, content: bytes | None
) -> None:
    write(run, 9)
    file = tmp_path / "run/volumes/000002.jsonl"
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    assert read_entries(run) == read_entries(run, volumes=False)


def test_an_altered_entry_in_a_volume_is_not_believed(run: RunDirectory, tmp_path: Path) -> None:
    write(run, 4)
    file = tmp_path / "run/volumes/000001.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"rows":10', b'"rows":11'))
    assert read_entries(run) == read_entries(run, volumes=False)


def test_the_next_driver_writes_the_volumes_that_one_died_before(run: RunDirectory, tmp_path: Path) -> None:
    write(run, 9)
    file = tmp_path / "run/volumes/000001.jsonl"
    before = file.read_bytes()
    file.unlink()
    write(run, 0)
    assert file.read_bytes() == before


def test_a_gap_behind_the_volumes_is_named(run: RunDirectory, tmp_path: Path) -> None:
    write(run, 9)
    (tmp_path / "run/commits/000009.json").unlink()
    sentence = f"commits/000009.json is missing from the run at {run.place}, though commits/000010.json is there."
    with pytest.raises(RunError, match=f"^{sentence}$"):
        read_entries(run)
