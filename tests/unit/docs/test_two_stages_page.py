"""What the page on two stages shows can be run, and ranks as it would be done by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.command import assay

PAGE = (Path(__file__).parents[3] / "docs" / "two-stages.md").read_text()
RANK, JUDGE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
STAGES, READING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
[COMMAND] = re.findall(r"```sh\nassay (.*?)\n```", PAGE, re.DOTALL)
REQUESTS, CANDIDATES, WIDTH = 40, 10, 4


@pytest.fixture
def frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """With what a hand has computed for each stage, which is not in the file; clicks follow the second one."""
    monkeypatch.chdir(tmp_path)
    chance = np.random.default_rng(0)
    rows = REQUESTS * CANDIDATES
    user, item = chance.normal(size=(2, rows, WIDTH))
    frame = pd.DataFrame(
        {
            "request_id": chance.permutation(np.repeat(np.arange(REQUESTS), CANDIDATES)),
            "item_id": np.arange(rows) + 2**53,
            "title": [f"title {row}" for row in range(rows)],
            "price": chance.integers(1, 90, rows).astype(float),
            "age": chance.integers(0, 60, rows).astype(float),
        }
    )
    retrieval = np.einsum("nk,nk->n", user, item)
    ranker = 2 * retrieval - frame.price / 10 + frame.age.clip(upper=30) / 100
    frame["clicked"] = (ranker > ranker.median()).astype(int)
    table = pa.Table.from_pandas(frame)
    for name, vectors in (("user_vector", user), ("item_vector", item)):
        flat = pa.array(vectors.reshape(-1))
        table = table.append_column(name, pa.FixedSizeListArray.from_arrays(flat, WIDTH))
    pq.write_table(table, "candidates.parquet", row_group_size=90)
    for name, text in (("rank.yaml", RANK), ("judge.yaml", JUDGE), ("stages.py", STAGES)):
        Path(name).write_text(text)
    return frame.assign(retrieval=retrieval, ranker=ranker)


def test_the_best_of_each_request_by_each_stage(frame: pd.DataFrame) -> None:
    done = assay(*COMMAND.split(), "--executor", "local", "--quiet")
    assert done.code == 0, done.err
    names: dict[str, Any] = {}
    exec(READING, names)
    final = names["final"].to_pandas()
    for variant in ("retrieval", "ranker"):
        found = names["rows"].to_pandas().query("_variant == @variant").sort_values(["request_id", "_rank"])
        best = frame.sort_values(["request_id", variant], ascending=[True, False]).groupby("request_id").head(3)
        assert found.item_id.tolist() == best.item_id.tolist()
        assert found.title.tolist() == best.title.tolist()
        assert np.allclose(found._score, best[variant], rtol=1e-12)
        if variant == "ranker":
            assert final.item_id.tolist() == best.item_id.tolist()
            assert final._rank.tolist() == [1, 2, 3] * REQUESTS


@pytest.mark.usefixtures("frame")
def test_the_second_stage_passes_its_gate() -> None:
    done = assay("run", "judge.yaml", "--out", "judged", "--executor", "local", "--quiet")
    assert done.code == 0, done.out + done.err
    assert "ranker" in done.out
