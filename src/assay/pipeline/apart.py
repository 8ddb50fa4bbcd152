"""What is written must lie apart from the data: the next run would read it as rows.

Not here: what is written where (`predict.py`, `store/run.py`), and which files are data (`sources/files.py`).
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from assay.errors import Fault, RunError, SpecError
from assay.sinks.names import is_hidden
from assay.spec.model import DataSpec, PredictionsSpec, Spec
from assay.store.place import locate

PREDICTIONS = "predictions"
"""Where in the run directory they are, unless the spec names another place."""
TABLES = ("delta", "iceberg")
"""Formats whose files the table lists: those that it does not are no predictions."""
WITHOUT_FOLDER = ("iceberg",)
"""Formats whose `to` is the name of a table."""
FILES_OF_A_RUN = ("plan.parquet", "results/metrics.parquet")


def check_apart(spec: Spec, base: Path, out: str | Path) -> None:
    """SpecError where the run directory is among the data, or among the predictions. RunError when no run can be at
    `out`."""
    place = locate(out)
    if not isinstance(place, Path):
        return
    said = spec.predictions
    written = [f"{PREDICTIONS}/{_part(said)}"] if said is not None and said.to is None else []
    _refuse_among_data("out", str(out), place, spec.data, base, [*FILES_OF_A_RUN, *written])
    to = _place_of(spec, base)
    if to is not None:
        _refuse_around(str(said and said.to), to.resolve(), str(out), place.resolve())


def check_predictions_apart(spec: Spec, base: Path) -> None:
    """SpecError where the next run would read what this one writes, as rows of the data."""
    place, said = _place_of(spec, base), spec.predictions
    if said is not None and place is not None:
        if place.is_file():
            raise SpecError([Fault("predictions.to", f"{said.to!r} is a file; expected a folder.")])
        _refuse_among_data("predictions.to", str(said.to), place, spec.data, base, [_part(said)])


def _part(said: PredictionsSpec) -> str:
    """The name of a file of predictions, as patterns see it."""
    return f"part-0.{'parquet' if said.format in TABLES else said.format}"


def _place_of(spec: Spec, base: Path) -> Path | None:
    """The folder that the user names for predictions. SpecError when it can be none."""
    said = spec.predictions
    if said is None or said.to is None or said.format in WITHOUT_FOLDER:
        return None
    try:
        place = locate(said.to)
    except RunError as error:
        raise SpecError([Fault("predictions.to", str(error))]) from None
    return base / place if isinstance(place, Path) else None


def _refuse_around(to: str, folder: Path, out: str, run: Path) -> None:
    """One of the two would hold files of the other."""
    if folder.is_relative_to(run) and folder != run / PREDICTIONS:
        what = f"{to!r} is in the run directory {out!r}, whose files are the run's own."
        raise SpecError([Fault("predictions.to", f"{what} Name a folder outside of it, or leave it out.")])
    if run.is_relative_to(folder) and run != folder and not is_hidden(run.relative_to(folder).as_posix()):
        what = f"the run directory {out!r} is in {to!r}, where readers of the predictions would read its files too."
        raise SpecError([Fault("predictions.to", f"{what} Name another folder for one of them.")])


def _refuse_among_data(path: str, said: str, place: Path, data: DataSpec, base: Path, files: Sequence[str]) -> None:
    """SpecError where files that are written to `place` would be read as data.

    path, said: where the user named it, and as what. files: that are written, relative to the place.
    """
    for text in (data.path,) if isinstance(data.path, str) else data.path or ():
        named = os.path.join(base.resolve(), os.path.expanduser(text))
        if _reads(named, place.resolve(), files):
            where = "matches the data's pattern" if _is_pattern(named) else "is in the data's folder"
            what = f"{said!r} {where} {text!r}, so that what is written would be read as data."
            raise SpecError([Fault(path, f"{what} Name a folder outside of it.")])


def _reads(data: str, place: Path, files: Sequence[str]) -> bool:
    """Whether the folder or pattern takes in the place, or a file in it."""
    if not _is_pattern(data):
        return os.path.isdir(data) and _seen_from(Path(data).resolve(), place)
    folders = [folder for folder in (place, *place.parents) if _seen_from(folder, place)]
    return any(_matches(one.parts, Path(data).parts) for one in [*folders, *(place / file for file in files)])


def _is_pattern(data: str) -> bool:
    return glob.has_magic(data) and not os.path.exists(data)


def _seen_from(folder: Path, place: Path) -> bool:
    """Whether files of the place are found in the folder: names that begin with an underscore or a dot are skipped."""
    return place == folder or (place.is_relative_to(folder) and not is_hidden(place.relative_to(folder).as_posix()))


def _matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not names
    if pattern[0] == "**":
        return any(_matches(names[start:], pattern[1:]) for start in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and _matches(names[1:], pattern[1:])
