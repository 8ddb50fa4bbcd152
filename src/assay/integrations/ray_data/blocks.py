"""The blocks of a dataset that stay where they are, while models get their inputs and the number of each row.

Lives here: keeping the blocks and cutting the narrow dataset off them. Not here: the stage that appends (`late.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import ray
from ray import ObjectRef
from ray.data import Dataset

from assay.errors import DataError
from assay.integrations.ray_data.late import ROW_NUMBER, Numbers
from assay.integrations.ray_data.placement import LABELS_WHOLE_DATASETS

_TURN = threading.RLock()
"""Held while a dataset runs with other settings, which it shares with those that it was made of: threads take turns."""


@dataclass(frozen=True)
class Blocks:
    """All rows of a dataset in the object store, which spills what does not fit in memory to disk."""

    row_column: ClassVar[str] = ROW_NUMBER

    refs: tuple[ObjectRef[pa.Table], ...]
    schema: pa.Schema
    starts: Numbers

    def read_piece(self, piece: int, columns: Sequence[str]) -> pa.Table:
        """Without a copy where this process is on the block's node."""
        return ray.get(self.refs[piece]).select(list(columns))


def run(ds: Dataset, label_selector: Mapping[str, str]) -> Dataset:
    """The dataset that has run, on nodes with these labels; if empty, where Ray puts its tasks."""
    with _labelled(ds, label_selector) as before:
        kept: Dataset = ds.materialize()
    if LABELS_WHOLE_DATASETS:  # it has a copy of the options, made while they were changed
        kept.context.execution_options.label_selector = before
    return kept


def split(
    ds: Dataset,
    columns: Sequence[str],
    place: Mapping[str, Any],  # Any: Ray's own
) -> tuple[Dataset, Blocks]:
    """The dataset of these columns and the number of each row, and the blocks that hold all.

    ds: one that has run. place: Ray's arguments that say on which nodes wide blocks may be looked at; of these it takes
    the one where a block lies, if it can. DataError when the data have no rows, or a column of that name.
    """
    if place:
        place = {"scheduling_strategy": "DEFAULT", **place}  # not the placement group of who calls
    every = _arrow(ds, place.get("label_selector"))
    schemas = ray.get([_measure.options(**place).remote(ref) for ref in every])
    filled = [(ref, rows, schema) for ref, (rows, schema) in zip(every, schemas, strict=True) if rows]
    if not filled:
        raise DataError("The dataset has no rows, so there is nothing to score.")
    schema = filled[0][2]
    if ROW_NUMBER in schema.names:
        raise DataError(f"The dataset has a column {ROW_NUMBER!r}, which late=True needs for itself. Rename it.")
    starts = np.cumsum([0, *(rows for _, rows, _ in filled)])
    wanted = [name for name in dict.fromkeys(columns) if name in schema.names]
    narrow: list[Any] = [  # Any: Ray has two names for one type of reference
        _cut.options(**place).remote(ref, wanted, int(start))
        for (ref, _, _), start in zip(filled, starts[:-1], strict=True)
    ]
    cut = ray.data.from_arrow_refs(narrow)
    vars(cut.context).update(vars(ds.context.copy()))  # it has those of the process, without what was set for `ds`
    return cut, Blocks(tuple(ref for ref, _, _ in filled), schema, starts)


def _arrow(ds: Dataset, label_selector: Mapping[str, str] | None) -> list[Any]:  # Any: as above
    """The blocks as Arrow tables: Ray Data makes such of pandas frames, in tasks of its own.

    `to_arrow_refs` takes no arguments for these tasks: they get their labels from the dataset's execution options
    alone, so these are changed for the call. (Other tasks do not run in it: `ds` has run.)
    """
    with _labelled(ds, label_selector):
        return list(ds.to_arrow_refs())


@contextmanager
def _labelled(ds: Dataset, label_selector: Mapping[str, str] | None) -> Iterator[dict[str, str] | None]:
    """All tasks of the dataset ask for these labels for the time, where there are some and Ray Data can do so.

    Gives the labels that it asks for otherwise.
    """
    if not LABELS_WHOLE_DATASETS:
        yield None
        return
    options = ds.context.execution_options
    if not label_selector:
        yield options.label_selector
        return
    with _TURN:
        before, options.label_selector = options.label_selector, dict(label_selector)
        try:
            yield before
        finally:
            options.label_selector = before


@ray.remote
def _measure(block: pa.Table) -> tuple[int, pa.Schema]:
    return block.num_rows, block.schema


@ray.remote
def _cut(block: pa.Table, columns: list[str], start: int) -> pa.Table:
    numbers = pa.array(np.arange(start, start + block.num_rows))
    return block.select(columns).append_column(ROW_NUMBER, numbers)
