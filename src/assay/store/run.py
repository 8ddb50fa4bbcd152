"""A run directory: what lies where, and which of it may change.

Not here: the commit log (`log.py`), the form of a plan, a tally or a table (their own modules give bytes).

    spec.yaml  environment.json  plan.parquet  variants.json  execution.json      fixed by the first commit
    commits/   heartbeats/   volumes/                                            log.py, entries.py
    states/<digest>.arrow   outputs/<digest>.arrow                               written once; count when committed
    failures/<unit>-<digest>.json  failures/<unit>.json                          why variants failed on it; why given up
    events/<driver>-<number>.jsonl                                               what a driver saw, in order
    costs/<driver>.json  costs/<driver>-joins.json                               what its workers spent, and its joins
    executor.json                                                                what the last driver scored with
    predictions/   dead-letter/                                                  written by joins, listed in a manifest
    joins/<digest>.json                                                          which joins are done, until the end
    top-k/                                                                       best rows, while they are looked for
    results/*                                                                    rewritten whenever they are computed
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from assay.errors import RunError
from assay.records import Failure, Receipt
from assay.store.objects import RunStore, folders
from assay.store.place import Bucket, locate

PLAN = "plan.parquet"
EXECUTOR = "executor.json"
HEAD = ("spec.yaml", "environment.json", PLAN, "variants.json", "execution.json")


class RunDirectory:
    """A run's objects by name. Every failure is a RunError."""

    def __init__(self, store: RunStore) -> None:
        self.store = store

    @classmethod
    def open(cls, url: str, *, patient: bool = False) -> RunDirectory:
        """An existing run; RunError when there is none. patient: as in `RunStore.from_url`."""
        run = cls(RunStore.from_url(url, patient=patient))
        if not run.store.exists("spec.yaml"):
            raise RunError(f"There is no run at {url}: it has no spec.yaml. `assay ls` lists the runs of a folder.")
        return run

    @classmethod
    def create(cls, url: str) -> RunDirectory:
        """A place where a run may be written, or goes on; made when it is not there, probed in any case."""
        run = cls(RunStore.from_url(url, create=True))
        run.store.probe()
        return run

    @classmethod
    def for_worker(cls, url: str, *, patient: bool = True) -> RunDirectory:
        """The run as a worker sees it, which only saves states. RunError when it is not there, on this node.

        patient: as in `RunStore.from_url`. Not where a run can do without what is saved.
        """
        if isinstance(locate(url), Bucket):
            return cls._of_bucket_for_worker(url, patient)
        try:
            return cls(RunStore.from_url(url))
        except RunError as error:
            raise RunError(
                f"A worker on {socket.gethostname()} does not see the run directory {url}. It must be on storage that "
                "all nodes see, at the same path."
            ) from error

    @classmethod
    def _of_bucket_for_worker(cls, url: str, patient: bool) -> RunDirectory:
        try:
            return cls.open(url, patient=patient)
        except RunError as error:
            raise RunError(
                f"A worker on {socket.gethostname()} does not see the run: {error} Every node needs the keys and "
                "settings of the store, in the environment of its Ray process or by its machine's role."
            ) from error

    @property
    def place(self) -> str:
        return self.store.place

    # -- the head

    def read(self, name: str) -> bytes:
        return self.store.get(name)

    def write_head(self, name: str, data: bytes) -> None:
        """Only for a driver that has taken the run over, and only before its first commit: then a run is what it is."""
        self.store.put(name, data)

    def head(self) -> dict[str, str]:
        """The digest of each file of the head that is there."""
        there = [name for name in HEAD if self.store.exists(name)]
        return {name: hashlib.sha256(self.store.get(name)).hexdigest() for name in there}

    def altered_head(self, recorded: Mapping[str, str]) -> list[str]:
        """The files of the head that are missing or not what they were. recorded: what `head` gave then."""
        now = self.head() if recorded else {}
        return [name for name, digest in recorded.items() if now.get(name) != digest]

    def read_json(self, name: str) -> Any:  # Any: JSON of the caller's own making
        return self._json(name, self.store.get(name))

    def _json(self, name: str, data: bytes) -> Any:  # Any: as above
        try:
            return json.loads(data)
        except ValueError as error:
            raise RunError(f"{name} of the run at {self.place} is not JSON: {error}.") from error

    # -- states

    def has_state(self, digest: str) -> bool:
        return self.store.exists(_state(digest))

    def save_state(self, digest: str, data: bytes) -> None:
        """The same tally, flushed twice, is the same object."""
        self.store.put_new(_state(digest), data)

    def read_state(self, digest: str) -> bytes:
        return self.store.get(_state(digest))

    def open_state(self, digest: str) -> pa.NativeFile:
        """To read parts of; for one thread."""
        return self.store.open(_state(digest))

    def read_states(self, digests: Sequence[str]) -> Iterator[bytes]:
        """In this order; from a bucket several at once, of which no more than these few are in memory."""
        return self.store.get_many([_state(digest) for digest in digests], at_once=8)

    # -- outputs: what variants gave for the rows of units, where predictions are written

    def has_outputs(self, digest: str) -> bool:
        return self.store.exists(_outputs(digest))

    def save_outputs(self, digest: str, data: bytes) -> None:
        """The same outputs, flushed twice, are the same object."""
        self.store.put_new(_outputs(digest), data)

    def open_outputs(self, digest: str) -> pa.NativeFile:
        """To read parts of; for one thread."""
        return self.store.open(_outputs(digest))

    def read_outputs(self, digest: str) -> bytes:
        return self.store.get(_outputs(digest))

    # -- failures: explanations; that a variant failed on a unit is said by the unit's receipt

    def save_failures(self, failures: Sequence[Failure], receipts: Iterable[Receipt]) -> None:
        """One object for each of the receipts on which variants failed, and for each unit that was given up."""
        digests = {receipt.unit: receipt.digest for receipt in receipts}
        ordered = sorted(failures, key=lambda failure: (failure.unit, failure.variant))
        for unit, of_unit in groupby(ordered, key=lambda failure: failure.unit):
            path = _failures(unit, digests.get(unit))
            self.store.put_new(path, as_json([_failure_as_json(failure) for failure in of_unit]))

    def failures(self, receipts: Iterable[Receipt], lost: Iterable[str]) -> tuple[Failure, ...]:
        """Of what is committed and given up, by variant in each. `variant` is "" where a whole unit was given up."""
        paths = [_failures(receipt.unit, receipt.digest) for receipt in receipts if receipt.failed]
        paths += [_failures(unit, None) for unit in lost]
        found = zip(paths, self.store.get_many(paths), strict=True)
        return tuple(_failure(fields) for path, data in found for fields in self._json(path, data))

    # -- events: what drivers saw, for `assay replay`; nothing depends on them

    def save_events(self, name: str, data: bytes) -> None:
        self.store.put_new(f"events/{name}", data)

    def event_names(self) -> tuple[str, ...]:
        """In the order of their numbers, of each driver."""
        return tuple(sorted(path.removeprefix("events/") for path in self.store.list("events")))

    def read_events(self, name: str) -> bytes:
        return self.store.get(f"events/{name}")

    # -- costs: what the workers of each driver have spent, up to when it last wrote it; no result depends on them

    def save_costs(self, driver: str, content: object) -> None:
        """No driver writes another's."""
        self.store.put(f"costs/{driver}.json", as_json(content))

    def costs(self) -> Iterator[Any]:  # Any: JSON of the caller's own making
        """One of each driver."""
        paths = self.store.list("costs")
        for path, data in zip(paths, self.store.get_many(paths), strict=True):
            yield self._json(path, data)

    # -- the executor of the driver that scored last, with which the run is gone on with; no result depends on it

    def save_executor(self, content: object) -> None:
        self.store.put(EXECUTOR, as_json(content))

    def executor(self) -> Any:  # Any: JSON of the caller's own making
        """None where no driver has scored yet, or one of an earlier version."""
        return self.read_json(EXECUTOR) if self.store.exists(EXECUTOR) else None

    # -- results

    def write_result(self, name: str, data: bytes) -> None:
        self.store.put(f"results/{name}", data)

    def read_result(self, name: str) -> bytes:
        return self.store.get(f"results/{name}")

    def has_result(self, name: str) -> bool:
        return self.store.exists(f"results/{name}")


