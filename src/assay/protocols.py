"""The four seams (Source, Model, Metric, Executor) and the accumulator behind metrics.

A new one is a file with a class of this shape and one line in a table of `build.py`, or an entry point.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, TypeGuard, runtime_checkable

import pyarrow as pa

from assay.records import (
    Block,
    Chunk,
    ColumnStatistics,
    CommittedFile,
    Curve,
    EncodedRows,
    Failure,
    Fragment,
    Job,
    LabelKind,
    PartFile,
    Progress,
    Replicates,
    Sizes,
    State,
    StateChoice,
    Unit,
    Worked,
)
from assay.spec.model import WorkersSpec


class Source(Protocol):
    """Rows that can be planned from footers and read by unit."""

    @property
    def schema(self) -> pa.Schema: ...  # the same for every fragment; DataError names the file that differs
    @property
    def fragments(self) -> tuple[Fragment, ...]: ...
    @property
    def resumable(self) -> bool: ...
    def statistics(self, column: str) -> ColumnStatistics | None: ...  # None: the source keeps none for this column
    def first_values(self, column: str) -> Mapping[str, tuple[float, ...]] | None:
        """{path: least value in each row group}, times in microseconds; None where the source does not know."""
        ...

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """The unit's rows in order. DataError when the file changed since it was planned, or cannot be read."""
        ...


@runtime_checkable
class OriginalSource(Protocol):
    """What a Source is too that can give columns as they were written, whatever `read` makes of their types."""

    @property
    def original(self) -> pa.Schema: ...  # with its metadata and that of its fields
    def read_original(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """As `read`, in pieces of so many rows as may well be in memory with all their columns."""
        ...


@runtime_checkable
class EncodedSource(Protocol):
    """What a Source is too whose rows lie in Parquet files, from which columns can be copied undecoded."""

    def encoded(self, unit: Unit, columns: Sequence[str]) -> EncodedRows | None:
        """The row groups that the unit is made of; None where it is not made of whole ones, or columns do not lie there
        by themselves. DataError when the file changed since it was planned."""
        ...


@runtime_checkable
class SizedSource(Protocol):
    """What a Source is too that knows how large columns are."""

    def column_bytes(self, column: str) -> int:
        """About what all its rows take, once decompressed; 0 for an unknown column."""
        ...


@runtime_checkable
class PlacedSource(Protocol):
    """What a Source is too whose rows are where one executor alone can have them."""

    @property
    def executor(self) -> str: ...  # its name
    @property
    def whence(self) -> str: ...  # what the rows are, for sentences: "a Ray dataset"


@runtime_checkable
class FragileSource(Protocol):
    """What a Source is too whose rows may go with a node of the Ray cluster, where a task then makes them again."""

    def num_missing(self) -> int | None: ...  # pieces that are gone now; None where it is not known


def is_source(data: object) -> TypeGuard[Source]:
    """Whether it is one already, by its class: frames may compute what they are asked for."""
    return all(hasattr(type(data), verb) for verb in ("read", "statistics", "first_values"))


class Preparation(Protocol):
    """What several variants receive, described but not made: cheap, picklable, the same in every process."""

    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...]: ...  # it reads
    @property
    def fingerprint(self) -> str: ...  # hex digest of code, settings, files, inputs, rows; PreparationError
    @property
    def batch_rows(self) -> int: ...  # rows per call
    @property
    def apart(self) -> bool: ...  # is it made in tasks of its own, where there are such?
    def check(self, schema: pa.Schema) -> None: ...  # PreparationError when a column is missing
    def load(self) -> Callable[[pa.Table], Any]:  # Any: the user's own object
        """What makes the object of one micro-batch out of a table with `columns`. PreparationError, then and now."""
        ...


class Predictor(Protocol):
    """A loaded model. Not called from two threads at once.

    Inputs are prepared once for the rows of a chunk, for all models that receive the same, and scored by micro-batch.
    Where a `Preparation` makes them, `prepare` is not called, and `prepared` is the object made of these rows alone.
    """

    @property
    def preparation(self) -> Hashable: ...  # predictors of equal preparation give and take the same prepared inputs
    def prepare(self, table: pa.Table) -> Any: ...  # Any: the model's own form; ModelError when they cannot be had
    def score(self, prepared: Any, rows: slice) -> Mapping[str, Any]:  # Any: NDArray[np.floating], or a pa.Array
        """{task: scores [n]} of these rows of a chunk; NaN is a missing score. Leaves `prepared` untouched. Beside them
        other outputs that the spec names, as Arrow arrays [n].

        ModelError for a wrong shape, type or range.
        """
        ...


