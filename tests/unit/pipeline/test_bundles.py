"""Which variants one worker holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import api
from assay.errors import SpecError
from assay.pipeline.asked import resolve_tasks
from assay.pipeline.budget import choose, least_bytes, tally_bytes
from assay.pipeline.bundles import Packing, first_fit, pack
from assay.records import Sizes
from assay.spec.model import Spec

SIZES = Sizes(num_slices=400, num_buckets=64)
MEBIBYTE = 1 << 20


def spec(num_variants: int, baseline: str | None = "v0", **budget: Any) -> Spec:
    return Spec.model_validate(
        {
            "data": {"label": "y"},
            "output": {"is": "probability"},
            "variants": [{"name": f"v{number}", "column": f"v{number}"} for number in range(num_variants)],
            "baseline": baseline,
            "metrics": ["auc", "ece", "log_loss"],
            "budget": budget,
        }
    )


def packed(of: Spec, *model_bytes: int, rows: int | None = None) -> Packing:
    """model_bytes: of each variant; 0 for the others."""
    sizes = [*model_bytes, *[0] * (len(of.variants) - len(model_bytes))]
    models = {one.name: size for one, size in zip(of.variants, sizes, strict=True)}
    return pack(of, resolve_tasks(of), SIZES, rows, models)


def needed(of: Spec, num_variants: int) -> int:
    """By the slimmest form."""
    return least_bytes(of, resolve_tasks(of), SIZES, None, num_variants)


# ---- first-fit decreasing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("models", "capacity", "most", "bundles"),
    [
        ({"base": 1, "a": 1, "b": 1}, None, 9, [["base", "a", "b"]]),
        ({"base": 1}, 1, 9, [["base"]]),
        ({"a": 3, "base": 1, "b": 3}, 4, 9, [["a", "base"], ["b"]]),
        ({"base": 1, "a": 1, "b": 2, "c": 3}, 4, 9, [["base", "c"], ["a", "b"]]),  # c, b, a
        ({"base": 0, "a": 5, "b": 4, "c": 3, "d": 2, "e": 2}, 8, 9, [["base", "a", "c"], ["b", "d", "e"]]),
        ({"base": 1, "a": 1, "b": 1, "c": 1, "d": 1}, None, 3, [["base", "a", "b"], ["c", "d"]]),
    ],
)
def test_the_largest_goes_first_and_to_the_first_that_has_room(
    models: Mapping[str, int], capacity: int | None, most: int, bundles: list[list[str]]
) -> None:
    assert [list(one) for one in first_fit(models, "base", capacity, most)] == bundles


def test_those_that_take_are_with_those_that_give() -> None:
    models = {"base": 1, "a": 1, "b": 4, "c": 2, "d": 2}
    assert first_fit(models, "base", 6, 9, {"d": ["a"]}) == (("base", "b"), ("a", "c", "d"))
    assert first_fit(models, "base", 7, 9, {"c": ["b"]}) == (("base", "b", "c"), ("a", "d"))


def test_what_the_baseline_takes_from_is_in_all() -> None:
    models = {"base": 1, "a": 1, "b": 4, "c": 4, "d": 2}
    assert first_fit(models, "base", 6, 9, {"base": ["a"], "c": ["a"]}) == (("base", "a", "b"), ("c",), ("d",))


def test_those_that_cannot_be_apart_fit_one_worker_or_are_refused() -> None:
    with pytest.raises(SpecError) as raised:
        first_fit({"base": 1, "a": 3, "b": 3}, "base", 6, 9, {"b": ["a"]})
    assert str(raised.value) == (
        "budget.model_bytes: the models of 'a' and 'b', which take outputs of one another, take 6 bytes and that of "
        "the baseline 'base', which each worker holds too, 1 bytes, but the budget of a worker is 6 bytes; raise it, "
        "or say with memory_bytes what they take in memory if that is not the size of their files."
    )
    with pytest.raises(SpecError) as raised:
        first_fit({"base": 1, "a": 3, "b": 3}, "base", 6, 9, {"base": ["a"]})
    assert str(raised.value) == (
        "budget.model_bytes: the model of 'b' takes 3 bytes and the models of 'a' and 'base', which take outputs of "
        "one another, take 4 bytes, and each worker holds these too, for the baseline, but the budget of a worker is 6 "
        "bytes; raise it, or say with memory_bytes what they take in memory if that is not the size of their files."
    )


def test_without_a_baseline_nothing_is_in_all() -> None:
    assert first_fit({"a": 2, "b": 2, "c": 2}, None, 4, 9) == (("a", "b"), ("c",))


@given(st.lists(st.integers(0, 10), min_size=1, max_size=40), st.integers(20, 40), st.integers(2, 9), st.booleans())
def test_each_variant_is_in_one_bundle_that_fits(sizes: list[int], capacity: int, most: int, compared: bool) -> None:
    models = {f"v{number}": size for number, size in enumerate(sizes)}
    baseline = "v0" if compared else None
    bundles = first_fit(models, baseline, capacity, most)
    assert sorted(name for bundle in bundles for name in bundle) == sorted(models)
    assert baseline is None or baseline in bundles[0]
    for bundle in bundles:
        held = {*bundle, baseline} - {None}
        assert len(held) <= most
        assert sum(models[str(name)] for name in held) <= capacity
        assert list(bundle) == sorted(bundle, key=list(models).index)
    assert first_fit(models, baseline, capacity, most) == bundles


# ---- with the states -------------------------------------------------------------------------------------------------


def test_what_fits_one_worker_is_in_no_bundles_and_has_the_best_form_for_all() -> None:
    of = spec(4, model_bytes=10)
    choice, state_bytes = choose(of, resolve_tasks(of), SIZES, None)
    assert packed(of, 1, 2, 3, 4) == Packing((), 4, choice, state_bytes, "")
    assert packed(spec(4), 9, 9, 9, 9) == Packing((), 4, choice, state_bytes, "")


def test_models_that_do_not_fit_together_are_packed() -> None:
    found = packed(spec(4, model_bytes=6 * MEBIBYTE), *[2 * MEBIBYTE] * 4)
    assert found.bundles == (("v0", "v1", "v2"), ("v3",))
    assert found.num_together == 3
    assert found.why == (
        "One worker does not hold all variants: 4 models take 8.0 MiB, and budget.model_bytes is 6.0 MiB."
    )


def test_states_have_the_best_form_that_the_largest_bundle_allows() -> None:
    """A worker that holds fewer variants has room for a better one."""
    whole = spec(8)
    limit = tally_bytes(
        whole, resolve_tasks(whole), choose(spec(2), resolve_tasks(whole), SIZES, None)[0], SIZES, None, 2
    )
    of = spec(8, model_bytes=2, state_bytes=limit)
    found = packed(of, *[1] * 8)
    assert len(found.bundles) == 7
    assert found.state_bytes == limit
    assert found.choice != choose(of, resolve_tasks(of), SIZES, None)[0]


def test_states_that_do_not_fit_in_any_form_are_packed_in_the_slimmest() -> None:
    of = spec(8)
    of = spec(8, state_bytes=needed(of, 3))
    with pytest.raises(SpecError):
        choose(of, resolve_tasks(of), SIZES, None)
    found = packed(of)
    assert found.bundles == (("v0", "v1", "v2"), ("v3", "v4"), ("v5", "v6"), ("v7",))
    assert found.num_together == 3
    assert found.state_bytes == of.budget.state_bytes
    assert found.why == (
        "One worker does not hold all variants: their states take at least "
        f"{needed(of, 8) / MEBIBYTE:,.1f} MiB, and budget.state_bytes is {of.budget.state_bytes / MEBIBYTE:,.1f} MiB."
    )


def test_both_budgets_hold() -> None:
    of = spec(6)
    of = spec(6, state_bytes=needed(of, 4), model_bytes=10)
    assert packed(of, 1, 8, 8, 1, 1, 1).bundles == (("v0", "v1", "v3"), ("v2", "v4"), ("v5",))


def test_states_of_one_variant_with_the_baseline_that_do_not_fit_are_refused() -> None:
    of = spec(8)
    least = needed(of, 2)
    of = spec(8, state_bytes=least - 1)
    with pytest.raises(SpecError) as caught:
        packed(of)
    assert str(caught.value) == (
        f"budget.state_bytes: the states of 2 variants, the baseline among them, in 400 slices take "
        f"{least / MEBIBYTE:,.0f} MiB a worker, but the budget is {(least - 1) / MEBIBYTE:,.0f} MiB; raise the budget, "
        "or evaluate fewer slices or metrics at once."
    )


def test_a_model_that_does_not_fit_with_the_baseline_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        packed(spec(3, model_bytes=3 * MEBIBYTE), MEBIBYTE, MEBIBYTE, 5 * MEBIBYTE // 2)
    assert str(caught.value) == (
        "budget.model_bytes: the model of 'v2' takes 2.5 MiB and that of the baseline 'v0', which each worker holds "
        "too, 1.0 MiB, but the budget of a worker is 3.0 MiB; raise it, or say with memory_bytes what they take in "
        "memory if that is not the size of their files."
    )


def test_so_is_one_that_does_not_fit_alone() -> None:
    with pytest.raises(
        SpecError, match=r"^budget.model_bytes: the model of 'v0' takes 9 bytes, but the budget of a wo"
    ):
        packed(spec(1, "v0", model_bytes=8), 9)


# ---- a plan ----------------------------------------------------------------------------------------------------------


def test_sizes_are_those_of_files_or_what_the_spec_says(tmp_path: Path) -> None:
    (tmp_path / "table.bin").write_bytes(b"x" * 500)
    (tmp_path / "mine.py").write_text("def score(x, **settings):\n    return x\n")
    own = {"callable": {"function": "mine:score", "files": ["table.bin"]}, "inputs": ["x"]}
    asked = {
        "data": {"label": "y"},
        "output": {"is": "probability"},
        "variants": [
            {"name": "base", "column": "x"},
            {"name": "large", **own},
            {"name": "said", **own, "memory_bytes": 100},
            {"name": "other", **own},
        ],
        "baseline": "base",
        "budget": {"model_bytes": 650},
    }
    frame = pa.table({"y": [0, 1] * 50, "x": [0.25, 0.75] * 50})
    found = api.plan(Spec.model_validate(asked), frame=frame, base=tmp_path)
    assert found.plan.bundles == (("base", "large", "said"), ("other",))
    assert found.why_bundles == (
        "One worker does not hold all variants: 4 models take 1,100 bytes, and budget.model_bytes is 650 bytes."
    )
    assert [(unit.id.rpartition(".")[2], unit.bundle) for unit in found.plan.units] == [("0", 0), ("1", 1)]
