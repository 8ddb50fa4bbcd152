"""A Ray dataset whose blocks are lost with a node: `python -m fakes.losing ADDRESS FOLDER KIND WORKERS`.

It stops in a model's first call, names the node that is to be lost (that which alone has the most blocks) on its
output, and goes on when somebody opens the pipe `go` in the folder; then it says what came of it, as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import ray.data
from ray.data.expressions import col
from ray.experimental import get_object_locations

import assay.api
import assay.cluster.actors
from assay.errors import AssayError
from assay.integrations.ray_data import dataset, fetching
from assay.records import Progress

ROWS, BLOCKS = 1200, 12


def numbers() -> pa.Table:
    chance = np.random.default_rng(4)
    return pa.table(
        {
            "y": (chance.random(ROWS) < 0.3).astype(np.int8),
            "number": np.arange(ROWS),
            "p": chance.uniform(0, 1, ROWS),
        }
    )


def mean(number: np.ndarray, folder: str) -> np.ndarray:
    """A score; the first call of all waits."""
    place = Path(folder)
    try:
        (place / "stop").unlink()
    except FileNotFoundError:
        return np.asarray(1 / (2 + 0.001 * number))
    with (place / "arrived").open("w") as arrived:
        arrived.write("here")
    os.close(os.open(place / "go", os.O_RDONLY))
    return np.asarray(1 / (2 + 0.001 * number))


def widened(table: pa.Table) -> pa.Table:
    """Blocks that are in the object store, and not in messages, as small ones are."""
    rows = numbers().take(table["id"])
    return rows.append_column("wide", pa.array([bytes(2000)] * len(rows)))


def otherwise(table: pa.Table) -> pa.Table:
    """A step without a seed: other values in each process."""
    return table.set_column(2, "p", pa.array(np.full(len(table), 1 / os.getpid())))


def made(kind: str) -> ray.data.Dataset:
    ds = ray.data.range(ROWS, override_num_blocks=BLOCKS)
    ds = ds.map_batches(widened, batch_format="pyarrow", batch_size=None).filter(expr=col("number") >= 50)
    if kind == "join":
        right = ray.data.range(ROWS, override_num_blocks=2).rename_columns({"id": "number"})
        return ds.join(right, "inner", 6, on=("number",))
    if kind == "otherwise":
        return ds.map_batches(otherwise, batch_format="pyarrow", batch_size=None)
    return ds


def words(folder: Path) -> dict[str, Any]:
    settings = {"function": "fakes.losing:mean", "settings": {"folder": str(folder)}}
    return {
        "label": "y",
        "cluster": "number",
        "variants": [
            {"name": "old", "column": "p"},
            {"name": "mean", "callable": settings, "inputs": ["number"], "receive": "arguments"},
        ],
        "baseline": "old",
        "output": "probability",
        "metrics": ["auc", "brier"],
        "execution": {"unit_rows": 50, "micro_batch": 10},
    }


def main(address: str, folder: Path, kind: str, workers: int | None) -> None:
    assay.cluster.actors.POLL_SECONDS = 0.5
    fetching.LEAST_PATIENCE_SECONDS = 4.0  # so it is what the dataset took, which is longer on a slow machine
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    source = dataset.DatasetSource(made(kind))

    def name_a_node() -> None:
        (folder / "arrived").read_text()
        places = [one["node_ids"] for one in get_object_locations(list(source._refs)).values()]
        alone = [nodes[0] for nodes in places if len(nodes) == 1]
        print(json.dumps({"lose": max(sorted(set(alone)), key=alone.count, default="")}), flush=True)

    threading.Thread(target=name_a_node, daemon=True).start()
    said: list[str] = []

    def note(progress: Progress) -> None:
        said.append(progress.message)

    found: dict[str, Any]
    try:
        result = assay.api.evaluate(source, workers=workers, report=note, **words(folder))
        found = {"metrics": result.metrics.to_pylist()}
    except AssayError as error:
        found = {"error": str(error), "kind": type(error).__name__}
    print(json.dumps({**found, "said": list(filter(None, said))}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]) or None)
