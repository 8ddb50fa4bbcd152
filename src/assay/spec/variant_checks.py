"""The checks of the variants of a spec, and of the preparations that make what they receive."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from assay.errors import Fault
from assay.spec.model import MAIN_TASK, NO_SCORE, Spec, TorchModel, VariantSpec
from assay.spec.names import offer
from assay.spec.others import Taken, taken
from assay.spec.task_checks import kind_of, tasks_of, unknown_tasks
from assay.spec.words import count, either

MODEL_KINDS = ("column", "callable", "sklearn", "lightgbm", "torch")
KINDS_WITHOUT_CODE = ("column", "callable", "lightgbm")
KINDS_WITH_OWN_INPUTS = ("column", "lightgbm")
KINDS_WITH_OUTPUTS = ("callable", "torch")
VALUE_TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "string"),
)
FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""The form of "module:function"."""

_VALUE_TYPE = re.compile(rf"({'|'.join(VALUE_TYPES)})|list<({'|'.join(VALUE_TYPES[1:-1])})>(\[[1-9]\d*\])?")


def variant_faults(spec: Spec, path: str, variant: VariantSpec) -> Iterator[Fault]:
    """Of one variant by itself; names that are taken twice are another matter (`checks.name_faults`)."""
    given = [kind for kind in MODEL_KINDS if getattr(variant, kind) is not None]
    if len(given) != 1:
        got = f"got {' and '.join(given)}" if given else "no model given"
        yield Fault(path, f"{got}; expected exactly one of {either(MODEL_KINDS)}.")
    if variant.torch is not None:
        yield from _torch(f"{path}.torch", variant.torch)
    if given == ["column"]:
        yield from _effects_on_column(path, variant)
    if variant.trusted and len(given) == 1 and given[0] in KINDS_WITHOUT_CODE:
        yield Fault(f"{path}.trusted", f"has no effect on {given[0]}, which loads no file that runs code; drop it.")
    yield from _columns(spec, f"{path}.column", variant)
    if isinstance(variant.output, dict):
        yield from unknown_tasks(spec, f"{path}.output", variant.output)
    yield from _without_score(spec, path, variant, given)
    yield from _more_outputs(spec, f"{path}.outputs", variant, given)
    if variant.prepare is not None:
        yield from _prepared(spec, path, variant, variant.prepare, given)


def preparation_faults(spec: Spec) -> Iterator[Fault]:
    """Of all of `prepare`."""
    named = {variant.prepare for variant in spec.variants}
    for name, one in spec.prepare.items():
        path = f"prepare.{name}"
        if name not in named:
            yield Fault(
                path, f"has no effect, since no variant names it; say prepare: {name} in a variant, or drop it."
            )
        if not FUNCTION.fullmatch(one.function):
            yield Fault(f"{path}.function", f'got {one.function!r}; expected "module:function".')
        if not one.inputs:
            yield Fault(f"{path}.inputs", "names no column; expected at least one.")
        elif not isinstance(one.inputs, dict) and len(set(one.inputs)) < len(one.inputs):
            twice = next(column for i, column in enumerate(one.inputs) if column in one.inputs[:i])
            yield Fault(f"{path}.inputs", f"names column {twice!r} twice; keep one.")
        if one.tasks is None:
            for key in ("num_cpus", "resources", "labels"):
                if getattr(one, key) != type(one).model_fields[key].get_default(call_default_factory=True):
                    yield Fault(f"{path}.{key}", "has no effect without tasks; give these, or drop this.")


def _without_score(spec: Spec, path: str, variant: VariantSpec, given: Sequence[str]) -> Iterator[Fault]:
    """A variant that gives no score must give something else."""
    tasks = list(tasks_of(spec))
    without = [task for task in tasks if kind_of(spec, variant, task) == NO_SCORE]
    if not without:
        return
    place = _place_of_kind(spec, path, variant, without[0])
    kinds = [kind for kind in given if kind not in KINDS_WITH_OUTPUTS]
    if kinds:
        yield Fault(place, f"is none, but {kinds[0]} gives a score and nothing else; say what it is.")
    elif without == tasks and not variant.outputs:
        yield Fault(place, f"is none, and {variant.name!r} has no `outputs`: nothing would be written; give these.")


def _place_of_kind(spec: Spec, path: str, variant: VariantSpec, task: str) -> str:
    """Where it is said what the score of a variant is."""
    own = variant.output
    if isinstance(own, dict) and task in own and own[task].kind is not None:
        return f"{path}.output.{task}"
    if own is not None and not isinstance(own, dict) and own.kind is not None:
        return f"{path}.output"
    return f"tasks.{task}.output" if spec.tasks else "output"


