"""A variant whose scores are already in the data: one column a task, or several of a task that takes several scores."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.errors import ModelError
from assay.models.fingerprint import describe_outputs, fingerprint
from assay.models.inputs import check_columns, decode, floats, is_number, matrix
from assay.models.outputs import Outputs, Scores, TaskOutput, read_score, resolve_outputs
from assay.protocols import Predictor
from assay.spec.model import OutputSpec, VariantSpec
from assay.spec.words import count, listing
from assay.value_names import is_list

Columns = str | tuple[str, ...]


@dataclass(frozen=True)
class ColumnModel:
    """Reads each task's score from a column of numbers; null is a missing score.

    Scores of several classes or labels, and intervals, are a column of lists or one column for each; predicted classes
    are a column of their values, predicted sets of labels one of lists or a column of 0 and 1 for each label.
    """

    name: str
    scores: Mapping[str, Columns]  # task -> column or columns
    outputs: Outputs

    @classmethod
    def from_spec(cls, variant: VariantSpec, outputs: Mapping[str, OutputSpec], base: Path) -> ColumnModel:
        """`outputs`: the output of each task. ModelError when there are not as many columns as classes."""
        resolved = resolve_outputs(variant, outputs)
        resolved = {task: spec.model_copy(update={"select": None}) for task, spec in resolved.items()}
        column = variant.column
        assert column is not None, "build takes the kind that is given"
        scores = {task: column[task] if isinstance(column, dict) else column for task in resolved}
        for task, spec in resolved.items():
            _check_number(variant.name, scores[task], spec)
        return cls(variant.name, scores, resolved)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for several in self.scores.values() for column in _listed(several)))

    @property
    def fingerprint(self) -> str:
        return fingerprint("column", {"scores": dict(self.scores), "outputs": describe_outputs(self.outputs)})

    @property
    def batch_rows(self) -> None:
        return None

    @property
    def num_bytes(self) -> int:
        return 0

    def check(self, schema: pa.Schema) -> None:
        check_columns(self.name, self.columns, schema)
        for task, columns in self.scores.items():
            for column in _listed(columns):
                self._check_type(column, schema.field(column).type, self.outputs[task], single=columns == column)

    def load(self) -> Predictor:
        return self

    @property
    def preparation(self) -> Hashable:
        return "column", self.columns

    def prepare(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        return {column: decode(table.column(column)) for column in self.columns}

    def score(self, prepared: dict[str, pa.ChunkedArray], rows: slice) -> dict[str, Scores]:
        num_rows = rows.stop - rows.start
        chosen = {name: column.slice(rows.start, num_rows) for name, column in prepared.items()}
        return {
            task: read_score(self.name, task, spec, _returned(self.scores[task], chosen, spec), num_rows)
            for task, spec in self.outputs.items()
        }

    def _check_type(self, column: str, kind: pa.DataType, output: OutputSpec, *, single: bool) -> None:
        several = isinstance(output, TaskOutput) or output.kind == "interval"
        if not single or not several:
            if not is_number(kind):
                raise ModelError(self.name, f"column {column!r} is of type {kind}; a score must be a number.")
        elif isinstance(output, TaskOutput) and output.several == "classes" and output.kind == "label":
            if pa.types.is_nested(kind):
                raise ModelError(self.name, f"column {column!r} is of type {kind}; a predicted class is one value.")
        elif not is_list(kind):
            hint = ""
            if isinstance(output, TaskOutput) and output.kind is None and output.several == "classes":
                hint = " If it holds the predicted classes, say output: {is: label}."
            raise ModelError(
                self.name,
                f"column {column!r} is of type {kind}; expected {_expected(output)}.{hint}",
            )


def _expected(output: OutputSpec) -> str:
    if not isinstance(output, TaskOutput):
        return "lists of two numbers, lower and upper, or a pair of columns"
    noun = "class" if output.several == "classes" else "label"
    if output.kind == "label":
        return "lists of labels, or a column of 0 and 1 for each label"
    return f"lists with a score for each {noun}, or a column for each"


def _check_number(variant: str, columns: Columns, output: OutputSpec) -> None:
    """There is a column for each class; where classes are not known yet, this is left for later."""
    names = output.names if isinstance(output, TaskOutput) else ("lower", "upper")
    if isinstance(columns, tuple) and names and len(columns) != len(names):
        raise ModelError(
            variant,
            f"column gives {count(len(columns), 'column')}; expected {len(names)}, one for each of {listing(names)}.",
        )


def _listed(columns: Columns) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else columns


def _returned(columns: Columns, prepared: Mapping[str, pa.ChunkedArray], output: OutputSpec) -> object:
    if isinstance(columns, tuple):
        single = all(pa.types.is_float32(prepared[column].type) for column in columns)
        return matrix([prepared[column] for column in columns], np.dtype(np.float32 if single else np.float64))
    column = prepared[columns]
    return column if isinstance(output, TaskOutput) or is_list(column.type) else _score_column(column)


def _score_column(column: pa.ChunkedArray) -> NDArray[np.floating]:
    if pa.types.is_float32(column.type):
        single: NDArray[np.float32] = column.to_numpy()
        return single
    return floats(column)
