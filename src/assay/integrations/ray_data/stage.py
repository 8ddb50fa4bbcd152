"""What Ray Data calls with a block: models see their inputs, and their outputs are appended to the untouched table.

Lives here: one block in, the same rows out. Not here: which stages there are (`batches.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from assay.integrations.ray_data.columns import CarryOver, check_clash
from assay.integrations.ray_data.model_spec import Part
from assay.integrations.ray_data.outputs import Output, joined_batches, read_outputs
from assay.models.function import calling


class Leaving(NamedTuple):
    """Which columns leave a stage beside the outputs of its own models, and in which order."""

    carry_over: CarryOver  # of the columns that the data have
    needed: tuple[str, ...] = ()  # inputs of later stages
    earlier: tuple[str, ...] = ()  # outputs of earlier stages
    order: tuple[str, ...] | None = None  # of all outputs, in the last stage

    def columns(self, names: Sequence[str], outputs: Sequence[str]) -> list[str]:
        """Of the columns of a block, those that leave. DataError when an output has the name of one of them."""
        data = [name for name in names if name not in self.earlier]
        leaving = {*self.carry_over.chosen(data), *(name for name in data if name in self.needed)}
        check_clash(outputs, [name for name in data if name in leaving])
        return [name for name in names if name in leaving or name in self.earlier]


class Stage:
    """Holds the models of one actor or task."""

    def __init__(self, parts: Sequence[Part], leaving: Leaving) -> None:
        self._models = [(part, part.build()) for part in parts]
        self._leaving = leaving

    def __call__(self, block: pa.Table) -> pa.Table:
        """The block with the outputs appended; the columns that leave are the block's own memory."""
        if not block.num_columns:  # Ray Data's operators leave blocks without rows and columns
            return block
        outputs = [name for part, _ in self._models for name in part.output_names]
        leaving = self._leaving.columns(block.column_names, outputs)
        result = block.select(leaving)
        converted: dict[Hashable, Any] = {}  # Any: the form of each preparation
        for part, model in self._models:
            part.form.check(block.schema)
            if block.num_rows and part.form.preparation not in converted:
                converted[part.form.preparation] = part.form.convert(block)
            columns = _scored(part, model, converted.get(part.form.preparation), block)
            for output, column in zip(part.outputs, columns, strict=True):
                result = result.append_column(output.name, column)
        return self._in_order(result)

    def _in_order(self, result: pa.Table) -> pa.Table:
        order = self._leaving.order
        if order is None:
            return result
        return result.select([*(name for name in result.column_names if name not in order), *order])


def _scored(part: Part, model: Callable[[Any], object], converted: Any, block: pa.Table) -> Iterator[pa.Array]:
    """The columns of one model's outputs [n]; of no rows, they have the declared type or none."""
    num_rows = block.num_rows
    if not num_rows:
        yield from (_empty(output) for output in part.outputs)
        return
    described = f"the model, given {part.form.described(block.schema)},"
    batches = []
    for start in range(0, num_rows, part.batch_size):
        rows = slice(start, min(start + part.batch_size, num_rows))
        returned = calling(part.name, described, model, part.form.rows_of(converted, rows))
        batches.append(read_outputs(part.name, part.outputs, returned, rows.stop - rows.start))
    for output, *columns in zip(part.outputs, *batches, strict=True):
        yield joined_batches(part.name, output, columns)


def _empty(output: Output) -> pa.Array:
    return pa.array([], pa.null() if output.kind is None else output.kind)
