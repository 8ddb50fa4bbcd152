"""What a sample says of all data: against the whole, and against the formula."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fakes.sweep import NUM_USERS, WORDS, sweep
from scipy import stats

from assay import api
from assay.errors import SpecError
from assay.pipeline.power import detects
from assay.pipeline.table import table_spec
from assay.records import Interval
from assay.report.power import Power
from assay.spec.load import build_spec

TABLE = sweep()
GATES = [
    {"metric": "log_loss", "margin": 0.01},
    {"metric": "log_loss", "improve": "2%"},
    {"metric": "auc", "slices": "country", "harm": True},
]


def power(share: float, **changes: Any) -> Power:
    words = {name: value for name, value in WORDS.items() if name not in ("executor", "workers")}
    tree = table_spec(None, frame=TABLE, **{**words, "gates": GATES, **changes})
    return api.power(build_spec(tree), share, frame=TABLE, workers=1)


def test_the_formula() -> None:
    seen = Interval(0.1, 0.02, 0.0, 0.2, 63, None)

    expected = (stats.t.ppf(1 - 0.025 / 20, 63) + stats.t.ppf(0.8, 63)) * 0.02
    assert detects(seen, family=20, degrees=63) == pytest.approx(expected)


def test_all_data_as_the_sample_say_what_their_own_intervals_say() -> None:
    found = power(1.0)
    run = api.evaluate(TABLE, **WORDS)

    rows = [row for row in run.comparisons.to_pylist() if row["metric"] == "auc" and row["slice"] == "overall"]
    errors = [(row["high"] - row["low"]) / 2 / stats.t.ppf(0.975, 63) for row in rows]
    times = stats.t.ppf(1 - 0.025 / 4, 63) + stats.t.ppf(0.8, 63)
    auc = found.metrics[0]
    assert (auc.task, auc.metric, auc.gates, auc.undefined) == ("main", "auc", (), None)
    assert auc.largest == pytest.approx(times * max(errors))
    assert auc.typical == pytest.approx(times * sum(sorted(errors)[1:3]) / 2)
    assert rows[errors.index(max(errors))]["variant"] == auc.variant
    assert (found.num_variants, found.more) == (4, None)
    assert found.clusters == pytest.approx(NUM_USERS, rel=0.03)


def test_a_sample_of_the_clusters_says_about_the_same() -> None:
    whole, part = power(1.0), power(0.3)

    assert part.how == "Sampled by cluster: all rows were read, those of 30 % of the clusters scored."
    assert part.sample_clusters == pytest.approx(0.3 * NUM_USERS, rel=0.25)
    for one, two in zip(whole.metrics, part.metrics, strict=True):
        assert two.typical == pytest.approx(one.typical, rel=0.4)


def test_how_many_clusters_a_gate_needs() -> None:
    found = power(1.0)
    loss = found.metrics[1]
    base = api.evaluate(TABLE, **WORDS).metrics.to_pylist()[5]["value"]

    margin, improve = loss.gates
    assert (margin.gate, margin.margin) == ("log_loss not worse by more than 0.01", 0.01)
    assert (improve.gate, improve.margin) == (
        "log_loss better by more than 2% of the baseline",
        pytest.approx(0.02 * base),
    )
    assert margin.clusters == math.ceil(found.clusters * (loss.largest / 0.01) ** 2)


def test_the_choice_of_the_best_leaves_fewer_clusters_and_fewer_variants() -> None:
    found = power(1.0, confirm={"fraction": 0.25, "keep": 2})

    assert (found.num_variants, found.clusters) == (2, pytest.approx(NUM_USERS / 4, rel=0.04))


def test_a_sample_that_is_too_small_says_what_would_do() -> None:
    found = power(0.01)

    assert {one.undefined for one in found.metrics} <= {"too few clusters", "no rows", "all rows excluded"}
    assert found.more is not None
    assert 0.3 < found.more <= 1.0


def test_without_a_cluster_units_are_sampled(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "preds.parquet", row_group_size=100)
    tree = {
        "data": {"path": "preds.parquet", "label": "y"},
        "variants": [{"name": name, "column": name} for name in ("old", "new0")],
        "output": {"is": "probability"},
        "metrics": ["auc"],
        "baseline": "old",
        "execution": {"unit_rows": 100},
    }

    found = api.power(build_spec(tree), 0.25, base=tmp_path, workers=1)

    assert found.how == "Sampled by units: 4 of 16 units scored, 25 % of the rows."
    assert found.clusters == pytest.approx(TABLE.num_rows, rel=0.03)
    assert found.metrics[0].undefined is None


@pytest.mark.parametrize(
    ("share", "changes", "sentence"),
    [
        (0.0, {}, "--sample: got 0; expected a share above 0 and up to 1, such as 0.01 or 1%."),
        (1.5, {}, "--sample: got 1.5; expected a share above 0 and up to 1, such as 0.01 or 1%."),
        (
            0.1,
            {"baseline": None, "gates": ()},
            "--sample: says what difference to the baseline can be detected; name a baseline.",
        ),
    ],
)
def test_what_cannot_be_asked(share: float, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        power(share, **changes)
    assert str(caught.value) == sentence
