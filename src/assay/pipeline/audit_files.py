"""Whether the files of predictions are those that a manifest lists: there, and with its content, columns and rows.

Not here: whether the manifest can be that of its run (`audit_manifest.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from assay.hashing import content_digest
from assay.protocols import Place
from assay.records import ListedPart, PartFile
from assay.sinks.inside import Column, Unreadable, inside
from assay.sinks.names import claim_of, is_hidden, owner_of
from assay.spec.words import count, listing

_EXTENSION = "extension<"
"""In the words for types that read as what they are stored as where this process does not know them."""
_OF_MAP = re.compile(r" \('.*?'\)(?=[,>])")
"""How Arrow names the keys and values of a map, which files do not keep."""


class Wrong(NamedTuple):
    """A file that is not as the manifest says."""

    what: str
    remedy: str


def wrong_files(place: Place, run: str, parts: Sequence[ListedPart], columns: Sequence[Column]) -> Iterator[Wrong]:
    """Files that are missing, altered, not listed, or another run's; those that readers pass over are left out.

    columns: that each file has.
    """
    found = place.list()
    listed = {one.file.path: one.file for one in parts}
    there = {path for path in found if not is_hidden(path)}
    again = _again(place, run, unclaimed=bool(there) and claim_of(run) not in found)
    yield from (Wrong(f"{path} is missing", again) for path in sorted(listed.keys() - there))
    for path in sorted(listed.keys() & there):
        what = _wrong(place.get(path), listed[path], columns)
        if what is not None:
            yield Wrong(what, again)
    for path in sorted(there - listed.keys()):
        yield Wrong(f"{path} is not listed", f"Move it out of {place.url}, whose readers read it too.")
    for path in found:
        if owner_of(path) not in (None, run):
            remedy = f"Remove {path} if that run is gone, else write its predictions to another folder."
            yield Wrong(f"{path} in {place.url} says that the folder is of another run, not of {run!r}", remedy)


def _again(place: Place, run: str, *, unclaimed: bool) -> str:
    """How all is written again, into a folder that the run does not take for another's."""
    claim = f"put an empty file {claim_of(run)} into {place.url}, " if unclaimed else ""
    return f"To have all written again, {claim}remove predictions.json of the run and resume it."


def _wrong(content: bytes, file: PartFile, columns: Sequence[Column]) -> str | None:
    path = file.path
    if content_digest([content]) != file.digest:
        return f"{path} was altered"
    if len(content) != file.bytes:
        return f"{path} has {len(content):,} bytes and not {file.bytes:,}"
    try:
        found = inside(content, path)
    except Unreadable as error:
        reason = str(error).split("\n")[0].rstrip(".")
        return f"{path} cannot be read ({reason})"
    names, expected = [name for name, _ in found.columns], [name for name, _ in columns]
    if names != expected:
        return f"{path} has the columns {listing(names)} and not {listing(expected)}"
    for (name, own), (_, kind) in zip(found.columns, columns, strict=True):
        if own is None or kind is None or _EXTENSION in own + kind:
            continue
        if _OF_MAP.sub("", own) != _OF_MAP.sub("", kind):
            return f"{path} has the column {name!r} of type {own} and not {kind}"
    if found.rows != file.rows:
        return f"{path} has {count(found.rows, 'row')} and not {file.rows:,}"
    return None
