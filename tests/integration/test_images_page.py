"""What the page on images shows can be run: with handwritten digits in the form of its data set, which is large."""

from __future__ import annotations

import gzip
import json
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_digits

PAGE = (Path(__file__).parents[2] / "docs" / "images.md").read_text()
BLOCKS = re.findall(r"```(?:python|yaml)\n(.*?)```", PAGE, re.DOTALL)
IMAGES = 500
"""To be scored; the networks are trained on the others."""
KINDS = ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),  # Ray Data's, at its own defaults
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def write_idx(path: Path, values: np.ndarray) -> None:
    head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}i", *values.shape)
    path.write_bytes(gzip.compress(head + values.astype(np.uint8).tobytes()))


def shades(digits: np.ndarray) -> np.ndarray:
    """[n, 28, 28] of 8 x 8 of 17 shades each, three times as large, in a frame of two."""
    large = np.kron(digits, np.ones((3, 3))) * (255 / 16)
    return np.pad(large, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)


def write_digits(folder: Path) -> None:
    digits = load_digits()
    for name, rows in (("train", slice(IMAGES, None)), ("t10k", slice(0, IMAGES))):
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", shades(digits.images[rows]))
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", digits.target[rows])


@pytest.fixture(scope="module")
def trained(ray_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the page's training defines; the working directory has its images and weights, and the page's files."""
    folder = tmp_path_factory.mktemp("images")
    write_digits(folder)
    for name in ("fashion.py", "images.yaml", "kinds.py", "kinds.yaml"):
        [content] = [block for block in BLOCKS if block.startswith(f"# {name}\n")]
        (folder / name).write_text(content)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASHION_MNIST", str(folder))
        patch.chdir(folder)
        patch.setattr(sys, "path", [str(folder), *sys.path])
        try:
            names = example("save_file(")
        finally:
            torch.set_num_threads(threads)
        yield names
    sys.modules.pop("fashion", None)


def example(words: str) -> dict[str, Any]:
    """What the page's code in which these words are defines."""
    [block] = [block for block in BLOCKS if words in block]
    names: dict[str, Any] = {"__name__": "__main__"}  # Any: whatever it defines
    exec(block, names)
    return names


def test_networks_are_compared(trained: dict[str, Any]) -> None:
    found = example('assay.run("images.yaml"')["found"]
    accuracy = {row["variant"]: row["value"] for row in found.metrics.to_pylist() if row["metric"] == "accuracy"}
    assert {row["rows"] for row in found.metrics.to_pylist()} == {IMAGES}
    assert accuracy.keys() == {"linear", "dense", "convolved"}
    assert all(value > 0.85 for value in accuracy.values()), accuracy


def test_one_says_what_images_show(trained: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Each row is what its network gives for the pixels that were carried along with its key."""
    rows = example('assay.predict("kinds.yaml"')["rows"]
    digits = load_digits()
    assert rows["__key__"].to_pylist() == [f"{number:05d}" for number in range(IMAGES)]
    assert rows["cls"].to_pylist() == digits.target[:IMAGES].tolist()
    pixels = rows["png"].combine_chunks().to_numpy_ndarray()
    np.testing.assert_array_equal(pixels, shades(digits.images[:IMAGES]))

    convolved = trained["fashion"].convolved(16)
    convolved.load_state_dict(load_file("convolved.safetensors"))
    with torch.no_grad():
        embeddings = convolved[:-1]((torch.tensor(pixels[:, None]) / 255 - 0.29) / 0.35)
        scores = convolved[-1](embeddings)
    np.testing.assert_allclose(np.stack(rows["net"].to_numpy()), scores, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.stack(rows["net.embedding"].to_numpy()), embeddings, rtol=1e-4, atol=1e-4)
    classes = json.loads(rows.schema.field("net").metadata[b"assay.classes"])
    assert classes == KINDS
    assert rows["net.kind"].to_pylist() == [KINDS[best] for best in np.stack(rows["net"].to_numpy()).argmax(1)]
    share = np.mean(np.stack(rows["net"].to_numpy()).argmax(1) == digits.target[:IMAGES])
    assert share > 0.85
    assert f"as labelled: {share}\nmost like the first one: " in capsys.readouterr().out
