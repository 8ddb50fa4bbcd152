"""The page on predictions: its spec is one, and its names are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from assay.pipeline.columns import CLASSES, DEAD, PROVENANCE
from assay.pipeline.dead_letters import DEAD_LETTER
from assay.pipeline.manifest import MANIFEST
from assay.records import ListedPart, PartFile, Predictions
from assay.sources.parquet import PIECE_ROWS
from assay.spec.load import build_spec

PAGE = (Path(__file__).parents[3] / "docs" / "predictions.md").read_text(encoding="utf-8")


def test_its_specs_are_sound() -> None:
    blocks = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if block.startswith("data:")]
    assert blocks
    for block in blocks:
        assert build_spec(yaml.safe_load(block)).predicts


def test_its_names_are_those_of_the_code() -> None:
    names = [field.name for field in (*DEAD, *PROVENANCE)]
    names += [CLASSES.decode(), MANIFEST, f"{DEAD_LETTER}/"]
    names += [name for name in Predictions.__dataclass_fields__ if name not in ListedPart.__dataclass_fields__]
    names += [*PartFile.__dataclass_fields__, "unit"]
    assert [name for name in names if f"`{name}`" not in PAGE] == []
    assert f"{PIECE_ROWS:,} rows at a time" in PAGE
