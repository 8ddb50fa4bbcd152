"""Between numpy arrays and tensors. With `models/torch.py`, the only place that imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]  # Any: the dtype follows the column's type
TYPES = {"f": np.float32, "i": np.int64, "u": np.int64, "b": np.bool_}


def as_tensors(arrays: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    """Tensors of their own memory: floats as float32, integers as int64; bytes (images) stay as they are."""
    return {name: torch.tensor(_of_tensor_type(array)) for name, array in arrays.items()}


def as_array(tensor: torch.Tensor) -> Array:
    """The tensor in this process's memory, without its gradient; bfloat16, which numpy has not, as float32."""
    plain = tensor.detach().cpu()
    array: Array = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    return array


def _of_tensor_type(array: Array) -> Array:
    if array.dtype == np.uint8:
        return array
    return array.astype(TYPES.get(array.dtype.kind, array.dtype), copy=False)
