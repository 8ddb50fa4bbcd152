"""What a spec asks for, resolved without any data: templates, tasks, metrics and gates by their canonical names.

Lives here: what each name in a spec stands for, and whether outputs fit metrics. Not here: rows and columns
(`prepare.py`), faults of the tree alone (`spec/checks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import TypeVar

from assay import build, catalogue
from assay.catalogue import Metrics
from assay.errors import Fault, ModelError, SpecError, joined
from assay.gates.rules import check_gates
from assay.gates.selection import check_confirm, check_keep, chosen_by
from assay.metrics.at_threshold import AtThreshold
from assay.metrics.table import TABLES, Family
from assay.models.fingerprint import fingerprint
from assay.models.function import digest_source, find_function
from assay.models.template import expand
from assay.pipeline.recalibrate import recalibrate_fault, with_recalibrated
from assay.protocols import Metric
from assay.records import LabelKind, OwnMetric, StateChoice, Task
from assay.spec.checks import check_names
from assay.spec.model import ConfirmSpec, GateSpec, MetricSpec, OutputKind, Spec, TaskSpec, VariantSpec
from assay.spec.task_checks import has_label
from assay.value_names import value_name

WITHOUT_PROBABILITY = ("auc", "average_precision")
WITH_PROBABILITY = ("auc", "average_precision", "log_loss", "normalised_entropy", "ece", "calibration_ratio")
OF_INTERVALS = ("interval_coverage", "interval_width", "mae")
OF_CLASSES = ("accuracy", "macro_f1")
OF_CLASSES_WITH_PROBABILITY = ("accuracy", "macro_f1", "log_loss")
OF_LABELS = ("micro_f1", "macro_f1", "subset_accuracy")
"""The metrics of a spec that names none."""

Item = TypeVar("Item")
Made = TypeVar("Made")


def expanded(spec: Spec, base: Path) -> Spec:
    """One variant for each match of a template; then the names must be unique and the baseline among them.

    A torch variant without `inputs` or `prepare` has those of the first one that is made by the same function.
    """
    variants = tuple(gathered(with_inputs(spec.variants), lambda variant: expand(variant, base)))
    whole = spec.model_copy(update={"variants": variants})
    check_names(whole)
    _check_keep(whole)
    return whole


def _check_keep(spec: Spec) -> None:
    confirm = confirm_of(spec)
    faults = [] if confirm is None else check_keep(confirm, sum(one.name != spec.baseline for one in spec.variants))
    if faults:
        raise SpecError(faults)


def with_inputs(variants: Sequence[VariantSpec]) -> list[VariantSpec]:
    """The variants, each torch variant with its inputs: models of one loader have one way of being called.

    >>> said = {"torch": {"load": "m:f", "path": "a"}, "inputs": ["age"]}
    >>> prod = VariantSpec.model_validate({"name": "prod", **said})
    >>> new = VariantSpec.model_validate({"name": "new", "torch": {"load": "m:f", "path": "b"}})
    >>> with_inputs([prod, new])[1].inputs
    ('age',)
    """
    said: dict[tuple[str | None, str | None], VariantSpec] = {}
    for variant in variants:
        torch = variant.torch
        if torch is not None and (torch.load or torch.factory) and _says_inputs(variant):
            said.setdefault((torch.load, torch.factory), variant)
    completed = []
    for variant in variants:
        torch = variant.torch
        model = None if torch is None else said.get((torch.load, torch.factory))
        if model is not None and not _says_inputs(variant):
            update = {"inputs": model.inputs, "prepare": model.prepare, "receive": variant.receive or model.receive}
            variant = variant.model_copy(update=update)
        completed.append(variant)
    return completed


def _says_inputs(variant: VariantSpec) -> bool:
    return variant.inputs is not None or variant.prepare is not None


def resolve_tasks(spec: Spec, base: Path = Path()) -> tuple[Task, ...]:
    """The tasks with their metrics by canonical name. SpecError for unknown metrics and for outputs that don't fit.

    spec: as the user gave it, so that faults name the places that the user wrote. base: the folder where modules of
    functions are looked for. Classes that are `auto` are left open: `classes.py` reads them from the data.
    """
    wanted, faults = _wanted(spec, base)
    tasks, every = [], list[Metric]()
    for name, task in build.task_specs(spec).items():
        metrics = list(wanted[name].metrics.values()) or (default_metrics(spec, name) if has_label(task) else [])
        metrics = with_recalibrated(metrics, spec.recalibrate)
        every += metrics
        faults += _output_faults(spec, name, metrics)
        tasks.append(_task(name, task, metrics, tuple(wanted[name].own)))
    idle = recalibrate_fault(every, spec.recalibrate)
    if idle is not None and not faults:
        faults.append(idle)
    if faults:
        raise SpecError(faults)
    return tuple(tasks)


def unmeasured_tasks(spec: Spec) -> tuple[Task, ...]:
    """The tasks without metrics: for checks that go on where metrics are at fault."""
    return tuple(_task(name, task, []) for name, task in build.task_specs(spec).items())


def default_metrics(spec: Spec, task: str) -> list[Metric]:
    """Of scores ranking alone, and of classes what takes no probability, unless every variant's output is known to be
    a probability or a logit; of intervals, where all outputs are such, how often they hold and how wide they are."""
    kinds = {build.outputs_of(spec, variant)[task].kind for variant in spec.variants}
    known = kinds <= {"probability", "logit"}
    single = OF_INTERVALS if kinds == {"interval"} else WITH_PROBABILITY if known else WITHOUT_PROBABILITY
    by_family: dict[Family, tuple[str, ...]] = {
        "single": single,
        "classes": OF_CLASSES_WITH_PROBABILITY if known else OF_CLASSES,
        "labels": OF_LABELS,
    }
    family = build.families(spec)[task]
    return [catalogue.metric(name, family) for name in by_family[family]]


def canonical_gates(gates: Sequence[GateSpec], families: Mapping[str, Family] | None = None) -> tuple[GateSpec, ...]:
    """The gates with their metrics by canonical name; a name that stands for no metric stays as it is.

    families: of the tasks by name; a gate's metric is one of its task's family, or of the first task's that has it.

    >>> canonical_gates([GateSpec(metric="precision(threshold=0.50)", min=0.3)])[0].metric
    'precision'
    """
    return tuple(gate.model_copy(update={"metric": _canonical(gate.metric, gate.task, families)}) for gate in gates)


def confirm_of(spec: Spec) -> ConfirmSpec | None:
    """What `confirm` says, also where it is a mere fraction, with its metric by canonical name; None without it."""
    said = ConfirmSpec(fraction=spec.confirm) if isinstance(spec.confirm, float) else spec.confirm
    return (
        None
        if said is None
        else said.model_copy(update={"metric": _canonical(said.metric, said.task, build.families(spec))})
    )


def choice_words(spec: Spec, metrics: Metrics) -> str:
    """How variants are chosen before they are judged, in words; "" where all are judged."""
    confirm = confirm_of(spec)
    if confirm is None:
        return ""
    task, metric = chosen_by(confirm, metrics)
    best = "the best" if confirm.keep == 1 else f"the best {confirm.keep}"
    where = f" of task {task}" if spec.tasks else ""
    return (
        f"{best} by {metric.name}{where} on {100 * (1 - confirm.fraction):.3g} % of the clusters, judged on the others"
    )


def check_metrics_of_gates(spec: Spec, metrics: Metrics) -> None:
    """SpecError unless every gate can be judged by the metrics of its tasks, and variants chosen by them."""
    faults = check_gates(canonical_gates(spec.gates, build.families(spec)), metrics)
    confirm = confirm_of(spec)
    faults += [] if confirm is None else check_confirm(confirm, metrics)
    if faults:
        raise SpecError(faults)


def check_classes(spec: Spec, tasks: Sequence[Task]) -> None:
    """SpecError when a metric names a class or label that its task, whose classes are known, does not have."""
    faults = [Fault(place, message) for task in tasks for place, message in _unknown_classes(spec, task)]
    if faults:
        raise SpecError(faults)


def _unknown_classes(spec: Spec, task: Task) -> Iterator[tuple[str, str]]:
    places = {_canonical_in(task, text): f"metrics[{position}]" for position, text in enumerate(_names(spec))}
    for name in task.metrics:
        try:
            catalogue.metric_of(task, name).accumulators(StateChoice(False, "none", classes=task.classes))
        except ValueError as error:
            yield places.get(name, "metrics"), f"{name}: {error}"


def _names(spec: Spec) -> list[str]:
    return [entry if isinstance(entry, str) else entry.metric for entry in spec.metrics]


def _canonical_in(task: Task, text: str) -> str:
    try:
        return catalogue.metric(text, catalogue.family_of(task.label_kind)).name
    except ValueError:
        return text


def output_kinds(spec: Spec) -> dict[tuple[str, str], OutputKind | None]:
    """What the score of each (variant, task) is; None where the spec does not say."""
    return {
        (variant.name, task): output.kind
        for variant in spec.variants
        for task, output in build.outputs_of(spec, variant).items()
    }


def gathered(items: Sequence[Item], made: Callable[[Item], Sequence[Made]]) -> list[Made]:
    """All that is made of the items, unless there are ModelErrors: then all of them as one."""
    results: list[Made] = []
    errors: list[ModelError] = []
    for item in items:
        try:
            results.extend(made(item))
        except ModelError as error:
            errors.append(error)
    if errors:
        raise joined(errors)
    return results


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The metrics of one task that a spec names, each once, in its order."""

    metrics: dict[str, Metric] = field(default_factory=dict)  # by canonical name
    own: list[OwnMetric] = field(default_factory=list)


