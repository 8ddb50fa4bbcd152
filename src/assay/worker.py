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

from assay.costs import Cause, Timesheet
from assay.errors import AssayError, RunError
from assay.merge import Pile
from assay.protocols import Accumulator, Model, Source, ThreadedModel
from assay.reader import Reader
from assay.records import Chunk, CommittedFile, Failure, Receipt, Rows, Spent, Tally, Unit
from assay.scoring import Scorer, Scoring
from assay.states import digest, encode

FLUSH_FRACTION = 0.02
"""A flush is due when it would cost at most this share of the time since the last one."""
FIRST_FLUSH_SECONDS = 0.02
"""What a flush is taken to cost before there was one."""


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What a process makes of a job: all that scoring needs, none of it shared with other workers."""

    source: Source
    columns: tuple[str, ...]  # to be read
    read_rows: Callable[[Chunk], Rows]
    scoring: Scoring
    save: Callable[[str, bytes], None]  # (digest, state file)


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
        self._reader = Reader(self._read)
        self._pending: dict[str, Tally] = {}
        self._accepted: set[str] = set()
        self._unwanted: str | None = None
        self._times = Timesheet()
        self._waited = 0.0  # for rows of the unit that is being scored
        self._clock = clock
        self._flushed_at = clock()
        self._flush_seconds = FIRST_FLUSH_SECONDS

    def score(self, unit: Unit, upcoming: Unit | None, accept: Sequence[str]) -> Scored:
        """The unit's partial is pending afterwards. ModelError, DataError, Dropped: nothing of the unit is kept."""
        self._accept(accept)
        started, self._waited = self._clock(), 0.0
        try:
            with self._reader.reading(unit, upcoming) as chunks:
                scored = self._scorer.score(unit.id, self._while_wanted(unit.id, chunks))
        except (AssayError, Dropped) as error:
            cause: Cause = "copy" if isinstance(error, Dropped) else "error"
            self._times.throw_away(cause, self._clock() - started)
            raise
        self._times.hold(unit.id, self._clock() - started, self._waited, scored.seconds)
        self._pending[unit.id] = scored.partial
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
        self._setup.save(name, encode(tally))
        self._open.clear()
        self._flushed_at = self._clock()
        self._flush_seconds = self._flushed_at - started
        self._times.share(self._flush_seconds)
        return CommittedFile(name, tally.receipts)

    def spent(self) -> Spent:
        """Where its seconds went since it was last asked: after each flush."""
        return self._times.take()

    def close(self) -> None:
        """Stop reading; what is open or pending is forgotten."""
        self._reader.close()

    def _accept(self, units: Sequence[str]) -> None:
        """Fold what is accepted into the open tally. Said twice is said once."""
        started = self._clock()
        for unit in units:
            if unit in self._accepted:
                continue
            if unit not in self._pending:
                raise RunError(f"Unit {unit} was accepted from a worker that does not hold it.")
            self._open.add(self._pending[unit])
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

    def _read(self, unit: Unit) -> Iterator[Rows]:
        """Called by the reader's thread."""
        return map(self._setup.read_rows, self._setup.source.read(unit, self._setup.columns))

    def _flush_due(self) -> bool:
        return self._flush_seconds <= FLUSH_FRACTION * (self._clock() - self._flushed_at)
