"""From what a user writes (file, folder, glob, or a list of them) to the files that are meant.

Lives here: names and formats. Not here: what is inside the files.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from assay.errors import DataError
from assay.spec.names import nearest

Format = Literal["parquet", "csv"]
ENDINGS: dict[Format, tuple[str, ...]] = {
    "parquet": (".parquet", ".parq", ".pq"),
    "csv": (".csv", ".csv.gz", ".csv.bz2", ".csv.zst"),
}


class Files(NamedTuple):
    """The files of one data set: sorted paths relative to the root, with `/` on every system."""

    root: Path
    paths: tuple[str, ...]
    format: Format


def find_files(where: str | Sequence[str], format: Format | None = None) -> Files:
    """The files that `where` names, each once, sorted by relative path.

    A folder is searched to any depth; names that start with `.` or `_` are skipped in it, and so are other kinds of
    files. With `format`, a folder's files need no ending, but files with the other format's ending are left out.

    Raises DataError: nothing there (the nearest name is offered), no file matched, Parquet and CSV mixed.
    """
    wanted = [where] if isinstance(where, str) else list(where)
    found = sorted({path for one in wanted for path in _expand(os.path.expanduser(one), format)})
    if not found:
        raise DataError(f"There are no {_kind(format)} files in {_listed(wanted)}. {_hint(format)}")
    root = _root([os.path.expanduser(one) for one in wanted], found)
    relative = sorted(path.relative_to(root).as_posix() for path in found)
    return Files(root, tuple(relative), format or _format(found))


def _expand(text: str, format: Format | None) -> list[Path]:
    path = Path(text)
    if path.is_file():
        return [path.absolute()]
    if path.is_dir():
        return [file for file in _walk(path.absolute()) if _is_data(file, format)]
    if glob.has_magic(text):
        return [file for match in _matches(text) for file in _expand_match(match, format)]
    raise DataError(_missing(path))


def _expand_match(match: Path, format: Format | None) -> list[Path]:
    files = list(_walk(match)) if match.is_dir() else [match]
    return [file for file in files if _is_data(file, format)]


def _matches(pattern: str) -> list[Path]:
    matches = [Path(match).absolute() for match in glob.glob(pattern, recursive=True)]
    if not matches:
        raise DataError(f"The pattern {pattern!r} matches no file. Check it with: ls {pattern}")
    return [match for match in matches if not _is_hidden(match.name)]


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        yield from (Path(place, name) for name in files if not _is_hidden(name))


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _is_data(file: Path, format: Format | None) -> bool:
    known = _format_of(file)
    return known is not None if format is None else known in (format, None)


def _format_of(file: Path) -> Format | None:
    name = file.name.lower()
    return next((format for format, endings in ENDINGS.items() if name.endswith(endings)), None)


def _format(files: Sequence[Path]) -> Format:
    by_format = {_format_of(file): file for file in files}
    if None in by_format:
        raise DataError(
            f"The ending of {str(by_format[None])!r} says neither Parquet nor CSV. Set data.format to parquet or csv."
        )
    if len(by_format) > 1:
        raise DataError(
            f"The data mix Parquet ({str(by_format['parquet'])!r}) and CSV ({str(by_format['csv'])!r}). "
            "Set data.format, or name the files of one of them."
        )
    (only,) = by_format
    assert only is not None, "an unknown ending was refused above"
    return only


def _root(wanted: Sequence[str], files: Sequence[Path]) -> Path:
    """The folder that is named, so that moving it whole leaves the relative paths alone; or else the common parent."""
    if len(wanted) == 1 and Path(wanted[0]).is_dir():
        return Path(wanted[0]).absolute()
    return Path(os.path.commonpath([file.parent for file in files]))


def _missing(path: Path) -> str:
    """Which part of a path is not there, and what is there of a like name."""
    absolute = path.absolute()
    parent = next(folder for folder in absolute.parents if folder.is_dir())
    gone = absolute.relative_to(parent).parts[0]
    near = nearest(gone, sorted(os.listdir(parent)))
    offer = f" Did you mean {str(parent / near)!r}?" if near else ""
    place = "" if absolute.parent == parent else f": there is no {gone!r} in {str(parent)!r}"
    return f"There is no file or folder {str(path)!r}{place}.{offer}"


def _kind(format: Format | None) -> str:
    return {"parquet": "Parquet", "csv": "CSV", None: "Parquet or CSV"}[format]


def _hint(format: Format | None) -> str:
    endings = ", ".join(ending for each in ENDINGS.values() for ending in each)
    if format is None:
        return f"Files are known by their ending ({endings}); set data.format when they have none of these."
    return "Names that start with '.' or '_' are skipped."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
