"""The checks of the tasks of a spec: their labels, and what an output of theirs may be.

Not here: which metrics suit them (`pipeline/asked.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from assay.errors import Fault
from assay.spec.model import MAIN_TASK, NO_SCORE, DataSpec, OutputKind, OutputSpec, Spec, TaskSpec, VariantSpec
from assay.spec.names import offer


def task_faults(spec: Spec) -> Iterator[Fault]:
    """The label of each task, or the one that `data` has."""
    if not spec.tasks:
        yield from _label(spec, "data", spec.data)
        return
    for key in ("label", "classes", "labels"):
        if getattr(spec.data, key) is not None:
            yield Fault(f"data.{key}", "has no effect beside tasks, which name their own labels; drop it.")
    if spec.output != OutputSpec():
        yield Fault("output", "has no effect beside tasks, which name their own output; move it into each task.")
    for name, task in spec.tasks.items():
        yield from _label(spec, f"tasks.{name}", task)


def output_faults(spec: Spec) -> Iterator[Fault]:
    """Each place that says what an output is, beside the tasks that it is for."""
    tasks = tasks_of(spec)
    places: list[tuple[str, OutputSpec, tuple[str, ...]]]
    if spec.tasks:
        places = [(f"tasks.{name}.output", task.output, (name,)) for name, task in spec.tasks.items()]
    else:
        places = [("output", spec.output, (MAIN_TASK,))]
    for position, variant in enumerate(spec.variants):
        path, output = f"variants[{position}].output", variant.output
        if isinstance(output, dict):
            places += [(f"{path}.{name}", one, (name,)) for name, one in output.items() if name in tasks]
        elif output is not None:
            places.append((path, output, tuple(tasks)))
    for path, output, names in places:
        for name in names:
            message = _unfit(output.kind, tasks[name])
            if message is not None:
                yield Fault(f"{path}.is", message if len(tasks) == 1 else f"{message} It is for task {name!r}.")
        if output.kind == NO_SCORE and output.select is not None:
            yield Fault(f"{path}.select", "has no effect where there is no score; drop it.")


def kind_of(spec: Spec, variant: VariantSpec, task: str) -> OutputKind | None:
    """What the score of a variant is; None where neither it nor the task says."""
    own = variant.output.get(task) if isinstance(variant.output, dict) else variant.output
    of_task = spec.tasks[task].output if spec.tasks else spec.output
    return (own.kind if own is not None else None) or of_task.kind


def has_label(task: TaskSpec | DataSpec) -> bool:
    """False where scores are written and not measured."""
    return task.label is not None or isinstance(task.labels, dict)


def tasks_of(spec: Spec) -> dict[str, TaskSpec | DataSpec]:
    """By name; without `tasks` the label of `data` is the only one."""
    return dict(spec.tasks) if spec.tasks else {MAIN_TASK: spec.data}


def unknown_tasks(spec: Spec, path: str, names: Iterable[str]) -> Iterator[Fault]:
    """For each of these names that no task has."""
    known = list(spec.tasks) or [MAIN_TASK]
    for name in names:
        if name not in known:
            yield Fault(path, f"there is no task {name!r}{offer(name, known)}")


def _label(spec: Spec, path: str, task: TaskSpec | DataSpec) -> Iterator[Fault]:
    """What the label of a task is. There need be none where scores are written out and no metric is asked for."""
    if task.classes is not None and task.labels is not None:
        yield Fault(f"{path}.labels", "got classes and labels; expected one of them.")
    elif isinstance(task.labels, dict) and task.label is not None:
        yield Fault(f"{path}.label", "has no effect beside labels that name a column each; drop it.")
    elif not has_label(task):
        if not spec.predicts:
            yield Fault(f"{path}.label", "is required: the column, or SQL expression, with the label.")
        for key in ("classes", "labels"):
            if spec.predicts and getattr(task, key) == "auto":
                yield Fault(f"{path}.{key}", "is auto, the values of the label, and there is no label; name them.")
    yield from _names(f"{path}.classes", task.classes, "class", 2)
    yield from _names(f"{path}.labels", task.labels, "label", 1)


def _names(path: str, given: object, noun: str, least: int) -> Iterator[Fault]:
    """Declared classes or labels; None or "auto" where there are none."""
    if not isinstance(given, tuple | dict):
        return
    names = [str(one).lower() if isinstance(one, bool) else str(one) for one in given]
    if len(names) < least:
        yield Fault(
            path, f"got {list(given)}; expected at least {least} {noun if least == 1 else f'{noun}es'}, or auto."
        )
    for position, name in enumerate(names):
        if name in names[:position]:
            yield Fault(path, f"names the {noun} {name!r} twice; keep one.")


def _unfit(kind: OutputKind | None, task: TaskSpec | DataSpec) -> str | None:
    several = "classes" if task.classes is not None else "labels" if task.labels is not None else None
    if kind == "label" and several is None:
        return "is label, but the task has neither classes nor labels; give these, or say what the score is."
    if kind == "interval" and several is not None:
        return f"is interval, but the task has {several}; expected probability, logit, score or label."
    if kind == NO_SCORE and has_label(task):
        return "is none, but there is a label to measure a score by; say what the score is, or drop the label."
    return None
