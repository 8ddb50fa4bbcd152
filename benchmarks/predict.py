"""Predictions for a wide table: `assay predict`, on this machine and on Ray, against Ray Data's `map_batches` and
`write_parquet` in three formats.

The table and the small torch models are those of `benchmarks.ray_data`: 39 columns that models read, and 20 wide ones
that are only to be there in what is written. Each way writes the wide columns and a score for each variant to Parquet
with the same compression, from calls of the same number of rows; what it wrote is compared with the data.
Each runs in a process of its own, on two CPUs; CPU seconds and memory are of all its processes, bytes in the object
store are what was ever created there, as the node's raylet counts them. Ray is started before the clock is, with
idle workers, and Ray Data has been used there; actors and what they import are on it.

    .venv/bin/python -m benchmarks.predict [--rows N] [--variants 1 16] [--ways "assay, Ray" ...] [--compression zstd]
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
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray
import ray.data
import torch
from ray._private.worker import global_worker
from rich.console import Console
from rich.table import Table

from assay import predict
from benchmarks.perceptron import FEATURES, Perceptron
from benchmarks.ray_data import BATCH_SIZE, WIDE, Meter, make_data
from benchmarks.usual import OnlyWanted

NUM_CPUS = 2
NUM_JOINING = 1
"""Of them, on Ray: left to the joins, as Ray Data's one actor leaves one to what reads and writes."""
DUMP_SECONDS = 2
CREATED = re.compile(r"num bytes created total: (\d+)")
"""What the store in a raylet says of itself in the raylet's log, so often."""
KEY = "text0"
"""A column in which no two rows are equal."""
MOST_COMPARED = 10_000
"""Rows whose wide columns are compared; the keys and scores of all of them are."""
MOST_OFF = 1e-5
"""Between scores of one row: calls of other rows round otherwise in the last digits."""


class Figures(NamedTuple):
    """What one way took, and whether what it wrote is what it read."""

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int  # of all processes, what they share (the object store) once
    object_store_bytes: int  # ever created there, beside what was there before
    written_bytes: int
    changed_columns: int  # wide columns of another type than in the input
    load: float  # of the machine when it ended, over a minute


# ---- the ways --------------------------------------------------------------------------------------------------------

Way = Callable[[Path, int, str, Path], Path]
"""(data, number of variants, compression, an empty place) -> the folder with the predictions"""


def with_assay(executor: str) -> Way:
    def predicted(data: Path, variants: int, compression: str, place: Path) -> Path:
        place.mkdir(parents=True)
        (place / "weights").write_text("none")
        spec = {
            "data": {"path": str(data)},
            "variants": [
                {
                    "name": f"p{number}",
                    "torch": {"load": "benchmarks.perceptron:load", "path": "weights", "settings": {"number": number}},
                    "inputs": {"features": FEATURES},
                    "output": {"is": "score"},
                }
                for number in range(variants)
            ],
            "carry_over": WIDE,
            "predictions": {"compression": compression},
            "execution": {"micro_batch": BATCH_SIZE},
        }
        (place / "spec.yaml").write_text(json.dumps(spec))
        workers = NUM_CPUS if executor == "local" else NUM_CPUS - NUM_JOINING
        predict(place / "spec.yaml", out=place / "run", executor=executor, workers=workers)
        return place / "run" / "predictions"

    return predicted


def with_ray_data(batch_format: str) -> Way:
    def predicted(data: Path, variants: int, compression: str, place: Path) -> Path:
        ds = ray.data.read_parquet(str(data)).map_batches(
            OnlyWanted,
            fn_constructor_args=[variants, batch_format],
            batch_size=BATCH_SIZE,
            batch_format=batch_format,
            concurrency=1,
        )
        ds.write_parquet(str(place), compression=compression)
        return place

    return predicted


def without_models(data: Path, variants: int, compression: str, place: Path) -> Path:
    """Reading the wide columns and writing them, without dictionaries, in one thread: what no way does without."""
    place.mkdir(parents=True)
    for path in sorted(data.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            schema = pa.schema([file.schema_arrow.field(name) for name in WIDE])
            writer = pq.ParquetWriter(place / path.name, schema, compression=compression, use_dictionary=False)
            for batch in file.iter_batches(65_536, columns=WIDE, use_threads=False):
                writer.write_batch(batch)
            writer.close()
    return place


ON_RAY_DATA = ("Ray Data, numpy", "Ray Data, pandas", "Ray Data, pyarrow")
ON_RAY = ("assay, Ray", *ON_RAY_DATA)
WAYS: dict[str, Way] = {
    "assay, local": with_assay("local"),
    "assay, Ray": with_assay("ray"),
    "Ray Data, numpy": with_ray_data("numpy"),
    "Ray Data, pandas": with_ray_data("pandas"),
    "Ray Data, pyarrow": with_ray_data("pyarrow"),
    "no model": without_models,
}


def run_way(way: str, variants: int, compression: str, data: Path) -> Figures:
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "OMP_NUM_THREADS": "1"})
    torch.set_num_threads(1)
    if way in ON_RAY:
        _start_ray()
    if way in ON_RAY_DATA:
        _warm_ray_data()
    place = data.parent / f"predicted-{os.getpid()}"
    before, start = _created_bytes(), time.perf_counter()
    with Meter() as meter:
        out = WAYS[way](data, variants, compression, place)
    wall, created = time.perf_counter() - start, _created_bytes() - before
    load = os.getloadavg()[0]
    if ray.is_initialized():
        ray.shutdown()
    try:
        written = sum(path.stat().st_size for path in out.rglob("*.parquet"))
        changed = compare(data, out, 0 if way == "no model" else variants)
    finally:
        shutil.rmtree(place)
    return Figures(meter.cpu_seconds, wall, meter.peak_bytes, created, written, changed, load)


