"""What several calls of a variant gave for a chunk, put together: scores, other outputs, and why rows have none; and
the form in which predictions keep it.

Not here: the calls (`scoring.py`), and whether a model may give such a thing (`models/outputs.py`).

Axes: n rows of a chunk, C classes or labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.errors import ModelError
from assay.predicted import REASON, as_output, joined_values, misfits
from assay.records import Rows
from assay.spec.model import NO_SCORE, ScoreType
from assay.task_scores import Layout, Scores

TYPES = "predictions.types"
Returned = Mapping[str, Any]
"""Any: scores as numpy has them, and other outputs as Arrow arrays."""
More = Mapping[str, pa.DataType]
"""The types of a variant's other outputs, by name; the size of a list may be left open."""


class Given(NamedTuple):
    """What a variant made of the n rows of a chunk."""

    scores: Scores
    more: Mapping[str, pa.Array]  # [n] each: its other outputs, by name
    reasons: Mapping[int, str]  # why rows have none: by their place in the chunk


def whole(name: str, layout: Layout, more: More, found: Sequence[Returned | str]) -> Given:
    """What calls gave, in their order; a text stands for one row, and says why that has no outputs.

    ModelError where outputs are of several types.
    """
    known = [part for part in found if not isinstance(part, str)]
    scores: dict[str, NDArray[np.floating[Any]]] = {}
    for task in (task for task, variant in layout.outputs if variant == name):
        like = known[0][task] if known else _no_scores(task, name, layout)
        missing = np.full((1, *like.shape[1:]), np.nan, like.dtype)
        parts = [missing if isinstance(part, str) else part[task] for part in found]
        scores[task] = np.concatenate(parts or [np.zeros(0)])
    values: dict[str, pa.Array] = {}
    for one, kind in more.items() if found else ():
        null = pa.nulls(1, known[0][one].type if known else kind)
        values[one] = joined_values(name, one, [null if isinstance(part, str) else part[one] for part in found])
    return Given(scores, values, _places(found) if len(known) < len(found) else {})


def as_kept(
    name: str, given: Given, rows: Rows, layout: Layout, types: Mapping[tuple[str, str], ScoreType], *, tolerant: bool
) -> dict[str, pa.Array]:
    """What a variant made of a chunk, by output, as predictions keep it. types: of scores, by (variant, task), where
    the spec chooses.

    A score that such a type cannot hold is null and has a reason where that is tolerated, else a ModelError.
    """
    kept: dict[str, pa.Array] = {}
    reasons = dict(given.reasons)
    if not len(rows.positions):
        return kept
    for task, scores in given.scores.items():
        kind, chosen = layout.outputs[task, name], types.get((name, task))
        if kind == NO_SCORE:
            continue
        wrong = np.zeros(scores.shape, np.bool_) if chosen is None else misfits(scores, chosen)
        if chosen is not None and wrong.any():
            if not tolerant:
                raise _misfit(name, scores, wrong, chosen, rows)
            for row, *place in reversed(np.argwhere(wrong).tolist()):  # the first of a row is what is told of it
                reasons[row] = f"the score {scores[(row, *place)]} is none that {chosen} can hold ({TYPES})."
            scores = np.where(wrong, np.nan, scores)
        kept[task] = as_output(scores, kind, layout.tasks.get(task), chosen)
    # the type of what is all null may not be known
    kept |= {output: values for output, values in given.more.items() if values.null_count < len(values)}
    if reasons:
        kept[REASON] = pa.array([reasons.get(row) for row in range(len(rows.positions))])
    return kept


def _misfit(
    name: str, scores: NDArray[np.floating[Any]], wrong: NDArray[np.bool_], chosen: ScoreType, rows: Rows
) -> ModelError:
    place = np.argwhere(wrong)[0]
    cure = "choose float64" if chosen == "float32" else "choose a float type, or have the model round"
    return ModelError(
        name,
        f"the score {scores[tuple(place)]} is none that {chosen} can hold ({TYPES}); {cure}. "
        f"In the data that is row {rows.positions[place[0]]} of {rows.path}.",
    )


def _no_scores(task: str, name: str, layout: Layout) -> NDArray[np.float32]:
    """[0], or [0, C], in the type that makes no other wider."""
    kind, of = layout.outputs[task, name], layout.tasks.get(task)
    if kind == "interval":
        return np.zeros((0, 2), np.float32)
    is_plain = kind == NO_SCORE or of is None or not of.classes or (kind == "label" and of.label_kind == "class")
    return np.zeros(0 if is_plain or of is None else (0, len(of.classes)), np.float32)


def _places(found: Sequence[Returned | str]) -> dict[int, str]:
    """The texts, by the row of the chunk that each stands for."""
    places: dict[int, str] = {}
    row = 0
    for part in found:
        if isinstance(part, str):
            places[row] = part
        row += 1 if isinstance(part, str) else len(next(iter(part.values())))
    return places
