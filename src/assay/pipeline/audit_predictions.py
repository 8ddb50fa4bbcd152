"""The audit of a run's predictions: are the outputs, the files and the manifest what each other say?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from assay.errors import RunError
from assay.hashing import content_digest
from assay.merge import at_once
from assay.pipeline.manifest import MANIFEST, has_manifest, read_manifest
from assay.predicted import contents, digest
from assay.records import CommittedFile, ListedPart, Plan, Predictions
from assay.sinks.names import is_hidden
from assay.spec.model import Spec
from assay.spec.words import count, listing
from assay.store.folder import open_folder
from assay.store.log import Committed
from assay.store.run import RunDirectory

OBJECTS_AT_ONCE = 4
TABLES = ("delta", "iceberg")
"""Formats whose files the table lists: those that it does not are no predictions."""


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    passed: bool
    detail: str  # a sentence


def predictions_checks(directory: RunDirectory, spec: Spec, plan: Plan, committed: Committed) -> Iterator[Check]:
    """Of a run that writes what its variants give; none of another."""
    if not spec.predicts:
        return
    outputs, rows = _outputs(directory, plan, committed.files)
    yield outputs
    if not committed.finished or not outputs.passed:
        return
    if not has_manifest(directory):
        yield Check("predictions", False, f"Their manifest is missing. Write it with: assay resume {directory.place}")
        return
    try:
        said = spec.predictions
        all_are_written = said is not None and said.top_k is None
        parted_by = () if said is None else said.partition_by
        yield _files(read_manifest(directory), rows if all_are_written and not committed.lost else None, parted_by)
    except RunError as error:
        yield Check("predictions", False, str(error))


def _outputs(directory: RunDirectory, plan: Plan, files: Sequence[CommittedFile]) -> tuple[Check, int]:
    """Every object that a commit lists is what its name says and holds the units of its entry; the rows of all."""
    leading = {unit.id for unit in plan.units if unit.bundle == 0}

    def looked_into(file: CommittedFile) -> int | None:
        try:
            data = directory.read_outputs(file.predictions)
            spans = contents(pa.py_buffer(data), f"outputs/{file.predictions}.arrow").spans
        except RunError:
            return None
        held = {span.unit for span in spans} == {receipt.unit for receipt in file.receipts}
        whole = held and digest(data) == file.predictions
        return sum(span.num_rows for span in spans if span.unit in leading) if whole else None

    files = [file for file in files if file.receipts]
    found = list(at_once(looked_into, files, OBJECTS_AT_ONCE))
    wrong = [file.predictions for file, rows in zip(files, found, strict=True) if rows is None]
    if wrong:
        detail = f"{len(wrong)} of {count(len(files), 'object')} missing or altered: {wrong[0]}."
        return Check("outputs", False, detail), 0
    rows = sum(found)
    said = f"{count(len(files), 'object')} with the outputs of {count(rows, 'row')} are what names and commits say."
    return Check("outputs", True, said), rows


def _files(found: Predictions, rows: int | None, parted_by: Collection[str]) -> Check:
    """rows: that were scored; None where units were given up, whose rows nobody counted, or not all are written.
    parted_by: columns that are in the paths of files and not in them."""
    listed = sum(part.file.rows for part in found.parts)
    if listed != found.rows or rows not in (None, found.rows):
        scored = "" if rows is None else f" of {count(rows, 'scored row')}"
        return Check(
            "predictions", False, f"The manifest says {found.rows:,}{scored}, and lists files with {listed:,}."
        )
    names = [name for name, _ in found.columns if name not in parted_by] if found.format == "parquet" else None
    wrong = [] if found.format in TABLES else list(_wrong(found.place, found.parts, names))
    wrong += _wrong(found.dead_place, found.dead_parts)
    if wrong:
        remedy = f"To have all written again, remove {MANIFEST} of the run and resume it."
        return Check(
            "predictions", False, f"{count(len(wrong), 'file')} not as the manifest says: {wrong[0]}. {remedy}"
        )
    where = "their table has not been read" if found.format in TABLES else "there is no other"
    detail = f"{count(found.rows, 'row')} in {count(len(found.parts), 'file')} as the manifest lists them; {where}."
    return Check("predictions", True, detail)


def _wrong(url: str, parts: Sequence[ListedPart], names: Sequence[str] | None = None) -> Iterator[str]:
    """Files that are missing, altered, or not listed, in words; those that readers pass over are left out. names: of
    the columns that each has; None where they are not looked at."""
    place = open_folder(url, "audit")
    listed = {one.file.path: one.file for one in parts}
    there = {path for path in place.list() if not is_hidden(path)}
    yield from (f"{path} is missing" for path in sorted(listed.keys() - there))
    yield from (f"{path} is not listed" for path in sorted(there - listed.keys()))
    for path in sorted(listed.keys() & there):
        content = place.get(path)
        if content_digest([content]) != listed[path].digest:
            yield f"{path} was altered"
        elif names is not None and (own := pq.read_schema(pa.BufferReader(content)).names) != names:
            yield f"{path} has the columns {listing(own)} and not {listing(names)}"
