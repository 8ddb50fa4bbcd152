"""A variant whose scores are already in the data: one column a task."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.errors import ModelError
from assay.models.fingerprint import describe_outputs, fingerprint
from assay.models.inputs import check_columns, decode, floats, is_number
from assay.models.outputs import Outputs, Scores, read_score, resolve_outputs
from assay.protocols import Predictor
from assay.spec.model import OutputSpec, VariantSpec


@dataclass(frozen=True)
class ColumnModel:
    """Reads each task's score from a column of numbers; null is a missing score."""

    name: str
    scores: Mapping[str, str]  # task -> column
    outputs: Outputs

    @classmethod
    def from_spec(cls, variant: VariantSpec, outputs: Mapping[str, OutputSpec], base: Path) -> ColumnModel:
        """`outputs`: the output of each task."""
        resolved = {task: OutputSpec(kind=spec.kind) for task, spec in resolve_outputs(variant, outputs).items()}
        column = variant.column
        scores = {task: column[task] if isinstance(column, dict) else str(column) for task in resolved}
        return cls(variant.name, scores, resolved)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.scores.values()))

    @property
    def fingerprint(self) -> str:
        return fingerprint("column", {"scores": dict(self.scores), "outputs": describe_outputs(self.outputs)})

    @property
    def batch_rows(self) -> None:
        return None

    def check(self, schema: pa.Schema) -> None:
        check_columns(self.name, self.columns, schema)
        for column in self.columns:
            kind = schema.field(column).type
            if not is_number(kind):
                raise ModelError(self.name, f"column {column!r} is of type {kind}; a score must be a number.")

    def load(self) -> Predictor:
        return self

    @property
    def preparation(self) -> Hashable:
        return "column", self.columns

    def prepare(self, table: pa.Table) -> dict[str, NDArray[np.floating]]:
        return {column: _score_column(table.column(column)) for column in self.columns}

    def score(self, prepared: dict[str, NDArray[np.floating]], rows: slice) -> dict[str, Scores]:
        return {
            task: read_score(self.name, task, spec, prepared[self.scores[task]][rows], rows.stop - rows.start)
            for task, spec in self.outputs.items()
        }


def _score_column(column: pa.ChunkedArray) -> NDArray[np.floating]:
    values = decode(column)
    if pa.types.is_float32(values.type):
        single: NDArray[np.float32] = values.to_numpy()
        return single
    return floats(values)
