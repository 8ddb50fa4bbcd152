"""The names of a module, without importing it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from assay.models.defined import Defined, defined

SOURCE = """
import os.path
import numpy as np
from math import sqrt as root, pi
LIMIT = 3
first, *rest = range(3)
raise RuntimeError("never imported")
def score(x):
    inside = 1
    def inner(): pass
class Pixels:
    attribute = 1
if LIMIT:
    async def later(): pass
else:
    other: int = 1
for each in (): pass
with open("x") as file: pass
try:
    import missing
except ImportError as error:
    missing = None
if (walrus := 1): pass
"""


NAMES = "os np root pi LIMIT first rest score Pixels later other each file missing error walrus"


def test_the_names_that_a_module_binds(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text(SOURCE)
    assert defined(file) == Defined(
        frozenset(NAMES.split()),
        ("score", "Pixels", "later"),
    )


@pytest.mark.parametrize(
    "source",
    [
        "from math import *",
        "def __getattr__(name): return 1",
        "globals()['score'] = len",
        "exec('score = len')",
        "def broken(",
        "\0",
    ],
)
def test_what_the_source_cannot_say(tmp_path: Path, source: str) -> None:
    file = tmp_path / "m.py"
    file.write_text(source)
    assert defined(file) is None


def test_a_file_is_read_again_and_its_source_parsed_again_only_if_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed, parse = list[bytes](), ast.parse

    def noted(source: bytes) -> ast.Module:
        parsed.append(source)
        return parse(source)

    file, other, found = tmp_path / "m.py", tmp_path / "copy.py", list[Defined | None]()
    names = ("before_it_changed", "after_it_changed1", "before_it_changed")  # of one length, in one moment
    with monkeypatch.context() as patch:
        patch.setattr(ast, "parse", noted)
        for name in names:
            for each in (file, other):
                each.write_text(f"{name} = 1")
                found.append(defined(each))
    assert found == [Defined(frozenset([name]), ()) for name in names for _ in (file, other)]
    assert parsed == [b"before_it_changed = 1", b"after_it_changed1 = 1"]
    file.unlink()
    assert defined(file) is None


def test_a_file_that_is_gone_cannot_say_either(tmp_path: Path) -> None:
    assert defined(tmp_path / "m.py") is None
