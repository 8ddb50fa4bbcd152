"""What a driver writes down beside its log: the events that it saw, and what its workers spend.

Lives here: when that is written, and what becomes of it where it cannot be. Not here: the form of events
(`events.py`), what is booked how (`costs.py`). No result depends on either, so a run goes on without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from assay.costs import CostLedger
from assay.errors import RunError
from assay.events import Begin, Recorder
from assay.orders import EndWorker, Event, Order, Score, StartWorker
from assay.records import CommittedFile, Job, Preparing
from assay.store.run import RunDirectory

KEEP_SECONDS, KEEP_BYTES = 30.0, 4_000_000
"""Events are written so often, or when they take so much; a driver that is killed takes the last of them with it."""
MOST_UNSAVED_BYTES = 64_000_000
"""Beyond that events that could not be written are given up."""
KEEP_COSTS_SECONDS = 10.0
"""So often is written what workers have spent."""


class Keeper:
    """Of one driver. Times are seconds since it began."""

    def __init__(self, job: Job, begin: Begin, costs: CostLedger, say: Callable[[str], None]) -> None:
        """costs: booked here. say: tells whoever watches the run."""
        self._run = job.run
        self._driver = begin.driver
        self._recorder: Recorder | None = Recorder(job.plan.units, begin)
        self._costs = costs
        self._say = say
        self._kept_events = self._kept_costs = 0.0
        self._unsaved: list[tuple[str, bytes]] = []  # objects of events that could not be written yet
        self._not_kept: set[str] = set()

    def hear(self, event: Event, at: float, orders: Sequence[Order]) -> None:
        """Something happened, and these orders follow."""
        self._costs.hear(event, at, orders)
        if self._recorder is not None:
            self._recorder.add(at, event, orders)

    def note(self, order: Order, at: float) -> None:
        """An order is about to be carried out."""
        if isinstance(order, StartWorker):
            self._costs.asked(order.incarnation, order.bundle)
        elif isinstance(order, EndWorker):
            self._costs.ended(order.incarnation, at)
        elif isinstance(order, Score):
            self._costs.scores(order.incarnation)

    def prepared(self, told: Iterable[Preparing]) -> None:
        """What tasks apart from the workers have spent."""
        for one in told:
            self._costs.prepared(one)

    def committed(self, files: Iterable[CommittedFile], at: float) -> None:
        """The log holds them; events are written if it is time."""
        self._costs.committed(files)
        recorder = self._recorder
        if recorder and (at - self._kept_events > KEEP_SECONDS or recorder.num_bytes > KEEP_BYTES):
            self.keep_events(at)

    def pass_time(self, at: float) -> None:
        """Costs are written if it is time."""
        if at - self._kept_costs >= KEEP_COSTS_SECONDS:
            self.keep_costs(at)

    def keep_events(self, at: float) -> None:
        """Write what was recorded since the last time; where that fails, again later."""
        self._kept_events = at
        if self._recorder is not None and self._recorder.num_bytes:
            self._unsaved.append(self._recorder.take())
        try:
            if self._unsaved:
                directory = RunDirectory.for_worker(self._run, patient=False)
            while self._unsaved:
                directory.save_events(*self._unsaved[0])
                self._unsaved.pop(0)
        except RunError as error:
            self._cannot_keep("events", error)
            if sum(len(data) for _, data in self._unsaved) > MOST_UNSAVED_BYTES:
                self._recorder, self._unsaved = None, []

    def keep_costs(self, at: float) -> None:
        """Write what workers have spent so far; where that fails, the next time."""
        self._kept_costs = at
        known = self._costs.as_json(self._driver, at)
        if not known["accounts"]:
            return
        try:
            RunDirectory.for_worker(self._run, patient=False).save_costs(self._driver, known)
        except RunError as error:
            self._cannot_keep("costs", error)

    def _cannot_keep(self, what: str, error: RunError) -> None:
        """Said once: it is no reason to stop."""
        if what not in self._not_kept:
            self._not_kept.add(what)
            self._say(f"The {what} of this run could not be written just now: {error}")