def _start_ray() -> None:
    ray.init(
        address="local",
        num_cpus=NUM_CPUS,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _system_config={"event_stats_print_interval_ms": DUMP_SECONDS * 1000},
    )
    ray.get([_nothing.remote() for _ in range(NUM_CPUS)])  # workers are there


@ray.remote
def _nothing() -> None:
    """What an idle worker has done before."""


def _warm_ray_data() -> None:
    """Its own actors are there, and its workers have their imports."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.data.range(2).map_batches(lambda batch: batch).materialize()


def _created_bytes() -> int:
    """In the object store, ever; 0 without one."""
    if not ray.is_initialized():
        return 0
    time.sleep(2 * DUMP_SECONDS)  # the raylet writes it down now and then
    node: Any = global_worker.node  # Any: untyped, and none without Ray
    log = Path(node.get_logs_dir_path(), "raylet.out")
    return int(CREATED.findall(log.read_text())[-1])


# ---- what they wrote -------------------------------------------------------------------------------------------------


def compare(data: Path, out: Path, variants: int) -> int:
    """The number of wide columns of another type. AssertionError where keys or scores are not what they should be, or
    wide columns of the same type in a sample of the rows."""
    before = pq.read_table(data, columns=[KEY, *FEATURES])
    keys = pq.read_table(out, columns=[KEY])[KEY].cast(before[KEY].type)
    first, second = pc.sort_indices(before[KEY]), pc.sort_indices(keys)
    assert before[KEY].take(first).equals(keys.take(second)), "other rows"
    features = np.column_stack([before[name].to_numpy() for name in FEATURES]).astype(np.float32)
    scores = {f"p{number}": Perceptron(number)({"features": torch.from_numpy(features)}) for number in range(variants)}
    for name, expected in scores.items():
        found = pq.read_table(out, columns=[name])[name].to_numpy()[second.to_numpy()]
        assert np.abs(found - expected.numpy()[first.to_numpy()]).max() < MOST_OFF, f"{name} has other scores"
    few = np.random.default_rng(0).permutation(len(first))[:MOST_COMPARED]
    first, second = first.take(few), second.take(few)
    changed = 0
    for name in WIDE:
        wanted, found = (pq.read_table(folder, columns=[name])[name] for folder in (data, out))
        changed += wanted.type != found.type
        if wanted.type == found.type:
            assert wanted.take(first).equals(found.take(second)), f"{name} has other values"
    return changed


# ---- all of them -----------------------------------------------------------------------------------------------------


def measure(way: str, variants: int, compression: str, data: Path) -> Figures:
    command = [sys.executable, "-m", "benchmarks.predict", "--one", way, str(variants), compression, str(data)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{way} with {variants} variants failed:\n{done.stderr[-4000:]}")
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def show(rows: int, compression: str, figures: Mapping[tuple[str, int], Figures]) -> Table:
    table = Table(title=f"{rows:,} rows, {len(FEATURES)} + {len(WIDE)} columns, {compression}, {os.cpu_count()} CPUs")
    headings = ("CPU s", "wall s", "peak MiB", "object store MiB", "written MiB", "wide columns changed", "load")
    for heading in ("variants", "way", *headings):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for (way, variants), one in sorted(figures.items(), key=lambda item: item[0][1]):
        sizes = [f"{size / 2**20:,.1f}" for size in (one.peak_bytes, one.object_store_bytes, one.written_bytes)]
        seconds = (f"{one.cpu_seconds:.1f}", f"{one.wall_seconds:.1f}")
        table.add_row(str(variants), way, *seconds, *sizes, str(one.changed_columns), f"{one.load:.0f}")
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--variants", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--compression", default="snappy", help="what Ray Data takes by default is snappy")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        way, variants, compression, data = given.one
        print(json.dumps(run_way(way, int(variants), compression, Path(data))._asdict()))
        return
    data = make_data(given.rows)
    figures = {}
    for way, variants in [(way, variants) for variants in given.variants for way in given.ways]:
        figures[way, variants] = measure(way, variants, given.compression, data)
        print(way, variants, figures[way, variants], file=sys.stderr, flush=True)  # it may be long until the next one
    Console(width=140).print(show(given.rows, given.compression, figures))


if __name__ == "__main__":
    main()
