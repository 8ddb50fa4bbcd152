"""Callable variants for tests with real data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np


def depends_on_its_batch(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Logits that differ when any other row is in the batch; missing at every seventh age."""
    age, price = (np.nan_to_num(inputs[name]) for name in ("age", "price"))
    logit = (age - age.mean()) / 10 + price / (1 + price.sum())
    logit[age % 7 == 0] = np.nan
    return {"click": logit, "buy": logit - 1}


def stops_at_a_gate(inputs: Mapping[str, np.ndarray], folder: str) -> np.ndarray:
    """Probabilities. At the row that the file `stop_at` names, it writes its process into the pipe `arrived` and waits
    until somebody opens the pipe `go`."""
    row, place = inputs["row"], Path(folder)
    stop_at = place / "stop_at"
    if stop_at.exists() and int(stop_at.read_text()) in row:
        with (place / "arrived").open("w") as arrived:
            arrived.write(f"{os.getpid()}\n")
        os.close(os.open(place / "go", os.O_RDONLY))
    return np.asarray(1 / (2 + 0.01 * row))


def fails_between(inputs: Mapping[str, np.ndarray], first: float, last: float) -> np.ndarray:
    """A probability near that of `p1`; it cannot score rows from `first` up to `last`."""
    row = inputs["row"]
    if ((row >= first) & (row < last)).any():
        raise ValueError(f"it cannot score rows {first} to {last}")
    return np.asarray(0.9 * inputs["p1"] + 0.05)


def fails_once(inputs: Mapping[str, np.ndarray], row: float, folder: str) -> np.ndarray:
    """A probability near that of `p1`; the first time that it is given the row, it fails."""
    seen = Path(folder) / "seen"
    if row in inputs["row"] and not seen.exists():
        seen.touch()
        raise ValueError("it has a bad day")
    return np.asarray(0.9 * inputs["p1"] + 0.05)
