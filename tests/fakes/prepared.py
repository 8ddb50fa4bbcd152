"""A preparation for tests with real data, and models that receive what it makes, or make it themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

WORDS = 4
"""Of a text, that are taken: a shorter one ends with id 0."""


class Tokens:
    """{ids [n, 4], length [n], user [n]} of a table with `text` and `user`: 1 is a word that the vocabulary lacks.

    log: a file that gets a line for each call: the process, the first user, the number of rows.
    """

    def __init__(self, vocabulary: str, log: str = "") -> None:
        words = Path(vocabulary).read_text().split()
        self._ids = {word: number for number, word in enumerate(words, start=2)}
        self._log = log

    def __call__(self, table: pa.Table) -> dict[str, np.ndarray]:
        if self._log:
            with Path(self._log).open("a") as log:
                log.write(f"{os.getpid()} {table['user'][0]} {table.num_rows}\n")
        texts = [(text or "").split()[:WORDS] for text in table["text"].to_pylist()]
        ids = np.zeros((len(texts), WORDS), np.int32)
        for row, words in enumerate(texts):
            ids[row, : len(words)] = [self._ids.get(word, 1) for word in words]
        return {
            "ids": ids,
            "length": np.array([len(words) for words in texts], np.float64),
            "user": table["user"].to_numpy() / 100,
        }


class Bag(torch.nn.Module):
    """Logits: means of embeddings, and a term that depends on the other rows of the batch."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        chance = torch.Generator().manual_seed(seed)
        self.embedding = torch.nn.Parameter(torch.randn(16, 3, generator=chance))
        self.out = torch.nn.Parameter(torch.randn(3, generator=chance))

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        means = self.embedding[inputs["ids"]].mean(dim=1)
        return means @ self.out + inputs["user"] - inputs["length"].mean()


class Named(Bag):
    """The same with its inputs as arguments."""

    def forward(self, ids: torch.Tensor, length: torch.Tensor, user: torch.Tensor) -> torch.Tensor:
        return super().forward({"ids": ids, "length": length, "user": user})


class Whole(Bag):
    """The same, that makes its tokens itself."""

    def __init__(self, seed: int, vocabulary: str) -> None:
        super().__init__(seed)
        self._tokens = Tokens(vocabulary)

    def forward(self, table: pa.Table) -> torch.Tensor:
        made = self._tokens(table)
        tensors = {name: torch.from_numpy(one.astype(np.float32)) for name, one in made.items() if name != "ids"}
        return super().forward({**tensors, "ids": torch.from_numpy(made["ids"].astype(np.int64))})


def bag(path: str) -> Bag:
    return Bag(int(Path(path).read_text()))


def named(path: str) -> Named:
    return Named(int(Path(path).read_text()))


def whole(path: str, vocabulary: str) -> Whole:
    return Whole(int(Path(path).read_text()), vocabulary)


def rule(inputs: Mapping[str, np.ndarray], unknown: float) -> np.ndarray:
    """Logits: how many words are known, and a term that depends on the other rows of the batch."""
    ids = inputs["ids"]
    return (ids > 1).sum(axis=1) + unknown * (ids == 1).sum(axis=1) - inputs["length"].mean()


def small(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """The number of known words, with memory for two rows at once."""
    if len(inputs["ids"]) > 2:
        raise MemoryError("no more than two rows")
    return (inputs["ids"] > 1).sum(axis=1)


def whole_rule(table: pa.Table, vocabulary: str, unknown: float) -> Any:
    return rule(Tokens(vocabulary)(table), unknown)
