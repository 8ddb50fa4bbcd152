"""A preparation and a model that note where they run, for tests of placement."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import ray


def note(what: str, folder: str) -> None:
    """A file named by what runs, its process, the market of its node and the GPUs that it sees; once for each."""
    is_worker = ray.is_initialized() and ray.get_runtime_context().worker.mode == ray.WORKER_MODE
    labels = ray.get_runtime_context().get_node_labels() if is_worker else {}
    market = str(labels.get("ray.io/market-type", "none"))
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES") or "none"
    (Path(folder) / "_".join([what, str(os.getpid()), market, gpus])).touch()


def notes(folder: Path, what: str) -> set[tuple[str, ...]]:
    """(process, market, GPUs) of each that ran."""
    return {tuple(one.name.split("_")[1:]) for one in folder.iterdir() if one.name.startswith(f"{what}_")}


def wide(table: pa.Table, folder: str) -> dict[str, np.ndarray]:
    """A number of each row, a thousand times. Where the file `stop_at` names it, the process waits at that row until
    somebody opens the pipe `go`; it says so in the pipe `arrived`. As long as there are files `dies_at_ROW...`, the
    process dies at that row, and takes one with it."""
    note("prepare", folder)
    numbers, place = table["number"].to_numpy(), Path(folder)
    stop_at = place / "stop_at"
    for death in sorted(place.glob("dies_at_*")):
        if int(death.name.split("_")[2]) in numbers:
            death.unlink()
            os._exit(1)
    if stop_at.exists() and int(stop_at.read_text()) in numbers:
        stop_at.unlink()
        with (place / "arrived").open("w") as arrived:
            arrived.write(f"{os.getpid()}\n")
        os.close(os.open(place / "go", os.O_RDONLY))
    return {"x": np.repeat(numbers[:, None], 1000, axis=1)}


def mean(x: np.ndarray, folder: str) -> np.ndarray:
    note("score", folder)
    return np.asarray(1 / (2 + 0.01 * x.mean(axis=1)))


def first(x: np.ndarray, folder: str) -> np.ndarray:
    return np.asarray(1 / (3 + 0.01 * x[:, 0]))
