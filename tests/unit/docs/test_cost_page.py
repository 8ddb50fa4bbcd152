"""docs/cost.md: its example is a spec, and it names what the table holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from assay.costs import Cause, Kind
from assay.pipeline.cost import SCHEMA
from assay.spec.load import load_spec
from assay.spec.model import NodePrices

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "cost.md").read_text(encoding="utf-8")


def test_the_example_is_a_spec(tmp_path: Path) -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "eval.yaml").write_text(text)
    prices = load_spec(tmp_path / "eval.yaml").prices
    assert prices is not None
    assert (prices.default, prices.currency) == (0.34, "USD")
    assert prices.of("p3.2xlarge") == NodePrices(on_demand=3.06, spot=1.1)


@pytest.mark.parametrize("word", [*get_args(Kind), *get_args(Cause)])
def test_every_kind_and_cause_is_explained(word: str) -> None:
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize("column", SCHEMA.names)
def test_every_column_is_documented(column: str) -> None:
    page = (DOCS / "run-directory.md").read_text(encoding="utf-8")
    section = page.partition("## results/cost.parquet")[2].partition("\n## ")[0]
    assert f"| `{column}` |" in section
