"""docs/run-directory.md names what a reader meets in the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.records import Undefined

PAGE = (Path(__file__).parents[3] / "docs" / "run-directory.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("reason", Undefined)
def test_every_reason_is_explained(reason: Undefined) -> None:
    assert f"`{reason}`" in PAGE