def find_runs(folder: str) -> tuple[str, ...]:
    """The places of the runs right in a folder or place in a bucket, or of itself where it is one; sorted.

    RunError when there is no such folder.
    """
    place = locate(folder)
    if isinstance(place, Path):
        if not place.is_dir():
            raise RunError(f"There is no folder {folder!r}.")
        found = {plan.parent for pattern in (PLAN, f"*/{PLAN}") for plan in place.glob(pattern)}
        return tuple(map(str, sorted(found)))
    store = RunStore.from_url(place.url)
    plans = [f"{name}/{PLAN}" for name in folders(place)]
    return tuple(place.under(plan.removesuffix(PLAN)).url for plan in (PLAN, *plans) if store.exists(plan))


def _state(digest: str) -> str:
    return f"states/{digest}.arrow"


def _outputs(digest: str) -> str:
    return f"outputs/{digest}.arrow"


def _failures(unit: str, digest: str | None) -> str:
    """digest: of the unit's receipt, since another worker's partial of it may have failed otherwise."""
    return f"failures/{unit}.json" if digest is None else f"failures/{unit}-{digest}.json"


def _failure_as_json(failure: Failure) -> dict[str, Any]:  # Any: JSON
    """With the rows themselves in the place of their text; without them where there are none."""
    fields = asdict(failure)
    sample = fields.pop("sample")
    return {**fields, "sample": json.loads(sample)} if sample else fields


def _failure(fields: dict[str, Any]) -> Failure:  # Any: JSON, the record's own constructor refuses what does not fit
    sample = fields.pop("sample", None)
    return Failure(**fields, sample=json.dumps(sample, ensure_ascii=False) if sample else "")


def as_json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"
