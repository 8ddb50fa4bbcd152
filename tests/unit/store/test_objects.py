"""Objects on local disk: whole, and created once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from assay.errors import RunError
from assay.store.objects import RunStore


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore.from_url(str(tmp_path / "run"), create=True)


def test_an_object_is_created_once_and_stays_as_it_was(store: RunStore) -> None:
    assert store.put_new("commits/000001.json", b"first")
    assert not store.put_new("commits/000001.json", b"second")
    assert store.get("commits/000001.json") == b"first"


def test_of_folders_only_an_empty_one_is_removed(store: RunStore, tmp_path: Path) -> None:
    store.put("joins/a.json", b"")
    store.remove_empty("joins")
    assert store.exists("joins/a.json")
    store.delete("joins/a.json")
    store.remove_empty("joins")
    assert not (tmp_path / "run" / "joins").exists()
    store.remove_empty("joins")  # there is none


def test_of_many_creators_one_wins(store: RunStore) -> None:
    for race in range(20):
        barrier, won = threading.Barrier(4), []

        def create(name: int, path: str, barrier: threading.Barrier, won: list[int]) -> None:
            barrier.wait()
            if store.put_new(path, str(name).encode()):
                won.append(name)

        path = f"commits/{race:06d}.json"
        threads = [threading.Thread(target=create, args=(name, path, barrier, won)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [str(name).encode() for name in won] == [store.get(path)]


def test_a_large_object_is_created_once_too(store: RunStore) -> None:
    assert store.put_new("states/large.arrow", bytes(12_000_000))
    assert not store.put_new("states/large.arrow", b"small")
    assert len(store.get("states/large.arrow")) == 12_000_000


def test_results_may_be_rewritten(store: RunStore) -> None:
    store.put("results/verdicts.json", b"old")
    store.put("results/verdicts.json", b"new")
    assert store.get("results/verdicts.json") == b"new"


def test_list_is_sorted_and_knows_nothing_of_other_folders(store: RunStore) -> None:
    for path in ("failures/b.json", "failures/a.json", "results/c.json"):
        store.put_new(path, b"")
    assert store.list("failures") == ("failures/a.json", "failures/b.json")
    assert store.list("states") == ()


def test_a_list_may_begin_behind_a_path(store: RunStore) -> None:
    for number in (1, 2, 3):
        store.put_new(f"commits/00000{number}.json", b"")
    assert store.list("commits", after="commits/000001.json") == ("commits/000002.json", "commits/000003.json")


def test_many_come_in_the_order_of_their_paths(store: RunStore) -> None:
    for name in "abc":
        store.put(name, name.encode())
    assert list(store.get_many(["c", "a", "b"])) == [b"c", b"a", b"b"]
    distant = RunStore(store._store, store.place, distant=True)
    assert list(distant.get_many(["c", "a", "b"], at_once=2)) == [b"c", b"a", b"b"]
    with pytest.raises(RunError, match=f"^d is not in the run at {store.place}.$"):
        list(distant.get_many(["c", "d"]))


def test_the_time_is_that_of_the_store(store: RunStore) -> None:
    store.put("heartbeats/a.json", b"")
    written = store.written("heartbeats/a.json")
    assert written is not None
    assert store.now() >= written
    assert store.list("heartbeats") == ("heartbeats/a.json",)
    assert store.written("heartbeats/b.json") is None


def test_what_is_not_there_is_named(store: RunStore) -> None:
    assert not store.exists("spec.yaml")
    with pytest.raises(RunError, match=f"^spec.yaml is not in the run at {store.place}.$"):
        store.get("spec.yaml")


def test_a_look_that_fails_names_the_object(store: RunStore) -> None:
    store.put("spec.yaml", b"")
    start = f"^spec.yaml/part in the run at {store.place} cannot be looked up: Generic LocalFileSystem error: "
    with pytest.raises(RunError, match=start):
        store.exists("spec.yaml/part")


def test_a_folder_that_is_not_there_is_no_run(tmp_path: Path) -> None:
    sentence = f"There is no run at {tmp_path}/gone: no such folder. `assay ls` lists the runs of a folder."
    with pytest.raises(RunError, match=f"^{sentence}$"):
        RunStore.from_url(f"{tmp_path}/gone")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    sentence = f"The folder {tmp_path}/file/run for the run cannot be made: Not a directory."
    with pytest.raises(RunError, match=f"^{sentence}$"):
        RunStore.from_url(f"{tmp_path}/file/run", create=True)


def test_the_probe_passes_on_a_disk_and_leaves_nothing(store: RunStore) -> None:
    store.probe()
    assert store.list("heartbeats") == ()


def test_the_probe_passes_where_the_answer_of_its_first_create_got_lost(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = RunStore.put_new
    monkeypatch.setattr(RunStore, "put_new", lambda self, path, data: create(self, path, data) and False)
    store.probe()


def test_the_probe_refuses_a_place_that_creates_twice(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(self: RunStore, path: str, data: bytes) -> bool:
        self.put(path, data)
        return True

    monkeypatch.setattr(RunStore, "put_new", put)
    sentence = (
        f"{store.place} lets an object be created twice, so that a run there could count rows twice. Put the run on "
        "storage with conditional creation: a local disk, or S3, GCS or Azure."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        store.probe()
