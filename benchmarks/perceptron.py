"""The small models of the wide tables. Workers import this module to load them: it imports no more than they need."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

FEATURES = [*(f"i{number}" for number in range(13)), *(f"c{number}" for number in range(26))]


class Perceptron(nn.Module):
    """{"features": [n, 39]} -> [n]; the weights follow from the number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.set_num_threads(1)
        torch.manual_seed(number)
        self.layers = nn.Sequential(nn.Linear(39, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        with torch.inference_mode():
            scores: torch.Tensor = self.layers(batch["features"]).squeeze(-1)
            return scores


class Numbered(nn.Module):
    """The same perceptron as `assay` calls it: features [n, 39] -> [n]."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.perceptron = Perceptron(number)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.perceptron({"features": features})
        return scores


def load(path: str, number: int) -> nn.Module:
    """The weights follow from the number; there is nothing to be read at the path."""
    return Numbered(number)
