"""The objects of a run: whole, created conditionally or rewritten whole. The only module that knows where they lie.

Not here: what the objects mean (`log.py`, `run.py`), how a bucket is reached (`bucket.py`). There is no append and no
rename: what an object store cannot do everywhere, a run does not need.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError
from obstore.store import LocalStore, ObjectStore

from assay.errors import RunError
from assay.store.bucket import connect, lacks_bucket, persist, reason
from assay.store.place import Bucket, absolute, locate
from assay.store.ranges import RangeReader

PIECE_BYTES = 8 << 20
MAX_PIECES = 9_000
"""Of one object; stores take 10,000."""
Made = TypeVar("Made")


class RunStore:
    """A folder of objects. Every failure is a RunError that names the object and the place."""

    def __init__(self, store: ObjectStore, place: str, *, distant: bool = False) -> None:
        """distant: a call crosses a network, which may fail for a while, and many at once take as long as one."""
        self._store = store
        self._distant = distant
        self.place = place

    @classmethod
    def from_url(cls, url: str, *, create: bool = False, patient: bool = False) -> RunStore:
        """url: a folder's path or a place in a bucket. create: make the folder if it is not there; else RunError.

        patient: of a bucket, that another process has reached.
        """
        place = locate(url)
        if isinstance(place, Bucket):
            return cls(connect(place, patient=patient), place.url, distant=True)
        folder = place.absolute()
        if not create and not folder.is_dir():
            raise RunError(f"There is no run at {url}: no such folder. `assay ls` lists the runs of a folder.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"The folder {url} for the run cannot be made: {error.strerror}.") from error
        return cls(LocalStore(folder), str(place))

    @property
    def url(self) -> str:
        """The place, for a process that started in another folder."""
        return absolute(self.place)

    @property
    def distant(self) -> bool:
        return self._distant

    def put_new(self, path: str, data: bytes) -> bool:
        """Create an object; of any number of callers, at most one gets True.

        False: it was there, and is as it was. In a bucket this caller itself may have made it: the answer that said so
        can be lost. Who must know reads back.
        """
        try:
            self._call(
                "written", path, lambda: obstore.put(self._store, path, data, mode="create", use_multipart=False)
            )
        except AlreadyExistsError:
            return False
        return True

    def put(self, path: str, data: bytes) -> None:
        """Write or rewrite an object: only for what may change, results and heartbeats."""
        self._call("written", path, lambda: obstore.put(self._store, path, data))

    def put_file(self, path: str, file: Path) -> None:
        """The same with what a file holds: in pieces where it is large, visible once the last of them is there."""
        piece = max(PIECE_BYTES, file.stat().st_size // MAX_PIECES + 1)
        self._call("written", path, lambda: obstore.put(self._store, path, file, chunk_size=piece))

    def get(self, path: str) -> bytes:
        """RunError when it is not there."""
        return self._call("read", path, lambda: bytes(obstore.get(self._store, path).bytes()))

    def get_many(self, paths: Sequence[str], at_once: int = 64) -> Iterator[bytes]:
        """In the order of the paths; from a bucket so many at once. RunError when one is not there."""
        if not self._distant:
            yield from map(self.get, paths)
            return
        with ThreadPoolExecutor(at_once) as pool:
            for start in range(0, len(paths), at_once):
                yield from pool.map(self.get, paths[start : start + at_once])

    def open(self, path: str) -> pa.NativeFile:
        """An object to read parts of, for one thread. RunError when it is not there, and from its reads."""
        if self._distant:
            size = self._call("looked up", path, lambda: obstore.head(self._store, path)["size"])
            return pa.PythonFile(RangeReader(lambda start, end: self._get_range(path, start, end), size), mode="r")
        return self._call("read", path, lambda: pa.OSFile(str(Path(self.place, path))))

    def _get_range(self, path: str, start: int, end: int) -> bytes:
        return self._call("read", path, lambda: bytes(obstore.get_range(self._store, path, start=start, end=end)))

    def exists(self, path: str) -> bool:
        return self.written(path) is not None

    def written(self, path: str) -> datetime | None:
        """When an object was last written, by the clock of the store; None when it is not there."""

        def look() -> datetime | None:
            try:
                return obstore.head(self._store, path)["last_modified"]
            except FileNotFoundError:
                return None

        return self._call("looked up", path, look)

    def now(self) -> datetime:
        """The time by the clock of the store, to which that of no machine need agree."""
        path = f"heartbeats/clock-{uuid.uuid4().hex}"
        self.put(path, b"")
        now = self.written(path)
        self.delete(path)
        if now is None:
            raise RunError(f"{path} in the run at {self.place} is gone as soon as it is written. Look at the storage.")
        return now

    def list(self, prefix: str, after: str | None = None) -> tuple[str, ...]:
        """The paths of all objects under a folder, sorted. after: only those that sort behind it."""

        def look() -> tuple[str, ...]:
            batches = obstore.list(self._store, prefix, offset=after, chunk_size=1000)
            return tuple(sorted(entry["path"] for batch in batches for entry in batch))

        return self._call("listed", prefix, look)

    def delete(self, path: str) -> None:
        self._call("deleted", path, lambda: obstore.delete(self._store, path))

    def remove_empty(self, folder: str) -> None:
        """On a disk, a folder in which nothing lies any more; a bucket has no folders."""
        if not self._distant:
            with suppress(OSError):
                Path(self.place, folder).rmdir()

    def probe(self) -> None:
        """RunError unless the place creates conditionally: without that, two drivers could both count a unit."""
        path = f"heartbeats/probe-{uuid.uuid4().hex}"
        try:
            self.put_new(path, b"first")
            twice = self.put_new(path, b"second")
        except NotSupportedError as error:
            raise RunError(self._refusal()) from error
        kept = self.get(path)
        self.delete(path)
        if twice or kept != b"first":
            raise RunError(self._refusal())

    def _refusal(self) -> str:
        return (
            f"{self.place} lets an object be created twice, so that a run there could count rows twice. Put the run on "
            "storage with conditional creation: a local disk, or S3, GCS or Azure."
        )

    def _call(self, done: str, path: str, call: Callable[[], Made]) -> Made:
        with self._named(done, path):
            return persist(call) if self._distant else call()

    @contextmanager
    def _named(self, done: str, path: str) -> Iterator[None]:
        try:
            yield
        except (AlreadyExistsError, NotSupportedError):
            raise
        except FileNotFoundError as error:
            if lacks_bucket(error):
                raise RunError(f"The bucket of the run at {self.place} is gone.") from error
            raise RunError(f"{path} is not in the run at {self.place}.") from error
        except (BaseError, OSError) as error:
            raise RunError(f"{path} in the run at {self.place} cannot be {done}: {reason(error)}.") from error


def folders(place: Bucket) -> tuple[str, ...]:
    """The names of the folders right under a place in a bucket, sorted."""
    store = connect(place)
    try:
        found = persist(lambda: obstore.list_with_delimiter(store))["common_prefixes"]
    except (BaseError, OSError) as error:
        raise RunError(f"{place.url} cannot be listed: {reason(error)}.") from error
    return tuple(sorted(found))