def _wanted(spec: Spec, base: Path) -> tuple[dict[str, _Wanted], list[Fault]]:
    """The metrics that `spec.metrics` names, by task."""
    families, tasks = build.families(spec), build.task_specs(spec)
    wanted = {name: _Wanted() for name in families}
    faults: list[Fault] = []
    for position, entry in enumerate(spec.metrics):
        path = f"metrics[{position}]"
        text, only = (entry, None) if isinstance(entry, str) else (entry.metric, entry.task)
        among = [name for name in families if only in (None, name) and has_label(tasks[name])]
        if isinstance(entry, MetricSpec) and entry.function is not None:
            faults += _add_own(path, entry, base, {name: (families[name], wanted[name]) for name in among})
            continue
        found, refusals = _found(text, {name: families[name] for name in among})
        faults += [Fault(path, refusal) for refusal in refusals]
        for name, metric in found.items():
            if metric.needs_baseline and spec.baseline is None:
                faults.append(Fault(path, f"{metric.name} compares with the baseline, and none is named."))
            wanted[name].metrics[metric.name] = metric
    return wanted, list(dict.fromkeys(faults))


def _found(text: str, families: Mapping[str, Family]) -> tuple[dict[str, Metric], list[str]]:
    """The metric for each task, and why there is none for others: a sentence for all, or one for each."""
    found: dict[str, Metric] = {}
    refusals: dict[str, str] = {}
    for name, family in families.items():
        try:
            found[name] = catalogue.metric(text, family)
        except ValueError as error:
            refusals[name] = str(error)
    if not found and len(set(refusals.values())) == 1:
        return found, list(refusals.values())[:1]
    advice = "Name its task with {metric: ..., task: ...}."
    return found, [f"For task {name!r}: {refusal} {advice}" for name, refusal in refusals.items()]


