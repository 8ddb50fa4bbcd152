"""The objects of a run: whole, created conditionally or rewritten whole. The only module that knows where they lie.

Not here: what the objects mean (`log.py`, `run.py`). There is no append and no rename: what an object store cannot do
everywhere, a run does not need.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore

from assay.errors import RunError


class RunStore:
    """A folder of objects. Every failure is a RunError that names the object and the place."""

    def __init__(self, store: ObjectStore, place: str) -> None:
        self._store = store
        self.place = place

    @classmethod
    def from_url(cls, url: str, *, create: bool = False) -> RunStore:
        """url: a folder's path. create: make the folder if it is not there; else RunError. Buckets come later."""
        folder = Path(url).absolute()
        if not create and not folder.is_dir():
            raise RunError(f"There is no run at {url}: no such folder. `assay ls` lists the runs of a folder.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"The folder {url} for the run cannot be made: {error.strerror}.") from error
        return cls(LocalStore(folder), url)

    def put_new(self, path: str, data: bytes) -> bool:
        """Create an object; of any number of callers, one gets True. False: it was there, and is as it was."""
        try:
            with self._named("written", path):
                obstore.put(self._store, path, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        return True

    def put(self, path: str, data: bytes) -> None:
        """Write or rewrite an object: only for what may change, results and heartbeats."""
        with self._named("written", path):
            obstore.put(self._store, path, data)

    def get(self, path: str) -> bytes:
        """RunError when it is not there."""
        with self._named("read", path):
            return bytes(obstore.get(self._store, path).bytes())

    def exists(self, path: str) -> bool:
        with self._named("looked up", path):
            try:
                obstore.head(self._store, path)
            except FileNotFoundError:
                return False
        return True

    def list(self, prefix: str) -> tuple[str, ...]:
        """The paths of all objects under a folder, sorted."""
        with self._named("listed", prefix):
            return tuple(sorted(entry["path"] for batch in obstore.list(self._store, prefix) for entry in batch))

    def delete(self, path: str) -> None:
        with self._named("deleted", path):
            obstore.delete(self._store, path)

    def probe(self) -> None:
        """RunError unless the place creates conditionally: without that, two drivers could both count a unit."""
        path = f"heartbeats/probe-{uuid.uuid4().hex}"
        created = self.put_new(path, b"first"), self.put_new(path, b"second")
        kept = self.get(path)
        self.delete(path)
        if created != (True, False) or kept != b"first":
            raise RunError(
                f"{self.place} lets an object be created twice, so that a run there could count rows twice. Put the "
                "run on storage with conditional creation: a local disk, or S3, GCS or Azure."
            )

    @contextmanager
    def _named(self, done: str, path: str) -> Iterator[None]:
        try:
            yield
        except AlreadyExistsError:
            raise
        except FileNotFoundError as error:
            raise RunError(f"{path} is not in the run at {self.place}.") from error
        except (BaseError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise RunError(f"{path} in the run at {self.place} cannot be {done}: {reason}.") from error
