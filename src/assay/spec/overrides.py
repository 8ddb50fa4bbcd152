"""`--set path=value`: one value of the tree replaced, before the tree is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.errors import Fault, SpecError
from assay.spec.document import Document, parse
from assay.spec.paths import Steps, parse_prefix, render


def override(tree: object, settings: Sequence[str], environ: Mapping[str, str]) -> Document:
    """The tree with every `path=value` applied in order; the value is YAML. Nothing is changed in place.

    >>> override({"seed": 1}, ["seed=2", "execution.micro_batch=256"], {}).tree
    {'seed': 2, 'execution': {'micro_batch': 256}}
    """
    faults: list[Fault] = []
    for setting in settings:
        steps, rest = parse_prefix(setting)
        if not steps or not rest.startswith("="):
            faults.append(Fault("", f"got --set {setting!r}; expected a path and a value, as in data.path=new/."))
            continue
        value = parse(rest[1:], environ)
        faults += [Fault(render(steps), fault.message) for fault in value.faults]
        try:
            tree = _replaced(tree, steps, 0, value.tree)
        except SpecError as error:
            faults += error.faults
    return Document(tree, tuple(faults))


def _replaced(node: object, steps: Steps, depth: int, value: object) -> object:
    """`node`, which lies at steps[:depth], with `value` put at `steps`."""
    if depth == len(steps):
        return value
    step = steps[depth]
    place = render(steps[:depth]) or "the spec"
    if isinstance(step, str):
        if not isinstance(node, Mapping | None):
            raise _misfit(steps, f"{place} is {node!r}, not a mapping; it has no key {step!r}.")
        known = node or {}
        return {**known, step: _replaced(known.get(step), steps, depth + 1, value)}
    if not isinstance(node, list | tuple):
        raise _misfit(steps, f"{place} is {node!r}, not a list; it has no position {step}.")
    if step >= len(node):
        raise _misfit(steps, f"{place} has {len(node)} entries, numbered from 0; it has no position {step}.")
    return [*node[:step], _replaced(node[step], steps, depth + 1, value), *node[step + 1 :]]


def _misfit(steps: Steps, message: str) -> SpecError:
    return SpecError([Fault(render(steps), message)])
