"""What one writes by hand for Ray Data to score a wide table, in a module that its workers import."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import NDArray

from benchmarks.perceptron import FEATURES, Perceptron


class Usual:
    """All variants in one actor, as one writes it by hand for a format: outputs put beside the columns of the batch."""

    def __init__(self, variants: int, batch_format: str) -> None:
        self.models = [Perceptron(number) for number in range(variants)]
        self.batch_format = batch_format

    def __call__(self, batch: Any) -> Any:  # Any: of the format
        if self.batch_format == "pandas":
            scores = self._score(batch[FEATURES].to_numpy(np.float32))
            return pd.concat([batch, pd.DataFrame(scores, index=batch.index)], axis=1)
        if self.batch_format == "numpy":
            return {**batch, **self._score(np.column_stack([batch[name] for name in FEATURES]).astype(np.float32))}
        scores = self._score(np.column_stack([batch[name].to_numpy() for name in FEATURES]).astype(np.float32))
        for name, values in scores.items():
            batch = batch.append_column(name, pa.array(values))
        return batch

    def _score(self, matrix: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        features = {"features": torch.from_numpy(matrix)}
        return {f"p{number}": model(features).numpy() for number, model in enumerate(self.models)}


class OnlyWanted(Usual):
    """Ray Data's usual way, which leaves out what models alone need: as little is written as with assay."""

    def __call__(self, batch: Any) -> Any:  # Any: of the format
        scored = super().__call__(batch)
        if self.batch_format == "numpy":
            return {name: values for name, values in scored.items() if name not in FEATURES}
        if self.batch_format == "pandas":
            return scored.drop(columns=FEATURES)
        return scored.drop_columns(FEATURES)
