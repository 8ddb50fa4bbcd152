"""Which models share an actor: those whose needs fit one.

First fit, the largest first. A shared actor calls its models one after another, so it needs the most CPUs that any of
them does, but the GPU shares and the memory of all. Models that need no GPU hold none: they share with one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple


class Needs(NamedTuple):
    """What a model, or all models of an actor, take of a machine."""

    num_cpus: float | None  # None: Ray's own default
    num_gpus: float
    memory: float  # bytes; 0: not counted


def pack(needs: Mapping[str, Needs], most: Needs) -> tuple[tuple[str, ...], ...]:
    """The names by actor, each once, in the order of `needs`; `most`: what an actor may take.

    A model that needs more than that has an actor of its own.

    >>> small, large = Needs(1, 0.25, 0), Needs(1, 0.75, 0)
    >>> pack({"a": small, "b": large, "c": small, "d": small}, Needs(None, 1, float("inf")))
    (('a', 'b'), ('c', 'd'))
    """
    position = {name: number for number, name in enumerate(needs)}
    actors: list[list[str]] = []
    for name in sorted(needs, key=lambda name: (-needs[name].num_gpus, -needs[name].memory, position[name])):
        home = next((actor for actor in actors if _fits([*actor, name], needs, most)), None)
        if home is None:
            actors.append([name])
        else:
            home.append(name)
    ordered = sorted(
        (sorted(actor, key=position.__getitem__) for actor in actors), key=lambda actor: position[actor[0]]
    )
    return tuple(map(tuple, ordered))


def needs_of_all(needs: list[Needs]) -> Needs:
    """What an actor needs that holds them all."""
    cpus = [one.num_cpus for one in needs if one.num_cpus is not None]
    gpus = sum((_exact(one.num_gpus) for one in needs), Fraction(0))
    return Needs(max(cpus, default=None), float(gpus), sum(one.memory for one in needs))


def _fits(names: list[str], needs: Mapping[str, Needs], most: Needs) -> bool:
    if len({needs[name].num_gpus > 0 for name in names}) > 1:
        return False
    together = needs_of_all([needs[name] for name in names])
    return together.num_gpus <= most.num_gpus and together.memory <= most.memory


def _exact(number: float) -> Fraction:
    """Ten tenths are one."""
    return Fraction(str(number))
