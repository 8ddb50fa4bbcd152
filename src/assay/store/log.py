"""The commit log: numbered entries, each created conditionally. An entry that is there is true; nothing else is.

Lives here: reading and appending entries, taking a run over, the lease. Not here: which flush may be committed
(`schedule.py`).

Two drivers can never both commit: the one whose create fails reads back what is there and stops, unless it is its own
(the answer got lost). The lease only keeps a second driver from taking over by mistake; the log is the fence.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from assay.errors import Fenced, RunError
from assay.records import CommittedFile, Failure, Receipt
from assay.store.process import Process, lives, this_process
from assay.store.run import RunDirectory

BEAT_SECONDS = 10.0
STALE_SECONDS = 60.0
"""A driver on another host that has not shown itself for so long is taken for dead (by this host's clock)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of commits/."""

    number: int  # from 1, without gaps
    kind: Literal["takeover", "commit", "finish"]
    driver: str
    process: Process
    files: tuple[CommittedFile, ...] = ()
    lost: tuple[str, ...] = ()  # units given up


def read_entries(run: RunDirectory) -> tuple[Entry, ...]:
    """The whole log in order. RunError names an entry that is missing or cannot be read."""
    paths = sorted(run.store.list("commits"), key=lambda path: (len(path), path))  # by number: past 999,999 too
    for number, path in enumerate(paths, start=1):
        if path != _path(number):
            raise RunError(f"{_path(number)} is missing from the run at {run.place}, though {path} is there.")
    return tuple(_read_entry(run, number) for number in range(1, len(paths) + 1))


@dataclass(frozen=True, slots=True)
class Committed:
    """What a log says, for those who only read it."""

    files: tuple[CommittedFile, ...]
    lost: tuple[str, ...]  # units given up
    finished: bool

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        return tuple(receipt for file in self.files for receipt in file.receipts)


def read_committed(run: RunDirectory) -> Committed:
    """RunError as in `read_entries`."""
    entries = read_entries(run)
    files = tuple(file for entry in entries for file in entry.files)
    lost = tuple(unit for entry in entries for unit in entry.lost)
    return Committed(files, lost, finished=any(entry.kind == "finish" for entry in entries))


class CommitLog:
    """The log in the hands of one driver, which has taken the run over and may append."""

    def __init__(self, run: RunDirectory, clock: Callable[[], float] = time.time) -> None:
        """Takes the run over. RunError when another driver lives; Fenced when another was faster."""
        self._run = run
        self._clock = clock
        self._process = this_process()
        self._beaten = float("-inf")
        self._entries = list(read_entries(run))
        self.driver = uuid.uuid4().hex[:12]
        self._refuse_while_another_lives()
        self._append("takeover")
        self.beat()

    def __enter__(self) -> CommitLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def files(self) -> tuple[CommittedFile, ...]:
        return tuple(file for entry in self._entries for file in entry.files)

    @property
    def lost(self) -> tuple[str, ...]:
        return tuple(unit for entry in self._entries for unit in entry.lost)

    def commit(self, files: Sequence[CommittedFile], failures: Sequence[Failure], lost: Sequence[str]) -> None:
        """All of it, or Fenced and nothing of it (explanations of failures apart, which count for nothing alone)."""
        for file in files:
            self._refuse_unreadable(file)
        self._run.save_failures(failures, [receipt for file in files for receipt in file.receipts])
        self._append("commit", tuple(files), tuple(lost))

    def finish(self) -> None:
        """Every unit is committed: no driver may append after this."""
        self._append("finish")

    def beat(self) -> None:
        if self._clock() - self._beaten >= BEAT_SECONDS:
            self._beaten = self._clock()
            self._write_lease(released=False)

    def release(self) -> None:
        """This driver ends: the next one need not wait."""
        self._write_lease(released=True)

    # -- appending

    def _append(
        self, kind: Literal["takeover", "commit", "finish"], *content: tuple[Any, ...]
    ) -> None:  # Any: see Entry
        entry = Entry(len(self._entries) + 1, kind, self.driver, self._process, *content)
        created = self._run.store.put_new(_path(entry.number), _encode(entry))
        if not created and (found := _read_entry(self._run, entry.number)) != entry:
            raise Fenced(
                f"Another driver (process {found.process.pid} on {found.process.host}) has taken over the run at "
                f"{self._run.place}: this one stops. What it had committed is kept."
            )
        self._entries.append(entry)

    def _refuse_unreadable(self, file: CommittedFile) -> None:
        if not self._run.has_state(file.file):
            raise RunError(
                f"A worker wrote states/{file.file}.arrow, but it is not in the run at {self._run.place} as the driver "
                "sees it. The run directory must be on storage that all nodes see, at the same path."
            )

    # -- the lease

    def _refuse_while_another_lives(self) -> None:
        if not self._entries:
            return
        last = self._entries[-1]
        if last.kind == "finish":
            raise RunError(f"The run at {self._run.place} is finished: there is nothing to go on with.")
        lease = self._read_lease(last.driver)
        if lease.get("released"):
            return
        living = lives(last.process)
        if living:
            raise RunError(
                f"The run at {self._run.place} is being worked on by process {last.process.pid} on this machine. Wait "
                f"until it ends, or stop it (kill -INT {last.process.pid}), then resume."
            )
        seconds = self._clock() - float(lease.get("beat", 0.0))
        if living is None and seconds < STALE_SECONDS:
            raise RunError(
                f"The run at {self._run.place} is being worked on by process {last.process.pid} on "
                f"{last.process.host}, seen {seconds:.0f} seconds ago. Stop it there, or resume once it has been "
                f"silent for {STALE_SECONDS:.0f} seconds."
            )

    def _read_lease(self, driver: str) -> dict[str, Any]:  # Any: JSON, its few keys are read with a default
        path = f"heartbeats/{driver}.json"
        if not self._run.store.exists(path):
            return {}
        try:
            lease = json.loads(self._run.store.get(path))
        except ValueError:
            return {}
        return lease if isinstance(lease, dict) else {}

    def _write_lease(self, *, released: bool) -> None:
        lease = {**asdict(self._process), "beat": self._clock(), "released": released}
        self._run.store.put(f"heartbeats/{self.driver}.json", json.dumps(lease).encode())


# ---- entries as bytes ------------------------------------------------------------------------------------------------


def _path(number: int) -> str:
    return f"commits/{number:06d}.json"


def _encode(entry: Entry) -> bytes:
    return json.dumps(asdict(entry), indent=1).encode() + b"\n"


def _read_entry(run: RunDirectory, number: int) -> Entry:
    data = run.store.get(_path(number))
    try:
        entry = _decode(json.loads(data))
        if entry.number != number or entry.kind not in ("takeover", "commit", "finish"):
            raise ValueError(f"it says that it is {entry.kind} {entry.number}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunError(
            f"{_path(number)} in the run at {run.place} is torn or not an entry of a commit log ({error}). Do not go "
            "on with this run, start a new one."
        ) from error
    return entry


def _decode(fields: dict[str, Any]) -> Entry:  # Any: JSON, the record's own constructor refuses what does not fit
    files = [CommittedFile(one["file"], tuple(map(_receipt, one["receipts"]))) for one in fields.pop("files")]
    process = Process(**fields.pop("process"))
    return Entry(files=tuple(files), process=process, lost=tuple(fields.pop("lost")), **fields)


def _receipt(fields: dict[str, Any]) -> Receipt:  # Any: as above
    return Receipt(**{**fields, "failed": tuple(fields["failed"])})
