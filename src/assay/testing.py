"""The laws that every metric must keep, as one function to run over a metric of your own.

    from assay.testing import check_metric

    def test_my_metric():
        check_metric(MyMetric(), bounds=(0.0, 1.0))

Lives here: seeded rows and the laws. Not here: whether a metric's number is the right one; compare that with a second
implementation. Axes: n rows, S slices, D slicing dimensions, B buckets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from assay.metrics.parse import make, parse
from assay.protocols import Accumulator, Metric
from assay.records import Block, LabelKind, Replicates, Sizes, State, StateChoice, StateKey, Tally
from assay.states import decode, digest, encode, num_bytes

CHOICES = tuple(
    StateChoice(exact_ranking, bucketed) for exact_ranking in (True, False) for bucketed in ("all", "overall", "none")
)
"""Every form that states can take in a run."""

SIZES = Sizes(num_slices=6, num_buckets=64, num_dimensions=3)
"""Sizes of the states that the laws are checked on; slice 5 has no rows."""

_SLICES_OF = ((0, 1), (1, 3), (3, 5))  # per dimension: first slice and the one after the last
_WEIGHT_LIMIT = 1 << 10


def random_block(
    rng: np.random.Generator, num_rows: int, label_kind: LabelKind | None = "binary", probability: bool = True
) -> Block:
    """Rows with ties, extreme scores, weights, three dimensions of slices and 64 buckets, within `SIZES`.

    probability: the output is a probability (with exact zeros and ones); else a plain score of any size and sign.
    """
    score = rng.beta(0.5, 1.5, num_rows) if probability else rng.normal(0.0, 3.0, num_rows)
    score = np.where(rng.random(num_rows) < 0.5, np.round(score, 1), score).astype(np.float32)
    label = rng.normal(0.0, 2.0, num_rows) if label_kind == "real" else rng.random(num_rows) < 0.3
    return make_block(
        score,
        label,
        probability=probability,
        weight=rng.integers(1, _WEIGHT_LIMIT, num_rows),
        slices=np.stack([rng.integers(first, last, num_rows) for first, last in _SLICES_OF]),
        bucket=rng.integers(0, SIZES.num_buckets, num_rows),
    )


def make_block(
    score: ArrayLike,
    label: ArrayLike,
    *,
    probability: bool = True,
    weight: ArrayLike | None = None,
    slices: ArrayLike | None = None,
    bucket: ArrayLike | None = None,
) -> Block:
    """Rows with these scores and labels [n], to compare a metric with a second implementation.

    By default the scores are probabilities, every weight is 1, all rows are in slice 0 alone, and they are dealt to the
    64 buckets in turn. slices: [D, n], the first row all zeros.
    """
    raw = np.asarray(score, np.float64) + 0.0
    with np.errstate(over="ignore"):  # past float32's range scores rank as infinite
        ranking = raw.astype(np.float32)
    num_rows, labels = len(raw), np.asarray(label, np.float64)
    in_turn = np.arange(num_rows) % SIZES.num_buckets
    return Block(
        raw=raw,
        ranking=ranking,
        probability=ranking if probability else None,
        label=labels,
        positive=(labels != 0).astype(np.uint8),
        weight=np.asarray(np.ones(num_rows) if weight is None else weight, np.int64),
        slices=np.asarray(np.zeros((1, num_rows)) if slices is None else slices, np.int32),
        bucket=np.asarray(in_turn if bucket is None else bucket, np.int32),
    )


def evaluate(metric: Metric, *blocks: Block, choice: StateChoice, sizes: Sizes | None = None) -> Replicates:
    """The metric on all rows of the blocks; by default with slice 0 alone and 64 buckets.

    >>> from assay.metrics.ranking import AUC
    >>> rows = make_block([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    >>> evaluate(AUC(), rows, choice=CHOICES[0]).value.tolist()
    [0.75]
    """
    sizes = Sizes(1, SIZES.num_buckets) if sizes is None else sizes
    states = {one.identity: _update(one, blocks, sizes) for one in metric.accumulators(choice)}
    return metric.evaluate(states, choice, 1.0)


States = Mapping[str, State]


@dataclass(frozen=True, slots=True)
class Case:
    """A metric under one choice of states, with rows to check it on."""

    metric: Metric
    choice: StateChoice
    block: Block
    bounds: tuple[float, float]
    counts_rows: bool

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return self.metric.accumulators(self.choice)

    def states(self, *parts: Block) -> States:
        """States that are updated with one part after the other."""
        return {one.identity: _update(one, parts, SIZES) for one in self.accumulators}

    def merge(self, left: States, right: States) -> States:
        return {one.identity: one.merge(left[one.identity], right[one.identity]) for one in self.accumulators}

    def subtract(self, whole: States, part: States) -> States:
        return {one.identity: one.subtract(whole[one.identity], part[one.identity]) for one in self.accumulators}

    def evaluate(self, states: States, weight_unit: float = 1.0) -> Replicates:
        return self.metric.evaluate(states, self.choice, weight_unit)

    def require(self, condition: bool, law: str) -> None:
        if not condition:
            raise AssertionError(f"The metric {self.metric.name!r} breaks a law under {self.choice}: {law}.")


def check_metric(
    metric: Metric,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    counts_rows: bool = False,
    choices: Sequence[StateChoice] = CHOICES,
    seed: int = 0,
) -> None:
    """Raise AssertionError, naming the law, unless the metric keeps every law of a metric.

    bounds: what its values may be. counts_rows: it counts rows rather than weights, so that two rows are not one of
    twice the weight. choices: the forms of states to check. The rows are those of `random_block` under `seed`; a metric
    that needs no probability is also checked on plain scores.

    >>> from assay.metrics.probability import Brier
    >>> check_metric(Brier(), bounds=(0.0, 1.0))
    """
    check_name(metric)
    for probability in (True,) if metric.needs_probability else (True, False):
        block = random_block(np.random.default_rng(seed), 300, metric.label_kind, probability)
        for choice in choices:
            case = Case(metric, choice, block, bounds, counts_rows)
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
)


def _update(accumulator: Accumulator, parts: Iterable[Block], sizes: Sizes) -> State:
    state = accumulator.zero(sizes)
    for part in parts:
        state = accumulator.update(state, part)
    return state


def _split(block: Block, num_parts: int) -> Iterator[Block]:
    yield from (block.take(rows) for rows in np.array_split(np.arange(len(block.weight)), num_parts))


def _digest(states: States) -> str:
    return digest(Tally((), {StateKey("", "", name, "scored"): state for name, state in states.items()}))


def _same(one: States, other: States) -> bool:
    return _digest(one) == _digest(other)


def _without_rows(states: States) -> States:
    return {name: {field: one for field, one in state.items() if field != "rows"} for name, state in states.items()}


def _equal(one: Replicates, other: Replicates) -> bool:
    """The same numbers to the bit, and the same reasons."""
    arrays = ((one.value, other.value), (one.without, other.without), (one.error_bound, other.error_bound))
    same = all(ours.tobytes() == theirs.tobytes() for ours, theirs in arrays)
    return same and one.reason == other.reason and one.interval_reason == other.interval_reason
