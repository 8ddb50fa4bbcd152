"""A sweep over made-up users: an old model, and candidates that are each better than the last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

NUM_USERS = 400
ROWS_EACH = 4


def sweep(num_candidates: int = 4, seed: int = 7) -> pa.Table:
    """Columns y, user, country, old, new0, new1, ...; probabilities that rise with the chance of y = 1.

    A user's rows lie apart, so that the first rows are of all users.
    """
    chance = np.random.default_rng(seed)
    rows = NUM_USERS * ROWS_EACH
    user = np.tile(np.arange(NUM_USERS), ROWS_EACH)
    signal = chance.normal(size=rows) + chance.normal(0, 0.5, NUM_USERS)[user]
    columns: dict[str, Any] = {
        "y": (chance.random(rows) < _sigmoid(1.5 * signal)).astype(np.int64),
        "user": user,
        "country": np.array(["DE", "US"])[user % 2],
        "old": _sigmoid(0.5 * signal + chance.normal(0, 0.5, rows)),
    }
    for number in range(num_candidates):
        columns[f"new{number}"] = _sigmoid((0.6 + 0.3 * number) * signal + chance.normal(0, 0.5, rows))
    return pa.table(columns)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


WORDS: dict[str, Any] = {
    "label": "y",
    "scores": ["old", "new*"],
    "baseline": "old",
    "cluster": "user",
    "slices": ["country"],
    "output": "probability",
    "metrics": ["auc", "log_loss"],
    "gates": [{"metric": "log_loss", "margin": 0.01}],
    "executor": "local",
    "workers": 1,
}
