"""The form of the costly states, by what a budget allows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from assay import api, build
from assay.errors import SpecError
from assay.metrics.ranking_states import ENTRY_BYTES
from assay.pipeline.asked import resolve_tasks
from assay.pipeline.budget import CHOICES, choose, tally_bytes
from assay.pipeline.finish import merged
from assay.pipeline.run import saved_plan
from assay.records import Sizes, StateChoice
from assay.spec.model import DataSpec, Spec
from assay.states import num_bytes
from assay.store.log import read_committed
from assay.store.run import RunDirectory

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


@pytest.mark.parametrize(
    "missing",
    [
        {"a": lambda row: row % 2 == 0, "b": lambda row: row % 2 == 1},  # nothing in common
        {"a": lambda row: False, "b": lambda row: row % 2 == 1},
        {"a": lambda row: row % 100 > 0, "b": lambda row: row % 100 == 0},
    ],
)
@pytest.mark.parametrize("exact_rows", [ROWS, 0])
@pytest.mark.parametrize("baseline", ["a", None])
def test_a_tally_takes_no_more_than_the_plan_says(
    missing: dict[str, Callable[[int], bool]], exact_rows: int, baseline: str | None, tmp_path: Path
) -> None:
    """Every score is another, so that entries take most; `a` and `b` miss rows of their own."""
    rows = 4000
    scores = {
        name: [None if gone(row) else (row * 7919 % rows + 0.5) / rows for row in range(rows)]
        for name, gone in missing.items()
    }
    table = pa.table({"y": [row % 3 == 0 for row in range(rows)], "country": ["DE", "US"] * (rows // 2), **scores})
    given = spec(exact_rows=exact_rows).model_copy(
        update={"baseline": baseline, "data": DataSpec(label="y", slices=("country",))}
    )
    found = api.run(given, frame=table, out=tmp_path / "run")
    directory = RunDirectory.open(str(found.path))
    plan = saved_plan(directory)
    tally = merged(directory, read_committed(directory).files, plan)

    taken = sum(num_bytes(state) for state in tally.states.values())
    scored = sum(num_bytes(state) for key, state in tally.states.items() if key.part == "scored")
    assert taken <= plan.state_bytes
    assert (taken > scored) == (baseline is not None)
    assert plan.state_bytes < 2.2 * taken


def test_corrections_are_counted_beside_a_baseline_alone() -> None:
    compared = spec().model_copy(update={"baseline": "a"})
    of_variant = tally_bytes(spec(), METRICS, WITHOUT, SIZES, None) / 2
    assert tally_bytes(compared, METRICS, WITHOUT, SIZES, None) == pytest.approx(4 * of_variant, rel=0.02)


def test_exact_entries_of_corrections_are_no_more_than_the_rows_again() -> None:
    metrics = {"main": (build.metric("auc"),)}
    compared = spec().model_copy(update={"baseline": "a"})
    entries = ENTRY_BYTES * ROWS
    plain, corrected = (tally_bytes(one, metrics, EXACT, Sizes(1, 64), ROWS) for one in (spec(), compared))
    assert corrected - plain == pytest.approx(entries, rel=0.01)  # the rest is of the support


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
        f"budget.state_bytes: the states of 2 variants in 20,000 slices take {least / 2**20:,.0f} MiB a worker, but "
        "the budget is 1 MiB; raise the budget, or evaluate fewer variants, slices or metrics at once."
    )
