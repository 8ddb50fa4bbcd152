"""What a driver and its workers tell each other: orders go out, and events come back.

Not here: which order follows from which event (`schedule.py`), who carries orders out (`drive.py`, the executors), and
the form in which events are kept (`events.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from assay.records import CommittedFile, Failure, Machine, Receipt, Spent, Unit

# ---- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A worker has loaded what it needs and waits for its first unit."""

    incarnation: str
    machine: Machine = field(default=Machine(), compare=False)  # for the costs; no order depends on it
    seconds: float = field(default=0.0, compare=False)  # that loading took, so too


@dataclass(frozen=True, slots=True)
class UnitDone:
    """A worker holds the partial of the unit that it was told to score."""

    incarnation: str
    receipt: Receipt
    failures: tuple[Failure, ...] = ()  # variants that failed on it, where that is tolerated
    flush_due: bool = False  # a flush is now cheap for the worker


@dataclass(frozen=True, slots=True)
class UnitDropped:
    """A worker gave up the unit that it was scoring, as it was told to; it still holds what was accepted before."""

    incarnation: str
    unit: str


@dataclass(frozen=True, slots=True)
class Flushed:
    """A worker has written its open tally; nothing of it counts before it is committed."""

    incarnation: str
    file: CommittedFile
    spent: Spent | None = field(default=None, compare=False)  # since its last flush; no order depends on it


@dataclass(frozen=True, slots=True)
class Committed:
    """The log holds what this order said."""

    order: Commit


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker is gone, or counts as gone; nothing that it has not flushed can be had back."""

    incarnation: str
    reason: str  # a clause: "its process was killed"
    preempted: bool = False  # its machine was taken away, which says nothing of the unit that it was scoring
    out_of_memory: bool = False  # the system ended it for its memory


@dataclass(frozen=True, slots=True)
class WorkerDraining:
    """A worker's machine will be taken away."""

    incarnation: str
    reason: str  # a clause: "its node is drained"
    seconds: float | None = None  # until then; None: not known


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """A worker met an error: its own, or one that ends the run; see `losses.py`. After a failed unit, it still holds
    what was accepted before."""

    incarnation: str
    error: Exception
    ends_run: bool = False  # whosever it is: no other worker could go on


@dataclass(frozen=True, slots=True)
class Measured:
    """A worker's device runs at another speed than before; it may be scoring meanwhile."""

    incarnation: str
    speed: float  # 1 is full
    reason: str = ""  # a clause: "its GPU is at 1,290 of 2,610 MHz (87 °C)"; "" at full speed


@dataclass(frozen=True, slots=True)
class Stop:
    """The user wants the run to stop: units in flight are finished, all is flushed and committed."""


@dataclass(frozen=True, slots=True)
class Resized:
    """From now on there may be so many workers."""

    num_workers: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. Told often, it lets what is late be noticed; where no order follows, it changes nothing."""


Event = (
    WorkerReady
    | UnitDone
    | UnitDropped
    | Flushed
    | Committed
    | WorkerLost
    | WorkerDraining
    | WorkerFailed
    | Measured
    | Stop
    | Resized
    | Tick
)


# ---- orders ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartWorker:
    incarnation: str
    bundle: int = 0  # whose variants it is to hold


@dataclass(frozen=True, slots=True)
class Score:
    """First fold what is accepted and drop every other pending partial; then score the unit."""

    incarnation: str
    unit: Unit
    upcoming: Unit | None  # will most likely be next: may be read already
    accept: tuple[str, ...]
    caution: int = 0  # so many times it was too much for a worker's memory: each quarters the rows per call


@dataclass(frozen=True, slots=True)
class Flush:
    """First fold what is accepted and drop every other pending partial; then write the open tally."""

    incarnation: str
    accept: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """Give up this unit if it is the one being scored; the order to score it is then answered by UnitDropped."""

    incarnation: str
    unit: str


@dataclass(frozen=True, slots=True)
class EndWorker:
    """Nothing that this worker says will count any more."""

    incarnation: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Write one entry of the log; answered by Committed."""

    files: tuple[CommittedFile, ...] = ()
    failures: tuple[Failure, ...] = ()
    lost: tuple[str, ...] = ()  # units given up


@dataclass(frozen=True, slots=True)
class Say:
    """Tell whoever watches the run."""

    message: str  # a sentence


Wait = Literal["start", "score", "flush"]
"""What a worker takes its time for."""


@dataclass(frozen=True, slots=True)
class Stalled:
    """Nothing has happened for long: tell whoever watches the run, with the likely cause."""

    wait: Wait  # what is waited for
    incarnation: str  # of a worker that does it
    unit: str | None  # that it is scoring
    seconds: float  # since it began


@dataclass(frozen=True, slots=True)
class End:
    """Nothing is left to do, or nothing more may be done: no order follows."""

    stopped: bool  # by the user, with units left


@dataclass(frozen=True, slots=True)
class Abort:
    """The run may not go on; all that could be kept is committed. No order follows."""

    error: Exception


Order = StartWorker | Score | Flush | Drop | EndWorker | Commit | Say | Stalled | End | Abort
