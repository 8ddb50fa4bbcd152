"""The manifest of a run's predictions: what was written, file by file. Where it is, all of it is.

Not here: what is listed in it (`predict.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from assay.errors import RunError
from assay.records import ListedPart, PartFile, Predictions
from assay.spec.document import parse
from assay.spec.faults import located_faults
from assay.store.run import RunDirectory, as_json

MANIFEST = "predictions.json"
"""Beside the folder `predictions/`, and not in it: some readers of a folder stop at a file of another kind."""
VERSION = 1
INSIDE = "./"
"""What a place in the run directory begins with."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Column(_Strict):
    name: str
    type: str


class _Part(_Strict):
    unit: str
    path: str
    rows: int
    bytes: int
    digest: str
    partition: dict[str, str | None]


class _Manifest(_Strict):
    """What stands in the file."""

    version: Literal[1]
    run: str
    place: str
    format: str
    rows: int
    columns: list[_Column]
    parts: list[_Part]
    dead: dict[str, int]
    dead_place: str
    dead_parts: list[_Part]
    notes: list[str]


def save_manifest(directory: RunDirectory, found: Predictions) -> None:
    """Places in the run directory are kept relative to it, so that it may be moved."""
    url = f"{directory.store.url}/"

    def kept(place: str) -> str:
        return INSIDE + place.removeprefix(url) if place.startswith(url) else place

    moved = replace(found, place=kept(found.place), dead_place=kept(found.dead_place))
    directory.store.put(MANIFEST, as_json(_as_json(moved)))


def has_manifest(directory: RunDirectory) -> bool:
    return directory.store.exists(MANIFEST)


def unlisted(directory: RunDirectory) -> str:
    """A sentence, where a finished run was to write predictions and has no list of them; else ""."""
    spec = parse(directory.read("spec.yaml").decode(), {}).tree
    if not isinstance(spec, Mapping) or spec.get("predictions") is None or has_manifest(directory):
        return ""
    return (
        f"The run at {directory.place} has no {MANIFEST} any more, which lists the files of its predictions: nobody "
        f"can tell whether all of them are there. Have it written again with: assay resume {directory.place}"
    )


def read_manifest(directory: RunDirectory) -> Predictions:
    """RunError when there is none, or it cannot be read."""
    fields = directory.read_json(MANIFEST)

    def placed(place: str) -> str:
        return f"{directory.store.url}/{place.removeprefix(INSIDE)}" if place.startswith(INSIDE) else place

    try:
        found = _listed(_Manifest.model_validate(fields))
    except ValidationError as error:
        first = located_faults(_Manifest, fields, error)[0].fault
        raise RunError(
            f"{MANIFEST} of the run at {directory.place} is none that this version of assay wrote: {first} Have it "
            f"written again: remove it, then assay resume {directory.place}"
        ) from error
    return replace(found, place=placed(found.place), dead_place=placed(found.dead_place))


def run_id(directory: RunDirectory) -> str:
    """By which a table or folder knows the run again."""
    found = directory.read_json("environment.json").get("run")
    if not isinstance(found, str):
        raise RunError(f"The run at {directory.place} was begun by another version of assay. Start a new one.")
    return found


def _as_json(found: Predictions) -> dict[str, Any]:  # Any: JSON
    fields = asdict(found)
    for name in ("parts", "dead_parts"):
        fields[name] = [{"unit": one["unit"], **one["file"]} for one in fields[name]]
    fields["columns"] = [{"name": name, "type": kind} for name, kind in found.columns]
    return {"version": VERSION, **fields}


def _listed(found: _Manifest) -> Predictions:
    def parts(listed: Sequence[_Part]) -> tuple[ListedPart, ...]:
        return tuple(ListedPart(one.unit, PartFile(**one.model_dump(exclude={"unit"}))) for one in listed)

    return Predictions(
        **found.model_dump(include={"run", "place", "format", "rows", "dead", "dead_place"}),
        columns=tuple((one.name, one.type) for one in found.columns),
        parts=parts(found.parts),
        dead_parts=parts(found.dead_parts),
        notes=tuple(found.notes),
    )
