"""Joins that are done while rows are still scored: what is complete is joined where CPUs are free.

Lives here: which stretches are complete, and when one is begun. Not here: where CPUs are free (`protocols.Aside`), and
what is made of all joins at the end (`predict.py`).

Types are those of the outputs that were committed so far. Where later ones are wider, all is joined again, and the end
deletes the files of the first time. Only plain folders are written so: a table is made with its types.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType

from assay.errors import AssayError, Interrupted, Unfinished
from assay.pipeline.join import Join
from assay.pipeline.joining import JoinBook, Keys, Listing
from assay.pipeline.pieces import OBJECTS_AT_ONCE, Outputs, Stretch, reasons_of, stretches
from assay.pipeline.predict import TOLD, Sinks, join_of
from assay.pipeline.prepare import Prepared
from assay.protocols import Aside, Log
from assay.records import CommittedFile, Failure, Plan, Progress, Receipt
from assay.sinks.folder import FolderSink
from assay.spec.words import count
from assay.store.run import RunDirectory

TURN_SECONDS = 0.5
"""How often it is looked what is done and what may begin."""
BEGIN_SECONDS = 0.2
"""For so long at a time stretches are begun: objects are looked into for them, and the loop that scores waits."""
END_SECONDS = 30.0
"""So long at most the end of the scoring waits for joins that are out; the others are begun again."""


def may_be_early(prepared: Prepared, directory: RunDirectory) -> bool:
    """Whether joins need not wait for the end: the best rows of groups are known there alone, and a table has the types
    that it is made with."""
    said = prepared.spec.predictions
    return said is not None and said.top_k is None and isinstance(Sinks.of(prepared, directory).predictions, FolderSink)


class Complete:
    """Which stretches have all their units committed or given up, in all bundles."""

    def __init__(self, plan: Plan) -> None:
        self.stretches = stretches(plan)
        units = [[unit.id for place in stretch for unit in place.units] for stretch in self.stretches]
        self._stretch = {unit: number for number, several in enumerate(units) for unit in several}
        self._missing = [set(several) for several in units]
        self.receipts: dict[str, Receipt] = {}  # by unit; none of those that were given up
        self.objects: dict[str, str] = {}  # unit -> with its outputs
        self.ready: deque[int] = deque()  # stretches that nobody has taken yet, as they became complete

    def note(self, files: Sequence[CommittedFile], lost: Sequence[str]) -> None:
        """These are committed. Said twice is said once."""
        for file in files:
            self.receipts |= {receipt.unit: receipt for receipt in file.receipts}
            self.objects |= {receipt.unit: file.predictions for receipt in file.receipts}
        for unit in [*(receipt.unit for file in files for receipt in file.receipts), *lost]:
            number = self._stretch[unit]
            if unit in self._missing[number]:
                self._missing[number].remove(unit)
                if not self._missing[number]:
                    self.ready.append(number)

    def units(self, number: int) -> list[str]:
        return [unit.id for place in self.stretches[number] for unit in place.units]


@dataclass
class _Round:
    """Joins with the same types of outputs."""

    join: Join
    keys: Keys
    begun: list[int] = field(default_factory=list)  # stretches
    num_joined: int = 0  # pieces


@dataclass(frozen=True, slots=True)
class _Begun:
    now: _Round
    key: str
    stretch: Stretch


class EarlyJoins:
    """A log that has what is complete joined; see protocols.Log. A context, at whose end what is not done is given
    up."""

    def __init__(
        self,
        log: Log,
        prepared: Prepared,
        directory: RunDirectory,
        book: JoinBook,
        aside: Aside,
        report: Callable[[Progress], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """report: tells whoever watches the run."""
        self._log = log
        self._prepared = prepared
        self._directory = directory
        self._book = book
        self._aside = aside
        self._report = report
        self._clock = clock
        self._sinks = Sinks.of(prepared, directory)
        self._listing = Listing(self._sinks.predictions, self._sinks.dead)
        self._outputs = Outputs(directory, prepared.spec, prepared.plan)
        self._complete = Complete(prepared.plan)
        self._complete.note(log.files, log.lost)
        self._join = join_of(prepared, directory, self._sinks, {})  # with the widest types that outputs may have
        self._round: _Round | None = None
        self._out: dict[int, _Begun] = {}  # by the number of the join
        self._number = 0
        self._turned = float("-inf")
        self._progress: Progress | None = None
        self._loss_is_told = False

    # ---- the log -----------------------------------------------------------------------------------------------------

    @property
    def driver(self) -> str:
        return self._log.driver

    @property
    def files(self) -> tuple[CommittedFile, ...]:
        return self._log.files

    @property
    def lost(self) -> tuple[str, ...]:
        return self._log.lost

    def commit(self, files: Sequence[CommittedFile], failures: Sequence[Failure], lost: Sequence[str]) -> None:
        self._log.commit(files, failures, lost)
        self._complete.note(files, lost)

    def beat(self) -> None:
        """AssayError too where a join raised it: the end of the run would meet it again."""
        self._log.beat()
        if self._clock() - self._turned >= TURN_SECONDS:
            self._turned = self._clock()
            self._hear()
            self._begin()
            self._book.keep()

    # ---- the run -----------------------------------------------------------------------------------------------------

    def progress(self, progress: Progress) -> None:
        """What is told of the scoring, on its way to whoever watches."""
        self._progress = progress
        self._report(progress)

    def end(self) -> None:
        """All is scored: wait a little for what is out."""
        until = self._clock() + END_SECONDS
        while self._out and self._clock() < until:
            self._log.beat()
            self._hear(1.0)

    def __enter__(self) -> EarlyJoins:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, Interrupted | Unfinished):  # an orderly end: what is done counts
                with suppress(AssayError):
                    self._hear()
        finally:
            self._aside.close()

    # ---- joins -------------------------------------------------------------------------------------------------------

    def _hear(self, seconds: float = 0.0) -> None:
        for worked in self._aside.done(seconds):
            begun = self._out.pop(worked.number)
            if not worked.lost:
                self._book.add(begun.key, worked)
                self._count(begun.now, begun.stretch)
            elif not self._loss_is_told:
                self._loss_is_told = True
                self._say(f"A join was lost while rows are scored: {worked.lost.rstrip('.')}. It is done at the end.")

    def _begin(self) -> None:
        room, until = self._aside.room(), self._clock() + BEGIN_SECONDS
        while room > 0 and self._complete.ready and self._clock() < until:
            number = min(room, OBJECTS_AT_ONCE, len(self._complete.ready))
            several = [self._complete.ready.popleft() for _ in range(number)]
            units = [unit for one in several for unit in self._complete.units(one)]
            self._outputs.look_into(self._complete.objects[unit] for unit in units if unit in self._complete.objects)
            now = self._round_now()
            for one in several:
                now.begun.append(one)
                room -= self._begin_one(now, self._complete.stretches[one])

    def _round_now(self) -> _Round:
        """Joins with the types that are known now. Where they are others than before, all is to be joined again."""
        join = replace(self._join, columns=self._join.columns.with_types(self._outputs.types))
        before = self._round
        if before is not None and before.join.columns == join.columns:
            return before
        if before is None:
            self._sinks.dead.begin(join.columns.dead_schema)
        else:
            self._complete.ready.extend(before.begun)
        self._sinks.predictions.check(join.columns.schema)
        self._round = _Round(join, Keys(join, self._sinks.settings, self._prepared.plan))
        return self._round

    def _begin_one(self, now: _Round, stretch: Stretch) -> int:
        """How many tasks that took: none where it is joined already."""
        units = [unit.id for place in stretch for unit in place.units]
        receipts = {unit: self._complete.receipts[unit] for unit in units if unit in self._complete.receipts}
        lost = [unit for unit in units if unit not in receipts]
        reasons = reasons_of(self._prepared.spec, self._directory.failures(receipts.values(), lost))
        pieces = self._outputs.pieces(stretch, receipts, reasons)
        key = now.keys.of(pieces)
        if self._book.wrote(key, self._listing) is not None:
            self._count(now, stretch)
            return 0
        self._number += 1
        self._out[self._number] = _Begun(now, key, stretch)
        self._aside.begin(now.join, self._number, pieces)
        return 1

    def _count(self, now: _Round, stretch: Stretch) -> None:
        """Now and then it is said how far that has come."""
        whole = sum(map(len, self._complete.stretches))
        before, now.num_joined = now.num_joined, now.num_joined + len(stretch)
        if now.num_joined * TOLD // whole > before * TOLD // whole:
            self._say(f"Predictions written so far: {now.num_joined:,} of {count(whole, 'unit')}.")

    def _say(self, message: str) -> None:
        if self._progress is not None:
            self._report(replace(self._progress, message=message))