def _more_outputs(spec: Spec, path: str, variant: VariantSpec, given: Sequence[str]) -> Iterator[Fault]:
    """What a variant gives beside scores."""
    for kind in given if variant.outputs else ():
        if kind not in KINDS_WITH_OUTPUTS:
            yield Fault(path, f"cannot go with {kind}, which gives scores alone; drop it.")
    for name, one in variant.outputs.items():
        if name in tasks_of(spec):
            yield Fault(f"{path}.{name}", f"is the name of a task, whose output is the score {name!r}; choose another.")
        if not _VALUE_TYPE.fullmatch(one.type):
            yield Fault(
                f"{path}.{name}.type",
                f"got {one.type!r}; expected {either(VALUE_TYPES)}, or a list of numbers: list<float32>, or with their "
                "number list<float32>[384].",
            )
        is_taken = any(asked == Taken(variant.name, name) for other in spec.variants for asked in taken(spec, other))
        is_written = spec.predictions is not None and spec.predictions.top_k is None
        if not is_written and not is_taken and "{" not in variant.name:
            why = "top_k writes scores alone" if spec.predicts else "nothing is written without predictions"
            yield Fault(f"{path}.{name}", f"has no effect: {why}, and no variant takes it.")


def _prepared(spec: Spec, path: str, variant: VariantSpec, name: str, given: Sequence[str]) -> Iterator[Fault]:
    """A variant that receives what a preparation makes."""
    if name not in spec.prepare:
        known = offer(name, spec.prepare) if spec.prepare else "; the spec has no prepare."
        yield Fault(f"{path}.prepare", f"there is no preparation {name!r}{known}")
    without = [kind for kind in given if kind in KINDS_WITH_OWN_INPUTS]
    for kind in without:
        what = (
            "reads a score that is already in the data" if kind == "column" else "takes the features that it recorded"
        )
        yield Fault(f"{path}.prepare", f"cannot go with {kind}, which {what}; drop it.")
    if without:
        return
    if variant.inputs is not None:
        yield Fault(f"{path}.inputs", "has no effect beside prepare, which makes what the model receives; drop one.")
    if variant.receive is not None and (variant.receive != "arguments" or given == ["sklearn"]):
        expected = "drop it" if given == ["sklearn"] else "say receive: arguments for the entries of a dict, or drop it"
        yield Fault(
            f"{path}.receive",
            f"is {variant.receive}, but with prepare the model receives what that makes, as it is; {expected}.",
        )


def _torch(path: str, torch: TorchModel) -> Iterator[Fault]:
    if torch.load is not None and torch.factory is not None:
        yield Fault(path, "expected load or factory, got both.")
    if torch.settings and torch.load is None and torch.factory is None:
        yield Fault(f"{path}.settings", "has no effect without load or factory; drop it.")


def _effects_on_column(path: str, variant: VariantSpec) -> Iterator[Fault]:
    output = variant.output
    by_place = {f".{task}": one for task, one in output.items()} if isinstance(output, dict) else {"": output}
    without = [f".{key}" for key in ("inputs", "receive") if getattr(variant, key) is not None]
    without += [f".output{place}.select" for place, one in by_place.items() if one and one.select is not None]
    for place in without:
        yield Fault(path + place, "has no effect on a score that is already in the data; drop it.")


def _columns(spec: Spec, path: str, variant: VariantSpec) -> Iterator[Fault]:
    """Every task has a column (or several, where it takes several scores), and every column a task."""
    column, tasks = variant.column, list(spec.tasks) or [MAIN_TASK]
    expected = f"expected {{{', '.join(f'{task}: ...' for task in tasks)}}}."
    if isinstance(column, str | tuple) and len(tasks) > 1:
        got = "one column" if isinstance(column, str) else f"a list of {len(column)} columns"
        yield Fault(path, f"got {got} for {len(tasks)} tasks; {expected}")
    elif isinstance(column, tuple):
        yield from _several_columns(spec, path, variant, MAIN_TASK if not spec.tasks else tasks[0], column)
    if isinstance(column, dict):
        unknown = list(unknown_tasks(spec, path, column))
        missing = [task for task in tasks if task not in column]
        yield from unknown
        if missing and not unknown:
            yield Fault(path, f"names no column for task {missing[0]!r}; {expected}")
        for task, several in column.items():
            if isinstance(several, tuple) and task in tasks:
                yield from _several_columns(spec, f"{path}.{task}", variant, task, several)


def _several_columns(
    spec: Spec, path: str, variant: VariantSpec, name: str, columns: tuple[str, ...]
) -> Iterator[Fault]:
    task, kind = tasks_of(spec)[name], kind_of(spec, variant, name)
    if kind == "interval":
        if len(columns) != 2:
            yield Fault(path, f"got {count(len(columns), 'column')}; an interval has two, lower and upper.")
    elif task.classes is None and task.labels is None:
        yield Fault(path, f"got {list(columns)}; expected one column, since the task has neither classes nor labels.")
    elif task.classes is not None and kind == "label":
        yield Fault(path, f"got {list(columns)}; expected one column, since the output is the predicted class.")
