"""The entries of a commit log, and how they are read: one by one, or a thousand at once from a volume.

Lives here: an entry as bytes, with a digest over all of it, and the reading of a whole log. Not here: who may append
(`log.py`).

A volume holds VOLUME consecutive entries, byte for byte, a line each. It says nothing that they don't: it only makes a
long log quick to read, which in a bucket would take a call for each entry. One that is damaged is passed over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from assay.errors import RunError
from assay.records import CommittedFile, Receipt
from assay.store.process import Process
from assay.store.run import RunDirectory

VOLUME = 1000
_DIGEST = b',"digest":"'
MOST_SORTED = 900_000
"""Paths of entries sort like their numbers up to here, and well beyond the next volume."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of commits/."""

    number: int  # from 1, without gaps
    kind: Literal["takeover", "commit", "finish"]
    driver: str
    process: Process
    files: tuple[CommittedFile, ...] = ()
    lost: tuple[str, ...] = ()  # units given up
    head: Mapping[str, str] = field(default_factory=dict)  # of the first commit: digest of each file of the head


def read_entries(run: RunDirectory, known: Sequence[Entry] = (), *, volumes: bool = True) -> tuple[Entry, ...]:
    """The whole log in order. RunError names an entry that is missing or cannot be read.

    known: its beginning, where that has been read before. volumes: False reads every entry itself, for an audit.
    """
    entries = list(known)
    if volumes and not entries:
        entries += _read_volumes(run)
    after = entry_path(len(entries)) if 0 < len(entries) < MOST_SORTED else None
    paths = sorted(run.store.list("commits", after), key=lambda path: (len(path), path))  # past 999,999 too
    paths = [path for path in paths if (len(path), path) > (len(entry_path(len(entries))), entry_path(len(entries)))]
    for number, path in enumerate(paths, start=len(entries) + 1):
        if path != entry_path(number):
            raise RunError(f"{entry_path(number)} is missing from the run at {run.place}, though {path} is there.")
    return (*entries, *(_checked(run, path, data) for path, data in zip(paths, run.store.get_many(paths), strict=True)))


def read_entry(run: RunDirectory, number: int) -> Entry:
    """RunError when it is not there, or torn."""
    return _checked(run, entry_path(number), run.store.get(entry_path(number)))


def save_volume(run: RunDirectory, entries: Sequence[Entry]) -> None:
    """The volume that ends with the last of these entries; again, it is the same object."""
    number = len(entries) // VOLUME
    lines = [encode(entry) for entry in entries[(number - 1) * VOLUME : number * VOLUME]]
    run.store.put_new(_volume_path(number), b"".join(lines))


def save_missing_volumes(run: RunDirectory, entries: Sequence[Entry]) -> None:
    """Of which a driver died before it wrote them."""
    there = set(run.store.list("volumes")) if len(entries) >= VOLUME else set()
    for number in range(1, len(entries) // VOLUME + 1):
        if _volume_path(number) not in there:
            save_volume(run, entries[: number * VOLUME])


def entry_path(number: int) -> str:
    return f"commits/{number:06d}.json"


def encode(entry: Entry) -> bytes:
    """A line of JSON; its last key is the digest of all before it."""
    fields = asdict(entry)
    if not entry.head:
        del fields["head"]
    for file in fields["files"]:
        if not file["predictions"]:
            del file["predictions"]
    for receipt in (receipt for file in fields["files"] for receipt in file["receipts"]):
        for name in ("deviations", "missed"):
            if not receipt[name]:
                del receipt[name]
    body = json.dumps(fields, separators=(",", ":")).encode().removesuffix(b"}")
    return body + _DIGEST + _digest(body) + b'"}\n'


def _read_volumes(run: RunDirectory) -> list[Entry]:
    """The entries of all volumes from the first one on; fewer where one is missing or damaged."""
    paths = [_volume_path(number) for number in range(1, len(run.store.list("volumes")) + 1)]
    there = [path for path, listed in zip(paths, run.store.list("volumes"), strict=True) if path == listed]
    entries: list[Entry] = []
    for data in run.store.get_many(there, at_once=8):
        try:
            entries += [_decode(line, len(entries) + place) for place, line in enumerate(_lines(data), start=1)]
        except (ValueError, TypeError, KeyError, AttributeError):
            break
    return entries


def _lines(volume: bytes) -> list[bytes]:
    lines = volume.splitlines()
    if len(lines) != VOLUME:
        raise ValueError(f"{len(lines)} entries")
    return lines


def _volume_path(number: int) -> str:
    return f"volumes/{number:06d}.jsonl"


# ---- an entry as bytes -----------------------------------------------------------------------------------------------


def _checked(run: RunDirectory, path: str, data: bytes) -> Entry:
    try:
        return _decode(data, int(path.removeprefix("commits/").removesuffix(".json")))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunError(
            f"{path} in the run at {run.place} is torn or not an entry of a commit log ({error}). Do not go "
            "on with this run, start a new one."
        ) from error


def _decode(data: bytes, number: int) -> Entry:
    body, _, digest = data.rpartition(_DIGEST)
    if digest.rstrip(b"\n") != _digest(body) + b'"}':
        raise ValueError("its digest is not that of its content")
    fields = json.loads(body + b"}")
    files = [
        CommittedFile(one["file"], tuple(map(_receipt, one["receipts"])), one.get("predictions", ""))
        for one in fields.pop("files")
    ]
    process = Process(**fields.pop("process"))
    entry = Entry(files=tuple(files), process=process, lost=tuple(fields.pop("lost")), **fields)
    if entry.number != number or entry.kind not in ("takeover", "commit", "finish"):
        raise ValueError(f"it says that it is {entry.kind} {entry.number}")
    return entry


def _receipt(fields: dict[str, Any]) -> Receipt:  # Any: JSON, the record's own constructor refuses what does not fit
    several = {name: tuple(fields.get(name, ())) for name in ("failed", "deviations")}
    return Receipt(**{**fields, **several})


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:32].encode()
