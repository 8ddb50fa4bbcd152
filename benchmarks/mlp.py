"""The model of the benchmark: a small multi-layer perceptron."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

FEATURES = [f"x{position}" for position in range(16)]
HIDDEN = 64


class Perceptron(nn.Module):
    """features [n, 16] -> logits [n]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(len(FEATURES), HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)
        )

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(features.float()).squeeze(-1)
        return logits


def load(path: str | Path | None) -> nn.Module:
    """The module with the weights of a file, or with random ones."""
    module = Perceptron().eval()
    if path is not None:
        module.load_state_dict(torch.load(path, weights_only=True))
    return module
