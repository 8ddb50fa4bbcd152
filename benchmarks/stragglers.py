"""One worker five times slower than the others, on the executors that real runs use: wall time against the ideal.

The model waits instead of computing, so that workers do not take cores from each other. The ideal divides all rows over
the workers by their speeds, from when each was ready; both times are read from the events that the run kept.

    .venv/bin/python -m benchmarks.stragglers [--executor local ray] [--workers 4] [--units 20]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import assay
import assay.schedules
from assay.schedule import Schedule
from assay.spec.load import build_spec

UNIT_ROWS, CALL_ROWS = 1_000, 100
CALL_SECONDS = 0.3
SLOWNESS = 5.0


def waits(batch: dict[str, NDArray[np.float64]], *, folder: str) -> NDArray[np.float64]:
    """A model that takes CALL_SECONDS for a call, and SLOWNESS times as long at the worker that called it first."""
    began = Path(folder) / "began"
    mine = f"{os.getpid()} {threading.get_ident() if 'assay-' in threading.current_thread().name else 0}"
    try:
        with began.open("x") as file:
            file.write(mine)
    except FileExistsError:
        pass
    slow = began.read_text() == mine
    time.sleep(CALL_SECONDS * (SLOWNESS if slow else 1.0))
    return batch["p"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--executor", nargs="+", default=["local", "ray"])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--units", type=int, default=20)
    arguments = parser.parse_args()
    table = Table("executor", "against stragglers", "seconds", "ideal", "times the ideal")
    rows = pa.table({"y": [0, 1] * 50, "p": [0.2, 0.8] * 50})
    output = {"is": "probability"}
    assay.evaluate(rows, label="y", scores=["p"], metrics=["log_loss"], output=output)  # compiled code is loaded once
    for executor in arguments.executor:
        for speculate in (True, False):
            seconds, ideal = _seconds(executor, arguments.workers, arguments.units, speculate=speculate)
            what = "held back and copied" if speculate else "nothing"
            table.add_row(executor, what, f"{seconds:.1f}", f"{ideal:.1f}", f"{seconds / ideal:.2f}")
    Console().print(table)


def _seconds(executor: str, workers: int, units: int, *, speculate: bool) -> tuple[float, float]:
    """From the first unit to the last commit, and as it would be if no worker ever waited."""
    assay.schedules.Schedule = partial(Schedule, speculate=speculate)  # type: ignore[attr-defined, assignment]  # to compare
    with tempfile.TemporaryDirectory() as folder:
        chance = np.random.default_rng(0)
        rows = units * UNIT_ROWS
        columns = {"y": chance.integers(0, 2, rows), "p": chance.random(rows)}
        pq.write_table(pa.table(columns), f"{folder}/rows.parquet", row_group_size=UNIT_ROWS)
        tree: dict[str, object] = {
            "data": {"path": f"{folder}/rows.parquet", "label": "y"},
            "output": {"is": "probability"},
            "variants": [
                {"name": "old", "column": "p"},
                {
                    "name": "new",
                    "callable": {"function": "benchmarks.stragglers:waits", "settings": {"folder": folder}},
                    "inputs": ["p"],
                    "receive": "dict",
                },
            ],
            "baseline": "old",
            "metrics": ["log_loss"],
            "execution": {"unit_rows": UNIT_ROWS, "micro_batch": CALL_ROWS},
        }
        spec = build_spec(tree)
        assay.run(spec, out=f"{folder}/run", base=Path.cwd(), executor=executor, workers=workers)
        lines = [json.loads(line) for file in Path(f"{folder}/run/events").iterdir() for line in file.open()]
    events = [line for line in lines if isinstance(line, list)]
    ready = sorted(line[0] for line in events if line[1] == "ready")
    end = max(line[0] for line in events if line[1] == "committed")
    speeds = [1 / SLOWNESS, *[1.0] * (len(ready) - 1)]  # the first to be ready is the slow one
    work = units * UNIT_ROWS / CALL_ROWS * CALL_SECONDS
    ideal = (work + sum(speed * at for speed, at in zip(speeds, ready, strict=True))) / sum(speeds)
    return end - ready[0], ideal - ready[0]


if __name__ == "__main__":
    main()
