"""The source files behind a user's module: its own, and those of the modules beside the spec that it imports.

Only import statements are followed. Not what is imported by a name made at run time, and nothing that is installed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import resolve_name
from pathlib import Path

MOST_FILES = 256
"""Of which it is remembered what their source says: hundreds of variants may name one module."""


def source_files(module: str, origin: Path, base: Path) -> dict[str, Path]:
    """{module: file} of a module with its file, and of all under `base` that it needs; the packages they lie in too."""
    found = {module: origin}
    waiting = [module, *_packages(module)]
    while waiting:
        name = waiting.pop()
        file = found.get(name) or file_under(base, name)
        if file is not None:
            found[name] = file
            waiting += [one for one in _imported(name, file) if one not in found]
    return found


def file_under(base: Path, module: str) -> Path | None:
    """The source file that a module of this name has in a folder, if any."""
    place = base.joinpath(*module.split("."))
    files = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _imported(module: str, file: Path) -> Iterator[str]:
    """The names of all that may be a module in the import statements of a file, with the packages they lie in."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in _statements(file.read_bytes()):
        for name in _names(node, package):
            yield from (name, *_packages(name))


@lru_cache(maxsize=MOST_FILES)
def _statements(source: bytes) -> tuple[ast.Import | ast.ImportFrom, ...]:
    try:
        return tuple(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom))
    except (SyntaxError, ValueError):  # told when the module is imported
        return ()


def _names(node: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    try:
        origin = resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:  # beyond the top, which is told when the module is imported
        return []
    return [origin, *(f"{origin}.{alias.name}" for alias in node.names)]


def _packages(module: str) -> list[str]:
    """The packages that a module lies in: `a.b` and `a` for `a.b.c`."""
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1)]
