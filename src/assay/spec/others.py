"""Variants that take what others give: which, in what order they are scored, and what can be wrong with it.

Lives here: dependence among the variants of a spec, by names alone. Not here: the values that are handed on
(`scoring.py`), and which worker holds whom (`pipeline/bundles.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from assay.errors import Fault
from assay.spec.model import MAIN_TASK, NO_SCORE, OtherOutput, Spec, VariantSpec
from assay.spec.names import offer
from assay.spec.task_checks import kind_of
from assay.spec.words import listing

Takes = Mapping[str, Sequence[str]]
"""{variant: the others whose outputs it takes}; one that takes none may be left out."""


class Taken(NamedTuple):
    """An output of a variant: its score for a task, or one of its `outputs`."""

    variant: str
    output: str

    @property
    def column(self) -> str:
        """The column that it stands in, beside those of the data.

        >>> Taken("first", "main").column
        'main of variant first'
        """
        return f"{self.output} of variant {self.variant}"


def taken(spec: Spec, variant: VariantSpec) -> tuple[Taken, ...]:
    """The outputs of others that a variant takes, each once, in the order of its inputs."""
    return tuple(dict.fromkeys(as_taken(spec, one) for one in _asked(variant)))


def as_taken(spec: Spec, asked: OtherOutput) -> Taken:
    return Taken(asked.variant, asked.output or asked.task or next(iter(spec.tasks), MAIN_TASK))


def with_columns(variant: VariantSpec, column: Callable[[OtherOutput], str]) -> VariantSpec:
    """The same, with columns in the place of others' outputs: what a model is described by."""
    if not isinstance(variant.inputs, dict):
        return variant
    inputs: dict[str, object] = {}
    for argument, given in variant.inputs.items():
        several = given if isinstance(given, tuple) else (given,)
        columns = tuple(one if isinstance(one, str) else column(one) for one in several)
        inputs[argument] = columns if isinstance(given, tuple) else columns[0]
    return variant.model_copy(update={"inputs": inputs})


def takes(variants: Iterable[VariantSpec]) -> dict[str, tuple[str, ...]]:
    """{variant: the others whose outputs it takes}, of those that take any."""
    found = {one.name: tuple(dict.fromkeys(asked.variant for asked in _asked(one))) for one in variants}
    return {name: others for name, others in found.items() if others}


def with_others(names: Iterable[str], takes: Takes) -> tuple[str, ...]:
    """The names, with all whose outputs they need, and these in turn: those that are needed come first.

    Otherwise in the order given. There must be no cycle.

    >>> with_others(["blend", "first"], {"blend": ["second", "first"], "second": ["first"]})
    ('first', 'second', 'blend')
    """
    found: dict[str, None] = {}

    def add(name: str) -> None:
        if name not in found:
            for other in takes.get(name, ()):
                add(other)
            found[name] = None

    for name in names:
        add(name)
    return tuple(found)


def together(names: Sequence[str], takes: Takes, everywhere: Collection[str] = ()) -> list[tuple[str, ...]]:
    """The names in groups that cannot be apart, since one takes what another gives; each group in the order given.

    everywhere: names that are in reach of all, and bind none.

    >>> together(["a", "b", "c", "d"], {"c": ["a"], "d": ["b"]}, everywhere=["b"])
    [('a', 'c'), ('d',)]
    """
    group = {name: [name] for name in names if name not in everywhere}
    for name in group:
        for other in takes.get(name, ()):
            if other not in everywhere and group[other] is not group[name]:
                group[name] += group[other]
                group |= dict.fromkeys(group[other], group[name])
    place = {name: position for position, name in enumerate(names)}
    each = {id(one): tuple(sorted(one, key=place.__getitem__)) for one in group.values()}
    return list(each.values())


# ---- faults ----------------------------------------------------------------------------------------------------------


def faults_of_others(spec: Spec) -> Iterator[Fault]:
    """Outputs that there are not, and variants that would wait for one another. Once templates are expanded."""
    by_name = {one.name: one for one in spec.variants}
    unknown = False
    for position, variant in enumerate(spec.variants):
        for place, asked in _places(variant):
            found = list(_unknown(spec, f"variants[{position}].inputs.{place}", asked, by_name))
            unknown = unknown or bool(found)
            yield from found
    cycle = () if unknown else _cycle(takes(spec.variants))
    if cycle:
        position = list(by_name).index(cycle[0])
        if len(cycle) == 1:
            said = "its own output; a variant takes those of others."
        else:
            chain = ", which takes that of ".join(repr(name) for name in (*cycle[1:], cycle[0]))
            said = f"the output of {chain}: none of them can be the first; break the circle."
        yield Fault(f"variants[{position}].inputs", f"{cycle[0]!r} takes {said}")


def _unknown(spec: Spec, path: str, asked: OtherOutput, variants: Mapping[str, VariantSpec]) -> Iterator[Fault]:
    tasks = list(spec.tasks) or [MAIN_TASK]
    if asked.variant not in variants:
        yield Fault(f"{path}.variant", f"there is no variant {asked.variant!r}{offer(asked.variant, list(variants))}")
        return
    outputs = variants[asked.variant].outputs
    if asked.output is not None and asked.task is not None:
        yield Fault(path, "got task and output; expected the score for a task, or one of the variant's outputs.")
    elif asked.output is not None and asked.output not in outputs:
        known = offer(asked.output, list(outputs)) if outputs else ", which has none; give it outputs, or drop this."
        yield Fault(f"{path}.output", f"there is no {asked.output!r} among the outputs of {asked.variant!r}{known}")
    elif asked.task is not None and asked.task not in tasks:
        yield Fault(f"{path}.task", f"there is no task {asked.task!r}{offer(asked.task, tasks)}")
    elif asked.task is None and asked.output is None and len(tasks) > 1:
        yield Fault(f"{path}.task", f"is required, since there are {len(tasks)} tasks: {listing(tasks)}.")
    elif asked.output is None and kind_of(spec, variants[asked.variant], asked.task or tasks[0]) == NO_SCORE:
        yield Fault(path, f"asks for a score, and {asked.variant!r} gives none; name one of its outputs by `output`.")


def _cycle(takes: Takes) -> tuple[str, ...]:
    """The names of one, each of which takes from the next and the last from the first; () where there is none."""
    try:
        TopologicalSorter(takes).prepare()
    except CycleError as error:
        return tuple(reversed(error.args[1][1:]))
    return ()


def _asked(variant: VariantSpec) -> list[OtherOutput]:
    return [asked for _, asked in _places(variant)]


def _places(variant: VariantSpec) -> Iterator[tuple[str, OtherOutput]]:
    """Each output of another, with its place among the inputs."""
    if not isinstance(variant.inputs, dict):
        return
    for argument, given in variant.inputs.items():
        for position, one in enumerate(given if isinstance(given, tuple) else (given,)):
            if isinstance(one, OtherOutput):
                yield f"{argument}[{position}]" if isinstance(given, tuple) else argument, one
