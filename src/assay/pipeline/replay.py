"""What happened in a run, told from the events that its drivers kept, and checked against the scheduler.

The events of each driver are given to the same state machine again. It must give the same orders, and commit what the
log holds; else the run was not what its records say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from assay.errors import RunError
from assay.events import FILE_DIGEST, Player, checksum
from assay.orders import (
    Abort,
    Commit,
    Committed,
    Drop,
    End,
    EndWorker,
    Event,
    Measured,
    Order,
    Say,
    Score,
    Stalled,
    StartWorker,
    Tick,
    UnitDone,
    UnitDropped,
    WorkerFailed,
    WorkerLost,
    WorkerReady,
)
from assay.pipeline.run import saved_plan, saved_spec
from assay.records import Plan
from assay.schedules import Scheduler, scheduler
from assay.spec.words import agree, count
from assay.store.entries import Entry, read_entries
from assay.store.run import RunDirectory


class Line(NamedTuple):
    """One thing that happened."""

    seconds: float  # since this driver started
    text: str  # a sentence


class Part(NamedTuple):
    """What one driver did."""

    driver: str
    lines: tuple[Line, ...]
    num_events: int
    num_bytes: int
    num_units: int  # that it committed
    same: bool  # the orders are those that were given, and the commits those of the log
    detail: str  # a sentence on that


class Replay(NamedTuple):
    """All drivers of a run, in the order in which they took it over."""

    parts: tuple[Part, ...]

    @property
    def same(self) -> bool:
        return all(part.same for part in self.parts)


def replay(out: str) -> Replay:
    """RunError where there is no run, or it kept no events."""
    directory = RunDirectory.open(out)
    plan, entries = saved_plan(directory), read_entries(directory)
    names = directory.event_names()
    if not names:
        raise RunError(
            f"The run at {directory.place} has no events/: nothing was scored, no driver lived to write them or could, "
            "or an older version ran it."
        )
    kept = {driver: list(of) for driver, of in groupby(names, key=lambda name: name.rpartition("-")[0])}
    drivers = [entry.driver for entry in entries if entry.kind == "takeover" and entry.driver in kept]
    return Replay(tuple(_part(directory, plan, entries, driver, kept[driver]) for driver in drivers))


def _part(directory: RunDirectory, plan: Plan, entries: Sequence[Entry], driver: str, names: Sequence[str]) -> Part:
    objects = [(name, directory.read_events(name)) for name in names]
    player = Player(objects, plan.units)
    first = next(number for number, entry in enumerate(entries) if entry.driver == driver)
    before, own = entries[:first], [entry for entry in entries[first:] if entry.driver == driver]
    schedule = scheduler(
        plan,
        player.begin,
        [file for entry in before for file in entry.files],
        [unit for entry in before for unit in entry.lost],
        saved_spec(directory).baseline if plan.bundles else None,
    )
    logged = [file.file[:FILE_DIGEST] for entry in own for file in entry.files]
    num_bytes = sum(len(data) for _, data in objects)
    return _Teller(schedule, player).tell(driver, logged, num_bytes)


class _Teller:
    """Hands the events of one driver to a schedule, and puts what follows into words."""

    def __init__(self, schedule: Scheduler, player: Player) -> None:
        self._schedule = schedule
        self._player = player
        self._lines: list[Line] = []
        self._commits: deque[Commit] = deque()
        self._committed: list[str] = []  # files
        self._scoring: dict[str, str] = {}  # unit in flight -> who was last told to score it
        self._num_units = self._num_events = 0

    def tell(self, driver: str, logged: Sequence[str], num_bytes: int) -> Part:
        """logged: the files that the log says this driver committed."""
        same, reason = True, ""
        workers = count(self._player.begin.num_workers, "worker")
        units = self._schedule.num_units - self._schedule.units_done
        self._say(0.0, f"Driver {driver} began, with up to {workers} and {count(units, 'unit')} to score.")
        self._follow(0.0, None, self._schedule.start())
        found = 0
        for item in self._player.events():
            if isinstance(item, int):
                if found != item:
                    same, reason = False, "The same events give other orders than those that were carried out."
                    break
                continue
            seconds, event = item
            if event is None:
                if not self._commits:
                    same, reason = False, "It records a commit that was not ordered."
                    break
                event = Committed(self._commits.popleft())
            orders = self._schedule.handle(event, seconds)
            found = checksum(orders, found)
            self._num_events += 1
            self._follow(seconds, event, orders)
        if same and self._committed != list(logged[: len(self._committed)]):
            same, reason = False, "The log holds other commits than those that the events tell of."
        untold = len(logged) - len(self._committed)
        if same:
            reason = f"{count(self._num_events, 'event')} give the orders that were carried out."
            if untold > 0:
                reason += (
                    f" {count(untold, 'state file')} more {agree(untold, 'was', 'were')} committed after the last."
                )
        return Part(driver, tuple(self._lines), self._num_events, num_bytes, self._num_units, same, reason)

    def _say(self, seconds: float, text: str) -> None:
        self._lines.append(Line(seconds, text))

    def _follow(self, seconds: float, event: Event | None, orders: Sequence[Order]) -> None:
        self._event(seconds, event)
        for order in orders:
            self._order(seconds, event, order)

    def _event(self, seconds: float, event: Event | None) -> None:
        if isinstance(event, WorkerReady):
            self._say(seconds, f"Worker {event.incarnation} is ready.")
        elif isinstance(event, WorkerLost) and event.out_of_memory:
            self._say(seconds, f"Worker {event.incarnation} was ended for its memory.")
        elif isinstance(event, WorkerFailed):
            self._say(seconds, f"Worker {event.incarnation} met an error: {event.error}")
        elif isinstance(event, Measured):
            why = f": {event.reason}" if event.reason else ""
            self._say(seconds, f"Worker {event.incarnation} now runs at {100 * event.speed:.0f} % of full speed{why}.")
        elif isinstance(event, UnitDone | UnitDropped):
            unit = event.receipt.unit if isinstance(event, UnitDone) else event.unit
            self._scoring.pop(unit, None)
        elif isinstance(event, Committed):
            receipts = [receipt for file in event.order.files for receipt in file.receipts]
            self._num_units += len(receipts)
            self._committed += [file.file[:FILE_DIGEST] for file in event.order.files]
            lost = [f"{count(len(event.order.lost), 'unit')} given up"] if event.order.lost else []
            what = [count(len(receipts), "unit")] if receipts else []
            self._say(seconds, f"Committed {' and '.join(what + lost)}; {self._schedule.units_done:,} done so far.")

    def _order(self, seconds: float, event: Event | None, order: Order) -> None:
        if isinstance(order, StartWorker):
            self._say(seconds, f"Worker {order.incarnation} is asked for.")
        elif isinstance(order, Score):
            self._scored(seconds, event, order)
        elif isinstance(order, EndWorker):
            self._scoring = {unit: name for unit, name in self._scoring.items() if name != order.incarnation}
        elif isinstance(order, Drop):
            self._say(seconds, f"Worker {order.incarnation} need not go on with unit {order.unit}.")
        elif isinstance(order, Commit):
            self._commits.append(order)
        elif isinstance(order, Say):
            self._say(seconds, order.message)
        elif isinstance(order, Stalled):
            doing = {"start": "start", "score": f"score unit {order.unit}", "flush": "write its states"}[order.wait]
            self._say(seconds, f"Worker {order.incarnation} takes long to {doing}: {order.seconds:.0f} s so far.")
        elif isinstance(order, Abort):
            self._say(seconds, f"The run ended: {order.error}")
        elif isinstance(order, End):
            self._say(seconds, "Stopped, with units left." if order.stopped else "All units are done.")

    def _scored(self, seconds: float, event: Event | None, order: Score) -> None:
        if order.caution:
            text = f"Unit {order.unit.id} is scored with 1/{4**order.caution} of the rows per call, for want of memory."
            self._say(seconds, text)
        other = self._scoring.get(order.unit.id)
        self._scoring[order.unit.id] = order.incarnation
        if other is not None and other != order.incarnation:
            late = "is late" if isinstance(event, Tick) else "would end late"
            text = f"Unit {order.unit.id} {late} at worker {other}; worker {order.incarnation} scores it too."
            self._say(seconds, text)
