"""Which names a module has, read in its source: importing it may need what only a worker has, and take long.

Not here: importing it (`function.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from assay.models.imports import MOST_FILES

_MAKE_NAMES = ("globals", "vars", "exec", "setattr")
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Defined(NamedTuple):
    """The names that a module binds when it is imported."""

    names: frozenset[str]
    functions: tuple[str, ...]  # and classes that it defines itself, in its order


def defined(file: Path) -> Defined | None:
    """None where the source cannot say: names made at run time, all names of another module, a syntax error."""
    try:
        return _defined(file.read_bytes())
    except OSError:
        return None


@lru_cache(maxsize=MOST_FILES)
def _defined(source: bytes) -> Defined | None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    if any(_makes_names(node) for node in ast.walk(tree)):
        return None
    names, functions = set[str](), list[str]()
    for node in _of_module(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            functions.append(node.name)
        names.update(_bound(node))
    return Defined(frozenset(names), tuple(functions)) if "__getattr__" not in names else None


def _makes_names(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return any(alias.name == "*" for alias in node.names)
    return isinstance(node, ast.Name) and node.id in _MAKE_NAMES


def _of_module(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of the module's own scope: not what is inside functions and classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _OWN_SCOPE):
            yield from _of_module(child)


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
        yield node.name
