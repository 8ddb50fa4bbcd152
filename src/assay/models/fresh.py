"""Modules that this process has imported before, but not from the source that is meant now.

In a notebook a user edits a model and evaluates again, or evaluates specs of two folders that each have a `model.py`:
without this the first one's code would run on, under the fingerprint of the second.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from importlib.machinery import PathFinder
from pathlib import Path

from assay.models.imports import file_under

_LOADED: dict[str, str] = {}
"""{module: digest of its file} when it was last looked at here, which is before it is imported."""
_BEHIND: dict[str, dict[str, str]] = {}
"""{module that a spec named: what `_LOADED` said of it and of all that it imports}. Two may share an import."""
_FOLDERS: set[str] = set()
"""Where modules were looked for so far."""


def forget_others(module: str) -> None:
    """Forget a module, or a package it lies in, that was imported from another file than the path gives now."""
    parts, folders = module.split("."), None
    for length in range(1, len(parts) + 1):
        name = ".".join(parts[:length])
        found = PathFinder.find_spec(name, folders)
        if found is None:
            return
        known = getattr(sys.modules.get(name), "__spec__", None)
        if known is not None and known.has_location and found.has_location and known.origin != found.origin:
            _forget(name)
            return
        folders = found.submodule_search_locations
        if folders is None:
            return


def forget_changed(module: str, sources: Mapping[str, Path], *, installed: bool = False) -> None:
    """Forget all these modules {name: source file}, which `module` needs, where one is loaded from another source.

    One that others have imported before is taken for another, unless it is an installed one.
    """
    digests = {name: _digest(file) for name, file in sources.items()}
    loaded = {name: _LOADED.get(name, digests[name] if installed else "") for name in digests if name in sys.modules}
    if _BEHIND.get(module, digests) != digests or any(digests[name] != digest for name, digest in loaded.items()):
        for name in sources:
            sys.modules.pop(name, None)
    _LOADED.update(digests)
    _BEHIND[module] = digests


def forget_elsewhere(folder: str) -> None:
    """Forget the modules of other folders than this one that it has one of the same name of, as a pickle may need."""
    others = _FOLDERS - {folder}
    _FOLDERS.add(folder)
    for name, module in list(sys.modules.items()) if others else ():
        origin, own = getattr(getattr(module, "__spec__", None), "origin", None), file_under(Path(folder), name)
        if own is not None and str(own) != origin and origin in [str(file_under(Path(one), name)) for one in others]:
            _forget(name)


def _digest(file: Path) -> str:
    return hashlib.sha256(f"{file}\0".encode() + file.read_bytes()).hexdigest()


def _forget(module: str) -> None:
    for name in [one for one in sys.modules if one == module or one.startswith(f"{module}.")]:
        del sys.modules[name]
