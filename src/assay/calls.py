"""Calls of the user's code on the rows of one chunk: which rows go into one call, and what an error becomes.

Lives here: micro-batches, preparations that are made of them, and telling that memory was short. Not here: which
variant is called when, and what its scores become (`scoring.py`, `partial.py`).
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from assay.errors import AssayError, ModelError, PreparationError
from assay.protocols import Preparation
from assay.records import Rows
from assay.row_sample import MOST_ROWS, row_sample

Result = TypeVar("Result")
Make = Callable[[pa.Table], Any]  # Any: the user's own object

FEWER = 4
"""Rows that were too much for memory are taken in so many parts."""
_DEVICE_IS_FULL = re.compile(
    r"\b(CUDA|HIP|MPS)\b.*out of memory|can't allocate memory: you tried to allocate", re.DOTALL
)
"""In the message of an error: of torch and others on a GPU, and of torch on a CPU, where it is a mere RuntimeError."""


class NeedsRows(Exception):
    """What was made apart is too much for memory at once, and smaller pieces can only be made where the rows are."""


class MicroBatch(NamedTuple):
    """Rows that go into one call: those of positions first, ..., first + size - 1 that the filter has left."""

    rows: slice  # of the chunk
    first: int
    size: int

    @property
    def num_rows(self) -> int:
        return int(self.rows.stop - self.rows.start)


def micro_batches(rows: Rows, size: int | None) -> list[MicroBatch]:
    """The rows cut at positions first_row + k * size, whatever the filter dropped, without empty ones. None: uncut."""
    if not len(rows.positions):
        return []
    length = int(rows.positions[-1]) + 1 - rows.first_row
    return list(_cut(rows, slice(0, len(rows.positions)), rows.first_row, size or length))


def parts(rows: Rows, batch: MicroBatch, size: int) -> list[MicroBatch]:
    """A micro-batch cut into smaller ones from its own first position on, without empty ones."""
    return list(_cut(rows, batch.rows, batch.first, size))


def _cut(rows: Rows, whole: slice, first: int, size: int) -> Iterator[MicroBatch]:
    positions = rows.positions[whole]
    edges = np.arange(first, int(positions[-1]) + 1 + size, size)
    cuts = (whole.start + np.searchsorted(positions, edges)).tolist()
    for edge, start, stop in zip(edges.tolist(), cuts, cuts[1:], strict=False):
        if start < stop:
            yield MicroBatch(slice(start, stop), edge, size)


def place(rows: Rows, batch: MicroBatch) -> str:
    first, last = rows.positions[batch.rows.start], rows.positions[batch.rows.stop - 1]
    which = f"row {first}" if first == last else f"rows {first} to {last}"
    return f"It was given {which} of {rows.path}."


def sample(rows: Rows, batch: MicroBatch, columns: Iterable[str], row: int | None = None) -> str:
    """A few of its rows as JSON; `row`, of the batch, comes first."""
    named = [] if row is None else [batch.rows.start + row]
    first = range(batch.rows.start, min(batch.rows.start + MOST_ROWS, batch.rows.stop))
    return row_sample(rows.table, columns, [*named, *(one for one in first if one not in named)])


def guarded(name: str, what: str, call: Callable[[], Result]) -> Result:
    """What the user's code raises becomes a ModelError that says where."""
    try:
        return call()
    except (AssayError, NeedsRows):
        raise
    except BaseException as error:  # a model is the user's code and may raise anything
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f": {error}" if str(error) else ""
        message = f"{what} raised {type(error).__name__}{said} ({where.filename}, line {where.lineno})."
        raise ModelError(name, message) from error


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether it was raised, in the end, because memory was short, of this machine or of a device."""
    seen = set[int]()  # `raise error from error` is its own cause
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        names = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__}
        if isinstance(error, MemoryError) or "torch.OutOfMemoryError" in names or _DEVICE_IS_FULL.search(str(error)):
            return True
        error = error.__cause__
    return False


# ---- preparations ----------------------------------------------------------------------------------------------------


class Preparations:
    """The loaded preparations of one process."""

    def __init__(self, described: Iterable[Preparation]) -> None:
        """Builds each once. One that cannot be built fails whenever it is asked for."""
        self._described = {one.name: one for one in described}
        self._loaded = {name: _loaded(one) for name, one in self._described.items()}

    def batches(self, name: str, rows: Rows) -> list[MicroBatch]:
        return micro_batches(rows, self._described[name].batch_rows)

    def make(self, name: str, rows: Rows, batch: MicroBatch) -> Any:  # Any: the user's own object
        """What it makes of one micro-batch. PreparationError, which says of which rows."""
        loaded, preparation = self._loaded[name], self._described[name]
        if isinstance(loaded, PreparationError):
            raise loaded
        table = rows.table.slice(batch.rows.start, batch.num_rows)
        try:
            return protected(loaded(table))
        except PreparationError as error:
            failed = PreparationError(
                name,
                f"{error.message} {place(rows, batch)}",
                out_of_memory=is_out_of_memory(error),
                sample=sample(rows, batch, preparation.columns),
            )
        raise failed  # without its cause, whose frames would keep what was too much for memory

    def make_all(self, rows: Rows) -> dict[str, tuple[Any, ...]]:
        """By preparation, what it makes of each micro-batch; from the first that fails on, its error."""
        return {name: tuple(self._each(name, rows)) for name in self._described}

    def _each(self, name: str, rows: Rows) -> Iterator[Any]:
        failed: PreparationError | None = None
        for batch in self.batches(name, rows):
            try:
                yield failed or self.make(name, rows, batch)
            except PreparationError as error:
                failed = error
                yield error


def _loaded(preparation: Preparation) -> Make | PreparationError:
    try:
        return preparation.load()
    except PreparationError as error:
        return error


def protected(made: Any) -> Any:  # Any: the user's own object
    """Arrays are read-only, alone or in a dict: whoever changed one would change it for others too."""
    if isinstance(made, np.ndarray):
        made = made.view()
        made.flags.writeable = False
        return made
    if type(made) is dict:
        return {key: protected(one) if isinstance(one, np.ndarray) else one for key, one in made.items()}
    return made
