"""A plain folder of files: what lies in it once the run is done is exactly what the run wrote."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from assay.errors import DataError, RunError
from assay.records import EncodedRows, PartFile
from assay.sinks.names import claim_of, is_hidden, is_own, owner_of
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

    def stored(self, schema: pa.Schema) -> pa.Schema:
        return self.parts.format.form.stored(schema)

    def expect(self, schema: pa.Schema, floats: Collection[str]) -> frozenset[str]:
        self.begin(schema)
        return frozenset()

    def begin(self, schema: pa.Schema) -> None:
        """RunError where the folder is another run's, or has files that a reader would take for predictions."""
        place, claim = self.parts.place, claim_of(self.run)
        found = place.list()
        self._check_claims(found)
        if claim in found:
            return
        strangers = [path for path in found if not is_hidden(path)]
        if strangers:
            raise RunError(
                f"{place.url} is not empty: it holds {strangers[0]!r}, which readers of the predictions would read "
                "too. Name another folder in predictions.to, or empty it."
            )
        place.put_new(claim, b"")
        try:
            self._check_claims(place.list())  # of two that claim it at once, each sees the other
        except RunError:
            place.delete(claim)
            raise

    def write(self, part: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[PartFile, ...]:
        return self.parts.write(part, schema, batches)

    @property
    def splices(self) -> bool:
        return self.parts.splices

    def splice(
        self, part: str, schema: pa.Schema, rows: EncodedRows, own: Callable[[], pa.Table]
    ) -> tuple[PartFile, ...] | None:
        return self.parts.splice(part, schema, rows, own)

    def found(self) -> frozenset[str]:
        return frozenset(self.parts.place.list())

    def commit(self, parts: Sequence[PartFile], schema: pa.Schema) -> None:
        """Delete the parts that are not listed. RunError, with nothing deleted, where one that is listed is gone."""
        place = self.parts.place
        found, listed = set(place.list()), {part.path for part in parts}
        self._check_claims(found)
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

    def _check_claims(self, found: Iterable[str]) -> None:
        owners = [owner for path in found if (owner := owner_of(path)) not in (None, self.run)]
        if owners:
            raise RunError(
                f"{self.parts.place.url} holds the predictions of another run ({owners[0]}); this one is {self.run}. "
                "Name another folder in predictions.to, or remove that one with all that is in it."
            )
