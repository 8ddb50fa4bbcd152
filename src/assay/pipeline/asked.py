"""What a spec asks for, resolved without any data: templates, tasks, metrics and gates by their canonical names.

Lives here: what each name in a spec stands for, and whether outputs fit metrics. Not here: rows and columns
(`prepare.py`), faults of the tree alone (`spec/checks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from assay import build
from assay.build import Metrics
from assay.errors import Fault, ModelError, SpecError, joined
from assay.gates.rules import check_gates
from assay.models.template import expand
from assay.protocols import Metric
from assay.records import LabelKind, Task
from assay.spec.checks import check_names
from assay.spec.model import GateSpec, OutputKind, Spec, TaskSpec, VariantSpec

WITHOUT_PROBABILITY = ("auc", "average_precision")
WITH_PROBABILITY = ("auc", "average_precision", "log_loss", "normalised_entropy", "ece", "calibration_ratio")
"""The metrics of a spec that names none."""

Item = TypeVar("Item")
Made = TypeVar("Made")


def expanded(spec: Spec, base: Path) -> Spec:
    """One variant for each match of a template; then the names must be unique and the baseline among them.

    A torch variant without `inputs` has those of the first one that is made by the same function.
    """
    variants = tuple(gathered(with_inputs(spec.variants), lambda variant: expand(variant, base)))
    whole = spec.model_copy(update={"variants": variants})
    check_names(whole)
    return whole


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
        if torch is not None and (torch.load or torch.factory) and variant.inputs is not None:
            said.setdefault((torch.load, torch.factory), variant)
    completed = []
    for variant in variants:
        torch = variant.torch
        model = None if torch is None else said.get((torch.load, torch.factory))
        if model is not None and variant.inputs is None:
            receive = variant.receive or model.receive
            variant = variant.model_copy(update={"inputs": model.inputs, "receive": receive})
        completed.append(variant)
    return completed


def resolve_tasks(spec: Spec) -> tuple[Task, ...]:
    """The tasks with their metrics by canonical name. SpecError for unknown metrics and for outputs that don't fit.

    spec: as the user gave it, so that faults name the places that the user wrote.
    """
    wanted, faults = _wanted(spec)
    tasks = []
    for name, task in build.task_specs(spec).items():
        metrics = list(wanted[name].values()) or default_metrics(spec, name)
        faults += _output_faults(spec, name, metrics)
        tasks.append(_task(name, task, metrics))
    if faults:
        raise SpecError(faults)
    return tuple(tasks)


def unmeasured_tasks(spec: Spec) -> tuple[Task, ...]:
    """The tasks without metrics: for checks that go on where metrics are at fault."""
    return tuple(_task(name, task, []) for name, task in build.task_specs(spec).items())


def default_metrics(spec: Spec, task: str) -> list[Metric]:
    """Ranking alone, unless every variant's output is known to be a probability or a logit."""
    kinds = {build.outputs_of(spec, variant)[task].kind for variant in spec.variants}
    names = WITH_PROBABILITY if kinds <= {"probability", "logit"} else WITHOUT_PROBABILITY
    return [build.metric(name) for name in names]


def canonical_gates(gates: Sequence[GateSpec]) -> tuple[GateSpec, ...]:
    """The gates with their metrics by canonical name; a name that stands for no metric stays as it is.

    >>> canonical_gates([GateSpec(metric="precision(threshold=0.50)", min=0.3)])[0].metric
    'precision'
    """
    return tuple(gate.model_copy(update={"metric": _canonical(gate.metric)}) for gate in gates)


def check_metrics_of_gates(spec: Spec, metrics: Metrics) -> None:
    """SpecError unless every gate can be judged by the metrics of its tasks."""
    faults = check_gates(canonical_gates(spec.gates), metrics)
    if faults:
        raise SpecError(faults)


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


def _wanted(spec: Spec) -> tuple[dict[str, dict[str, Metric]], list[Fault]]:
    """The metrics that `spec.metrics` names, by task and canonical name, each once."""
    wanted: dict[str, dict[str, Metric]] = {name: {} for name in build.task_specs(spec)}
    faults: list[Fault] = []
    for position, entry in enumerate(spec.metrics):
        text, only = (entry, None) if isinstance(entry, str) else (entry.metric, entry.task)
        try:
            found = build.metric(text)
        except ValueError as error:
            faults.append(Fault(f"metrics[{position}]", str(error)))
            continue
        for name in wanted if only is None else (only,):
            wanted[name][found.name] = found
    return wanted, faults


def _task(name: str, task: TaskSpec, metrics: Sequence[Metric]) -> Task:
    kind: LabelKind = "binary" if any(metric.label_kind == "binary" for metric in metrics) else "real"
    return Task(name, task.label, kind, task.where, tuple(metric.name for metric in metrics))


def _output_faults(spec: Spec, task: str, metrics: Sequence[Metric]) -> Iterator[Fault]:
    """A metric that needs a probability needs to know of every output that it is one."""
    needing = next((metric.name for metric in metrics if metric.needs_probability), None)
    for position, variant in enumerate(spec.variants if needing else ()):
        kind = build.outputs_of(spec, variant)[task].kind
        if kind in (None, "score"):
            yield Fault(
                f"variants[{position}].output", f"{needing} needs a probability, but {_unfit(variant.name, kind)}"
            )


def _unfit(variant: str, kind: OutputKind | None) -> str:
    if kind == "score":
        return f"the output of {variant!r} is a plain score; take the metric out, or give a probability or logit."
    return f"the spec does not say what the output of {variant!r} is; say output: {{is: probability}} or {{is: logit}}."


def _canonical(metric: str | None) -> str | None:
    try:
        return None if metric is None else build.metric(metric).name
    except ValueError:
        return metric
