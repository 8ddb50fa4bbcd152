"""Scoring a wide table on Ray Data: the usual `map_batches` in three formats, and assay's, with and without `late`.

The table has 13 float and 26 integer columns that models read, and 20 wide ones that they do not (text of 200 bytes,
lists of 64 floats). Each way reads it from Parquet, scores it with the same small torch models in one actor, in batches
of the same size, and writes it with the scores to Parquet; each in a Ray cluster of its own on this machine. CPU
seconds and memory are of all its processes; bytes in the object store are what Ray Data says its operators put there.

    .venv/bin/python -m benchmarks.ray_data [--rows N] [--variants 1 16] [--ways assay ...]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
import ray
import ray.data
from rich.console import Console
from rich.table import Table

from assay.integrations.ray_data import ModelSpec, ParquetRows, multi_model
from benchmarks.perceptron import FEATURES, Perceptron
from benchmarks.usual import Usual

OUT = Path(__file__).parent / "out" / "ray_data"
WIDE = [*(f"text{number}" for number in range(10)), *(f"list{number}" for number in range(10))]
FILES = 8
ROW_GROUP_ROWS = 8_192
BATCH_SIZE = 4_096
SEED = 7
POLL_SECONDS = 0.1
OUTPUT_BYTES = re.compile(r"Output size bytes per block: .* (\d+) total")


class Figures(NamedTuple):
    """What one way took, and whether what it wrote is what it read."""

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int  # of all processes, what they share (the object store) once
    object_store_bytes: int  # put there by operators, over the run
    changed_columns: int  # wide columns of another type than in the input
    checksum: float  # of the first variant's scores


def usual(batch_format: str) -> Callable[[Path, int], ray.data.Dataset]:
    """Ray Data's own way in one format."""

    def scored(data: Path, variants: int) -> ray.data.Dataset:
        return ray.data.read_parquet(str(data)).map_batches(
            Usual,
            fn_constructor_args=[variants, batch_format],
            batch_size=BATCH_SIZE,
            batch_format=batch_format,
            concurrency=1,
        )

    return scored


def of_assay(data: Path, variants: int) -> ray.data.Dataset:
    return multi_model(ray.data.read_parquet(str(data)), _specs(variants), concurrency=1, keep_order=False)


def of_assay_late(data: Path, variants: int) -> ray.data.Dataset:
    rows = ParquetRows(str(data))
    return multi_model(rows.dataset(FEATURES), _specs(variants), concurrency=1, keep_order=False, late=rows)


def unscored(data: Path, variants: int) -> ray.data.Dataset:
    """Reading and writing alone: what is left when models and formats cost nothing."""
    return ray.data.read_parquet(str(data))


WAYS: dict[str, Callable[[Path, int], ray.data.Dataset]] = {
    "ray numpy": usual("numpy"),
    "ray pandas": usual("pandas"),
    "ray pyarrow": usual("pyarrow"),
    "assay": of_assay,
    "assay late": of_assay_late,
    "no model": unscored,
}


def _specs(variants: int) -> dict[str, ModelSpec]:
    return {
        f"m{number}": ModelSpec(
            Perceptron,
            {"features": FEATURES},
            {f"p{number}": "float32"},
            batch_size=BATCH_SIZE,
            batch_format="torch",
            fn_constructor_args=[number],
        )
        for number in range(variants)
    }


# ---- data ------------------------------------------------------------------------------------------------------------


def make_data(num_rows: int) -> Path:
    """The folder of the table, made where it is not there yet."""
    folder = OUT / f"{num_rows}-rows"
    if (folder / "done").exists():
        return folder / "data"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "data").mkdir(parents=True)
    generator = np.random.default_rng(SEED)
    for number, rows in enumerate(np.array_split(np.arange(num_rows), FILES)):
        pq.write_table(
            _table(generator, len(rows)), folder / "data" / f"{number}.parquet", row_group_size=ROW_GROUP_ROWS
        )
    (folder / "done").touch()
    return folder / "data"


def _table(generator: np.random.Generator, num_rows: int) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for name in FEATURES:
        integers = generator.integers(0, 1000, num_rows)
        columns[name] = pa.array(integers if name[0] == "c" else (integers / 1000).astype(np.float32))
    for name in WIDE:
        if name.startswith("text"):
            letters = generator.integers(97, 123, 200 * num_rows, np.uint8).tobytes()
            offsets = pa.py_buffer(np.arange(0, 200 * num_rows + 1, 200, dtype=np.int32))
            columns[name] = pa.StringArray.from_buffers(num_rows, offsets, pa.py_buffer(letters))
        else:
            values = pa.array(generator.standard_normal(64 * num_rows, np.float32))
            columns[name] = pa.ListArray.from_arrays(np.arange(0, 64 * num_rows + 1, 64, dtype=np.int32), values)
    return pa.table(columns)


