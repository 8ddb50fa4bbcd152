"""A worker of a run: scores units, holds what is accepted, writes it when told to.

The same code runs in a thread of this process and in an actor on a Ray cluster. Not here: what to do next
(`schedule.py`), reading ahead (`reader.py`), and what a score becomes (`scoring.py`, `partial.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from assay import predicted
from assay.calls import NeedsRows
from assay.costs import Cause, Timesheet
from assay.errors import AssayError, RunError
from assay.merge import Pile
from assay.protocols import Accumulator, Model, ThreadedModel
from assay.reader import Reader
from assay.records import CommittedFile, Failure, Predicted, Receipt, Rows, Spent, Unit
from assay.scoring import ScoredUnit, Scorer, Scoring
from assay.states import digest, encode

FLUSH_FRACTION = 0.02
"""A flush is due when it would cost at most this share of the time since the last one."""
MOST_OUTPUT_BYTES = 64 << 20
"""Of what variants gave, that a worker holds before it asks to flush."""
FIRST_FLUSH_SECONDS = 0.02
"""What a flush is taken to cost before there was one."""


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What a process makes of a job: all that scoring needs, none of it shared with other workers."""

    read: Callable[[Unit], Iterator[Rows]]
    scoring: Scoring
    save: Callable[[str, bytes], None]  # (digest, state file)
    save_outputs: Callable[[str, bytes], None] | None = None  # (digest, what variants gave); None: that is not kept
    read_here: Callable[[Unit], Iterator[Rows]] | None = None
    # ^ with all columns, where `read` gives what was prepared apart and that may be too much at once; None: as `read`


@dataclass(frozen=True, slots=True)
class Scored:
    """A worker's answer to `score`."""

    receipt: Receipt
    failures: tuple[Failure, ...]
    flush_due: bool


class Dropped(Exception):
    """The unit that was being scored is wanted no more; nothing of it is kept."""


@contextmanager
def one_thread(models: Iterable[Model]) -> Iterator[None]:
    """All that computes for these models takes one thread of this process; at the end, as many as before.

    The last bits of a score depend on their number, and there are as many workers as cores.
    """
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(limits=1))
        for model in models:
            if isinstance(model, ThreadedModel):
                stack.enter_context(model.one_thread())
        yield


def loaded(setup: WorkerSetup, limits: ExitStack) -> Worker:
    """A worker that has loaded its variants. limits: of threads of this process, to which its own are added."""
    limits.enter_context(one_thread(setup.scoring.models))
    worker = Worker(setup)
    limits.enter_context(one_thread([]))  # again, for the libraries that loading brought in
    return worker


class Worker:
    """One incarnation. It is told in each order which of its pending partials are accepted; all others are dropped."""

    def __init__(self, setup: WorkerSetup, clock: Callable[[], float] = time.monotonic) -> None:
        """Loads the variants; see Scorer."""
        self._setup = setup
        self._scorer = Scorer(setup.scoring, clock)
        accumulators: dict[str, Accumulator] = {
            one.identity: one for several in setup.scoring.layout.accumulators.values() for one in several
        }
        self._open = Pile(accumulators)
        self._reader = Reader(setup.read)
        self._pending: dict[str, ScoredUnit] = {}
        self._outputs: dict[str, Predicted] = {}  # of the units that the open tally holds
        self._accepted: set[str] = set()
        self._unwanted: str | None = None
        self._times = Timesheet()
        self._waited = 0.0  # for rows of the unit that is being scored
        self._clock = clock
        self._flushed_at = clock()
        self._flush_seconds = FIRST_FLUSH_SECONDS

    def score(self, unit: Unit, upcoming: Unit | None, accept: Sequence[str], caution: int = 0) -> Scored:
        """The unit's partial is pending afterwards. ModelError, DataError, Dropped: nothing of the unit is kept.

        caution: so many times it was too much for a worker's memory.
        """
        self._accept(accept)
        started, self._waited = self._clock(), 0.0
        try:
            scored = self._scored(unit, upcoming, caution)
        except (AssayError, Dropped) as error:
            cause: Cause = "copy" if isinstance(error, Dropped) else "error"
            self._times.throw_away(cause, self._clock() - started)
            raise
        self._times.hold(unit.id, self._clock() - started, self._waited, scored.seconds)
        self._pending[unit.id] = scored
        return Scored(scored.partial.receipts[0], scored.failures, self._flush_due())

    def drop(self, unit: str) -> None:
        """Give the unit up between two chunks if it is being scored. The one verb for any thread, at any time."""
        self._unwanted = unit

    def flush(self, accept: Sequence[str]) -> CommittedFile:
        """Write the open tally and begin a new one. RunError when it cannot be written: it then stays open."""
        self._accept(accept)
        started = self._clock()
        tally = self._open.tally()
        name = digest(tally)
        outputs = self._save_outputs()
        self._setup.save(name, encode(tally))
        self._open.clear()
        self._outputs.clear()
        self._flushed_at = self._clock()
        self._flush_seconds = self._flushed_at - started
        self._times.share(self._flush_seconds)
        return CommittedFile(name, tally.receipts, outputs)

    def spent(self) -> Spent:
        """Where its seconds went since it was last asked: after each flush."""
        return self._times.take()

    def close(self) -> None:
        """Stop reading; what is open or pending is forgotten."""
        self._reader.close()

    def _save_outputs(self) -> str:
        """The digest of what was kept of the open tally's units; "" where nothing is kept."""
        if self._setup.save_outputs is None or not self._outputs:
            return ""
        data = predicted.encode(self._outputs.values())
        name = predicted.digest(data)
        self._setup.save_outputs(name, data)
        return name

    def _scored(self, unit: Unit, upcoming: Unit | None, caution: int) -> ScoredUnit:
        if not caution:
            try:
                with self._reader.reading(unit, upcoming) as chunks:
                    return self._scorer.score(unit.id, self._while_wanted(unit.id, chunks))
            except NeedsRows:
                pass
        read = self._setup.read_here or self._setup.read
        return self._scorer.score(unit.id, self._while_wanted(unit.id, read(unit)), caution)

    def _accept(self, units: Sequence[str]) -> None:
        """Fold what is accepted into the open tally. Said twice is said once."""
        started = self._clock()
        for unit in units:
            if unit in self._accepted:
                continue
            if unit not in self._pending:
                raise RunError(f"Unit {unit} was accepted from a worker that does not hold it.")
            accepted = self._pending[unit]
            self._open.add(accepted.partial)
            if accepted.predicted is not None:
                self._outputs[unit] = accepted.predicted
            self._accepted.add(unit)
            self._times.keep(unit)
        self._pending.clear()
        self._times.throw_away_held()
        self._times.share(self._clock() - started)

    def _while_wanted(self, unit: str, chunks: Iterable[Rows]) -> Iterator[Rows]:
        started = self._clock()
        for rows in chunks:
            self._waited += self._clock() - started
            if self._unwanted == unit:
                self._unwanted = None
                raise Dropped
            yield rows
            started = self._clock()
        self._waited += self._clock() - started

    def _flush_due(self) -> bool:
        held = [*self._outputs.values(), *(one.predicted for one in self._pending.values())]
        if sum(one.table.nbytes for one in held if one is not None) > MOST_OUTPUT_BYTES:
            return True
        return self._flush_seconds <= FLUSH_FRACTION * (self._clock() - self._flushed_at)
