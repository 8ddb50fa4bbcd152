"""The events of a driver's run in the form in which they are kept, one JSON line each, and back.

Lives here: the lines. Not here: when they are written (`drive.py`), where (`store/`), what they tell
(`pipeline/replay.py`).

An object begins with a line of what was set for the run and ends with one of how many events there were so far and a
checksum of all orders that followed, so that a replay can prove that it gives the same ones. Workers go by number,
units by their position in the plan, digests by their first characters. What can be told from the events before is left
out.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from dataclasses import fields as fields_of
from typing import Any

from assay.errors import AssayError, RunError
from assay.orders import (
    Abort,
    Commit,
    Committed,
    Drop,
    End,
    EndWorker,
    Event,
    Flush,
    Flushed,
    Measured,
    Order,
    Resized,
    Say,
    Score,
    Stalled,
    StartWorker,
    Stop,
    Tick,
    UnitDone,
    UnitDropped,
    WorkerDraining,
    WorkerFailed,
    WorkerLost,
    WorkerReady,
)
from assay.records import CommittedFile, Failure, Receipt, Unit

VERSION = 1
_OF_WORKERS = {"ready", "done", "dropped", "flushed", "lost", "draining", "failed", "measured"}
UNIT_DIGEST, FILE_DIGEST = 8, 16
"""Characters that are kept."""

Line = list[Any]  # Any: JSON; what stands where depends on the kind


@dataclass(frozen=True, slots=True)
class Begin:
    """What a schedule is made with, beside the plan and the log."""

    driver: str
    num_workers: int
    tolerant: bool
    most_failed: float | None = None
    unit_seconds: float | None = None


class Recorder:
    """Events of one driver, as they happen."""

    def __init__(self, units: Sequence[Unit], begin: Begin) -> None:
        self._begin = begin
        self._position = {unit.id: position for position, unit in enumerate(units)}
        self._said = _Said()
        self._lines: list[str] = []
        self._num_objects = self._num_events = self._checksum = 0
        self.num_bytes = 0  # of what was not yet taken

    def add(self, at: float, event: Event, orders: Iterable[Order]) -> None:
        """A tick that nothing follows from is not kept."""
        orders = list(orders)
        if isinstance(event, Tick) and not orders:
            return
        self._checksum = checksum(orders, self._checksum)
        line = json.dumps([at, *self._fields(event)], separators=(",", ":"))
        self._num_events += 1
        self.num_bytes += len(line) + 1
        self._lines.append(line)

    def take(self) -> tuple[str, bytes]:
        """The name and the bytes of an object with all that was added since the last one."""
        self._num_objects += 1
        head = {"version": VERSION, **asdict(self._begin), "object": self._num_objects}
        tail = {"events": self._num_events, "orders": self._checksum}
        lines = [json.dumps(head), *self._lines, json.dumps(tail)]
        self._lines, self.num_bytes = [], 0
        return f"{self._begin.driver}-{self._num_objects:06d}.jsonl", "\n".join([*lines, ""]).encode()

    def _fields(self, event: Event) -> Line:
        if isinstance(event, UnitDone):
            return self._done(event)
        if isinstance(event, Flushed):
            return self._flushed(event)
        if isinstance(event, WorkerReady):
            return ["ready", self._number(event.incarnation)]
        if isinstance(event, UnitDropped):
            return ["dropped", self._number(event.incarnation), self._position.get(event.unit, -1)]
        if isinstance(event, Committed):
            return ["committed"]
        if isinstance(event, WorkerLost):
            self._said.forget(event.incarnation)
            line: Line = ["lost", self._number(event.incarnation), event.reason, int(event.preempted)]
            return [*line, 1] if event.out_of_memory else line
        if isinstance(event, WorkerDraining):
            return ["draining", self._number(event.incarnation), event.reason, event.seconds]
        if isinstance(event, WorkerFailed):
            failed: Line = ["failed", self._number(event.incarnation), str(event.error)]
            return failed if event.ends_run else [*failed, int(isinstance(event.error, RunError))]
        if isinstance(event, Measured):
            return ["measured", self._number(event.incarnation), event.speed, event.reason]
        if isinstance(event, Resized):
            return ["resized", event.num_workers]
        return ["stop"] if isinstance(event, Stop) else ["tick"]

    def _done(self, event: UnitDone) -> Line:
        receipt = _short(event.receipt)
        self._said.add(event.incarnation, receipt)
        line: Line = ["done", self._number(event.incarnation), self._position.get(receipt.unit, -1), receipt.rows]
        line += [receipt.digest, int(event.flush_due)]
        failures = [[one.variant, one.error, one.rows] for one in event.failures]
        missed = [receipt.missed] if receipt.missed else []
        return [*line, list(receipt.failed), failures, *missed] if receipt.failed or failures or missed else line

    def _flushed(self, event: Flushed) -> Line:
        said = self._said.forget(event.incarnation)
        held = {receipt.unit: _short(receipt) for receipt in event.file.receipts}
        missing = [self._position[unit] for unit in said if unit not in held]
        others = [
            [one.unit, one.rows, one.digest, list(one.failed), *([one.missed] if one.missed else [])]
            for one in held.values()
            if said.get(one.unit) != one
        ]
        line: Line = ["flushed", self._number(event.incarnation), event.file.file[:FILE_DIGEST]]
        return [*line, missing, others] if missing or others else line

    def _number(self, incarnation: str) -> int | str:
        """What of its name is its own: "2-7" where there are several bundles."""
        number = incarnation.removeprefix(f"{self._begin.driver}-")
        return int(number) if number.isdecimal() else number


class Player:
    """The events of one driver again, out of its objects in order. RunError where they are not what they must be."""

    def __init__(self, objects: Sequence[tuple[str, bytes]], units: Sequence[Unit]) -> None:
        """objects: (name, bytes)."""
        self._units = units
        self._said = _Said()
        self._objects = [_Lines.read(name, data) for name, data in objects]
        for number, one in enumerate(self._objects, start=1):
            if one.head["object"] != number or one.head["version"] != VERSION:
                raise RunError(f"events/{one.name} is not the object {number} of its driver: events are missing.")
        head = self._objects[0].head
        self.begin = Begin(**{one.name: head[one.name] for one in fields_of(Begin) if one.name in head})

    def events(self) -> Iterator[tuple[float, Event | None] | int]:
        """(seconds since the start, event); None: the next of the commits that were ordered. After each object, the
        checksum of the orders so far."""
        for one in self._objects:
            for line in one.lines:
                try:
                    item = (float(line[0]), self._event(line[1], line[2:]))
                except (IndexError, KeyError, TypeError, ValueError) as error:
                    raise RunError(f"events/{one.name} holds a line that is no event: {line}.") from error
                yield item
            yield int(one.tail["orders"])

    def _event(self, kind: str, fields: Line) -> Event | None:
        if kind == "committed":
            return None
        if kind in ("stop", "tick"):
            return Stop() if kind == "stop" else Tick()
        if kind == "resized":
            return Resized(fields[0])
        if kind not in _OF_WORKERS:
            raise RunError(f"{kind!r} is no kind of event that this version of assay knows.")
        worker = f"{self.begin.driver}-{fields[0]}"
        if kind == "done":
            return self._done(worker, *fields[1:])
        if kind == "flushed":
            return self._flushed(worker, *fields[1:])
        if kind == "ready":
            return WorkerReady(worker)
        if kind == "dropped":
            return UnitDropped(worker, self._unit(fields[1]))
        if kind == "lost":
            self._said.forget(worker)
            return WorkerLost(worker, fields[1], bool(fields[2]), out_of_memory=len(fields) > 3 and bool(fields[3]))
        if kind == "measured":
            return Measured(worker, float(fields[1]), fields[2])
        if kind == "draining":
            return WorkerDraining(worker, fields[1], fields[2])
        return _failed(worker, *fields[1:])

    def _done(
        self,
        worker: str,
        position: int,
        rows: int,
        digest: str,
        flush_due: int,
        failed: Sequence[str] = (),
        failures: Sequence[tuple[str, str, int]] = (),
        missed: str = "",
    ) -> UnitDone:
        unit = self._unit(position)
        receipt = Receipt(unit, rows, digest, tuple(failed), missed=missed)
        self._said.add(worker, receipt)
        return UnitDone(worker, receipt, tuple(Failure(unit, *one) for one in failures), bool(flush_due))

    def _flushed(self, worker: str, file: str, missing: Sequence[int] = (), others: Sequence[Line] = ()) -> Flushed:
        held = self._said.forget(worker)
        for position in missing:
            del held[self._unit(position)]
        for unit, rows, digest, failed, *missed in others:
            held[unit] = Receipt(unit, rows, digest, tuple(failed), missed=missed[0] if missed else "")
        return Flushed(worker, CommittedFile(file, tuple(held.values())))

    def _unit(self, position: int) -> str:
        return self._units[position].id if 0 <= position < len(self._units) else ""


class _Said:
    """What each worker said that it holds, since its last flush: a flush need not say it again."""

    def __init__(self) -> None:
        self._receipts: dict[str, dict[str, Receipt]] = {}

    def add(self, worker: str, receipt: Receipt) -> None:
        self._receipts.setdefault(worker, {})[receipt.unit] = receipt

    def forget(self, worker: str) -> dict[str, Receipt]:
        """What it said, once."""
        return self._receipts.pop(worker, {})


@dataclass(frozen=True, slots=True)
class _Lines:
    """One object."""

    name: str
    head: dict[str, Any]  # Any: JSON
    lines: list[Line]
    tail: dict[str, Any]  # Any: JSON

    @classmethod
    def read(cls, name: str, data: bytes) -> _Lines:
        try:
            head, *lines, tail = [json.loads(line) for line in data.splitlines()]
            if "orders" not in tail or "object" not in head:
                raise ValueError("its first or last line is missing")
        except (ValueError, TypeError) as error:
            raise RunError(f"events/{name} is torn or holds no events ({error}).") from error
        return cls(name, head, lines, tail)


def _failed(worker: str, message: str, own: int | None = None) -> WorkerFailed:
    """own: may others go on? None: it ended the run, whosever it was."""
    if own is None:
        return WorkerFailed(worker, RunError(message), ends_run=True)
    return WorkerFailed(worker, RunError(message) if own else AssayError(message))


# ---- orders as words, for the checksum -------------------------------------------------------------------------------


def checksum(orders: Iterable[Order], before: int) -> int:
    """Of all orders that a run gave, so far as they say what to do: a message's words may change."""
    for order in orders:
        before = zlib.crc32(_words(order).encode(), before)
    return before


