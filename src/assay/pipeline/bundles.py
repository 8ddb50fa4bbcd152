"""Which variants one worker holds: all of them, or bundles of those that fit it together.

Lives here: the packing, and why there is one. Not here: what states take (`budget.py`), and what later bundles leave to
the first (`partial.py`). docs/decisions/0011 has the reasons.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from assay.errors import Fault, SpecError
from assay.pipeline.budget import choose, least_bytes
from assay.records import Sizes, StateChoice, Task
from assay.spec.model import Spec
from assay.spec.others import Takes, takes, together, with_others
from assay.spec.words import count, listing

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
    others = takes(spec.variants)
    everywhere = () if spec.baseline is None else with_others([spec.baseline], others)
    groups = together(list(models), others, everywhere)
    most = _most_variants(spec, tasks, sizes, rows, len(everywhere) + max(map(len, groups), default=0))
    bundles = first_fit(models, spec.baseline, spec.budget.model_bytes, most, others)
    if len(bundles) == 1:
        return Packing((), len(models), *choose(spec, tasks, sizes, rows), "")
    largest = max(len({*bundle, *everywhere}) for bundle in bundles)
    choice, needed = choose(spec, tasks, sizes, rows, largest)
    reasons = _reasons(spec, models, None if most == len(models) else least_bytes(spec, tasks, sizes, rows))
    why = f"One worker does not hold all variants: {reasons}."
    if len(everywhere) > 1:
        why += f" Each has {listing(everywhere[:-1])} too, whose outputs the baseline takes."
    return Packing(bundles, largest, choice, needed, why)


def first_fit(
    models: Mapping[str, int],
    baseline: str | None,
    capacity: int | None,
    most: int,
    others: Takes = MappingProxyType({}),
) -> Bundles:
    """Bundles of variants, each in the order given: the largest model first, to the first bundle that has room for it.

    The baseline is in each of them, with all that it takes from, and named in the first alone. capacity: bytes of all
    models of a worker; None: any. most: variants of a worker. others: variant -> those that it takes from; they are in
    one bundle. SpecError where they do not fit with the baseline.

    >>> first_fit({"base": 1, "a": 2, "b": 1, "c": 3}, "base", capacity=4, most=3)
    (('base', 'c'), ('a', 'b'))
    """
    everywhere = () if baseline is None else with_others([baseline], others)
    own = sum(models[name] for name in everywhere)
    order = {name: place for place, name in enumerate(models)}
    sized = [(sum(models[name] for name in group), group) for group in together(list(models), others, everywhere)]
    sized.sort(key=lambda one: -one[0])  # stable
    _check_fits(sized[0][1] if sized else (), models, everywhere, capacity)
    most -= len(everywhere)
    held: list[list[str]] = [[]]
    for num_bytes, group in sized:
        for bundle in held:
            total = own + num_bytes + sum(models[one] for one in bundle)
            if len(bundle) + len(group) <= most and (capacity is None or total <= capacity):
                bundle += group
                break
        else:
            held.append(list(group))
    held[0] += everywhere
    return tuple(tuple(sorted(bundle, key=order.__getitem__)) for bundle in held)


def _most_variants(spec: Spec, tasks: Sequence[Task], sizes: Sizes, rows: int | None, fewest: int) -> int:
    """How many variants' states fit one worker in their slimmest form. fewest: that it must hold, since they cannot be
    apart; SpecError when it cannot."""
    choose(spec, tasks, sizes, rows, fewest)
    numbers = range(fewest, len(spec.variants) + 1)
    if least_bytes(spec, tasks, sizes, rows) <= spec.budget.state_bytes:
        return numbers[-1]
    fitting = bisect_right(
        numbers, spec.budget.state_bytes, key=lambda number: least_bytes(spec, tasks, sizes, rows, number)
    )
    return numbers[fitting - 1]


def _check_fits(
    largest: Sequence[str], models: Mapping[str, int], everywhere: Sequence[str], capacity: int | None
) -> None:
    """largest: the variants that take the most together; everywhere: those of each worker, the baseline last."""
    parts = [one for one in (largest, everywhere) if one]
    sizes = [sum(models[name] for name in one) for one in parts]
    if capacity is None or sum(sizes) <= capacity:
        return
    said = f"{_of_models(parts[0])} {_size(sizes[0])}"
    if len(parts) > 1 and len(everywhere) == 1:
        said += f" and that of the baseline {everywhere[0]!r}, which each worker holds too, {_size(sizes[1])}"
    elif len(parts) > 1:
        said += f" and {_of_models(everywhere)} {_size(sizes[1])}, and each worker holds these too, for the baseline"
    raise SpecError(
        [
            Fault(
                "budget.model_bytes",
                f"{said}, but the budget of a worker is {_size(capacity)}; raise it, or say with memory_bytes what "
                "they take in memory if that is not the size of their files.",
            )
        ]
    )


def _of_models(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"the model of {names[0]!r} takes"
    return f"the models of {listing(names)}, which take outputs of one another, take"


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
