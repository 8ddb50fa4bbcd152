"""Building blocks for a Ray Data pipeline of your own: models see their inputs, and the other columns stay as they are.

Lives here: `map_batches`, `multi_model` with its `ModelSpec`, and `ParquetRows`, whose wide columns are read late.
Not here: evaluating. docs/ray-data.md says when to use this and when `assay`.
"""

from assay.integrations.ray_data.batches import map_batches, multi_model
from assay.integrations.ray_data.model_spec import ModelSpec
from assay.integrations.ray_data.parquet_rows import ParquetRows

__all__ = ["ModelSpec", "ParquetRows", "map_batches", "multi_model"]
