"""What the tests of models share: user code in a folder of its own, importable for one test only."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], Path]]:
    """Writes a module into `tmp_path`, where Python finds it; whatever the test imports is forgotten after it."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    written = []

    def write(name: str, source: str) -> Path:
        written.append(name)
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(source))
        return path

    yield write
    for name in written:
        sys.modules.pop(name, None)