def _add_own(path: str, entry: MetricSpec, base: Path, tasks: Mapping[str, tuple[Family, _Wanted]]) -> Iterator[Fault]:
    """A metric that the spec defines by a function, for each of the tasks."""
    name = entry.metric
    for family, wanted in tasks.values():
        if name in TABLES[family]:
            yield Fault(f"{path}.metric", f"the name {name!r} is that of a metric there is; give another.")
            return
        if name in wanted.metrics:
            yield Fault(f"{path}.metric", f"the name {name!r} is taken by a metric above; give another.")
            return
    try:
        own = _own(entry, base)
    except ModelError as error:
        yield Fault(f"{path}.function", error.message)
        return
    for _, wanted in tasks.values():
        wanted.metrics[name] = catalogue.own_metric(own)
        wanted.own.append(own)


def _own(entry: MetricSpec, base: Path) -> OwnMetric:
    """ModelError when there is no such function."""
    function = str(entry.function)
    parts = {
        "function": function,
        "columns": entry.columns,
        "settings": entry.settings,
        "code": digest_source(entry.metric, function, base),
    }
    _check_call(entry, find_function(entry.metric, function, base))
    return OwnMetric(
        entry.metric, function, entry.direction, entry.columns, entry.settings, fingerprint("metric", parts)
    )