# ---- one way, in a process of its own --------------------------------------------------------------------------------


class Meter:
    """CPU seconds and memory of this process and all below it, looked at ten times a second."""

    def __init__(self) -> None:
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self.peak_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Meter:
        self._look(self._first)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look(self._last)

    @property
    def cpu_seconds(self) -> float:
        return sum(seconds - self._first.get(process, 0) for process, seconds in self._last.items())

    def _watch(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            self._look(self._last)

    def _look(self, seconds: dict[int, float]) -> None:
        private, shared = 0, 0
        this = psutil.Process()
        for process in [this, *this.children(recursive=True)]:
            try:
                times, memory = process.cpu_times(), process.memory_info()
            except psutil.NoSuchProcess:
                continue
            seconds[process.pid] = times.user + times.system
            private, shared = private + memory.rss - memory.shared, max(shared, memory.shared)
        self.peak_bytes = max(self.peak_bytes, private + shared)


def run_way(way: str, variants: int, data: Path) -> Figures:
    """Scores and writes in a Ray cluster of two CPUs that is started before the clock is."""
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "OMP_NUM_THREADS": "1"})
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.data.range(2).map_batches(lambda batch: batch).materialize()  # workers are there
    out = data.parent / "scored"
    shutil.rmtree(out, ignore_errors=True)
    scored = WAYS[way](data, variants)
    start = time.perf_counter()
    with Meter() as meter:
        scored.write_parquet(str(out))
    wall = time.perf_counter() - start
    writing: Any = scored._write_ds  # Any: Ray Data tells it nowhere else
    created = sum(int(size) for size in OUTPUT_BYTES.findall(writing.stats()))
    ray.shutdown()
    changed, checksum = _compare(data, out)
    shutil.rmtree(out)
    return Figures(meter.cpu_seconds, wall, meter.peak_bytes, created, changed, checksum)


def _compare(data: Path, out: Path) -> tuple[int, float]:
    """The number of wide columns of another type, and the sum of the first variant's scores."""
    before, after = pds.dataset(data), pds.dataset(out)
    assert before.count_rows() == after.count_rows(), "a way lost rows"
    changed = sum(before.schema.field(name).type != after.schema.field(name).type for name in WIDE)
    scored = "p0" in after.schema.names
    checksum = float(after.to_table(columns=["p0"])["p0"].to_numpy().sum(dtype=np.float64)) if scored else float("nan")
    return changed, checksum


# ---- all of them -----------------------------------------------------------------------------------------------------


def measure(way: str, variants: int, data: Path) -> Figures:
    command = [sys.executable, "-m", "benchmarks.ray_data", "--one", way, str(variants), str(data)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{way} with {variants} variants failed:\n{done.stderr[-4000:]}")
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def show(rows: int, figures: Mapping[tuple[str, int], Figures]) -> Table:
    table = Table(
        title=f"{rows:,} rows, {len(FEATURES)} model columns, {len(WIDE)} wide columns, {os.cpu_count()} CPUs"
    )
    for heading in ("variants", "way", "CPU s", "wall s", "peak MiB", "object store MiB", "wide columns changed"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for (way, variants), one in sorted(figures.items(), key=lambda item: item[0][1]):
        sizes = (f"{one.peak_bytes / 2**20:,.0f}", f"{one.object_store_bytes / 2**20:,.0f}")
        seconds = (f"{one.cpu_seconds:.1f}", f"{one.wall_seconds:.1f}")
        table.add_row(str(variants), way, *seconds, *sizes, str(one.changed_columns))
    return table


def check_same_scores(figures: Mapping[tuple[str, int], Figures]) -> None:
    sums = [one.checksum for (way, _), one in figures.items() if way != "no model"]
    if not np.allclose(sums, sums[0], rtol=1e-4):
        raise SystemExit(f"The ways do not give the same scores: {sums}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--variants", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        way, variants, data = given.one
        print(json.dumps(run_way(way, int(variants), Path(data))._asdict()))
        return
    data = make_data(given.rows)
    figures = {(way, n): measure(way, n, data) for n in given.variants for way in given.ways}
    check_same_scores(figures)
    Console().print(show(given.rows, figures))


if __name__ == "__main__":
    main()
