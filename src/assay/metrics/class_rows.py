"""What metrics of several classes or labels read of a block. Axes: n rows, C classes or labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.records import Block


def actual_classes(block: Block, num_classes: int) -> NDArray[np.int32]:
    """The number of each row's class [n]."""
    return _class_numbers(block.label, 0, num_classes)


def predicted_classes(block: Block, num_classes: int) -> NDArray[np.int32]:
    """The number of each row's predicted class [n]; -1 where it is none of the classes."""
    return _class_numbers(block.raw, -1, num_classes)


def outputs_of(block: Block, num_classes: int | None = None) -> NDArray[np.float32]:
    """The scores [C, n], where the caller has made sure that the output has them; C is checked where it is given."""
    if block.outputs is None:
        raise ValueError("A metric needs a score for each class, and the output is a predicted class alone.")
    if num_classes is not None and len(block.outputs) != num_classes:
        raise ValueError(f"The output has {len(block.outputs)} scores a row; expected {num_classes}, one for each.")
    return block.outputs.astype(np.float32, copy=False)


def targets_of(block: Block, num_labels: int) -> NDArray[np.uint8]:
    """Which labels each row has [C, n]."""
    if block.targets is None or len(block.targets) != num_labels:
        raise ValueError(f"A metric needs rows with a set of {num_labels} labels each.")
    return block.targets


def _class_numbers(values: NDArray[np.float64], lowest: int, num_classes: int) -> NDArray[np.int32]:
    if len(values) and not lowest <= values.min() <= values.max() < num_classes:
        raise ValueError(
            f"A metric needs class numbers from {lowest} to {num_classes - 1}, and was given some from "
            f"{values.min():g} to {values.max():g}."
        )
    return values.astype(np.int32)
