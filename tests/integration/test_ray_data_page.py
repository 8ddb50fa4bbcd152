"""What the page on Ray Data shows can be run, one block after another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "ray-data.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")  # Ray Data's, at its own defaults
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_examples_run(ray_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the page's reader would: what is defined in `__main__` travels to workers."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCKS:
        exec(block, names)
    assert len(BLOCKS) == 5
