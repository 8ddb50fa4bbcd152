"""Which variants one worker holds: all of them, or bundles of those that fit it together.

Lives here: the packing, and why there is one. Not here: what states take (`budget.py`), and what later bundles leave to
the first (`partial.py`). docs/decisions/0011 has the reasons.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assay.errors import Fault, SpecError
from assay.pipeline.budget import choose, least_bytes
from assay.records import Sizes, StateChoice, Task
from assay.spec.model import Spec
from assay.spec.words import count

Bundles = tuple[tuple[str, ...], ...]


class Packing(NamedTuple):
    """What was decided."""

    bundles: Bundles  # as in `Plan`
    num_together: int  # variants that one worker scores at most, the baseline among them
    choice: StateChoice
    state_bytes: int  # of one tally at most
    why: str  # a sentence; "" where one worker holds all


def pack(spec: Spec, tasks: Sequence[Task], sizes: Sizes, rows: int | None, models: Mapping[str, int]) -> Packing:
    """The fewest bundles that first-fit decreasing finds, then the best form of states that they allow.

    models: variant -> bytes of its model. rows: as in `choose`. SpecError where a variant alone, with the baseline,
    does not fit.
    """
    most = _most_variants(spec, tasks, sizes, rows)
    bundles = first_fit(models, spec.baseline, spec.budget.model_bytes, most)
    if len(bundles) == 1:
        return Packing((), len(models), *choose(spec, tasks, sizes, rows), "")
    largest = max(len(bundle) + (spec.baseline not in (None, *bundle)) for bundle in bundles)
    choice, needed = choose(spec, tasks, sizes, rows, largest)
    reasons = _reasons(spec, models, None if most == len(models) else least_bytes(spec, tasks, sizes, rows))
    return Packing(bundles, largest, choice, needed, f"One worker does not hold all variants: {reasons}.")


def first_fit(models: Mapping[str, int], baseline: str | None, capacity: int | None, most: int) -> Bundles:
    """Bundles of variants, each in the order given: the largest model first, to the first bundle that has room for it.

    The baseline is in each of them, and named in the first alone. capacity: bytes of all models of a worker; None: any.
    most: variants of a worker. SpecError where one does not fit with the baseline.

    >>> first_fit({"base": 1, "a": 2, "b": 1, "c": 3}, "base", capacity=4, most=3)
    (('base', 'c'), ('a', 'b'))
    """
    own = 0 if baseline is None else models[baseline]
    order = list(models)
    others = sorted((name for name in models if name != baseline), key=lambda name: -models[name])  # stable
    _check_fits(others[0] if others else None, models, baseline, capacity)
    most -= baseline is not None
    held: list[list[str]] = [[]]
    for name in others:
        for bundle in held:
            total = own + models[name] + sum(models[one] for one in bundle)
            if len(bundle) < most and (capacity is None or total <= capacity):
                bundle.append(name)
                break
        else:
            held.append([name])
    if baseline is not None:
        held[0].append(baseline)
    return tuple(tuple(sorted(bundle, key=order.index)) for bundle in held)


def _most_variants(spec: Spec, tasks: Sequence[Task], sizes: Sizes, rows: int | None) -> int:
    """How many variants' states fit one worker in their slimmest form. SpecError when not even one does."""
    fewest = min(len(spec.variants), 1 if spec.baseline is None else 2)
    choose(spec, tasks, sizes, rows, fewest)
    numbers = range(fewest, len(spec.variants) + 1)
    if least_bytes(spec, tasks, sizes, rows) <= spec.budget.state_bytes:
        return numbers[-1]
    fitting = bisect_right(
        numbers, spec.budget.state_bytes, key=lambda number: least_bytes(spec, tasks, sizes, rows, number)
    )
    return numbers[fitting - 1]


def _check_fits(largest: str | None, models: Mapping[str, int], baseline: str | None, capacity: int | None) -> None:
    together = [name for name in (largest, baseline) if name is not None]
    total = sum(models[name] for name in together)
    if capacity is None or total <= capacity:
        return
    said = f"the model of {together[0]!r} takes {_size(models[together[0]])}"
    if len(together) > 1:
        said += f" and that of the baseline {together[1]!r}, which each worker holds too, {_size(models[together[1]])}"
    raise SpecError(
        [
            Fault(
                "budget.model_bytes",
                f"{said}, but the budget of a worker is {_size(capacity)}; raise it, or say with memory_bytes what "
                "they take in memory if that is not the size of their files.",
            )
        ]
    )


def _reasons(spec: Spec, models: Mapping[str, int], states: int | None) -> str:
    reasons = []
    if spec.budget.model_bytes is not None and sum(models.values()) > spec.budget.model_bytes:
        limit = f"budget.model_bytes is {_size(spec.budget.model_bytes)}"
        reasons.append(f"{count(len(models), 'model')} take {_size(sum(models.values()))}, and {limit}")
    if states is not None:
        limit = f"budget.state_bytes is {_size(spec.budget.state_bytes)}"
        reasons.append(f"their states take at least {_size(states)}, and {limit}")
    return "; ".join(reasons)


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:,.1f} MiB" if num_bytes >= 2**20 / 10 else f"{num_bytes:,} bytes"
