"""The form of the costly states, by what a budget allows."""

from __future__ import annotations

from typing import Any

import pytest

from assay import build
from assay.errors import SpecError
from assay.pipeline.asked import resolve_tasks
from assay.pipeline.budget import CHOICES, choose, tally_bytes
from assay.records import Sizes, StateChoice
from assay.spec.model import Spec

SIZES = Sizes(num_slices=400, num_buckets=64)
ROWS = 100_000


def spec(**budget: Any) -> Spec:
    return Spec.model_validate(
        {
            "data": {"label": "y"},
            "output": {"is": "probability"},
            "variants": [{"name": "a", "column": "a"}, {"name": "b", "column": "b"}],
            "metrics": ["auc", "ece", "log_loss"],
            "budget": budget,
        }
    )


METRICS = build.metrics_of(resolve_tasks(spec()))


def needed(choice: StateChoice, rows: int | None) -> int:
    return tally_bytes(spec(), METRICS, choice, SIZES, rows)


def chosen(rows: int | None = ROWS, **budget: Any) -> StateChoice:
    return choose(spec(**budget), METRICS, SIZES, rows)[0]


EXACT, EXACT_OVERALL, BINNED, BINNED_OVERALL, WITHOUT = CHOICES


@pytest.mark.parametrize(
    ("rows", "choice"),
    [(ROWS, EXACT), (ROWS, EXACT_OVERALL), (None, BINNED), (None, BINNED_OVERALL), (None, WITHOUT)],
)
def test_the_best_that_fits_is_taken(rows: int | None, choice: StateChoice) -> None:
    assert chosen(rows, state_bytes=needed(choice, rows)) == choice


def test_exact_states_of_too_many_rows_make_way_for_bins() -> None:
    assert chosen(rows=10**9, exact_rows=10**10, state_bytes=needed(BINNED, None)) == BINNED


def test_the_bytes_of_a_tally_are_those_of_all_variants() -> None:
    choice, num_bytes = choose(spec(), METRICS, SIZES, ROWS)
    per_variant = sum(one.num_bytes(SIZES, ROWS) for one in build.accumulators(METRICS["main"], choice))
    assert num_bytes == 2 * per_variant


@pytest.mark.parametrize("rows", [None, 1001])
def test_many_rows_are_binned(rows: int | None) -> None:
    assert not chosen(rows, exact_rows=1000, state_bytes=1 << 40).exact_ranking
    assert chosen(1000, exact_rows=1000, state_bytes=1 << 40).exact_ranking


def test_what_does_not_fit_is_refused() -> None:
    sizes = Sizes(num_slices=20_000, num_buckets=64)
    with pytest.raises(SpecError) as caught:
        choose(spec(state_bytes=1 << 20), METRICS, sizes, None)
    least = tally_bytes(spec(), METRICS, WITHOUT, sizes, None)
    assert str(caught.value) == (
        f"budget.state_bytes: the states of 2 variants in 20000 slices take {least / 2**20:,.0f} MiB a worker, but the "
        "budget is 1 MiB; raise the budget, or evaluate fewer variants, slices or metrics at once."
    )
