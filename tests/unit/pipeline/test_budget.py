"""The form of the costly states, by what a budget allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from assay import api
from assay.errors import SpecError
from assay.metrics.ranking_states import ENTRY_BYTES
from assay.pipeline.asked import resolve_tasks
from assay.pipeline.budget import choices, choose, tally_bytes
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


TASKS = resolve_tasks(spec(), Path())


def needed(choice: StateChoice, rows: int | None) -> int:
    return tally_bytes(spec(), TASKS, choice, SIZES, rows)


def chosen(rows: int | None = ROWS, **budget: Any) -> StateChoice:
    return choose(spec(**budget), TASKS, SIZES, rows)[0]


EXACT, EXACT_OVERALL = (StateChoice(exact_ranking=True, bucketed=bucketed) for bucketed in ("all", "overall"))


def binned(bucketed: Any, bits: int = 7, slice_bits: int = 5) -> StateChoice:
    return StateChoice(exact_ranking=False, bucketed=bucketed, ranking_bits=bits, slice_bits=slice_bits)


BINNED, LEAST = binned("all"), binned("none", slice_bits=2)


@pytest.mark.parametrize(
    ("rows", "choice"),
    [
        (ROWS, EXACT),
        (ROWS, EXACT_OVERALL),
        *[(None, binned(bucketed, bits)) for bucketed in ("all", "overall") for bits in (11, 10, 9, 8, 7)],
        *[(None, binned("overall", bits, 3)) for bits in (11, 10, 9, 8, 7)],
        *[(None, binned("overall", bits, 2)) for bits in (9, 8, 7)],
        *[(None, binned("none", bits, 2)) for bits in (9, 8, 7)],
    ],
)
def test_the_best_that_fits_is_taken(rows: int | None, choice: StateChoice) -> None:
    assert chosen(rows, state_bytes=needed(choice, rows)) == choice


def test_intervals_go_before_bits_of_slices_and_these_before_bits_of_all_rows() -> None:
    in_order = [(one.bucketed, one.slice_bits, one.ranking_bits) for one in choices(None, few=False)]
    assert in_order[4:6] == [("all", 5, 7), ("overall", 5, 11)]
    assert in_order[9:11] == [("overall", 5, 7), ("overall", 3, 11)]
    assert in_order[19:21] == [("overall", 2, 7), ("none", 5, 11)]


@pytest.mark.parametrize("rows", [200_000, None])
def test_a_hundred_slices_of_200_variants_fit_by_default_with_an_interval_of_all_rows(rows: int | None) -> None:
    variants = [{"name": f"v{i}", "column": f"v{i}"} for i in range(200)]
    asked = {"data": {"label": "y"}, "output": {"is": "probability"}, "variants": variants, "baseline": "v0"}
    many = Spec.model_validate(asked)
    choice, needed = choose(many, resolve_tasks(many), Sizes(num_slices=100, num_buckets=64, num_dimensions=5), rows)
    assert choice == binned("overall", 7, 2)
    assert needed <= 1 << 30


@pytest.mark.parametrize("bits", [7, 12, 16])
def test_bits_can_be_fixed_by_hand(bits: int) -> None:
    assert chosen(None, auc_bits=bits, state_bytes=1 << 50) == binned("all", bits)
    least = binned("none", bits, 2)
    assert chosen(None, auc_bits=bits, state_bytes=needed(least, None)) == least
    assert chosen(ROWS, auc_bits=bits, state_bytes=1 << 50) == EXACT
    with pytest.raises(SpecError, match="or evaluate fewer variants, slices or metrics at once, or with fewer budget"):
        chosen(None, auc_bits=bits, state_bytes=needed(least, None) - 1)


def test_sparse_bins_are_no_more_than_the_rows() -> None:
    few, many = (needed(binned("overall", 20), rows) for rows in (1000, 100_000_000))
    assert few < needed(binned("overall", 7), None) < many


def test_exact_states_of_too_many_rows_make_way_for_bins() -> None:
    assert chosen(rows=10**9, exact_rows=10**10, state_bytes=needed(binned("all", 11), None)) == binned("all", 11)


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
    of_variant = tally_bytes(spec(), TASKS, LEAST, SIZES, None) / 2
    assert tally_bytes(compared, TASKS, LEAST, SIZES, None) == pytest.approx(4 * of_variant, rel=0.02)


def test_exact_entries_of_corrections_are_no_more_than_the_rows_again() -> None:
    tasks = [replace(TASKS[0], metrics=("auc",))]
    compared = spec().model_copy(update={"baseline": "a"})
    entries = ENTRY_BYTES * ROWS
    plain, corrected = (tally_bytes(one, tasks, EXACT, Sizes(1, 64), ROWS) for one in (spec(), compared))
    assert corrected - plain == pytest.approx(entries, rel=0.01)  # the rest is of the support


@pytest.mark.parametrize("rows", [None, 1001])
def test_many_rows_are_binned(rows: int | None) -> None:
    assert not chosen(rows, exact_rows=1000, state_bytes=1 << 40).exact_ranking
    assert chosen(1000, exact_rows=1000, state_bytes=1 << 40).exact_ranking


def test_what_does_not_fit_is_refused() -> None:
    sizes = Sizes(num_slices=20_000, num_buckets=64)
    with pytest.raises(SpecError) as caught:
        choose(spec(state_bytes=1 << 20), TASKS, sizes, None)
    least = tally_bytes(spec(), TASKS, LEAST, sizes, None)
    assert str(caught.value) == (
        f"budget.state_bytes: the states of 2 variants in 20,000 slices take {least / 2**20:,.0f} MiB a worker, but "
        "the budget is 1 MiB; raise the budget, or evaluate fewer variants, slices or metrics at once."
    )
