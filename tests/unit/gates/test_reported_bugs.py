"""What other tools were reported to get wrong about releases, with the numbers of the reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fakes.sweep import WORDS, sweep

from assay.api import evaluate
from assay.errors import SpecError
from assay.evaluation import Evaluation

TABLE = sweep(1)
GATE: dict[str, Any] = {"metric": "log_loss", "margin": 0.5}


def run(table: pa.Table, *gates: dict[str, Any], **changes: Any) -> Evaluation:
    return evaluate(table, **{**WORDS, "gates": list(gates), **changes})


def with_scores(scores: np.ndarray) -> pa.Table:
    return TABLE.set_column(TABLE.schema.get_field_index("new0"), "new0", pa.array(scores))


def real(old: np.ndarray, new: np.ndarray, truth: np.ndarray) -> pa.Table:
    return pa.table({"y": truth, "old": old, "new0": new, "user": np.arange(len(truth)) // 4})


@pytest.mark.parametrize(
    "gate", [GATE, {"metric": "auc", "min": 0.0}, {"metric": "auc", "harm": True}, {"metric": "log_loss", "max": 99.0}]
)
def test_a_candidate_of_nan_never_passes(gate: dict[str, Any]) -> None:
    found = run(with_scores(np.full(TABLE.num_rows, np.nan)), gate)

    assert (found.outcome, found.verdicts[0].outcome) == ("undecided", "undecided")
    assert "the candidate is undefined (all rows excluded)" in found.verdicts[0].reason


def test_a_misspelt_metric_is_refused_before_the_run() -> None:
    with pytest.raises(SpecError) as caught:
        run(TABLE, {**GATE, "metric": "logloss"}, report=lambda _: pytest.fail("it ran"))
    assert str(caught.value) == (
        "gates[0].metric: 'logloss' is not among the metrics of the spec; did you mean 'log_loss'?"
    )


def test_a_baseline_below_0_makes_no_improvement_of_80_percent() -> None:
    """R2 of -0.5 against -0.9: worse, though (-0.9 - -0.5) / -0.5 is +80 %."""
    truth = np.tile([-1.0, 1.0], 400) + np.random.default_rng(0).normal(0, 0.01, 800)
    old, new = (truth + np.sqrt(1 - r2) * np.tile([-1.0, -1.0, 1.0, 1.0], 200) for r2 in (-0.5, -0.9))
    words = {"output": None, "metrics": ["r2"], "slices": []}

    with pytest.raises(SpecError) as caught:
        run(real(old, new, truth), {"metric": "r2", "improve": "50%"}, **words)
    assert str(caught.value) == (
        "gates[0].improve: improve is a share of the baseline, but r2 may be negative or 0; give it in the metric's "
        "own units."
    )
    found = run(real(old, new, truth), {"metric": "r2", "improve": 0.1}, **words)
    gate = found.verdicts[0].gates[0]
    assert (gate.baseline_value, gate.value) == (pytest.approx(-0.5, abs=0.01), pytest.approx(-0.9, abs=0.01))
    assert (gate.outcome, found.outcome) == ("fail", "fail")


def test_every_refusal_prints_what_it_rests_on() -> None:
    found = run(with_scores(1.0 - TABLE["new0"].to_numpy()), {"metric": "auc", "margin": 0.001, "slices": "country"})

    gate = found.verdicts[0].gates[0]
    assert gate.outcome == "fail"
    for part in (
        "auc not worse by more than 0.001 in each country: fail in country=DE",
        f"candidate {gate.value:.6g}, baseline {gate.baseline_value:.6g}, difference {gate.difference:+.4g}",
        f"95 % interval [{gate.low:.4g}, {gate.high:.4g}], margin 0.001, {gate.rows:,} rows",
    ):
        assert part in gate.reason
