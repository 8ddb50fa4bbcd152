"""Sentences that only the merged states can tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes.sweep import WORDS, sweep

from assay.api import evaluate

FUNCTION = """
import numpy as np

def sure(batch):
    return np.where(np.abs(batch.score - 0.5) > 0.1, batch.label, np.nan)

def users(batch):
    return np.where(batch.columns["user"] < 100, batch.label, np.nan)

def every(batch):
    return batch.label
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shares.py").write_text(FUNCTION)
    monkeypatch.chdir(tmp_path)


def own(name: str, **more: Any) -> dict[str, Any]:
    return {"metric": name, "function": f"shares:{name}", **more}


@pytest.mark.usefixtures("functions")
def test_rows_without_a_value_of_an_own_metric_are_told() -> None:
    table = sweep(1)
    words = {**WORDS, "gates": (), "slices": ()}

    found = evaluate(table, **{**words, "metrics": [own("sure"), own("users", columns=["user"]), own("every")]})

    unsure = [sum(abs(score - 0.5) <= 0.1 for score in table[variant].to_pylist()) for variant in ("old", "new0")]
    assert unsure[0] != unsure[1]
    assert [note for note in found.results.notes if "mean without" in note] == [
        f"sure is a mean without {unsure[0]} of 1,600 rows of 'old': no value there (NaN).",
        f"sure is a mean without {unsure[1]} of 1,600 rows of 'new0': no value there (NaN).",
        "users is a mean without 1,200 of 1,600 rows of every variant: no value there (NaN).",
    ]


def test_gates_that_the_budget_leaves_without_an_interval_are_told_in_the_plan() -> None:
    gates = [{"metric": "auc", "margin": 0.01, "slices": "country"}, {"metric": "log_loss", "margin": 0.01}]
    words = {**WORDS, "metrics": ["auc", "log_loss"], "gates": gates, "slices": ["country"]}
    sentence = (
        "stay undecided, since the budget leaves no interval there. Raise budget.state_bytes, or evaluate fewer "
        "variants, slices or metrics at once."
    )

    def told(state_bytes: int) -> list[str]:
        budget = {"state_bytes": state_bytes, "exact_rows": 0}
        return [note for note in evaluate(sweep(1), **words, budget=budget).results.notes if "undecided" in note]

    assert told(2**30) == []
    assert told(2**22) == [f"Gates on 'auc' in slices {sentence}"]
    assert told(2**21) == [f"Gates on 'auc' {sentence}"]


@pytest.mark.parametrize("budget", [{}, {"model_bytes": 100}])
def test_a_size_that_nothing_is_packed_by_has_no_effect(budget: dict[str, int]) -> None:
    variants = [{"name": f"old{one}", "column": "old", "memory_bytes": 5} for one in range(4)]
    variants += [{"name": "old", "column": "old"}, {"name": "new0", "column": "new0"}]
    words = {name: value for name, value in WORDS.items() if name != "scores"}
    found = evaluate(sweep(1), **{**words, "gates": (), "slices": ()}, variants=variants, budget=budget)
    sentence = "memory_bytes of 'old0', 'old1', 'old2' and 'old3' has no effect: the spec sets no budget.model_bytes."
    assert (sentence in found.results.notes) == (budget == {})
