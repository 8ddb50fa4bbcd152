"""How many units a second the loop of a driver carries on Ray: the real schedule, loop and crew, with actors that score
nothing. What a unit should at least take on a fleet follows: the number of workers through this rate.

    .venv/bin/python -m benchmarks.ray_loop [--actors 8] [--units 20000] [--pending 10000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray
from rich.console import Console

import assay.cluster.actors as crew
from assay.cluster.actor import Loaded
from assay.cluster.connect import connected
from assay.drive import drive
from assay.gauge import Pulse
from assay.orders import Event, Flush, Flushed, Score, UnitDone, WorkerReady
from assay.pipeline.prepare import prepare
from assay.records import CommittedFile, Failure, Job, Progress, Reading, Receipt, Unit
from assay.spec.load import build_spec
from assay.worker import WorkerSetup


@ray.remote(num_cpus=0)
class _Null:
    """A worker that is done at once. It flushes every hundredth unit."""

    def __init__(self, incarnation: str, bundle: int, make_setup: Any, job: Any) -> None:  # Any: as the real one
        self._incarnation = incarnation
        self._held: list[str] = []
        self._num_files = 0

    def load(self) -> Loaded:
        return Loaded(WorkerReady(self._incarnation), ray.get_runtime_context().get_node_id())

    def pulse(self) -> Pulse:
        return Pulse(1.0, "", Reading(), 0.0)

    def answer(self, number: int, order: Score | Flush, parcel: Any) -> Event:
        self._held += order.accept
        if isinstance(order, Score):
            receipt = Receipt(order.unit.id, 1, "0" * 64)
            return UnitDone(self._incarnation, receipt, flush_due=len(self._held) >= 100)
        self._num_files += 1
        file = CommittedFile(
            f"{self._incarnation}-{self._num_files}", tuple(Receipt(u, 1, "0" * 64) for u in self._held)
        )
        self._held = []
        return Flushed(self._incarnation, file)


class _Memory:
    """A log that keeps nothing."""

    driver = "d"
    files: tuple[CommittedFile, ...] = ()
    lost: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.num_entries = 0

    def commit(self, files: Sequence[CommittedFile], failures: Sequence[Failure], lost: Sequence[str]) -> None:
        self.num_entries += 1

    def beat(self) -> None: ...


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--actors", type=int, default=8)
    parser.add_argument("--units", type=int, default=20_000)
    parser.add_argument("--pending", type=int, default=10_000)
    arguments = parser.parse_args()
    crew.ScoringActor = _Null  # type: ignore[assignment, attr-defined]  # what is measured is all but the work
    console = Console()
    with connected("local", num_cpus=2), tempfile.TemporaryDirectory() as folder:
        job = _job(Path(folder), arguments.units)
        log, seen = _Memory(), list[tuple[float, float, int]]()

        def note(progress: Progress) -> None:
            seen.append((progress.seconds, time.thread_time(), progress.units_done))

        drive(job, log, crew.Actors(job, _no_setup, arguments.actors), arguments.actors, note)
        began, ended = next(one for one in seen if one[2] > arguments.units // 10), seen[-1]
        wall, busy, units = (after - before for before, after in zip(began, ended, strict=True))
        console.print(f"{arguments.actors} actors: {units / wall:,.0f} units a second, {log.num_entries:,} log entries")
        console.print(
            f"the driver's own thread: {busy / units * 1e6:,.0f} us a unit, so at most {units / busy:,.0f} units/s"
        )
        console.print(f"one wait for {arguments.pending:,} calls: {_wait_seconds(arguments.pending) * 1000:.1f} ms")


def _no_setup(job: Job, bundle: int) -> WorkerSetup:
    raise AssertionError("The actors of this benchmark score nothing, so none is set up to.")


def _job(folder: Path, num_units: int) -> Job:
    table = pa.table({"y": [0, 1], "p": [0.1, 0.9]})
    tree: dict[str, object] = {
        "data": {"path": "rows.parquet", "label": "y"},
        "variants": [{"name": "a", "column": "p"}],
        "metrics": ["log_loss"],
        "output": {"is": "probability"},
        "workers": {"num_cpus": 0},
    }
    pq.write_table(table, folder / "rows.parquet")
    prepared = prepare(build_spec(tree), folder)
    (folder / "run").mkdir()
    units = tuple(Unit(f"{index:064}", "rows.parquet", index, 1, 0) for index in range(num_units))
    return Job(prepared.spec, replace(prepared.plan, units=units), str(folder), prepared.source, str(folder / "run"))


@ray.remote(num_cpus=0)
class _Sleeper:
    """Keeps calls pending."""

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def _wait_seconds(num_calls: int) -> float:
    """Of a wait in which one call of many is ready."""
    sleeper: Any = _Sleeper.remote()  # type: ignore[attr-defined]  # Any: an actor handle; made by ray.remote
    calls = [sleeper.sleep.remote(0.0), *[sleeper.sleep.remote(1000.0) for _ in range(num_calls - 1)]]
    ray.wait(calls, num_returns=1)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        ray.wait(calls, num_returns=1)
        ray.wait(calls, num_returns=num_calls, timeout=0)
        times.append(time.perf_counter() - began)
    return min(times)


if __name__ == "__main__":
    main()
