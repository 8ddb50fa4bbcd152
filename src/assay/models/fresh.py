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

_SEEN: dict[str, str] = {}
"""{module: digest of its source} when it was last looked at here, which is before it is imported."""


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


def forget_changed(sources: Mapping[str, Path]) -> None:
    """Forget all these modules {name: source file} where the source of one has changed since this was last called."""
    digests = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in sources.items()}
    if any(_SEEN.get(name, digest) != digest for name, digest in digests.items()):
        for name in sources:
            sys.modules.pop(name, None)
    _SEEN.update(digests)


def _forget(module: str) -> None:
    for name in [one for one in sys.modules if one == module or one.startswith(f"{module}.")]:
        del sys.modules[name]
