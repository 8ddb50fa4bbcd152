"""Callable variants for tests of predictions: each a plain function of `x`, in [0, 1]."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

import numpy as np

Inputs = Mapping[str, np.ndarray]


def twice(inputs: Inputs) -> np.ndarray:
    return np.asarray(2 * inputs["x"])


def twice_in_float32(inputs: Inputs) -> np.ndarray:
    return np.asarray(2 * inputs["x"], np.float32)


def gaps_above_half(inputs: Inputs) -> np.ndarray:
    return np.where(inputs["x"] > 0.5, np.nan, inputs["x"])


def fails_at_a_third(inputs: Inputs) -> np.ndarray:
    if (inputs["x"] == 1 / 3).any():
        raise ValueError("no third")
    return np.asarray(inputs["x"])


def a_score_and_two_chances(inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    return inputs["x"], np.stack([inputs["x"], 1 - inputs["x"]], axis=1)


def a_vector_and_a_word(inputs: Inputs) -> dict[str, object]:
    """No score; no word for small `x`."""
    words = [None if x < 0.1 else f"{x:.2f}" for x in inputs["x"]]
    return {"vector": np.stack([inputs["x"], inputs["x"] ** 2, np.ones(len(words))], axis=1), "word": words}


def a_vector(inputs: Inputs) -> np.ndarray:
    return np.stack([inputs["x"], 1 - inputs["x"]], axis=1)


def sixtieths(inputs: Inputs) -> np.ndarray:
    """Whole numbers, less one that is missing."""
    return np.where(inputs["x"] == 0.5, np.nan, np.rint(60 * inputs["x"]))


def beyond_float32(inputs: Inputs) -> np.ndarray:
    return np.where(inputs["x"] == 0.5, 1e300, inputs["x"])


def ends_its_process_at(inputs: Inputs, row: float) -> np.ndarray:
    """As the system does when memory runs out."""
    if (inputs["row"] == row).any():
        os.kill(os.getpid(), signal.SIGKILL)
    return np.asarray(inputs["row"])


def wider_above_two_thirds(inputs: Inputs) -> np.ndarray:
    """float32 below, float64 above."""
    return np.asarray(inputs["x"], np.float64 if (inputs["x"] >= 2 / 3).any() else np.float32)
