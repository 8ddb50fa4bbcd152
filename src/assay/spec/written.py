"""The columns of predictions that variants give: which there are, their names, and types that the spec chooses.

Lives here: what the spec says of them, and what is wrong with it. Not here: columns of the data that are carried over,
and what such types are in Arrow (`pipeline/declared.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import Formatter
from typing import NamedTuple

from assay.errors import Fault
from assay.spec.model import NO_SCORE, PredictionsSpec, ScoreType, Spec, VariantSpec
from assay.spec.names import offer
from assay.spec.task_checks import kind_of, tasks_of


class Written(NamedTuple):
    """A column that a variant gives."""

    variant: str
    output: str  # a task, or one of the variant's `outputs`
    name: str
    type: ScoreType | None  # of a score, where the spec chooses one
    default_name: str  # before `names` gives it another


def written(spec: Spec, said: PredictionsSpec) -> Iterator[Written]:
    """In the order of the variants; of each its scores, then its other outputs. Once templates are expanded."""
    tasks = tasks_of(spec)
    template = said.names if isinstance(said.names, str) else "{variant}.{task}" if len(tasks) > 1 else "{variant}"
    beside = template if "{task}" in template else f"{template}.{{task}}"
    chosen = said.names if isinstance(said.names, dict) else {}
    for variant in spec.variants:
        for task in tasks:
            if kind_of(spec, variant, task) == NO_SCORE:
                continue
            default = template.format(variant=variant.name, task=task)
            name = chosen.get(default, default)
            if isinstance(said.types, dict):
                kind = said.types.get(name)
            else:
                kind = None if _is_text(spec, variant, task) else said.types
            yield Written(variant.name, task, name, kind, default)
        for output in variant.outputs:
            default = beside.format(variant=variant.name, task=output)
            yield Written(variant.name, output, chosen.get(default, default), None, default)


def score_types(spec: Spec) -> Mapping[tuple[str, str], ScoreType]:
    """(variant, task) -> the type that the spec chooses for the column."""
    if spec.predictions is None:
        return {}
    return {(one.variant, one.output): one.type for one in written(spec, spec.predictions) if one.type is not None}


def _is_text(spec: Spec, variant: VariantSpec, task: str) -> bool:
    """Whether the column holds names of classes."""
    return kind_of(spec, variant, task) == "label" and tasks_of(spec)[task].classes is not None


# ---- faults ----------------------------------------------------------------------------------------------------------


def template_faults(spec: Spec, names: str) -> Iterator[Fault]:
    """Each variant and task must come to a name of its own."""
    path = "predictions.names"
    try:
        parsed = [one for one in Formatter().parse(names) if one[1] is not None]
    except ValueError as error:
        yield Fault(path, f"got {names!r}, which is no template ({error}); expected such as {{variant}}.{{task}}.")
        return
    used = {str(field) for _, field, _, _ in parsed}
    if any(form or conversion for _, _, form, conversion in parsed):
        yield Fault(path, f"got {names!r}; expected {{variant}} and {{task}} without : and !.")
        return
    unknown = sorted(used - {"variant", "task"})
    if unknown:
        yield Fault(path, f"got {{{unknown[0]}}}; expected {{variant}} and {{task}} alone.")
    several = len(spec.variants) > 1 or "{" in spec.variants[0].name
    needed = [("variant", several), ("task", len(tasks_of(spec)) > 1)]
    missing = [name for name, needs in needed if needs and name not in used]
    if missing and not unknown:
        yield Fault(path, f"got {names!r}, so that columns would have one name; put {{{missing[0]}}} into it.")


def written_faults(spec: Spec) -> Iterator[Fault]:
    """Names and types of columns that there are not. Once templates are expanded."""
    said = spec.predictions
    if said is None or said.top_k is not None:
        return
    if isinstance(said.names, str) and any(template_faults(spec, said.names)):
        return
    columns = list(written(spec, said))
    if isinstance(said.names, dict):
        known = [one.default_name for one in columns]
        for name in said.names:
            if name not in known:
                yield Fault(f"predictions.names.{name}", f"no output has the name {name!r}{offer(name, known)}")
    variants = {one.name: one for one in spec.variants}
    scores = {one.name: one for one in columns if one.output in tasks_of(spec)}
    for key in ("names", "types"):
        if getattr(said, key) == {}:
            yield Fault(f"predictions.{key}", "is empty, so that it has no effect; drop it.")
    if isinstance(said.types, str) and not any(one.type for one in columns):
        yield Fault("predictions.types", "has no effect: no variant gives a score that is a number; drop it.")
    for name in said.types if isinstance(said.types, dict) else ():
        path = f"predictions.types.{name}"
        if name in scores and _is_text(spec, variants[scores[name].variant], scores[name].output):
            yield Fault(path, "is the predicted class, which is text; drop it.")
        elif name not in scores and any(one.name == name for one in columns):
            yield Fault(path, "is no score: `outputs` of its variant say what type it has; drop it.")
        elif name not in scores:
            yield Fault(path, f"no score has the name {name!r}{offer(name, scores)}")
