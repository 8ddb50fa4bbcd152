"""Building blocks for a Ray Data pipeline of your own: models see their inputs, and the other columns stay as they are.

Lives here: `map_batches`, `multi_model` with its `ModelSpec`, `ParquetRows`, whose wide columns are read late, and
`evaluate`, of a dataset's rows. docs/ray-data.md says when to use this and when `assay`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from assay.integrations.ray_data.batches import map_batches, multi_model
from assay.integrations.ray_data.model_spec import ModelSpec
from assay.integrations.ray_data.parquet_rows import ParquetRows

if TYPE_CHECKING:
    from assay.integrations.ray_data.evaluating import evaluate

__all__ = ["ModelSpec", "ParquetRows", "evaluate", "map_batches", "multi_model"]

_EVALUATE = "assay.integrations.ray_data.evaluating"
"""It brings in all of assay, which the processes of a pipeline need not load."""


def __getattr__(name: str) -> Any:  # Any: whatever the name stands for; TYPE_CHECKING above says it precisely
    if name != "evaluate":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(_EVALUATE).evaluate
