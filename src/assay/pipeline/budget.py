"""Which form the costly states take: the best one that fits the budget of a worker.

Not here: which variants one worker holds, where not all of them fit one (`bundles.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import catalogue
from assay.errors import Fault, SpecError
from assay.ledgers import TaskLedger, VariantLedger
from assay.protocols import Accumulator
from assay.records import Bucketed, Sizes, StateChoice, Task
from assay.spec.model import Spec
from assay.spec.words import count
from assay.states import num_bytes

EXACT = tuple(StateChoice(exact_ranking=True, bucketed=bucketed) for bucketed in ("all", "overall"))
BUCKETED: tuple[Bucketed, ...] = ("all", "overall", "none")
RANKING_BITS = (11, 10, 9, 8, 7)
"""Of binned scores: with the first, the AUC of smooth scores is right to 1e-6 (docs/decisions/0005)."""


SLICE_BITS: dict[Bucketed, tuple[int, ...]] = {"all": (5,), "overall": (5, 3, 2), "none": (5, 3, 2)}
"""Of the other slices; with fewer their values are less exact, and scores are binned sooner."""


def choices(bits: int | None, *, few: bool) -> Iterator[StateChoice]:
    """Best first: intervals of more slices, then bits of slices, then bits of all rows.

    few: rows are few enough for exact states.
    """
    if few:
        yield from EXACT
    for bucketed in BUCKETED:
        for of_slices in SLICE_BITS[bucketed]:
            for one in RANKING_BITS if bits is None else (bits,):
                yield StateChoice(False, bucketed, ranking_bits=one, slice_bits=of_slices)


def choose(
    spec: Spec, tasks: Sequence[Task], sizes: Sizes, rows: int | None, num_variants: int | None = None
) -> tuple[StateChoice, int]:
    """The first choice that fits the budget, and the bytes of one tally under it. SpecError when none does.

    rows: of all data; None where they are not known, which counts as many. num_variants: that one worker holds, the
    baseline among them; None: all.
    """
    for choice in _allowed(spec, rows):
        needed = tally_bytes(spec, tasks, choice, sizes, rows, num_variants)
        if needed <= spec.budget.state_bytes:
            return choice, needed
    least = least_bytes(spec, tasks, sizes, rows, num_variants)
    raise SpecError([Fault("budget.state_bytes", _too_small(spec, sizes, num_variants, least))])


def least_bytes(
    spec: Spec, tasks: Sequence[Task], sizes: Sizes, rows: int | None, num_variants: int | None = None
) -> int:
    """What a tally takes in the slimmest form that there is. All else as in `choose`."""
    return min(tally_bytes(spec, tasks, choice, sizes, rows, num_variants) for choice in _allowed(spec, rows))


def _allowed(spec: Spec, rows: int | None) -> Iterator[StateChoice]:
    return choices(spec.budget.auc_bits, few=rows is not None and rows <= spec.budget.exact_rows)


def tally_bytes(
    spec: Spec,
    tasks: Sequence[Task],
    choice: StateChoice,
    sizes: Sizes,
    rows: int | None,
    num_variants: int | None = None,
) -> int:
    """The most bytes that a tally takes: the states of all variants with their corrections, and the ledgers.

    A state's bytes grow with its rows ever more slowly, if at all (Accumulator.num_bytes is concave in rows).
    num_variants: as in `choose`; the later bundles have no states of the baseline's in their tallies, but in partials.
    """
    num_variants = len(spec.variants) if num_variants is None else num_variants
    num_compared = num_variants - 1 if spec.baseline is not None else 0
    metrics = catalogue.metrics_of(tasks)
    several = [one for task in tasks for one in catalogue.accumulators(metrics[task.name], choice.of(task))]
    states = sum(
        num_variants * one.num_bytes(sizes, rows) + num_compared * _correction_bytes(one, sizes, rows)
        for one in several
    )
    # With two clusters each state is there in three views; states to select by are those of what was scored alone.
    num_views = 3 if isinstance(spec.data.cluster, tuple) else 1
    selecting = 0 if spec.confirm is None else sum(num_variants * one.num_bytes(sizes, rows) for one in several)
    num_parts = 1 if spec.confirm is None else 2
    return num_views * states + selecting + num_parts * len(metrics) * _ledger_bytes(sizes, num_variants)


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


def _too_small(spec: Spec, sizes: Sizes, num_variants: int | None, least: int) -> str:
    fewer = "" if spec.budget.auc_bits is None else ", or with fewer budget.auc_bits"
    number = len(spec.variants) if num_variants is None else num_variants
    what = "variants, slices" if number > (1 if spec.baseline is None else 2) else "slices"
    baseline = ", the baseline among them," if spec.baseline is not None and number == 2 else ""
    states = f"the states of {count(number, 'variant')}{baseline} in {count(sizes.num_slices, 'slice')}"
    return (
        f"{states} take {least / 2**20:,.0f} MiB a worker, but the budget is "
        f"{spec.budget.state_bytes / 2**20:,.0f} MiB; raise the budget, or evaluate fewer {what} or metrics "
        f"at once{fewer}."
    )
