"""A plain folder of files: what lies in it once the run is done is exactly what the run wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from assay.errors import DataError, RunError
from assay.records import PartFile
from assay.sinks.names import CLAIM, is_hidden, is_own
from assay.sinks.parts import PartWriter


@dataclass(frozen=True)
class FolderSink:
    """Parts under a folder that one run has to itself."""

    parts: PartWriter
    run: str

    def check(self, schema: pa.Schema) -> tuple[str, ...]:
        """As of its parts. DataError: partitions that readers of folders pass over."""
        notes = self.parts.check(schema)
        unseen = next((column for column in self.parts.partition_by if is_hidden(column)), None)
        if unseen is not None:
            raise DataError(
                f"partition_by names the column {unseen!r}, and readers pass over folders whose names begin with an "
                "underscore or a dot: they would find no rows. Take a column of another name, or write a Delta or "
                "Iceberg table."
            )
        return notes

    def begin(self, schema: pa.Schema) -> None:
        """RunError where the folder is another run's, or has files that a reader would take for predictions."""
        place = self.parts.place
        if place.exists(CLAIM):
            self._check_claim()
            return
        strangers = [path for path in place.list() if not is_hidden(path)]
        if strangers:
            raise RunError(
                f"{place.url} is not empty: it holds {strangers[0]!r}, which readers of the predictions would read "
                "too. Name another folder in predictions.to, or empty it."
            )
        place.put_new(CLAIM, json.dumps({"run": self.run}).encode())
        self._check_claim()

    def write(self, part: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[PartFile, ...]:
        return self.parts.write(part, schema, batches)

    def commit(self, parts: Sequence[PartFile], schema: pa.Schema) -> None:
        """Delete the parts that are not listed. RunError, with nothing deleted, where one that is listed is gone."""
        place = self.parts.place
        self._check_claim()
        found, listed = set(place.list()), {part.path for part in parts}
        gone = sorted(listed - found)
        if gone:
            raise RunError(
                f"{len(gone)} of {len(listed)} parts are not in {place.url} any more, the first is {gone[0]!r}. "
                "Someone has removed them; run again with another --out."
            )
        for path in sorted(found - listed):
            if is_own(path):
                place.delete(path)
        place.sweep()

    def _check_claim(self) -> None:
        place = self.parts.place
        owner = json.loads(place.get(CLAIM))["run"]
        if owner != self.run:
            raise RunError(
                f"{place.url} holds the predictions of another run ({owner}); this one is {self.run}. Name another "
                "folder in predictions.to."
            )
