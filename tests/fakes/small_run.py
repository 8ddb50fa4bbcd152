"""A run small enough to be checked by hand: rows made of their position, models made of one function, one accumulator.

Importable, since actors of a Ray cluster make their setup from it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from assay.build import bundled
from assay.errors import ModelError
from assay.records import (
    Block,
    Chunk,
    ColumnStatistics,
    Fragment,
    Job,
    Plan,
    Rows,
    Sizes,
    SliceTable,
    State,
    StateChoice,
    TaskRows,
    Unit,
)
from assay.scoring import Scoring
from assay.spec.model import DataSpec, Spec, VariantSpec
from assay.store.run import RunDirectory
from assay.task_scores import Layout
from assay.worker import WorkerSetup

SIZES = Sizes(num_slices=3, num_buckets=4)
"""Slices: all rows, even positions, odd positions."""


@dataclass(frozen=True)
class Positions:
    """A source of rows that are their own position in the fragment, in chunks of up to 10."""

    schema: pa.Schema
    fragments: tuple[Fragment, ...] = ()
    resumable: bool = True

    def statistics(self, column: str) -> ColumnStatistics | None:
        return None

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        stop = unit.first_row + (unit.num_rows or 0)
        for first in range(unit.first_row, stop, 10):
            positions = np.arange(first, min(first + 10, stop), dtype=np.float64)
            yield Chunk(unit.path, first, pa.table({"x": positions}))


class Counted:
    """A source that tells when it is pickled; the copy is the plain source."""

    resumable = True

    def __init__(self, source: Positions, note: Callable[[Positions], None]) -> None:
        self._source = source
        self._note = note

    def __reduce__(self) -> tuple[type[Positions], tuple[pa.Schema]]:
        self._note(self._source)
        return Positions, (self._source.schema,)


def read_rows(chunk: Chunk) -> Rows:
    """Label: 1 at every third position. Weight 1. Cluster and hash of a row: from its position."""
    positions = chunk.first_row + np.arange(chunk.table.num_rows)
    return Rows(
        path=chunk.path,
        num_read=len(positions),
        positions=positions,
        first_row=chunk.first_row,
        table=chunk.table,
        tasks={"main": TaskRows((positions % 3 == 0).astype(np.float64), np.ones(len(positions), np.bool_))},
        weight=np.ones(len(positions), np.int64),
        slices=np.array([np.zeros(len(positions)), 1 + positions % 2], np.int32),
        cluster=(positions.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)),
        null_cluster=np.zeros(len(positions), np.bool_),
        row_hash=(positions.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9),
    )


Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class FakeModel:
    name: str
    function: Function
    batch_rows: int | None = 4
    columns: tuple[str, ...] = ("x",)
    fingerprint: str = ""
    num_bytes: int = 0
    load_error: Exception | None = None

    def check(self, schema: pa.Schema) -> None: ...

    def load(self) -> FakeModel:
        if self.load_error is not None:
            raise self.load_error
        return self

    @property
    def preparation(self) -> str:
        return "x"

    def prepare(self, table: pa.Table) -> np.ndarray:
        return table["x"].to_numpy()

    def score(self, prepared: np.ndarray, rows: slice) -> Mapping[str, np.ndarray]:
        return {"main": self.function(prepared[rows])}


@dataclass(frozen=True)
class ScoreSum:
    """Sum of round(256 * score) * weight per slice and bucket."""

    identity: str = "score_sum.v1"

    def zero(self, sizes: Sizes) -> State:
        return {"sum": np.zeros((sizes.num_slices, sizes.num_buckets), np.int64)}

    def update(self, state: State, block: Block) -> State:
        for dimension in block.slices:
            np.add.at(state["sum"], (dimension, block.bucket), np.rint(block.raw * 256).astype(np.int64) * block.weight)
        return state

    def merge(self, left: State, right: State) -> State:
        return {"sum": left["sum"] + right["sum"]}

    def subtract(self, whole: State, part: State) -> State:
        return {"sum": whole["sum"] - part["sum"]}

    def num_bytes(self, sizes: Sizes, rows: int | None) -> int:
        return 8 * sizes.num_slices * sizes.num_buckets


ACCUMULATORS = {"score_sum.v1": ScoreSum()}


# ---- a job -----------------------------------------------------------------------------------------------------------


def units(number: int, rows: int = 20) -> tuple[Unit, ...]:
    return tuple(Unit(f"u{index:03d}", "rows.parquet", index * rows, rows, 0) for index in range(number))


def job(folder: Path, models: Mapping[str, str], num_units: int = 6, on_error: str = "stop") -> Job:
    """models: variant -> a key of FUNCTIONS; the first is the baseline. The run is in folder/run."""
    (folder / "run").mkdir(exist_ok=True)
    variants = tuple(VariantSpec(name=name, callable=f"small_run:{function}") for name, function in models.items())
    spec = Spec(data=DataSpec(path="rows.parquet"), variants=variants, baseline=next(iter(models)), on_error=on_error)
    plan = Plan(
        units=units(num_units),
        fragments=(),
        tasks=(),
        slices=SliceTable((), ("overall", "even", "odd")),
        sizes=SIZES,
        choice=StateChoice(exact_ranking=True, bucketed="all"),
        weight_exponent=0,
        columns=("x",),
        micro_batch=4,
        seed=0,
        fingerprints=dict.fromkeys(models, ""),
        identity="",
        identity_parts={},
        state_bytes=0,
        num_rows=num_units * 20,
    )
    return Job(
        spec=spec,
        plan=plan,
        base=str(folder),
        source=Positions(pa.schema({"x": pa.float64()})),
        run=str(folder / "run"),
    )


def reads(source: Positions, as_rows: Callable[[Chunk], Rows] = read_rows) -> Callable[[Unit], Iterator[Rows]]:
    return lambda unit: map(as_rows, source.read(unit, ("x",)))


def make_setup(job: Job, bundle: int = 0) -> WorkerSetup:
    variants = bundled(job.spec, job.plan, bundle)
    layout = Layout(
        outputs={("main", variant.name): "score" for variant in variants},
        accumulators={"main": (ScoreSum(),)},
        sizes=job.plan.sizes,
        baseline=job.spec.baseline,
        bundled=bool(job.plan.bundles),
        leads=bundle == 0,
    )
    models = [FakeModel(one.name, FUNCTIONS[str(one.callable).partition(":")[2]](job)) for one in variants]
    return WorkerSetup(
        read=reads(job.source),
        scoring=Scoring(tuple(models), layout, job.plan.micro_batch, job.spec.on_error == "continue"),
        save=RunDirectory.for_worker(job.run).save_state,
    )


def _dies(job: Job, *, once: bool) -> Function:
    """Ends its own process, as the system does when memory runs out, at position 45."""

    def function(x: np.ndarray) -> np.ndarray:
        if 45.0 in x:
            (Path(job.base) / f"died-{os.getpid()}").touch()
            if not once or len(list(Path(job.base).glob("died-*"))) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        return x

    return function


def _fails_at(position: int) -> Function:
    def function(x: np.ndarray) -> np.ndarray:
        if position in x:
            raise ModelError("broken", f"it cannot score {position}.")
        return x

    return function


FUNCTIONS: dict[str, Callable[[Job], Function]] = {
    "same": lambda job: lambda x: x,
    "half": lambda job: lambda x: x / 2,
    "gaps": lambda job: lambda x: np.where(x % 5 == 0, np.nan, x),
    "dies_once": lambda job: _dies(job, once=True),
    "dies": lambda job: _dies(job, once=False),
    "fails_at_45": lambda job: _fails_at(45),
}
