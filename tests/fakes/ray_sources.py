"""Datasets and models for evaluations over Ray Data; Ray's workers import this module."""

from __future__ import annotations

import sqlite3

import numpy as np
import pyarrow as pa
import ray.data
from ray.data import Dataset
from ray.data.expressions import col

NUMBERS = pa.table({"y": [0, 1, 1, 0] * 5, "p": [0.2, 0.8, 0.6, 0.4] * 5})


def brightness(image: np.ndarray) -> np.ndarray:
    """Of images [n, height, width] or [n, height, width, channels], the mean in [0, 1]."""
    return np.asarray(image.reshape(len(image), -1).mean(1) / 255)


def height(table: pa.Table) -> list[float]:
    """A fourth of the height of images of several sizes."""
    return [image["shape"][0] / 4 for image in table["image"].to_pylist()]


def numbers(blocks: int = 1) -> Dataset:
    """A dataset named by a spec without a path."""
    return ray.data.from_arrow(NUMBERS).repartition(blocks)


def of_path(path: str, least: float) -> Dataset:
    """One with a path, and a step of its own."""
    return ray.data.read_parquet(path).filter(expr=col("p") > least)


def no_dataset() -> list[int]:
    return [1, 2]


def failing() -> Dataset:
    raise ValueError("it has a bad day")


def table_of_numbers() -> sqlite3.Connection:
    """A database in memory, for `read_sql`, which opens it once in each task."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE log (y INTEGER, p REAL)")
    connection.executemany("INSERT INTO log VALUES (?, ?)", zip(*NUMBERS.to_pydict().values(), strict=True))
    return connection
