"""The laws that every metric must keep, as one function to run over a metric.

Not here: whether a metric's number is the right one; compare that with a second implementation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from assay.metrics.parse import make, parse
from assay.protocols import Metric
from assay.records import Block, LabelKind, Replicates, State, StateChoice, StateKey, Tally
from assay.states import decode, digest, encode, num_bytes
from assay.testing.cases import Case, States, choices_of
from assay.testing.rows import SIZES, random_block, reordered, without_ties

_NUM_ROWS = 300


def check_metric(
    metric: Metric,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    counts_rows: bool = False,
    ordered_classes: bool = False,
    label_kind: LabelKind | None = None,
    columns: Sequence[str] = (),
    choices: Sequence[StateChoice] | None = None,
    blocks: Sequence[Block] | None = None,
    seed: int = 0,
) -> None:
    """Raise AssertionError, naming the law, unless the metric keeps every law of a metric.

    bounds: what its values may be. counts_rows: it counts rows rather than weights, so that two rows are not one of
    twice the weight. ordered_classes: the order of classes means something to it. label_kind: of the rows, for a metric
    that takes any. columns: of numbers that it reads. choices: the forms of states to check; all by default.

    blocks: the rows to check it on, within `SIZES`. By default they are those of `random_block` under `seed`; a metric
    that needs no probability is also checked on plain scores, and one that needs no scores of classes on predicted
    classes alone.

    >>> from assay.metrics.probability import Brier
    >>> check_metric(Brier(), bounds=(0.0, 1.0))
    """
    check_name(metric)
    kind = metric.label_kind or label_kind
    for block in _blocks_for(metric, kind, columns, seed) if blocks is None else blocks:
        for choice in choices_of(kind) if choices is None else choices:
            case = Case(metric, choice, block, bounds, counts_rows, ordered_classes)
            for law in LAWS:
                law(case)


def check_name(metric: Metric) -> None:
    """The metric's name is data: parsed and made again it gives an equal metric."""
    _, parameters = parse(metric.name)
    again = make(type(metric), metric.name, parameters)
    if again != metric or again.name != metric.name:
        raise AssertionError(f"The metric {metric.name!r} is not equal to the one that its name describes: {again!r}.")


def any_split(case: Case) -> None:
    """1, 2 or 7 parts, one of them empty, merged or updated in turn, give the same bytes."""
    whole = case.states(case.block)
    for num_parts in (1, 2, 7):
        parts = [*_split(case.block, num_parts), case.block.take(np.zeros(0, np.int64))]
        merged = case.states()
        for part in parts:
            merged = case.merge(merged, case.states(part))
        case.require(_same(merged, whole), f"{num_parts} parts and an empty one do not merge to the whole")
        case.require(_same(case.states(*parts), whole), f"{num_parts} updates in turn do not give the whole")


def any_order(case: Case) -> None:
    """Neither the order of rows nor that of merges matters, nor how merges are bracketed."""
    num_rows = len(case.block.weight)
    shuffled = case.block.take(np.random.default_rng(1).permutation(num_rows))
    case.require(_same(case.states(shuffled), case.states(case.block)), "the order of rows matters")
    a, b, c = (case.states(part) for part in _split(case.block, 3))
    case.require(_same(case.merge(a, b), case.merge(b, a)), "the order of merging matters")
    left, right = case.merge(case.merge(a, b), c), case.merge(a, case.merge(b, c))
    case.require(_same(left, right), "the brackets of merging matter")


def zero_is_neutral(case: Case) -> None:
    """Merging with zero changes nothing."""
    states, zero = case.states(case.block), case.states()
    case.require(_same(case.merge(states, zero), states), "zero on the right changes a state")
    case.require(_same(case.merge(zero, states), states), "zero on the left changes a state")


def arguments_untouched(case: Case) -> None:
    """merge, subtract and evaluate leave their arguments as they were, and give arrays of their own."""
    left, right = (case.states(part) for part in _split(case.block, 2))
    before = _digest(left), _digest(right)
    merged = case.merge(left, right)
    case.subtract(merged, right)
    case.evaluate(merged)
    case.metric.curves(merged, case.choice, 1.0)
    case.require((_digest(left), _digest(right)) == before, "merge or subtract changes its arguments")
    kept = _digest(merged)
    for one in case.accumulators:
        one.update(left[one.identity], case.block)
    case.require(_digest(merged) == kept, "a merged state shares memory with its parts")


def duplicate_is_weight_two(case: Case) -> None:
    """A row twice is a row of twice the weight: same states, but for arrays named `rows`, and same values."""
    twice = case.block.take(np.repeat(np.arange(len(case.block.weight)), 2))
    heavy = replace(case.block, weight=2 * case.block.weight)
    one, other = case.states(twice), case.states(heavy)
    case.require(_same(_without_rows(one), _without_rows(other)), "a duplicate row is not a row of weight 2")
    if not case.counts_rows:
        case.require(
            _equal(case.evaluate(one), case.evaluate(other)), "a duplicate row gives another value than weight 2"
        )


def weights_have_no_scale(case: Case) -> None:
    """Four times the weights in a quarter of the unit, or simply four times the weights, change no value."""
    once = case.evaluate(case.states(case.block))
    states = case.states(replace(case.block, weight=4 * case.block.weight))
    case.require(_equal(case.evaluate(states, 0.25), once), "the weights' unit matters")
    case.require(_equal(case.evaluate(states), once), "the weights' scale matters")


