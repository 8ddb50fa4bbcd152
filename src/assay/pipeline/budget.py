"""Which form the costly states take: the best one that fits the budget of a worker."""

from __future__ import annotations

from assay import build
from assay.build import Metrics
from assay.errors import Fault, SpecError
from assay.ledgers import TaskLedger, VariantLedger
from assay.protocols import Accumulator
from assay.records import Sizes, StateChoice
from assay.spec.model import Spec
from assay.spec.words import count
from assay.states import num_bytes

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
    for choice, needed in needs:
        if needed <= spec.budget.state_bytes:
            return choice, needed
    raise SpecError([Fault("budget.state_bytes", _too_small(spec, sizes, least=min(needed for _, needed in needs)))])


def tally_bytes(spec: Spec, metrics: Metrics, choice: StateChoice, sizes: Sizes, rows: int | None) -> int:
    """The most bytes that a tally takes: the states of all variants with their corrections, and the ledgers.

    A state's bytes grow with its rows ever more slowly, if at all (Accumulator.num_bytes is concave in rows).
    """
    num_variants = len(spec.variants)
    num_compared = num_variants - 1 if spec.baseline is not None else 0
    several = [one for metrics_of in metrics.values() for one in build.accumulators(metrics_of, choice)]
    states = sum(
        num_variants * one.num_bytes(sizes, rows) + num_compared * _correction_bytes(one, sizes, rows)
        for one in several
    )
    return states + len(metrics) * _ledger_bytes(sizes, num_variants)


def _correction_bytes(accumulator: Accumulator, sizes: Sizes, rows: int | None) -> int:
    """What `baseline_only` and `variant_only` of one variant add to `scored`.

    No row is both in `scored` and in `baseline_only`, so the two together take most where each has half of the rows;
    `variant_only` may hold all rows.
    """
    half = None if rows is None else (rows + 1) // 2
    return 2 * accumulator.num_bytes(sizes, half)


def _ledger_bytes(sizes: Sizes, num_variants: int) -> int:
    """Of one task; one more than the variants have is kept while a unit is open, for those that fail on it."""
    of_variants = (num_variants + 1) * num_bytes(VariantLedger().zero(sizes))
    return num_bytes(TaskLedger().zero(sizes)) + of_variants


def _too_small(spec: Spec, sizes: Sizes, least: int) -> str:
    states = f"the states of {count(len(spec.variants), 'variant')} in {count(sizes.num_slices, 'slice')}"
    return (
        f"{states} take {least / 2**20:,.0f} MiB a worker, but the budget is "
        f"{spec.budget.state_bytes / 2**20:,.0f} MiB; raise the budget, or evaluate fewer variants, slices or metrics "
        "at once."
    )
