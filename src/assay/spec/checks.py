"""The checks of a spec that need the tree alone and cross from one part of it to another."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from string import Formatter

from assay.errors import Fault, SpecError
from assay.spec.model import (
    MAIN_TASK,
    OVERALL,
    CutSpec,
    DataSpec,
    GateSpec,
    MetricSpec,
    OutputKind,
    OutputSpec,
    SliceSpec,
    Spec,
    TaskSpec,
    TorchModel,
    VariantSpec,
)
from assay.spec.names import offer
from assay.spec.others import faults_of_others
from assay.spec.words import count, either, listing

MODEL_KINDS = ("column", "callable", "sklearn", "lightgbm", "torch")
KINDS_WITHOUT_CODE = ("column", "callable", "lightgbm")
KINDS_WITH_OWN_INPUTS = ("column", "lightgbm")
RULES = ("margin", "improve", "harm", "min", "max", "coverage", "same_rows")
RULES_WITH_BASELINE = ("margin", "improve", "harm", "same_rows")
RULES_WITHOUT_METRIC = ("coverage", "same_rows")

_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_WORD = re.compile(r"[^\W\d]\w*")
_AMOUNT = re.compile(r"(?P<number>\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?\s*%?")


def tree_faults(spec: Spec) -> tuple[Fault, ...]:
    """Everything that is wrong before templates are expanded."""
    found = [
        *_data(spec),
        *_tasks(spec),
        *_outputs(spec),
        *_decide(spec),
        *_prices(spec),
        *(
            fault
            for position, one in enumerate(spec.variants)
            for fault in _variant(spec, f"variants[{position}]", one)
        ),
        *_preparations(spec),
        *_metrics(spec),
        *_predictions(spec),
        *(fault for position, one in enumerate(spec.gates) for fault in _gate(spec, f"gates[{position}]", one)),
    ]
    if not any("{" in variant.name for variant in spec.variants):
        found += name_faults(spec)
    return tuple(found)


def check_tree(spec: Spec) -> None:
    """SpecError with all that `tree_faults` finds."""
    _refuse(tree_faults(spec))


def check_names(spec: Spec) -> None:
    """SpecError unless variant names differ, the baseline is one of them, and gates have a variant to judge.

    Call it once templates are expanded.
    """
    _refuse(name_faults(spec))


def name_faults(spec: Spec) -> tuple[Fault, ...]:
    names = [variant.name for variant in spec.variants]
    faults = [
        Fault(
            f"variants[{position}].name", f"the name {name!r} is taken by variants[{names.index(name)}]; give another."
        )
        for position, name in enumerate(names)
        if names.index(name) < position
    ]
    if spec.baseline is not None and spec.baseline not in names:
        faults.append(Fault("baseline", f"there is no variant {spec.baseline!r}{offer(spec.baseline, names)}"))
    if spec.tolerant and set(names) == {spec.baseline}:
        faults.append(Fault("on_error", "has no effect: the baseline is the only variant, and must not fail; drop it."))
    if spec.most_failed == 0:
        faults.append(Fault("on_error.units", "is 0, which tolerates nothing: write on_error: stop."))
    faults += faults_of_others(spec)
    if spec.gates and set(names) == {spec.baseline}:
        faults.append(Fault("gates", "have nothing to judge: the baseline is the only variant; add another."))
    return tuple(faults)


def _refuse(faults: Sequence[Fault]) -> None:
    if faults:
        raise SpecError(faults)


def dimension_names(dimension: SliceSpec) -> tuple[str, ...]:
    """The names under which an entry of `data.slices` is known: one, or one for each key of a mapping."""
    if isinstance(dimension, str):
        return (dimension,)
    return tuple(dimension) if isinstance(dimension, dict) else (",".join(dimension),)


def _data(spec: Spec) -> Iterator[Fault]:
    data = spec.data
    if data.weight_max is not None and data.weight is None:
        yield Fault("data.weight_max", "has no effect without data.weight; give that, or drop this.")
    if isinstance(data.cluster, tuple) and len(set(data.cluster)) == 1:
        yield Fault("data.cluster", f"names {data.cluster[0]!r} twice; expected two different ones, or one alone.")
    if not data.slices and data.slice_cap != DataSpec.model_fields["slice_cap"].default:
        yield Fault("data.slice_cap", "has no effect without data.slices; give these, or drop this.")
    if data.path == ():
        yield Fault("data.path", "is an empty list; expected at least one file, folder or glob.")
    yield from _dimension_names_taken(data.slices)
    for position, one in enumerate(data.slices):
        if isinstance(one, tuple) and len(set(one)) < max(2, len(one)):
            yield Fault(f"data.slices[{position}]", f"a cross takes two or more different dimensions, got {list(one)}.")
        if isinstance(one, dict):
            for name, cut in one.items():
                yield from _cut(f"data.slices[{position}].{name}", cut)


def _dimension_names_taken(slices: Sequence[SliceSpec]) -> Iterator[Fault]:
    first: dict[str, int] = {}
    for position, one in enumerate(slices):
        for name in dimension_names(one):
            if name in first:
                message = f"the dimension {name!r} is given by data.slices[{first[name]}] already; keep one."
                yield Fault(f"data.slices[{position}]", message)
            if name == OVERALL:
                yield Fault(f"data.slices[{position}]", f"the name {name!r} stands for all rows; give another.")
            first.setdefault(name, position)


def _cut(path: str, cut: str | CutSpec) -> Iterator[Fault]:
    if isinstance(cut, str):
        return
    given = [key for key in ("edges", "quantiles", "values") if getattr(cut, key) is not None]
    if len(given) > 1:
        yield Fault(path, f"got {' and '.join(given)}; expected one of them.")
    edges = cut.edges
    if edges is not None and not (edges and all(map(math.isfinite, edges)) and all(a < b for a, b in pairwise(edges))):
        yield Fault(f"{path}.edges", f"got {list(edges)}; expected finite numbers, each larger than the last.")


def _tasks(spec: Spec) -> Iterator[Fault]:
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


def has_label(task: TaskSpec | DataSpec) -> bool:
    return task.label is not None or isinstance(task.labels, dict)


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


def _outputs(spec: Spec) -> Iterator[Fault]:
    """Each place that says what an output is, beside the tasks that it is for."""
    tasks = _by_name(spec)
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


def _unfit(kind: OutputKind | None, task: TaskSpec | DataSpec) -> str | None:
    several = "classes" if task.classes is not None else "labels" if task.labels is not None else None
    if kind == "label" and several is None:
        return "is label, but the task has neither classes nor labels; give these, or say what the score is."
    if kind == "interval" and several is not None:
        return f"is interval, but the task has {several}; expected probability, logit, score or label."
    return None


def _by_name(spec: Spec) -> dict[str, TaskSpec | DataSpec]:
    return dict(spec.tasks) if spec.tasks else {MAIN_TASK: spec.data}


def _decide(spec: Spec) -> Iterator[Fault]:
    if not spec.gates and spec.decide != Spec.model_fields["decide"].default:
        yield Fault("decide", "has no effect without gates; give these, or drop this.")


def _prices(spec: Spec) -> Iterator[Fault]:
    prices = spec.prices
    if prices is not None and prices.default is None and not prices.node_types:
        yield Fault("prices", "has no price; expected default, or a type of node, such as {default: 1.20}.")


def _variant(spec: Spec, path: str, variant: VariantSpec) -> Iterator[Fault]:
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
        yield from _unknown_tasks(spec, f"{path}.output", variant.output)
    if variant.prepare is not None:
        yield from _prepared(spec, path, variant, variant.prepare, given)


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


def _preparations(spec: Spec) -> Iterator[Fault]:
    named = {variant.prepare for variant in spec.variants}
    for name, one in spec.prepare.items():
        path = f"prepare.{name}"
        if name not in named:
            yield Fault(
                path, f"has no effect, since no variant names it; say prepare: {name} in a variant, or drop it."
            )
        if not _FUNCTION.fullmatch(one.function):
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
        unknown = list(_unknown_tasks(spec, path, column))
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
    task, kind = _by_name(spec)[name], _kind(spec, variant, name)
    if kind == "interval":
        if len(columns) != 2:
            yield Fault(path, f"got {count(len(columns), 'column')}; an interval has two, lower and upper.")
    elif task.classes is None and task.labels is None:
        yield Fault(path, f"got {list(columns)}; expected one column, since the task has neither classes nor labels.")
    elif task.classes is not None and kind == "label":
        yield Fault(path, f"got {list(columns)}; expected one column, since the output is the predicted class.")


def _kind(spec: Spec, variant: VariantSpec, task: str) -> OutputKind | None:
    own = variant.output.get(task) if isinstance(variant.output, dict) else variant.output
    of_task = spec.tasks[task].output if spec.tasks else spec.output
    return (own.kind if own is not None else None) or of_task.kind


def _predictions(spec: Spec) -> Iterator[Fault]:
    said = spec.predictions
    if said is None:
        if spec.carry_over:
            yield Fault("carry_over", "has no effect without predictions; give that (predictions: {}), or drop this.")
        return
    tasks = list(_by_name(spec))
    if said.names is not None:
        yield from _template(spec, said.names)
    if said.top_k is not None and said.top_k.task is None and len(tasks) > 1:
        yield Fault("predictions.top_k.task", f"is required, since there are {len(tasks)} tasks: {listing(tasks)}.")
    if said.top_k is not None and said.top_k.task is not None:
        yield from _unknown_tasks(spec, "predictions.top_k.task", [said.top_k.task])


def _template(spec: Spec, names: str) -> Iterator[Fault]:
    """The names of output columns: each variant and task must come to one of its own."""
    path = "predictions.names"
    try:
        used = {field for _, field, _, _ in Formatter().parse(names) if field is not None}
    except ValueError as error:
        yield Fault(path, f"got {names!r}, which is no template ({error}); expected such as {{variant}}.{{task}}.")
        return
    unknown = sorted(used - {"variant", "task"})
    if unknown:
        yield Fault(path, f"got {{{unknown[0]}}}; expected {{variant}} and {{task}} alone.")
    several = len(spec.variants) > 1 or "{" in spec.variants[0].name
    needed = [("variant", several), ("task", len(_by_name(spec)) > 1)]
    missing = [name for name, needs in needed if needs and name not in used]
    if missing and not unknown:
        yield Fault(path, f"got {names!r}, so that columns would have one name; put {{{missing[0]}}} into it.")


def _metrics(spec: Spec) -> Iterator[Fault]:
    unlabelled = [name for name, task in _by_name(spec).items() if not has_label(task)] if spec.predicts else []
    if spec.metrics and len(unlabelled) == len(_by_name(spec)):
        yield Fault("metrics", "need a label, and there is none; give data.label, or drop them.")
    for position, metric in enumerate(spec.metrics):
        if isinstance(metric, MetricSpec) and metric.task in unlabelled and len(unlabelled) < len(_by_name(spec)):
            yield Fault(f"metrics[{position}].task", f"the task {metric.task!r} has no label; give it one.")
        if isinstance(metric, str):
            continue
        if metric.task is not None:
            yield from _unknown_tasks(spec, f"metrics[{position}].task", [metric.task])
        yield from _function(f"metrics[{position}]", metric)


def _function(path: str, metric: MetricSpec) -> Iterator[Fault]:
    """A metric of the spec's own."""
    if metric.function is None:
        for key in ("direction", "columns", "settings"):
            if getattr(metric, key):
                yield Fault(f"{path}.{key}", "has no effect without function; give that, or drop this.")
        return
    if not _FUNCTION.fullmatch(metric.function):
        yield Fault(f"{path}.function", f'got {metric.function!r}; expected "module:function".')
    if not _WORD.fullmatch(metric.metric):
        yield Fault(f"{path}.metric", f"got {metric.metric!r}; expected a name of letters, digits and _.")