class Model(Protocol):
    """A variant, described but not loaded: cheap, picklable, the same in every process."""

    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...]: ...  # it reads; may open the model file; ModelError
    @property
    def fingerprint(self) -> str: ...  # hex digest of weights, code and settings; ModelError
    @property
    def batch_rows(self) -> int | None: ...  # rows per call that suit it; None: whole chunks, it minds no batch
    @property
    def num_bytes(self) -> int: ...  # of its files, weights and others: about what it takes in memory once loaded
    def check(self, schema: pa.Schema) -> None: ...  # ModelError when a column is missing or has a type it cannot take
    def load(self) -> Predictor: ...


@runtime_checkable
class ThreadedModel(Protocol):
    """What a Model is too whose library computes on threads of its own, unknown to threadpoolctl."""

    def one_thread(self) -> AbstractContextManager[object]: ...  # on one thread, and afterwards on as many as before


class Accumulator(Protocol):
    """A mergeable state: merge is associative and commutative, zero is neutral."""

    @property
    def identity(self) -> str: ...  # name, parameters, version; states of different identities never merge
    def zero(self, sizes: Sizes) -> State: ...
    def update(self, state: State, block: Block) -> State: ...  # a new state or the same arrays, changed in place
    def merge(self, left: State, right: State) -> State: ...  # arguments are left untouched
    def subtract(self, whole: State, part: State) -> State: ...  # exact inverse of merge; arguments left untouched
    def num_bytes(self, sizes: Sizes, rows: int | None) -> int: ...  # most that one state takes; concave in rows


Direction = Literal["higher", "lower"] | float | None
"""Which way is better; a number is the ideal value (calibration_ratio: 1.0); None: neither."""


