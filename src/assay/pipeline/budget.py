"""Which form the costly states take: the best one that fits the budget of a worker."""

from __future__ import annotations

from assay import build
from assay.build import Metrics
from assay.errors import Fault, SpecError
from assay.records import Sizes, StateChoice
from assay.spec.model import Spec

CHOICES = (
    StateChoice(exact_ranking=True, bucketed="all"),
    StateChoice(exact_ranking=True, bucketed="overall"),
    StateChoice(exact_ranking=False, bucketed="all"),
    StateChoice(exact_ranking=False, bucketed="overall"),
    StateChoice(exact_ranking=False, bucketed="none"),
)
"""Best first."""


def choose(spec: Spec, metrics: Metrics, sizes: Sizes, rows: int | None) -> tuple[StateChoice, int]:
    """The first choice that fits the budget, and the bytes of one tally under it. SpecError when none does.

    rows: of all data; None where they are not known, which counts as many.
    """
    few = rows is not None and rows <= spec.budget.exact_rows
    choices = [choice for choice in CHOICES if few or not choice.exact_ranking]
    needs = [(choice, tally_bytes(spec, metrics, choice, sizes, rows)) for choice in choices]
    for choice, num_bytes in needs:
        if num_bytes <= spec.budget.state_bytes:
            return choice, num_bytes
    raise SpecError(
        [Fault("budget.state_bytes", _too_small(spec, sizes, least=min(num_bytes for _, num_bytes in needs)))]
    )


def tally_bytes(spec: Spec, metrics: Metrics, choice: StateChoice, sizes: Sizes, rows: int | None) -> int:
    """The most bytes that the states of all variants take."""
    return len(spec.variants) * sum(
        accumulator.num_bytes(sizes, rows)
        for several in metrics.values()
        for accumulator in build.accumulators(several, choice)
    )


def _too_small(spec: Spec, sizes: Sizes, least: int) -> str:
    return (
        f"the states of {len(spec.variants)} variants in {sizes.num_slices} slices take {least / 2**20:,.0f} MiB a "
        f"worker, but the budget is {spec.budget.state_bytes / 2**20:,.0f} MiB; raise the budget, or evaluate fewer "
        "variants, slices or metrics at once."
    )
