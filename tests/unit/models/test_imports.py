"""Which files a user's module needs, by its import statements."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from assay.models.imports import source_files


def needed(base: Path, module: str, **sources: str) -> list[str]:
    """sources: a file's name, with `__` for the folder, to its text."""
    for name, text in sources.items():
        file = base / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    origin = base / f"{module.replace('.', '/')}.py"
    return sorted(file.relative_to(base).as_posix() for file in source_files(module, origin, base).values())


def test_imports_are_followed_within_the_folder(tmp_path: Path) -> None:
    found = needed(tmp_path, "main", main="import a, json", a="def f():\n  from b import c", b="import main", other="")
    assert found == ["a.py", "b.py", "main.py"]


@pytest.mark.parametrize(
    "statement", ["import pack.inner", "from pack import inner", "from pack.inner import f", "import pack.inner as p"]
)
def test_a_module_in_a_package_brings_its_package(tmp_path: Path, statement: str) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    found = needed(tmp_path, "main", main=statement, pack__inner="f = 1", pack__other="")
    assert found == ["main.py", "pack/__init__.py", "pack/inner.py"]


def test_relative_imports(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("from .first import f")
    found = needed(
        tmp_path, "pack.main", pack__main="from . import second\nfrom ... import no", pack__first="", pack__second=""
    )
    assert found == ["pack/__init__.py", "pack/first.py", "pack/main.py", "pack/second.py"]


def test_a_file_that_is_no_python_imports_nothing(tmp_path: Path) -> None:
    assert needed(tmp_path, "main", main="import (", a="") == ["main.py"]


def test_a_file_that_changes_in_between_imports_what_it_says_now(tmp_path: Path) -> None:
    assert needed(tmp_path, "main", main="import a", a="", b="") == ["a.py", "main.py"]
    assert needed(tmp_path, "main", main="import b") == ["b.py", "main.py"]
    assert needed(tmp_path, "main", main="import (") == ["main.py"]
    assert needed(tmp_path, "main", main="import a") == ["a.py", "main.py"]


def test_one_source_means_another_file_in_another_package(tmp_path: Path) -> None:
    """What is remembered is of the source alone: names are relative to where the file lies."""
    folders = ("one", "two")
    for folder in folders:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
        found = needed(
            tmp_path, f"{folder}.main", **{f"{folder}__main": "from . import second", f"{folder}__second": ""}
        )
        assert found == [f"{folder}/__init__.py", f"{folder}/main.py", f"{folder}/second.py"]


def test_what_many_files_say_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, parse = list[bytes](), ast.parse

    def noted(source: bytes) -> ast.Module:
        parsed.append(source)
        return parse(source)

    with monkeypatch.context() as patch:
        patch.setattr(ast, "parse", noted)
        for _ in range(3):
            needed(tmp_path, "main", main="import parsed_once", parsed_once="'a module that all variants name'")
    assert parsed == [b"import parsed_once", b"'a module that all variants name'"]
