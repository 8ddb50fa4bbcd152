"""What the page on images shows can be run: with handwritten digits in the form of its data set, which is large."""

from __future__ import annotations

import gzip
import re
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

PAGE = (Path(__file__).parents[2] / "docs" / "images.md").read_text()
BLOCKS = re.findall(r"```(python|yaml)\n(.*?)```", PAGE, re.DOTALL)


def write_idx(path: Path, values: np.ndarray) -> None:
    head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}i", *values.shape)
    path.write_bytes(gzip.compress(head + values.astype(np.uint8).tobytes()))


def write_digits(folder: Path) -> None:
    """8 x 8 of 17 shades each, three times as large, in a frame of two."""
    digits = load_digits()
    large = np.kron(digits.images, np.ones((3, 3))) * (255 / 16)
    images = np.pad(large, ((0, 0), (2, 2), (2, 2)))
    for name, rows in (("train", slice(500, None)), ("t10k", slice(0, 500))):
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", images[rows])
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", digits.target[rows])


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")  # Ray Data's, at its own defaults
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_example_runs(ray_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_digits(tmp_path)
    monkeypatch.setenv("FASHION_MNIST", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    (_, module), (_, training), (_, spec), (_, running) = BLOCKS
    (tmp_path / "fashion.py").write_text(module)
    (tmp_path / "images.yaml").write_text(spec)
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        for block in (training, running):
            exec(block, names)
    finally:
        torch.set_num_threads(threads)
    accuracy = {
        row["variant"]: row["value"] for row in names["found"].metrics.to_pylist() if row["metric"] == "accuracy"
    }
    assert {row["rows"] for row in names["found"].metrics.to_pylist()} == {500}
    assert all(value > 0.85 for value in accuracy.values()), accuracy
    sys.modules.pop("fashion", None)
