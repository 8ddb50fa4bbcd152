"""Rows to try a metric on: given ones, and seeded ones with all that may go wrong.

Axes: n rows, S slices, D slicing dimensions, B buckets, C classes or labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.records import Block, LabelKind, Sizes

CLASSES = ("ant", "bee", "cat", "two words", "never")
"""Of the rows that the laws are checked on: no row is of the last two classes, and the last is never predicted."""

SIZES = Sizes(num_slices=6, num_buckets=64, num_dimensions=3)
"""Sizes of the states that the laws are checked on; slice 5 has no rows."""

_SLICES_OF = ((0, 1), (1, 3), (3, 5))  # per dimension: first slice and the one after the last
_WEIGHT_LIMIT = 1 << 10


def random_block(
    rng: np.random.Generator,
    num_rows: int,
    label_kind: LabelKind | None = "binary",
    probability: bool = True,
    *,
    output: Literal["score", "label", "interval"] = "score",
    reference: bool = False,
    columns: Iterable[str] = (),
) -> Block:
    """Rows with ties, extreme scores, weights, three dimensions of slices and 64 buckets, within `SIZES`.

    probability: the output is a probability (with exact zeros and ones); else a plain score of any size and sign.
    output: "label" for predicted classes without a score, "interval" for a lower and an upper bound of a real label.
    reference: there is a baseline, which misses some rows. columns: names of columns of numbers, without nulls.
    With classes and labels there are as many as in `CLASSES`.
    """
    if label_kind in ("class", "labels"):
        score, label = _random_classes(rng, num_rows, label_kind, probability, output)
        reference_score = rng.integers(-1, len(CLASSES), num_rows).astype(np.float64)
    else:
        score = _random_scores(rng, (num_rows,), probability)
        plain = rng.normal(0.0, 2.0, num_rows) if label_kind == "real" else rng.random(num_rows) < 0.3
        label = plain.astype(np.float64)
        reference_score = _random_scores(rng, (num_rows,), probability)
        if output == "interval":
            score = np.stack([score, score + np.abs(_random_scores(rng, (num_rows,), probability))])
    block = make_block(
        score,
        label,
        label_kind=label_kind,
        probability=probability,
        weight=rng.integers(1, _WEIGHT_LIMIT, num_rows),
        slices=np.stack([rng.integers(first, last, num_rows) for first, last in _SLICES_OF]),
        bucket=rng.integers(0, SIZES.num_buckets, num_rows),
        columns={name: rng.normal(0.0, 3.0, num_rows) for name in columns},
    )
    if not reference:
        return block
    return replace(block, reference=np.where(rng.random(num_rows) < 0.1, np.nan, reference_score))


def make_block(
    score: ArrayLike,
    label: ArrayLike,
    *,
    label_kind: LabelKind | None = "binary",
    probability: bool = True,
    weight: ArrayLike | None = None,
    slices: ArrayLike | None = None,
    bucket: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    columns: Mapping[str, ArrayLike] | None = None,
) -> Block:
    """Rows with these scores and labels, to compare a metric with a second implementation.

    By default the scores are probabilities, every weight is 1, all rows are in slice 0 alone, and they are dealt to the
    64 buckets in turn. slices: [D, n], the first row all zeros. reference: [n], the baseline's score.

    One number a row: score [n], label [n]. An interval: score [2, n] (lower, upper), label [n]. Classes: score [C, n],
    or [n] for the numbers of predicted classes, with -1 for a class that is none of them; label [n], class numbers.
    Labels: score [C, n], label [C, n] of 0 and 1.

    >>> make_block([[0.2, 0.7], [0.8, 0.3]], [1, 1], label_kind="class").raw.tolist()  # two classes, two rows
    [1.0, 0.0]
    """
    scores, labels = np.asarray(score, np.float64) + 0.0, np.asarray(label, np.float64)
    num_rows, of_classes, targets = labels.shape[-1], label_kind in ("class", "labels"), None
    raw = scores
    outputs: NDArray[np.float32] | NDArray[np.float64] | None = None
    if label_kind == "labels":
        raw, outputs, targets, labels = np.zeros(num_rows), scores, labels.astype(np.uint8), np.zeros(num_rows)
    elif label_kind == "class" and scores.ndim == 2:
        raw = np.argmax(scores.astype(np.float32), axis=0).astype(np.float64)
        outputs = scores
    elif scores.ndim == 2:
        raw, outputs, probability = scores[0] / 2 + scores[1] / 2, scores, False
    with np.errstate(over="ignore"):  # past float32's range scores rank as infinite
        ranking = raw.astype(np.float32)
        outputs = outputs.astype(np.float32) if outputs is not None and of_classes else outputs
    chance = ranking if outputs is None else outputs.astype(np.float32).max(axis=0, initial=0.0)
    if label_kind == "class" and outputs is None:
        probability = False
    in_turn = np.arange(num_rows) % SIZES.num_buckets
    return Block(
        raw=raw,
        ranking=ranking,
        probability=chance if probability else None,
        label=labels,
        positive=np.zeros(num_rows, np.uint8) if of_classes else (labels != 0).astype(np.uint8),
        weight=np.asarray(np.ones(num_rows) if weight is None else weight, np.int64),
        slices=np.asarray(np.zeros((1, num_rows)) if slices is None else slices, np.int32),
        bucket=np.asarray(in_turn if bucket is None else bucket, np.int32),
        outputs=outputs,
        targets=targets,
        reference=None if reference is None else np.asarray(reference, np.float64),
        columns={name: np.asarray(column, np.float64) for name, column in (columns or {}).items()},
    )


def without_ties(block: Block) -> Block:
    """The same order of classes in each row, with scores that are all different: the lower class number first."""
    if block.outputs is None:
        return block
    order = np.argsort(-block.outputs, axis=0, kind="stable")
    rank = np.argsort(order, axis=0)
    return replace(block, outputs=(1.0 - (rank + 0.5) / len(rank)).astype(np.float32))


def reordered(block: Block, order: NDArray[np.int64]) -> Block:
    """The block with the classes in another order: the new class i is the old class order[i]."""
    number = np.append(np.argsort(order), -1).astype(np.float64)  # of each old class, and of none

    def renamed(classes: NDArray[np.float64]) -> NDArray[np.float64]:
        missing = np.isnan(classes)
        return np.where(missing, np.nan, number[np.where(missing, -1, classes).astype(np.int64)])

    if block.targets is not None:
        targets = np.ascontiguousarray(block.targets[order])
        return replace(block, outputs=_rows_of(block.outputs, order), targets=targets)
    raw = renamed(block.raw)
    return replace(
        block,
        raw=raw,
        ranking=raw.astype(np.float32),
        label=renamed(block.label),
        outputs=_rows_of(block.outputs, order),
        reference=None if block.reference is None else renamed(block.reference),
    )


def _random_scores(rng: np.random.Generator, shape: tuple[int, ...], probability: bool) -> NDArray[np.float64]:
    """Each representable as float32."""
    score = rng.beta(0.5, 1.5, shape) if probability else rng.normal(0.0, 3.0, shape)
    return np.where(rng.random(shape) < 0.5, np.round(score, 1), score).astype(np.float32).astype(np.float64)


def _random_classes(
    rng: np.random.Generator, num_rows: int, label_kind: LabelKind, probability: bool, output: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores and labels of the last two of `CLASSES` absent, as `make_block` takes them."""
    size = (len(CLASSES), num_rows)
    score = _random_scores(rng, size, probability)
    if label_kind == "labels":
        targets = rng.random(size) < np.array([0.5, 0.3, 0.1, 0.0, 0.0])[:, None]
        score[-1] = 0.0 if probability else -9.0
        return score, targets.astype(np.float64)
    label = rng.integers(0, len(CLASSES) - 2, num_rows)
    score[label, np.arange(num_rows)] += 0.5
    if probability:
        score[-1] = 0.0
        score /= np.maximum(score.sum(axis=0), 1.0)
    else:
        score[-1] = score.min(axis=0) - 1.0
    if output == "label":
        predicted = np.argmax(score, axis=0) if num_rows else np.zeros(0)
        return np.where(rng.random(num_rows) < 0.05, -1.0, predicted), label.astype(np.float64)
    return score, label.astype(np.float64)


def _rows_of(
    outputs: NDArray[np.float32] | NDArray[np.float64] | None, order: NDArray[np.int64]
) -> NDArray[np.float32] | None:
    return None if outputs is None else np.ascontiguousarray(outputs[order], np.float32)