def computing_twice(case: Case) -> None:
    """The same states give the same numbers; so a metric minus itself is exactly 0."""
    first, again = case.evaluate(case.states(case.block)), case.evaluate(case.states(*_split(case.block, 2)))
    case.require(_equal(first, again), "computing twice gives two answers")
    for ours, theirs in ((first.value, again.value), (first.without, again.without)):
        gap = ours - theirs
        case.require(bool(np.all((gap == 0.0) | np.isnan(gap))), "a metric against itself does not differ by exactly 0")


def subtract_inverts_merge(case: Case) -> None:
    """(a + b) - b is a, to the byte, and a - a is zero."""
    a, b = (case.states(part) for part in _split(case.block, 2))
    case.require(_same(case.subtract(case.merge(a, b), b), a), "subtract does not invert merge")
    case.require(_same(case.subtract(a, a), case.states()), "a state minus itself is not zero")


def survives_a_file(case: Case) -> None:
    """A tally with the states is the same after writing and reading."""
    states = case.states(case.block)
    key = StateKey("task", "variant", "", "scored")
    tally = Tally((), {key._replace(accumulator=name): state for name, state in states.items()})
    case.require(digest(decode(encode(tally))) == digest(tally), "a state does not survive a file")


def unknown_is_said(case: Case) -> None:
    """A value is NaN exactly where there is a reason, also without any rows; and shapes are as promised."""
    for states in (case.states(case.block), case.states()):
        result = case.evaluate(states)
        shape = (SIZES.num_slices, SIZES.num_buckets)
        case.require(result.without.shape == shape and result.value.shape == shape[:1], "replicates have another shape")
        known = np.array([reason is None for reason in result.reason])
        case.require(
            bool(np.array_equal(known, ~np.isnan(result.value))),
            "a value is unknown without a reason, or known with one",
        )
        unsaid = np.isnan(result.without).all(axis=1) & known & [why is None for why in result.interval_reason]
        case.require(not unsaid.any(), "all replicates of a value are unknown without a reason")


def within_bounds(case: Case) -> None:
    """No value leaves the metric's bounds, and no error bound is negative."""
    result = case.evaluate(case.states(case.block))
    known = result.value[~np.isnan(result.value)]
    low, high = case.bounds
    case.require(bool(np.all((known >= low) & (known <= high))), f"a value leaves the bounds {low} to {high}")
    case.require(bool(np.all(result.error_bound >= 0.0)), "an error bound is negative")


def within_declared_bytes(case: Case) -> None:
    """No state takes more than its accumulator declares."""
    states, num_rows = case.states(case.block), len(case.block.weight)
    for one in case.accumulators:
        declared, taken = one.num_bytes(SIZES, num_rows), num_bytes(states[one.identity])
        case.require(taken <= declared, f"{one.identity} takes {taken} bytes and declares {declared}")


def classes_have_no_order(case: Case) -> None:
    """Classes in another order, names and all, change no value but in the last digits, where none of them tie."""
    if case.ordered or not case.choice.classes:
        return
    block = without_ties(case.block)
    order = np.random.default_rng(2).permutation(len(case.choice.classes))
    classes = tuple(case.choice.classes[one] for one in order)
    once, again = (
        one.evaluate(one.states(one.block))
        for one in (
            replace(case, block=block),
            replace(case, block=reordered(block, order), choice=replace(case.choice, classes=classes)),
        )
    )
    for ours, theirs in ((once.value, again.value), (once.without, again.without)):
        same = np.allclose(ours, theirs, rtol=1e-12, atol=1e-12, equal_nan=True)
        case.require(bool(same) and once.reason == again.reason, "the order of classes matters")


LAWS = (
    any_split,
    any_order,
    zero_is_neutral,
    arguments_untouched,
    duplicate_is_weight_two,
    weights_have_no_scale,
    computing_twice,
    subtract_inverts_merge,
    survives_a_file,
    unknown_is_said,
    within_bounds,
    within_declared_bytes,
    classes_have_no_order,
)


def _blocks_for(metric: Metric, kind: LabelKind | None, columns: Sequence[str], seed: int) -> Iterator[Block]:
    """Rows of each kind of output that the metric takes."""

    def block(probability: bool, output: Literal["score", "label", "interval"] = "score") -> Block:
        rng = np.random.default_rng(seed)
        reference = metric.needs_baseline
        return random_block(rng, _NUM_ROWS, kind, probability, output=output, reference=reference, columns=columns)

    if metric.needs_interval:
        yield block(False, "interval")
        return
    yield block(True)
    if not metric.needs_probability:
        yield block(False)
    if kind == "class" and not metric.needs_probability and not metric.needs_outputs:
        yield block(False, "label")


def _split(block: Block, num_parts: int) -> Iterator[Block]:
    yield from (block.take(rows) for rows in np.array_split(np.arange(len(block.weight)), num_parts))


def _digest(states: States) -> str:
    return digest(Tally((), {StateKey("", "", name, "scored"): state for name, state in states.items()}))


def _same(one: States, other: States) -> bool:
    """The same fields of the same type, shape and bytes."""
    return one.keys() == other.keys() and all(_same_state(state, other[name]) for name, state in one.items())


def _same_state(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(
        array.dtype == other[field].dtype and np.array_equal(array, other[field]) for field, array in one.items()
    )


def _without_rows(states: States) -> States:
    return {name: {field: one for field, one in state.items() if field != "rows"} for name, state in states.items()}


def _equal(one: Replicates, other: Replicates) -> bool:
    """The same numbers to the bit, and the same reasons."""
    arrays = ((one.value, other.value), (one.without, other.without), (one.error_bound, other.error_bound))
    same = all(ours.tobytes() == theirs.tobytes() for ours, theirs in arrays)
    return same and one.reason == other.reason and one.interval_reason == other.interval_reason
