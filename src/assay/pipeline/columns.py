"""What the columns of the predictions are: carried over, provenance, outputs; and of the dead letters.

Lives here: their names and types, as processes that only join need them. Not here: what a spec asks for
(`declared.py`), reading and writing rows (`join.py`), formats (`sinks/`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from assay.predicted import Key, key, widest

FILE, ROW = "_file", "_row"
PROVENANCE = (pa.field(FILE, pa.string()), pa.field(ROW, pa.int64()))
"""The path of a row's file as units have it, and the row's position in the file."""
VARIANT, REASON = "_variant", "_reason"
DEAD = (pa.field(VARIANT, pa.string()), pa.field(REASON, pa.string()), *PROVENANCE)
"""What a dead letter says beside the columns that are carried over."""
CLASSES = b"assay.classes"
"""Metadata of an output with a score for each class or label: their names, a JSON list, in the order of the scores."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the predictions that a variant gave."""

    key: Key
    name: str
    kind: pa.DataType
    classes: tuple[str, ...] = ()  # where it is a list with a score for each
    is_score: bool = True
    chosen: bool = False  # its type, by the spec

    @property
    def field(self) -> pa.Field:
        metadata = {CLASSES: json.dumps(self.classes, ensure_ascii=False)} if self.classes else None
        return pa.field(self.name, self.kind, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Columns:
    """All columns of the predictions, in their order."""

    carried: tuple[pa.Field, ...]  # as the source has them
    provenance: bool
    outputs: tuple[OutputColumn, ...]
    metadata: Mapping[bytes, bytes] | None  # of the source's schema

    @property
    def own(self) -> tuple[pa.Field, ...]:
        """Those that are not carried over."""
        return (*(PROVENANCE if self.provenance else ()), *(one.field for one in self.outputs))

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.carried, *self.own], self.metadata)

    @property
    def dead_schema(self) -> pa.Schema:
        return pa.schema([*DEAD, *self.carried], self.metadata)

    def with_types(self, found: Mapping[str, Sequence[pa.DataType]], kept: Collection[str] = ()) -> Columns:
        """The same, with outputs of the types that variants gave. found: by `predicted.key`; kept: names of outputs
        whose types stay."""
        outputs = tuple(
            replace(one, kind=widest(found[key(*one.key)])) if key(*one.key) in found and one.name not in kept else one
            for one in self.outputs
        )
        return Columns(self.carried, self.provenance, outputs, self.metadata)
