"""What is imported, where and when. The order of the layers is checked by import-linter (pyproject.toml)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay

PACKAGE = Path(assay.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = (
    "duckdb",
    "lightgbm",
    "numba",
    "numpy",
    "obstore",
    "pandas",
    "pyarrow",
    "pydantic",
    "ray",
    "scipy",
    "sklearn",
    "torch",
)
HOMES = {
    "pynvml": ("nvml.py",),
    "ray": ("cluster/", "integrations/"),
    "torch": ("models/torch.py", "integrations/"),
}
"""Packages that are imported in these places and nowhere else."""


def modules_after(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def imports(path: Path) -> Iterator[tuple[ast.stmt, str]]:
    """Each imported module of a file, with its statement."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, node.module or "."


def test_import_assay_loads_nothing_heavy() -> None:
    assert modules_after("import assay").isdisjoint(HEAVY)


def test_what_joins_rows_loads_nothing_that_scores() -> None:
    """Such a process is there to write a few pieces: what it imports is a part of what that takes."""
    loaded = modules_after("import assay.pipeline.join, assay.sources.parquet, assay.sinks.parquet")
    assert "pyarrow" in loaded
    assert loaded.isdisjoint({"lightgbm", "numba", "pandas", "scipy", "sklearn", "torch"})


def test_reading_a_spec_loads_no_engine() -> None:
    assert modules_after("import assay.spec.load").isdisjoint(set(HEAVY) - {"pydantic"})


@pytest.mark.parametrize("name", ["assay.api", "assay.cli.app"])
def test_the_package_needs_no_extra(name: str) -> None:
    extras = {"lightgbm", "pandas", "polars", "pynvml", "ray", "sklearn", "torch"}
    assert modules_after(f"import {name}") & extras == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_optional_packages_are_imported_only_at_home(path: Path) -> None:
    place = path.relative_to(PACKAGE).as_posix()
    for _, name in imports(path):
        homes = HOMES.get(name.partition(".")[0], ("",))
        assert place.startswith(homes), f"{place} imports {name}, whose place is {' and '.join(homes)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_are_at_the_top_and_never_relative(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = [
        f"line {inner.lineno}"
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(function)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]
    relative = [f"line {node.lineno}" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    assert (inside, relative) == ([], [])
