"""The page of the spec is the one that the model gives."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_current():
    page = runpy.run_path(str(DOCS / "make_spec_page.py"))["page"]()

    assert (DOCS / "spec.md").read_text() == page, "run `make docs`"