def _check_call(entry: MetricSpec, function: Callable[..., object]) -> None:
    """ModelError unless the function takes a batch and the settings, as far as it says what it takes."""
    try:
        taken = signature(function)
    except (TypeError, ValueError):
        return
    try:
        taken.bind(None, **entry.settings)
    except TypeError as error:
        call = ", ".join(["batch", *(f"{name}={value!r}" for name, value in entry.settings.items())])
        raise ModelError(
            entry.metric, f"{entry.function!r} cannot be called as f({call}): {error}. See the metric's settings."
        ) from None


def _task(name: str, task: TaskSpec, metrics: Sequence[Metric], own: tuple[OwnMetric, ...] = ()) -> Task:
    kind: LabelKind = "binary" if any(metric.label_kind == "binary" for metric in metrics) else "real"
    targets = None
    names: tuple[str | int | bool, ...] = ()
    if task.classes is not None:
        kind, names = "class", () if task.classes == "auto" else task.classes
    elif isinstance(task.labels, dict):
        kind, names, targets = "labels", tuple(task.labels), tuple(task.labels.values())
    elif task.labels is not None:
        kind, names = "labels", () if task.labels == "auto" else task.labels
    return Task(
        name=name,
        label=task.label or "",
        label_kind=kind,
        where=task.where,
        metrics=tuple(metric.name for metric in metrics),
        classes=tuple(value_name(one) for one in names),
        targets=targets,
        own=own,
    )


def _output_faults(spec: Spec, task: str, metrics: Sequence[Metric]) -> Iterator[Fault]:
    """A metric needs to know of every output that it is one that the metric can take."""
    family = build.families(spec)[task]
    for position, variant in enumerate(spec.variants):
        kind = build.outputs_of(spec, variant)[task].kind
        whose = f"the output of {variant.name!r}{f' for task {task!r}' if spec.tasks else ''}"
        refusals = (_refusal(metric, family, whose, kind) for metric in metrics)
        refusal = next((one for one in refusals if one is not None), None)
        if refusal is not None:
            yield Fault(f"variants[{position}].output", refusal)


def _refusal(metric: Metric, family: Family, whose: str, kind: OutputKind | None) -> str | None:
    """Why a metric cannot take an output of this kind; None where it can. A set of labels is a probability of 0 or 1
    for each."""
    if metric.needs_interval and kind != "interval":
        what = f"is a {kind}" if kind else "is not said to be one"
        return f"{metric.name} needs an interval, but {whose} {what}; say output: {{is: interval}}."
    if metric.needs_probability and not (kind in ("probability", "logit") or (kind == "label" and family == "labels")):
        return f"{metric.name} needs a probability, but {_unfit(metric, whose, kind)}"
    if metric.needs_outputs and family == "classes" and kind == "label":
        return (
            f"{metric.name} needs a score for each class, but {whose} is the predicted class; take the metric "
            "out, or give scores."
        )
    return None


def _unfit(metric: Metric, whose: str, kind: OutputKind | None) -> str:
    """Metrics at a threshold take plain scores where it is another one than one half."""
    instead = ""
    if isinstance(metric, AtThreshold) and kind in (None, "score"):
        instead = f", or give a threshold, as {replace(metric, threshold=0.3).name}"
    if kind is not None:
        what = {"score": "a plain score", "label": "the predicted class", "interval": "an interval"}.get(kind, kind)
        return f"{whose} is {what}; take the metric out, or give a probability or logit{instead}."
    return f"the spec does not say what {whose} is; say output: {{is: probability}} or {{is: logit}}{instead}."


def _canonical(metric: str | None, task: str | None, families: Mapping[str, Family] | None) -> str | None:
    if metric is None:
        return None
    everyone = tuple(TABLES) if families is None else tuple(families.values())
    own = None if families is None or task is None else families.get(task)
    among = dict.fromkeys(everyone) if own is None else (own,)
    for family in among:
        try:
            return catalogue.metric(metric, family).name
        except ValueError:
            continue
    return metric
