"""What the page of variants shows can be run."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay import api

PAGE = (Path(__file__).parents[3] / "docs" / "variants.md").read_text()
SPECS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
FEATURES = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
CHANCES = [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.25, 0.25, 0.5]] * 10
PHOTOS = pa.table(
    {
        "species": ["cat", "dog", "cat"] * 10,
        "p_prod": CHANCES,
        **{f"p_{name}": [row[i] for row in CHANCES] for i, name in enumerate(("cat", "dog", "fox"))},
        "guess": ["cat", "dog", "wolf"] * 10,
        "tags": [["indoor"], [], ["night", "indoor"]] * 10,
        "tag_scores": [[0.75, 0.25], [0.25, 0.0], [0.5, 0.25]] * 10,
        "tag_guess": [["indoor"], [], ["indoor"]] * 10,
    }
)


@pytest.mark.parametrize("spec", SPECS)
def test_specs_run_and_their_variants_agree(spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All variants of these data predict the same: fox and wolf are wrong alike."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(PHOTOS, "photos.parquet")
    Path("eval.yaml").write_text(spec)
    Path("features.py").write_text(FEATURES)
    Path("words.txt").write_text("cat dog")
    rows = api.run("eval.yaml").metrics.to_pylist()
    accuracies = {row["variant"]: row["value"] for row in rows if row["metric"] in ("accuracy", "subset_accuracy")}
    assert len(accuracies) > 1
    assert list(accuracies.values()) == pytest.approx([2 / 3] * len(accuracies))


def test_there_are_specs() -> None:
    assert len(SPECS) == 4