class Metric(Protocol):
    """A formula over the states of its accumulators. `parse(name)` gives an equal metric."""

    @property
    def name(self) -> str: ...  # canonical, with parameters that are not the defaults: "precision(threshold=0.3)"
    @property
    def description(self) -> str: ...  # one line, for `assay metrics`
    @property
    def label_kind(self) -> LabelKind | None: ...  # None: takes either
    @property
    def needs_probability(self) -> bool: ...
    @property
    def needs_baseline(self) -> bool: ...  # compares scores with the baseline's; `Block.reference` is there
    @property
    def needs_interval(self) -> bool: ...  # takes outputs that are (lower, upper); `Block.outputs` is [2, n]
    @property
    def needs_outputs(self) -> bool: ...  # with classes, takes a score for each: predicted classes alone won't do
    @property
    def direction(self) -> Direction: ...
    @property
    def nonnegative(self) -> bool: ...  # relative margins are allowed only then
    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]: ...
    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        """states: accumulator identity -> state. weight_unit: 2.0 ** weight_exponent."""
        ...

    def curves(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> tuple[Curve, ...]: ...


class Log(Protocol):
    """Where the driver commits. Every verb raises Fenced once another driver has taken the run over."""

    @property
    def driver(self) -> str: ...  # id, fresh for every driver process
    @property
    def files(self) -> tuple[CommittedFile, ...]: ...  # committed so far, by this driver and those before it
    @property
    def lost(self) -> tuple[str, ...]: ...  # units given up for good, so far
    def commit(self, files: Sequence[CommittedFile], failures: Sequence[Failure], lost: Sequence[str]) -> None: ...
    def beat(self) -> None: ...  # cheap; called often, it shows others that this driver lives


class Reduction(Protocol):
    """A fold in three pure steps, picklable. However parts are grouped, the results are the same.

    Any: leaves, parts and results are of the reduction's own kinds; they are picklable too. Parts are left untouched.
    """

    @property
    def base(self) -> str: ...  # absolute folder: the user's own modules are looked up there
    @property
    def workers(self) -> WorkersSpec: ...
    def read(self, leaf: Any) -> Any: ...  # a part; RunError
    def fold(self, parts: Sequence[Any]) -> Any: ...  # a part; of one part itself
    def conclude(self, leaf: Any, part: Any) -> Any: ...  # the result of a tree: any leaf of it, all its parts folded


class Place(Protocol):
    """A folder of whole files that many processes fill, on a disk or in a bucket; picklable. Each verb: RunError."""

    @property
    def url(self) -> str: ...
    def draft(self) -> AbstractContextManager[Path]: ...  # where a file is made that nobody sees; gone at the end
    def publish(self, draft: Path, path: str) -> None: ...  # show it under a name, whole; replaces what is there
    def put_new(self, path: str, data: bytes) -> bool: ...  # False: something is there, and is as it was
    def get(self, path: str) -> bytes: ...
    def exists(self, path: str) -> bool: ...
    def list(self) -> tuple[str, ...]: ...  # paths of all files, at any depth, sorted
    def delete(self, path: str) -> None: ...  # it may be gone already
    def sweep(self) -> None: ...  # remove drafts that killed processes left


OpenPlace = Callable[[str, str], Place]
"""(url, owner) -> the folder there; the owner's drafts are apart from those of others."""


class Sink(Protocol):
    """Where predictions are written: parts by many processes, then one commit by the driver. Picklable.

    A part is a function of what it is made of: written twice, it has the same bytes under the same names. Readers see
    whole files only, and of a table nothing before the commit.
    """

    def check(self, schema: pa.Schema) -> tuple[str, ...]:
        """Sentences on columns that are written as another type. DataError names each column that cannot be."""
        ...

    def stored(self, schema: pa.Schema) -> pa.Schema:
        """The types that are written for these. DataError as of `check`."""
        ...

    def expect(self, schema: pa.Schema, floats: Collection[str]) -> frozenset[str]:
        """Before rows are scored: claim the folder, or look at the table. floats: columns that may come as 32-bit
        floats where the schema has 64-bit ones; those of them that are to have 64 bits, since the table has.

        RunError, DataError: what `begin` would say, as far as it can be known.
        """
        ...

    def begin(self, schema: pa.Schema) -> None:
        """Once, before the first part, and again when a run goes on: claim the folder, or make the table, empty.

        RunError, DataError: the place is another run's, cannot be reached, or is a table with other columns.
        """
        ...

    def write(self, part: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[PartFile, ...]:
        """The files of a part, rows in order; none where there are none. part: a name, unique in the run."""
        ...

    def found(self) -> Collection[str]:
        """The paths of all files where it writes, as `PartFile` has them: parts are among them, whoever wrote them."""
        ...

    def commit(self, parts: Sequence[PartFile], schema: pa.Schema) -> None:
        """Show exactly these parts; a second time it changes nothing. RunError where it cannot be done."""
        ...


@runtime_checkable
class SplicingSink(Protocol):
    """What a Sink is too that may take columns as they lie in Parquet files, undecoded."""

    @property
    def splices(self) -> bool: ...  # it may: neither its format nor what the user said is against it
    def splice(
        self, part: str, schema: pa.Schema, rows: EncodedRows, own: Callable[[], pa.Table]
    ) -> tuple[PartFile, ...] | None:
        """The one file of a part: these row groups, with columns of its own beside those that are copied.

        schema: of all columns, in their order; each is in one of the two. own: asked for once it is needed. None, with
        nothing asked for or written, where these columns are not as the file is to have them.
        """
        ...


class Work(Protocol):
    """Something to be done with each of many items, picklable. Done twice, it has the same result.

    Any: items and results are of the work's own kinds; they are picklable too.
    """

    @property
    def base(self) -> str | None: ...  # absolute folder of the user's own modules; None: the work needs none of them
    @property
    def workers(self) -> WorkersSpec: ...
    def __call__(self, item: Any) -> Any: ...  # AssayError


class Aside(Protocol):
    """Work that is done while `Executor.run` goes on, on CPUs that no worker holds. Only `done` may take time."""

    def room(self) -> int: ...  # how many items more may begin now
    def begin(self, work: Work, number: int, item: Any) -> None: ...  # number: by which `done` tells of it
    def done(self, seconds: float = 0.0) -> Sequence[Worked]:
        """Of which items something came since this was last asked, after at most so long.

        AssayError: what the work raised; the next call tells of the others.
        """
        ...

    def close(self) -> None: ...  # what is not done is given up


class Executor(Protocol):
    """Scores all units that the log does not hold yet. Every executor must commit the same bytes.

    A context: what it has started, such as a Ray cluster of its own, ends with it.
    """

    @property
    def name(self) -> str: ...
    def __enter__(self) -> Executor: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def reduce(self, reduction: Reduction, trees: Sequence[Sequence[Any]]) -> Iterator[Any]:
        """The result of each tree, given by its leaves, in their order. RunError where it cannot be had."""
        ...

    def map(self, work: Work, items: Sequence[Any]) -> Iterator[Worked]:
        """What the work makes of each item, numbered from 0, in any order. AssayError where one cannot be done."""
        ...

    def aside(self, workers: WorkersSpec) -> Aside | None:
        """For works of these workers, beside the next `run`; None where workers have all CPUs."""
        ...

    def run(self, job: Job, log: Log, progress: Callable[[Progress], None]) -> None:
        """Returns once every unit is committed or given up.

        Interrupted: the user stopped it. Unfinished: a limit did. ModelError, DataError: the run may not go on.
        RunError: workers cannot be had, keep dying, or cannot reach the run directory. Fenced: another driver took
        over. What is committed stays so.
        """
        ...
