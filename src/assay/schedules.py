"""The schedules of a run whose variants are in several bundles, as one: events in, orders out, no clock, no I/O.

Lives here: which schedule an event is for, how workers are shared out over the bundles, when the whole run is over, and
that the baseline fares alike in all bundles. Not here: what an event leads to in one bundle (`schedule.py`).

Each bundle has a schedule of its own, over the units that are its own, and workers that hold its variants alone:
worker 7 of bundle 2 is `<driver>-2-7`. All go through the pieces of the data in the same order. A bundle that is
through gives its workers' places to the others, whose new workers load their models first; so places are shared out
anew only then, and when the run gets more or fewer.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from assay.errors import ModelError, RunError
from assay.events import Begin
from assay.orders import (
    Abort,
    Committed,
    End,
    EndWorker,
    Event,
    Order,
    Resized,
    StartWorker,
    Stop,
    Tick,
    UnitDone,
    WorkerFailed,
)
from assay.records import CommittedFile, Plan, Receipt, Unit
from assay.schedule import Schedule


class Scheduler(Protocol):
    """A schedule, or several as one: `start()` once, then `handle(event)`; both return the orders that follow."""

    @property
    def num_units(self) -> int: ...
    @property
    def units_done(self) -> int: ...  # accepted, committed or given up
    @property
    def rows_done(self) -> int: ...  # of the data, of what is accepted or committed
    @property
    def num_queue_changes(self) -> int: ...  # so far
    def upcoming(self, number: int) -> tuple[Unit, ...]: ...  # the first of the queue, a unit for each piece
    def start(self) -> list[Order]: ...
    def handle(self, event: Event, at: float | None = None) -> list[Order]: ...


def scheduler(
    plan: Plan,
    begin: Begin,
    files: Iterable[CommittedFile] = (),
    lost: Iterable[str] = (),
    baseline: str | None = None,
) -> Scheduler:
    """Of one driver's run. files, lost: what the log holds. baseline: of the spec."""
    if plan.bundles:
        return Schedules(plan, begin, tuple(files), tuple(lost), baseline)
    return Schedule(
        plan.units,
        files,
        lost,
        driver=begin.driver,
        num_workers=begin.num_workers,
        tolerant=begin.tolerant,
        most_failed=begin.most_failed,
        unit_seconds=begin.unit_seconds,
    )


@dataclass(slots=True)
class _Part:
    """One bundle."""

    number: int
    schedule: Schedule
    num_named: int  # its variants, the baseline among them in the first alone
    num_scored: int  # so too, the baseline in each
    num_workers: int = 0  # that it may have
    workers: dict[str, None] = field(default_factory=dict)  # that it asked for and did not end
    last: End | Abort | None = None  # its last order

    @property
    def units_left(self) -> int:
        return self.schedule.num_units - self.schedule.units_done


