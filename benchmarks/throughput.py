"""Row-variants per second: assay on this machine and on Ray, against the plain loop that people write by hand.

All read the same Parquet file of a million rows, score it with the same small torch models on micro-batches of the same
size, and compute log loss and AUC of each. The plain loop is pyarrow, torch and scikit-learn; it gives no interval, no
comparison and no coverage, and keeps all scores in memory.

    .venv/bin/python -m benchmarks.throughput [--rows N] [--variants 1 16] [--workers 2]
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.metrics import log_loss, roc_auc_score

import assay
from benchmarks.mlp import FEATURES, load

OUT = Path(__file__).parent / "out"
MICRO_BATCH = 1024
ROW_GROUP_ROWS = 65_536
SEED = 7
METRICS = ["log_loss", "auc"]

Scores = dict[str, tuple[float, float]]
"""variant -> (log loss, AUC): what the ways of computing must agree on."""


class Timing(NamedTuple):
    """One way of evaluating so many variants."""

    way: str
    num_variants: int
    seconds: float
    scores: Scores


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(1)
    data = write_data(arguments.rows)
    weights = [write_weights(position) for position in range(max(arguments.variants))]
    ways: dict[str, Callable[[Sequence[Path]], Scores]] = {
        "plain loop": lambda models: plain_loop(data, models),
        "assay, local": lambda models: evaluate(data, models, "local", arguments.workers),
        "assay, Ray": lambda models: evaluate(data, models, "ray", arguments.workers),
    }
    for way in ways.values():
        way(weights[:1])  # compiled kernels, page cache, Ray's own start
    timings = [
        timed(way, function, weights[:number]) for number in arguments.variants for way, function in ways.items()
    ]
    check_agreement(timings)
    Console().print(as_table(timings, arguments.rows))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--variants", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def write_data(num_rows: int) -> Path:
    """Features, and a label that depends on them."""
    OUT.mkdir(exist_ok=True)
    generator = np.random.default_rng(SEED)
    features = {name: generator.normal(size=num_rows).astype(np.float32) for name in FEATURES}
    logit = sum(values / (position + 1) for position, values in enumerate(features.values())) - 1
    label = (generator.random(num_rows) < 1 / (1 + np.exp(-logit))).astype(np.int8)
    user = generator.integers(0, num_rows // 20 + 1, num_rows)
    path = OUT / f"rows-{num_rows}.parquet"
    pq.write_table(pa.table({**features, "label": label, "user": user}), path, row_group_size=ROW_GROUP_ROWS)
    return path


def write_weights(position: int) -> Path:
    torch.manual_seed(SEED + position)
    path = OUT / f"mlp-{position:02}.pt"
    torch.save(load(None).state_dict(), path)
    return path


def plain_loop(data: Path, models: Sequence[Path]) -> Scores:
    modules = {path.stem: load(path) for path in models}
    scores: dict[str, list[NDArray[np.float32]]] = {name: [] for name in modules}
    labels = []
    with torch.inference_mode():
        for batch in pq.ParquetFile(data).iter_batches(MICRO_BATCH, columns=[*FEATURES, "label"]):
            matrix = np.column_stack([batch.column(name).to_numpy() for name in FEATURES])
            labels.append(batch.column("label").to_numpy())
            for name, module in modules.items():
                scores[name].append(torch.sigmoid(module(torch.from_numpy(matrix))).numpy())
    label = np.concatenate(labels)
    whole = {name: np.concatenate(parts).astype(np.float64) for name, parts in scores.items()}
    return {name: (float(log_loss(label, one)), float(roc_auc_score(label, one))) for name, one in whole.items()}


def evaluate(data: Path, models: Sequence[Path], executor: str, workers: int) -> Scores:
    variants = [
        {
            "name": path.stem,
            "torch": {"load": "benchmarks.mlp:load", "path": str(path)},
            "inputs": {"features": FEATURES},
            "output": {"is": "logit"},
        }
        for path in models
    ]
    folder = tempfile.mkdtemp(dir=OUT)
    try:
        done = assay.evaluate(
            data,
            label="label",
            cluster="user",
            variants=variants,
            metrics=METRICS,
            executor=executor,
            workers=workers,
            out=Path(folder) / "run",
        )
        rows = done.metrics.to_pylist()
    finally:
        shutil.rmtree(folder)
    values = {(row["variant"], row["metric"]): row["value"] for row in rows if row["slice"] == "overall"}
    return {path.stem: (values[path.stem, "log_loss"], values[path.stem, "auc"]) for path in models}


def timed(way: str, function: Callable[[Sequence[Path]], Scores], models: Sequence[Path]) -> Timing:
    start = time.perf_counter()
    scores = function(models)
    return Timing(way, len(models), time.perf_counter() - start, scores)


def check_agreement(timings: Sequence[Timing]) -> None:
    """A faster way that computes something else is no faster way."""
    for timing in timings:
        reference = next(one for one in timings if one.num_variants == timing.num_variants).scores
        for name, pair in timing.scores.items():
            if not all(math.isclose(a, b, rel_tol=1e-5) for a, b in zip(pair, reference[name], strict=True)):
                raise SystemExit(f"{timing.way} gives {pair} for {name}, the plain loop {reference[name]}.")


def as_table(timings: Sequence[Timing], num_rows: int) -> Table:
    table = Table(title=f"{num_rows:,} rows, log loss and AUC")
    for heading in ("variants", "way", "seconds", "row-variants/s", "against the plain loop"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for timing in timings:
        plain = next(one for one in timings if one.num_variants == timing.num_variants)
        rate = num_rows * timing.num_variants / timing.seconds
        ratio = f"{plain.seconds / timing.seconds:.2f} x"
        table.add_row(str(timing.num_variants), timing.way, f"{timing.seconds:.2f}", f"{rate:,.0f}", ratio)
    return table


if __name__ == "__main__":
    main()
