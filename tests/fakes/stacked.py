"""Callable variants that others take outputs of, and such that take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa


def first(x: np.ndarray, fails_at: float = -1.0, log: str = "") -> dict[str, object]:
    """Logits in single precision, missing at every seventh x, an embedding and a text; it cannot score `fails_at`."""
    if log:
        with Path(log).open("a") as file:
            file.write(f"{len(x)}\n")
    if fails_at in x:
        raise ValueError(f"it has never seen {fails_at}")
    score = np.sin(x).astype(np.float32)
    score[x.astype(np.int64) % 7 == 0] = np.nan
    return {"score": score, "vector": np.stack([x, -x], axis=1), "name": [f"x{one:g}" for one in x]}


def blend(p: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Keeps the type of p, which it therefore shows."""
    return np.asarray(p * 2 - np.cos(x).astype(p.dtype))


def filled(p: np.ndarray, weight: float = 1.0) -> np.ndarray:
    """A score also where there is none to take."""
    return np.asarray(np.where(np.isnan(p), -5.0, p * weight))


def of_vector(v: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.asarray(v.sum(axis=1) + v[:, 0] * np.nan_to_num(p))


def of_name(table: pa.Table) -> np.ndarray:
    return np.array([float(one[1:]) % 3 for one in table["n"].to_pylist()])


def dislikes(x: np.ndarray) -> np.ndarray:
    """Scores all but two rows, and gives a third none."""
    for value in (13.0, 777.0):
        if value in x:
            raise ValueError(f"I do not like {value:g}")
    return np.where(x == 500, np.nan, np.sin(x))
