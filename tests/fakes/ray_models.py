"""Models for Ray Data's workers, which import this module: tests cannot send what they define themselves."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from assay.integrations.ray_data import ParquetRows


def double(batch: Mapping[str, Any]) -> Any:
    return batch["x"] * 2


class Scale:
    """The sum of a matrix's rows, times a factor."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, batch: Mapping[str, Any]) -> Any:
        return batch["features"].sum(1) * self.factor


class Linear(torch.nn.Module):
    """{"score": [n], "embedding": [n, 2]} of x [n]."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.5, 2.0]))

    def forward(self, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        embedding = batch["x"].float()[:, None] * self.weight
        return {"score": embedding.sum(1), "embedding": embedding}


def many(batch: Any, factor: float = 2.0) -> tuple[Any, ...]:
    """A score, an embedding, a list and a text of each row, whatever the format of the batch."""
    column = batch["x"]
    x = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column).astype(np.int64)
    embedding = torch.tensor(np.stack([x, x + 0.5], axis=1).astype(np.float32))
    return (x * factor).astype(np.float32), embedding, [[f"{n}"] * (n % 3) for n in x.tolist()], [f"n{n}" for n in x]


class Many:
    """The same; a batch without rows would be an error."""

    def __init__(self, factor: float = 2.0) -> None:
        self.factor = factor

    def __call__(self, batch: Any) -> tuple[Any, ...]:
        assert len(batch["x"])
        return many(batch, self.factor)


class Witness:
    """Says of each row which process scored it, and which columns were in that process's block."""

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        frame, seen = sys._getframe(), ""
        while frame is not None and not seen:
            block = frame.f_locals.get("block")
            seen = ",".join(block.column_names) if isinstance(block, pa.Table) else ""
            frame = frame.f_back  # type: ignore[assignment]  # None at the top, where the loop ends
        rows = len(batch["x"])
        return {"process": np.full(rows, os.getpid()), "seen": [seen] * rows}


class CountedRows(ParquetRows):
    """Notes each read of a row group: the process, and the columns."""

    notes = ""

    def at(self, notes: Path) -> CountedRows:
        object.__setattr__(self, "notes", str(notes))
        return self

    def read_piece(self, piece: int, columns: Sequence[str]) -> pa.Table:
        with open(self.notes, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {','.join(columns)}\n")
        return super().read_piece(piece, columns)
