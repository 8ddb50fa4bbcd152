"""What models receive of a chunk: inputs that several share, made once; what other variants gave; preparations.

Not here: the micro-batches themselves (`calls.py`), and who is called when (`scoring.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from assay.calls import MicroBatch, NeedsRows, Preparations, protected
from assay.errors import PreparationError
from assay.protocols import Predictor
from assay.records import Rows

Clock = Callable[[], float]


class Inputs:
    """The rows of one chunk, prepared once for all models that receive the same."""

    def __init__(self, rows: Rows, clock: Clock = time.monotonic) -> None:
        self.rows = rows
        self.seconds: dict[Hashable, float] = {}  # that each preparation took
        self._clock = clock
        self._prepared: dict[Hashable, Any] = {}  # Any: each model's own form

    @property
    def num_seconds(self) -> float:
        return sum(self.seconds.values())

    def add(self, name: str, values: pa.Array) -> None:
        """A column [n] that models may read from now on."""
        table = self.rows.table
        # a table without columns does not keep its number of rows on the way from a preparation's task
        added = table.append_column(name, values) if table.num_columns else pa.table({name: values})
        self.rows = replace(self.rows, table=added)

    def has(self, predictor: Predictor) -> bool:
        return predictor.preparation in self._prepared

    def of(self, predictor: Predictor) -> Any:  # Any: as above
        key = predictor.preparation
        if key not in self._prepared:
            started = self._clock()
            self._prepared[key] = predictor.prepare(self.rows.table)
            self.seconds[key] = self._clock() - started
        return self._prepared[key]


class Making:
    """What one preparation makes of a chunk: a micro-batch at a time, once for all variants that receive it."""

    def __init__(self, preparations: Preparations, name: str, rows: Rows, clock: Clock) -> None:
        self.seconds = 0.0
        self._preparations = preparations
        self._name = name
        self._rows = rows
        self._clock = clock
        self._made: dict[tuple[int, int], Any] = {}  # Any: the user's own object, or a PreparationError
        self._apart: dict[tuple[int, int], Any] | None = None  # None: it is made here
        if name in rows.prepared:
            batches = preparations.batches(name, rows)
            self._apart = {_key(one): made for one, made in zip(batches, rows.prepared[name], strict=True)}

    def score(self, predictor: Predictor, batch: MicroBatch) -> Mapping[str, Any]:  # Any: as a predictor gives it
        """PreparationError where what it receives cannot be made."""
        made = self._here(batch) if self._apart is None else self._made_apart(batch)
        if isinstance(made, PreparationError):
            raise made
        return predictor.score(made, slice(0, batch.num_rows))

    def forget(self) -> None:
        """What was made so far is not asked for again."""
        self._made.clear()

    def _made_apart(self, batch: MicroBatch) -> Any:  # Any: as above
        assert self._apart is not None
        if _key(batch) not in self._apart:
            raise NeedsRows
        return protected(self._apart[_key(batch)])

    def _here(self, batch: MicroBatch) -> Any:  # Any: as above
        if _key(batch) not in self._made:
            started = self._clock()
            self._made[_key(batch)] = self._make(batch)
            self.seconds += self._clock() - started
        return self._made[_key(batch)]

    def _make(self, batch: MicroBatch) -> Any:  # Any: as above
        try:
            return self._preparations.make(self._name, self._rows, batch)
        except PreparationError as error:
            return error


def _key(batch: MicroBatch) -> tuple[int, int]:
    return batch.first, batch.size