def _words(order: Order) -> str:
    if isinstance(order, Score):
        upcoming = order.upcoming.id if order.upcoming else ""
        caution = f" caution {order.caution}" if order.caution else ""
        return f"score {order.incarnation} {order.unit.id} {upcoming} {' '.join(order.accept)}{caution}"
    if isinstance(order, Flush):
        return f"flush {order.incarnation} {' '.join(order.accept)}"
    if isinstance(order, Commit):
        return f"commit {' '.join(map(_file_words, order.files))} {' '.join(order.lost)} {len(order.failures)}"
    if isinstance(order, StartWorker | EndWorker):
        return f"{type(order).__name__} {order.incarnation}"
    if isinstance(order, Drop):
        return f"drop {order.incarnation} {order.unit}"
    if isinstance(order, Stalled):
        return f"stalled {order.wait} {order.incarnation} {order.unit}"
    if isinstance(order, End):
        return f"end {order.stopped}"
    assert isinstance(order, Say | Abort)
    return type(order).__name__


def _file_words(file: CommittedFile) -> str:
    return f"{file.file[:FILE_DIGEST]}:{','.join(sorted(receipt.unit for receipt in file.receipts))}"


def _short(receipt: Receipt) -> Receipt:
    return Receipt(receipt.unit, receipt.rows, receipt.digest[:UNIT_DIGEST], receipt.failed, missed=receipt.missed)
