"""A folder of whole files, on a disk or in a bucket, that many processes fill: a file is visible once it is whole.

On a disk a file is made under `_writing/` in the same folder and renamed; for a bucket it is made on this machine's
disk (TMPDIR) and uploaded, which shows it when its last byte is there. Every verb raises RunError that names the file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from assay.errors import RunError
from assay.protocols import Place
from assay.store.objects import RunStore
from assay.store.place import Bucket, locate

DRAFTS = "_writing"
Made = TypeVar("Made")


def open_folder(url: str, owner: str) -> Place:
    """The folder at a path or a place in a bucket; made where it is not there.

    owner: a name for the drafts, so that of several writers each removes its own.
    """
    place = locate(url)
    return BucketFolder(place) if isinstance(place, Bucket) else DiskFolder(place, owner)


class DiskFolder:
    """A folder that this machine sees."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder.absolute()
        self._drafts = self._folder / DRAFTS / hashlib.sha256(owner.encode()).hexdigest()[:16]

    @property
    def url(self) -> str:
        return str(self._folder)

    @contextmanager
    def draft(self) -> Iterator[Path]:
        path = self._drafts / uuid.uuid4().hex
        _try("made", self._drafts, lambda: self._drafts.mkdir(parents=True, exist_ok=True))
        try:
            yield path
        finally:
            with suppress(OSError):  # what went wrong before is told; `sweep` removes it
                path.unlink(missing_ok=True)

    def publish(self, draft: Path, path: str) -> None:
        target = self._folder / path

        def show() -> None:
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(draft, target)

        _try("written", target, show)

    def put_new(self, path: str, data: bytes) -> bool:
        return RunStore.from_url(self.url, create=True).put_new(path, data)

    def get(self, path: str) -> bytes:
        return _try("read", self._folder / path, (self._folder / path).read_bytes)

    def exists(self, path: str) -> bool:
        return (self._folder / path).exists()

    def list(self) -> tuple[str, ...]:
        files = (file for file in self._folder.rglob("*") if not file.is_dir())
        return tuple(sorted(file.relative_to(self._folder).as_posix() for file in files))

    def delete(self, path: str) -> None:
        _try("deleted", self._folder / path, lambda: (self._folder / path).unlink(missing_ok=True))

    def sweep(self) -> None:
        shutil.rmtree(self._drafts, ignore_errors=True)
        with suppress(OSError):  # another owner's are in it, or none were made
            self._drafts.parent.rmdir()


class BucketFolder:
    """A place in a bucket; each process connects for itself, when it first must."""

    def __init__(self, place: Bucket) -> None:
        self._place = place
        self._connected: RunStore | None = None

    def __reduce__(self) -> tuple[type[BucketFolder], tuple[Bucket]]:
        return type(self), (self._place,)

    @property
    def url(self) -> str:
        return self._place.url

    @contextmanager
    def draft(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="assay-") as folder:
            yield Path(folder, "draft")

    def publish(self, draft: Path, path: str) -> None:
        self._store.put_file(path, draft)

    def put_new(self, path: str, data: bytes) -> bool:
        return self._store.put_new(path, data)

    def get(self, path: str) -> bytes:
        return self._store.get(path)

    def exists(self, path: str) -> bool:
        return self._store.exists(path)

    def list(self) -> tuple[str, ...]:
        return self._store.list("")

    def delete(self, path: str) -> None:
        self._store.delete(path)

    def sweep(self) -> None:
        """Nothing: what a killed process left of an upload is not visible, and the bucket's own rules remove it."""

    @property
    def _store(self) -> RunStore:
        if self._connected is None:
            self._connected = RunStore.from_url(self._place.url, create=True)
        return self._connected


def _try(done: str, path: Path, call: Callable[[], Made]) -> Made:
    try:
        return call()
    except OSError as error:
        raise RunError(f"{path} cannot be {done}: {error.strerror or error}.") from error
