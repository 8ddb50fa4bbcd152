"""A folder that is filled file by file: a file is there whole, or not at all."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pytest

from assay.errors import RunError
from assay.store.folder import BucketFolder, DiskFolder, open_folder
from assay.store.place import Bucket


def test_a_draft_is_seen_under_its_name_alone_once_it_is_published(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path / "out"), "run")
    with folder.draft() as draft:
        draft.write_bytes(b"whole")
        assert [path.name for path in tmp_path.glob("out/*")] == ["_writing"]
        folder.publish(draft, "k=a%2Fb/é 1.txt")
    assert folder.list() == ("k=a%2Fb/é 1.txt",)
    assert folder.get("k=a%2Fb/é 1.txt") == b"whole"


def test_a_draft_that_is_not_published_is_gone(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path), "run")
    with folder.draft() as draft:
        draft.write_bytes(b"half")
    assert folder.list() == ()


def test_a_draft_that_cannot_be_removed_hides_no_error(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path), "run")

    def write() -> None:
        with folder.draft() as draft:
            draft.parent.rmdir()
            draft.parent.touch()  # "Not a directory" for whoever looks below it
            raise RunError("The disk is full.")

    with pytest.raises(RunError, match=r"^The disk is full\.$"):
        write()


def test_a_name_that_is_taken_is_replaced_whole(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path), "run")
    for content in (b"one", b"two"):
        with folder.draft() as draft:
            draft.write_bytes(content)
            folder.publish(draft, "a")
    assert folder.get("a") == b"two"


def test_of_many_who_create_a_file_one_does(tmp_path: Path) -> None:
    folder, barrier, won = open_folder(str(tmp_path), "run"), threading.Barrier(4), list[bytes]()

    def create(content: bytes) -> None:
        barrier.wait(10)
        if folder.put_new("claim", content):
            won.append(content)

    threads = [threading.Thread(target=create, args=(bytes([number]),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [folder.get("claim")]


def test_sweeping_removes_the_drafts_of_one_owner(tmp_path: Path) -> None:
    one, other = open_folder(str(tmp_path), "one"), open_folder(str(tmp_path), "other")
    with other.draft() as strange:
        strange.touch()
        with one.draft() as draft:
            draft.touch()
            one.sweep()
            assert (draft.exists(), strange.exists()) == (False, True)
            with pytest.raises(RunError, match=f"^{tmp_path}/a cannot be written: No such file or directory.$"):
                one.publish(draft, "a")
    other.sweep()
    assert list(tmp_path.iterdir()) == []
    other.sweep()


def test_a_file_is_deleted_once_and_again(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path), "run")
    folder.put_new("a", b"")
    for _ in range(2):
        folder.delete("a")
        assert not folder.exists("a")


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"^{tmp_path}/a cannot be read: No such file or directory.$"):
        open_folder(str(tmp_path), "run").get("a")


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert open_folder(str(tmp_path / "out"), "run").list() == ()


def test_folders_travel_without_being_reached(tmp_path: Path) -> None:
    disk = pickle.loads(pickle.dumps(open_folder(str(tmp_path), "run")))
    assert isinstance(disk, DiskFolder)
    assert disk.url == str(tmp_path)
    bucket = pickle.loads(pickle.dumps(open_folder("s3://nobody/a/b/", "run")))
    assert isinstance(bucket, BucketFolder)
    assert bucket.url == "s3://nobody/a/b"
    assert bucket.__reduce__() == (BucketFolder, (Bucket("s3", "nobody", "a/b"),))
