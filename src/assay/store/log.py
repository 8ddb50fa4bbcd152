"""The commit log: numbered entries, each created conditionally. An entry that is there is true; nothing else is.

Lives here: appending entries, taking a run over, the lease. Not here: an entry as bytes and reading a log
(`entries.py`), which flush may be committed (`schedule.py`).

Two drivers can never both commit: the one whose create fails reads back what is there and stops, unless it is its own
(the answer got lost). The lease only keeps a second driver from taking over by mistake; the log is the fence.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal

from assay.errors import Fenced, RunError
from assay.records import CommittedFile, Failure, Receipt
from assay.store.entries import (
    VOLUME,
    Entry,
    encode,
    entry_path,
    read_entries,
    read_entry,
    save_missing_volumes,
    save_volume,
)
from assay.store.process import lives, this_process
from assay.store.run import RunDirectory

BEAT_SECONDS = 10.0
STALE_SECONDS = 60.0
"""A driver on another host that has not shown itself for so long is taken for dead, by the clock of the store."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a log says, for those who only read it."""

    files: tuple[CommittedFile, ...]
    lost: tuple[str, ...]  # units given up
    finished: bool
    entries: tuple[Entry, ...] = ()

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        return tuple(receipt for file in self.files for receipt in file.receipts)

    @property
    def head(self) -> Mapping[str, str]:
        """Digests of the files of the head as they were at the first commit; of none where that does not say."""
        return next((entry.head for entry in self.entries if entry.kind == "commit"), {})


def read_committed(run: RunDirectory) -> Committed:
    """RunError as in `read_entries`."""
    entries = read_entries(run)
    files = tuple(file for entry in entries for file in entry.files)
    lost = tuple(unit for entry in entries for unit in entry.lost)
    return Committed(files, lost, any(entry.kind == "finish" for entry in entries), entries)


class CommitLog:
    """The log in the hands of one driver, which has taken the run over and may append."""

    def __init__(
        self, run: RunDirectory, clock: Callable[[], float] = time.time, known: Committed | None = None
    ) -> None:
        """Takes the run over. known: what was read of its log before, not to be read again.

        RunError when another driver lives; Fenced when another was faster.
        """
        self._run = run
        self._clock = clock
        self._process = this_process()
        self._beaten = float("-inf")
        self._entries = list(read_entries(run, () if known is None else known.entries))
        self.driver = uuid.uuid4().hex[:12]
        self._refuse_while_another_lives()
        self._append("takeover")
        self.beat()
        save_missing_volumes(run, self._entries)

    def __enter__(self) -> CommitLog:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RunError):  # a courtesy: no reason to fail, and least of all instead of what went wrong before
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
        first = all(entry.kind != "commit" for entry in self._entries)
        head = self._run.head() if first else {}
        self._append("commit", files=tuple(files), lost=tuple(lost), head=head)

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

    def _append(self, kind: Literal["takeover", "commit", "finish"], **content: Any) -> None:  # Any: fields of Entry
        entry = Entry(len(self._entries) + 1, kind, self.driver, self._process, **content)
        created = self._run.store.put_new(entry_path(entry.number), encode(entry))
        if not created and (found := read_entry(self._run, entry.number)) != entry:
            raise Fenced(
                f"Another driver (process {found.process.pid} on {found.process.host}) has taken over the run at "
                f"{self._run.place}: this one stops. What it had committed is kept."
            )
        self._entries.append(entry)
        if entry.number % VOLUME == 0:
            save_volume(self._run, self._entries)

    def _refuse_unreadable(self, file: CommittedFile) -> None:
        if not self._run.has_state(file.file):
            raise RunError(
                f"A worker wrote states/{file.file}.arrow, but it is not in the run at {self._run.place} as the driver "
                "sees it. The run directory must be on storage that all nodes see, at the same path."
            )
        if file.predictions and not self._run.has_outputs(file.predictions):
            raise RunError(
                f"A worker wrote outputs/{file.predictions}.arrow, but it is not in the run at {self._run.place} as "
                "the driver sees it. The run directory must be on storage that all nodes see, at the same path."
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
        if living is None and (seconds := self._silent_seconds(last)) < STALE_SECONDS:
            raise RunError(
                f"The run at {self._run.place} is being worked on by process {last.process.pid} on "
                f"{last.process.host}, seen {seconds:.0f} seconds ago. Stop it there, or resume once it has been "
                f"silent for {STALE_SECONDS:.0f} seconds."
            )

    def _silent_seconds(self, last: Entry) -> float:
        """Since the driver of the last entry wrote anything."""
        store = self._run.store
        signs = [store.written(path) for path in (_lease_path(last.driver), entry_path(last.number))]
        return (store.now() - max(sign for sign in signs if sign is not None)).total_seconds()

    def _read_lease(self, driver: str) -> dict[str, Any]:  # Any: JSON, its few keys are read with a default
        path = _lease_path(driver)
        if not self._run.store.exists(path):
            return {}
        try:
            lease = json.loads(self._run.store.get(path))
        except ValueError:
            return {}
        return lease if isinstance(lease, dict) else {}

    def _write_lease(self, *, released: bool) -> None:
        lease = {**asdict(self._process), "beat": self._clock(), "released": released}
        self._run.store.put(_lease_path(self.driver), json.dumps(lease).encode())


def _lease_path(driver: str) -> str:
    return f"heartbeats/{driver}.json"