class Schedules:
    """Of one driver's run, a schedule for each bundle."""

    def __init__(
        self, plan: Plan, begin: Begin, files: Sequence[CommittedFile], lost: Sequence[str], baseline: str | None
    ) -> None:
        """See `scheduler`."""
        self._units = plan.units
        self._position = {unit.id: position for position, unit in enumerate(plan.units)}
        self._driver = begin.driver
        self._num_workers = begin.num_workers
        self._reference = None if baseline is None else _Reference(baseline, len(plan.bundles))
        self._parts = [
            _part(number, plan, begin, self._of(number, files), [one for one in lost if self._bundle(one) == number])
            for number in range(len(plan.bundles))
        ]
        for part, names in zip(self._parts, plan.bundles, strict=True):
            part.num_scored += baseline not in (None, *names)
        for receipt in (receipt for file in files for receipt in file.receipts):
            self._check_logged(receipt)
        self._error: Abort | None = None  # the first
        self._is_stopping = self._is_over = False
        self._must_stop, self._must_share = any(part.schedule.is_stopping for part in self._parts), True
        self._num_live = len(self._parts)  # without a last order

    # -- what others may ask

    @property
    def num_units(self) -> int:
        return len(self._units)

    @property
    def units_done(self) -> int:
        return sum(part.schedule.units_done for part in self._parts)

    @property
    def rows_done(self) -> int:
        """Rows of the data: one that some bundles have read counts by the share of the variants that are in these."""
        done = sum(part.schedule.rows_done * part.num_named for part in self._parts)
        return done // sum(part.num_named for part in self._parts)

    @property
    def num_queue_changes(self) -> int:
        return sum(part.schedule.num_queue_changes for part in self._parts)

    def upcoming(self, number: int) -> tuple[Unit, ...]:
        """Of the bundles that have workers."""
        found: dict[int, Unit] = {}  # by piece
        for part in self._parts:
            if part.num_workers:
                for unit in part.schedule.upcoming(number):
                    found.setdefault(self._piece(unit.id), unit)
        return tuple(found[piece] for piece in sorted(found)[:number])

    # -- events

    def start(self) -> list[Order]:
        orders = [order for part in self._parts for order in self._of_part(part, part.schedule.start())]
        return orders + self._settled(None)

    def handle(self, event: Event, at: float | None = None) -> list[Order]:
        """As in `Schedule.handle`."""
        if self._is_over:
            return []
        return self._handed(event, at) + self._settled(at)

    def _handed(self, event: Event, at: float | None) -> list[Order]:
        if isinstance(event, Resized):
            self._num_workers, self._must_share = event.num_workers, True
            return []
        if isinstance(event, Stop):
            self._is_stopping = True
        if isinstance(event, Stop | Tick):
            return [order for part in self._parts for order in self._give(part, event, at)]
        if isinstance(event, Committed):
            units = [*event.order.lost, *(one.unit for file in event.order.files for one in file.receipts)]
            return self._give(self._parts[self._bundle(units[0])], event, at)
        part = self._part_of(event.incarnation)
        return [] if part is None else self._give(part, self._checked(part, event), at)

    def _give(self, part: _Part, event: Event, at: float | None) -> list[Order]:
        orders = self._of_part(part, part.schedule.handle(event, at))
        self._must_stop = self._must_stop or part.schedule.is_stopping
        return orders

    def _of_part(self, part: _Part, orders: Iterable[Order]) -> list[Order]:
        """The orders of one schedule, as they are for the whole run: without its end."""
        given: list[Order] = []
        for order in orders:
            if isinstance(order, End | Abort):
                part.last, self._must_share = order, True
                self._num_live -= 1
                if isinstance(order, Abort):
                    self._error = self._error or order
                continue
            if isinstance(order, StartWorker):
                part.workers[order.incarnation] = None
                order = replace(order, bundle=part.number)
            elif isinstance(order, EndWorker):
                part.workers.pop(order.incarnation, None)
            given.append(order)
        return given

    def _settled(self, at: float | None) -> list[Order]:
        """What follows for other bundles: they stop where one must, and get the places of those that are through."""
        orders: list[Order] = []
        if self._must_stop and not self._is_stopping:
            self._is_stopping = True
            orders += [order for part in self._parts for order in self._give(part, Stop(), at)]
        if not self._num_live:
            self._is_over = True
            stopped = any(isinstance(part.last, End) and part.last.stopped for part in self._parts)
            return [*orders, self._error or End(stopped)]
        if self._must_share and not self._is_stopping:
            orders += self._shared_out(at)
        return orders

    # -- places for workers

    def _shared_out(self, at: float | None) -> list[Order]:
        self._must_share = False
        orders: list[Order] = []
        for part in self._parts:
            if part.last is not None:
                orders += [EndWorker(name) for name in part.workers]
                part.workers.clear()
                part.num_workers = 0
        live = [part for part in self._parts if part.last is None]
        shares = share_out(
            self._num_workers,
            [part.num_workers for part in live],
            _work(live),
            [part.units_left for part in live],
        )
        for part, share in zip(live, shares, strict=True):
            if share != part.num_workers:
                part.num_workers = share
                orders += self._give(part, Resized(share), at)
        return orders

    # -- which bundle

    def _part_of(self, incarnation: str) -> _Part | None:
        """None for a name that is none of ours."""
        number = incarnation.removeprefix(f"{self._driver}-").partition("-")[0]
        return self._parts[int(number)] if number.isdecimal() and int(number) < len(self._parts) else None

    def _bundle(self, unit: str) -> int:
        """Of a unit; the first for one that is not in the plan, which the first schedule will say."""
        position = self._position.get(unit)
        return 0 if position is None else self._units[position].bundle

    def _of(self, number: int, files: Iterable[CommittedFile]) -> list[CommittedFile]:
        """The state files of one bundle: no worker has units of two."""
        return [file for file in files if file.receipts and self._bundle(file.receipts[0].unit) == number]

    def _piece(self, unit: str) -> int:
        return self._position[unit] // len(self._parts)

    # -- the baseline

    def _checked(self, part: _Part, event: Event) -> Event:
        """A unit on which the baseline fares otherwise than in another bundle is not done: that ends the run."""
        if self._reference is None or not isinstance(event, UnitDone) or event.receipt.unit not in self._position:
            return event
        if event.incarnation not in part.workers:  # what an ended one says counts for nothing
            return event
        piece = self._piece(event.receipt.unit)
        if self._reference.agrees(piece, event.receipt):
            return event
        unit = self._units[self._position[event.receipt.unit]]
        return WorkerFailed(event.incarnation, self._reference.error(unit, piece, event.receipt), ends_run=True)

    def _check_logged(self, receipt: Receipt) -> None:
        if self._reference is None or self._reference.agrees(self._piece(receipt.unit), receipt):
            return
        raise RunError(
            f"Unit {receipt.unit} is committed with a baseline that scored other rows than in another bundle: the run "
            "cannot be trusted."
        )


