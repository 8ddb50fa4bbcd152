"""The audit of a run's predictions: are the outputs, the files and the manifest what each other say?

Lives here: in which order they are compared. Not here: what the outputs say (`audit_outputs.py`), the manifest
(`audit_manifest.py`) and the files (`audit_files.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from assay.errors import RunError
from assay.pipeline.apart import TABLES
from assay.pipeline.audit_files import Wrong, wrong_files
from assay.pipeline.audit_manifest import Stretches, manifest_faults
from assay.pipeline.audit_outputs import Found, read_again
from assay.pipeline.columns import DEAD, PROVENANCE
from assay.pipeline.dead_letters import DEAD_LETTER
from assay.pipeline.manifest import MANIFEST, has_manifest, read_manifest
from assay.pipeline.top_k import ADDED
from assay.records import Plan, Predictions
from assay.sinks.inside import Column
from assay.spec.model import PredictionsSpec, Spec
from assay.spec.words import count
from assay.spec.written import written
from assay.store.folder import open_folder
from assay.store.log import Committed
from assay.store.run import RunDirectory


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    passed: bool
    detail: str  # a sentence


def predictions_checks(directory: RunDirectory, spec: Spec, plan: Plan, committed: Committed) -> Iterator[Check]:
    """Of a run that writes what its variants give; none of another."""
    said = spec.predictions
    if said is None:
        return
    files = [file for file in committed.files if file.receipts]
    found = read_again(directory, spec, plan, files)
    yield _outputs(found, len(files))
    if not committed.finished or found.wrong:
        return
    if not has_manifest(directory):
        yield Check("predictions", False, f"Their manifest is missing. Write it with: assay resume {directory.place}")
        return
    try:
        yield _predictions(directory, spec, said, found.stretches)
    except RunError as error:
        yield Check("predictions", False, str(error))


def _outputs(found: Found, number: int) -> Check:
    """Every object that a commit lists is what its name says and holds the units of its entry."""
    if found.wrong:
        return Check(
            "outputs",
            False,
            f"{len(found.wrong)} of {count(number, 'object')} missing or altered: outputs/{found.wrong[0]}.arrow. "
            "Put it back from a copy, or start a new run in another directory: this one scores no unit again.",
        )
    said = f"{count(number, 'object')} with the outputs of {count(found.rows, 'row')} are what names and commits say."
    return Check("outputs", True, said)


def _predictions(directory: RunDirectory, spec: Spec, said: PredictionsSpec, stretches: Stretches) -> Check:
    manifest = read_manifest(directory)
    fault = next(manifest_faults(directory, manifest, said, stretches), None)
    if fault is not None:
        remedy = f"To have all written again, remove {MANIFEST} of the run and resume it."
        return Check("predictions", False, f"{MANIFEST} {fault}. {remedy}")
    wrong = list(_wrong(manifest, spec, said))
    if wrong:
        detail = f"{count(len(wrong), 'file')} not as the manifest says: {wrong[0].what}. {wrong[0].remedy}"
        return Check("predictions", False, detail)
    where = "their table has not been read" if said.format in TABLES else "there is no other"
    rows = f"{count(manifest.rows, 'row')} in {count(len(manifest.parts), 'file')}"
    return Check("predictions", True, f"{rows} as the manifest lists them; {where}.")


def _wrong(manifest: Predictions, spec: Spec, said: PredictionsSpec) -> Iterator[Wrong]:
    if said.format not in TABLES:
        columns = [(name, kind) for name, kind in manifest.columns if name not in said.partition_by]
        yield from wrong_files(open_folder(manifest.place, "audit"), manifest.run, manifest.parts, columns)
    dead_place = open_folder(manifest.dead_place, "audit")
    for one in wrong_files(dead_place, manifest.run, manifest.dead_parts, _dead_columns(manifest, spec, said)):
        yield Wrong(f"{DEAD_LETTER}/{one.what}", one.remedy)


def _dead_columns(manifest: Predictions, spec: Spec, said: PredictionsSpec) -> list[Column]:
    """Dead letters carry over what the predictions do, in the types of Parquet."""
    given = ADDED if said.top_k is not None else [one.name for one in written(spec, said)]
    own = {*given, *(field.name for field in PROVENANCE)}
    carried = [(name, kind if said.format == "parquet" else None) for name, kind in manifest.columns if name not in own]
    return [*((field.name, str(field.type)) for field in DEAD), *carried]