def _gate(spec: Spec, path: str, gate: GateSpec) -> Iterator[Fault]:
    given = [rule for rule in RULES if getattr(gate, rule) is not None]
    if len(given) != 1:
        got = f"got {' and '.join(given)}" if given else "no rule given"
        yield Fault(path, f"{got}; expected exactly one of {either(RULES)}.")
    else:
        yield from _rule(spec, path, gate, given[0])
    if gate.task is not None:
        yield from _unknown_tasks(spec, f"{path}.task", [gate.task])
    yield from _gate_slices(spec, path, gate)


def _rule(spec: Spec, path: str, gate: GateSpec, rule: str) -> Iterator[Fault]:
    if rule in RULES_WITH_BASELINE and spec.baseline is None:
        yield Fault(f"{path}.{rule}", "compares with the baseline, and none is named; give baseline.")
    if rule in RULES_WITHOUT_METRIC and gate.metric is not None:
        yield Fault(f"{path}.metric", f"has no effect beside {rule}, which looks at rows; drop it.")
    if rule not in RULES_WITHOUT_METRIC and gate.metric is None:
        yield Fault(f"{path}.metric", f"is required by {rule}.")
    if rule == "same_rows" and gate.slices:
        yield Fault(f"{path}.slices", "has no effect beside same_rows, which compares all rows at once; drop it.")
    value = getattr(gate, rule)
    if rule in ("margin", "improve") and not _is_amount(str(value)):
        yield Fault(f"{path}.{rule}", f'got {value!r}; expected a number of 0 or more, or a share such as "0.1%".')
    if rule in ("min", "max") and not math.isfinite(value):
        yield Fault(f"{path}.{rule}", f"got {value}; expected a finite number.")


def _is_amount(text: str) -> bool:
    return _AMOUNT.fullmatch(text) is not None and math.isfinite(float(text.strip(" %")))


def _gate_slices(spec: Spec, path: str, gate: GateSpec) -> Iterator[Fault]:
    known = [name for one in spec.data.slices for name in dimension_names(one)]
    asked = (gate.slices,) if isinstance(gate.slices, str) else gate.slices or ()
    for name in asked:
        if name not in known:
            yield Fault(f"{path}.slices", f"{name!r} is no dimension of data.slices{offer(name, known)}")


def _unknown_tasks(spec: Spec, path: str, names: Iterable[str]) -> Iterator[Fault]:
    known = list(spec.tasks) or [MAIN_TASK]
    for name in names:
        if name not in known:
            yield Fault(path, f"there is no task {name!r}{offer(name, known)}")