class _Reference:
    """How the baseline fared on each piece of the data, as far as any bundle has said: failed, or to which rows it gave
    no score. Whatever the spec tolerates: that may change when a run goes on.

    Where it fails in every bundle, no variant counts on the piece, as in a run without bundles. Where it failed in one
    alone, or scored other rows, the variants of that one would be compared with states of the baseline's that hold
    other rows.
    """

    def __init__(self, baseline: str, num_bundles: int) -> None:
        self._baseline = baseline
        self._num_bundles = num_bundles
        self._fared: dict[int, str | None] = {}  # by piece: None where it failed, else `Receipt.missed`

    def agrees(self, piece: int, receipt: Receipt) -> bool:
        """Is that as it was in the other bundles? The first to say so decides."""
        fared = self._of(receipt)
        return self._fared.setdefault(piece, fared) == fared

    def error(self, unit: Unit, piece: int, receipt: Receipt) -> ModelError:
        here, before = self._of(receipt), self._fared[piece]
        if here is None:
            said = "it failed, though in another bundle it did not fail on the same rows"
        elif before is None:
            said = "it did not fail, though in another bundle it failed on the same rows"
        else:
            said = "it gave a score to other rows than in another bundle"
        return ModelError(
            self._baseline,
            f"it is the baseline, which each of {self._num_bundles} bundles of variants is compared with, and on unit "
            f"{unit.id} ({unit.path}, from row {unit.first_row}) {said}. Nothing could be compared there. What is "
            "committed is kept: resume the run if the cause was of the moment, or start a new one with a baseline that "
            "always fares alike.",
        )

    def _of(self, receipt: Receipt) -> str | None:
        return None if self._baseline in receipt.failed else receipt.missed


def _part(number: int, plan: Plan, begin: Begin, files: Iterable[CommittedFile], lost: Iterable[str]) -> _Part:
    schedule = Schedule(
        [unit for unit in plan.units if unit.bundle == number],
        files,
        lost,
        driver=f"{begin.driver}-{number}",
        num_workers=0,
        bundled=True,
        most_failed=begin.most_failed,
        unit_seconds=begin.unit_seconds,
    )
    named = len(plan.bundles[number])
    return _Part(number, schedule, named, named)


def _work(parts: Sequence[_Part]) -> list[float]:
    """What is left of each: in seconds of a worker where all rates are known, else by the number of variants."""
    rates = [part.schedule.rate for part in parts]
    costs = [
        float(part.num_scored) if None in rates or not rate else 1.0 / rate
        for part, rate in zip(parts, rates, strict=True)
    ]
    return [part.units_left * cost for part, cost in zip(parts, costs, strict=True)]


def share_out(num_workers: int, held: Sequence[int], work: Sequence[float], most: Sequence[int]) -> list[int]:
    """How many of the workers each part is to have, so that the last to be through is so as early as may be.

    held: what they have now. While there are more to give, none gives up any; a further one goes where most is left for
    each, first to one that has none, but to none more than `most`. Where there are too many, one leaves where least is
    left for each.

    >>> share_out(5, held=[0, 0, 0], work=[40.0, 20.0, 20.0], most=[9, 9, 9])
    [3, 1, 1]
    >>> share_out(2, held=[0, 0, 0], work=[40.0, 20.0, 20.0], most=[9, 9, 9])
    [1, 1, 0]
    >>> share_out(2, held=[2, 1, 1], work=[40.0, 20.0, 20.0], most=[9, 9, 9])
    [1, 1, 0]
    """
    shares = list(held)
    free = num_workers - sum(shares)
    for _ in range(-free):
        holders = [part for part, share in enumerate(shares) if share]
        shares[min(holders, key=lambda part: (_each(work[part], shares[part] - 1), -part))] -= 1
    waiting = [(-_each(work[part], share), part) for part, share in enumerate(shares) if share < most[part]]
    heapq.heapify(waiting)
    for _ in range(free):
        if not waiting:
            break
        part = waiting[0][1]
        shares[part] += 1
        if shares[part] < most[part]:
            heapq.heapreplace(waiting, (-_each(work[part], shares[part]), part))
        else:
            heapq.heappop(waiting)
    return shares


def _each(work: float, share: int) -> float:
    return work / share if share > 0 else math.inf
