"""What a spec says of a table with versions, for the sources that read its files themselves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from assay.errors import Fault, SpecError
from assay.spec.model import DataSpec
from assay.spec.names import offer


class Table(NamedTuple):
    place: str  # absolute
    version: int | None  # None: the latest


def table_of(data: DataSpec, base: Path) -> Table:
    """SpecError for other settings than a version."""
    assert isinstance(data.path, str), "the spec's own checks refuse lists and nothing"
    version = data.settings.get("version")
    faults = [
        Fault(
            f"data.settings.{name}", f"the reader {data.reader!r} takes no {name!r} on a disk{offer(name, ['version'])}"
        )
        for name in data.settings
        if name != "version"
    ]
    if version is not None and (not isinstance(version, int) or isinstance(version, bool)):
        faults.append(Fault("data.settings.version", f"got {version!r}; expected a whole number."))
    if faults:
        raise SpecError(faults)
    assert version is None or isinstance(version, int), "checked above"
    return Table(os.path.abspath(os.path.join(base, os.path.expanduser(data.path))), version)
