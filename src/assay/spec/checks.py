"""The checks of a spec that need the tree alone and cross from one part of it to another.

Not here: those of its tasks (`task_checks.py`) and its variants (`variant_checks.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from assay.errors import Fault, SpecError
from assay.spec.model import (
    NO_SCORE,
    OVERALL,
    CutSpec,
    DataSpec,
    GateSpec,
    MetricSpec,
    SliceSpec,
    Spec,
)
from assay.spec.names import offer
from assay.spec.others import faults_of_others
from assay.spec.task_checks import has_label, kind_of, output_faults, task_faults, tasks_of, unknown_tasks
from assay.spec.variant_checks import FUNCTION, preparation_faults, variant_faults
from assay.spec.words import either, listing
from assay.spec.written import template_faults, written_faults

READERS = ("images", "webdataset", "tfrecords", "lance", "iceberg", "delta", "sql", "huggingface")
OTHER_READERS = ("bigquery", "clickhouse", "databricks_tables", "kafka", "mongo", "snowflake", "unity_catalog")
"""Of Ray Data's, those of services: they need credentials, which no spec holds."""
READERS_OF_ONE = ("lance", "iceberg", "delta", "huggingface")
READERS_WITHOUT_PATH = ("sql",)
NOT_CUSTOM = {
    "CPU": "; say num_cpus",
    "GPU": "; workers have num_gpus, and preparation tasks have none",
    "memory": ", and cannot be asked for",
    "object_store_memory": ", and cannot be asked for",
}
RULES = ("margin", "improve", "harm", "min", "max", "coverage", "same_rows")
RULES_WITH_BASELINE = ("margin", "improve", "harm", "same_rows")
RULES_WITHOUT_METRIC = ("coverage", "same_rows")

_WORD = re.compile(r"[^\W\d]\w*")
_AMOUNT = re.compile(r"(?P<number>\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?\s*%?")


def tree_faults(spec: Spec) -> tuple[Fault, ...]:
    """Everything that is wrong before templates are expanded."""
    found = [
        *_data(spec),
        *task_faults(spec),
        *output_faults(spec),
        *_decide(spec),
        *_prices(spec),
        *_resources(spec),
        *(
            fault
            for position, one in enumerate(spec.variants)
            for fault in variant_faults(spec, f"variants[{position}]", one)
        ),
        *preparation_faults(spec),
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
    if spec.tolerant and spec.most_failed == 0:
        faults.append(Fault("on_error.units", "is 0, which tolerates nothing: write on_error: stop."))
    faults += faults_of_others(spec)
    faults += written_faults(spec)
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
    yield from _reader(data)
    yield from _dimension_names_taken(data.slices)
    for position, one in enumerate(data.slices):
        if isinstance(one, tuple) and len(set(one)) < max(2, len(one)):
            yield Fault(f"data.slices[{position}]", f"a cross takes two or more different dimensions, got {list(one)}.")
        if isinstance(one, dict):
            for name, cut in one.items():
                yield from _cut(f"data.slices[{position}].{name}", cut)


def _reader(data: DataSpec) -> Iterator[Fault]:
    reader = data.reader
    if reader is None:
        if data.settings:
            yield Fault("data.settings", "have no effect without data.reader; give that, or drop these.")
        return
    if ":" in reader and not FUNCTION.fullmatch(reader):
        yield Fault("data.reader", f'got {reader!r}; expected "module:function".')
    elif reader in OTHER_READERS:
        yield Fault(
            "data.reader",
            f"{reader!r} reads from a service with credentials of its own. Write a function beside the spec that "
            f'returns ray.data.read_{reader}(...), and name it here: "module:function".',
        )
    elif ":" not in reader and reader not in READERS:
        yield Fault("data.reader", f"there is no reader {reader!r}{offer(reader, (*READERS, 'module:function'))}")
    if data.format is not None:
        yield Fault("data.format", f"has no effect beside the reader {reader!r}; drop one of them.")
    if reader in READERS_WITHOUT_PATH and data.path is not None:
        yield Fault("data.path", f"has no effect with the reader {reader!r}, whose settings say what is read; drop it.")
    if reader in READERS_OF_ONE and isinstance(data.path, tuple):
        yield Fault("data.path", f"is a list; the reader {reader!r} takes one.")
    if reader in READERS and reader not in READERS_WITHOUT_PATH and data.path is None:
        yield Fault("data.path", f"is required by the reader {reader!r}.")


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


def _decide(spec: Spec) -> Iterator[Fault]:
    if not spec.gates and spec.decide != Spec.model_fields["decide"].default:
        yield Fault("decide", "has no effect without gates; give these, or drop this.")


def _prices(spec: Spec) -> Iterator[Fault]:
    prices = spec.prices
    if prices is not None and prices.default is None and not prices.node_types:
        yield Fault("prices", "has no price; expected default, or a type of node, such as {default: 1.20}.")


def _resources(spec: Spec) -> Iterator[Fault]:
    """Ray has words of its own for what every machine has, and refuses them among custom resources."""
    asked = {"workers": spec.workers.resources} | {
        f"prepare.{name}": one.resources for name, one in spec.prepare.items()
    }
    for place, resources in asked.items():
        for name in sorted(resources.keys() & NOT_CUSTOM.keys()):
            yield Fault(f"{place}.resources.{name}", f"is no custom resource of Ray{NOT_CUSTOM[name]}.")


def _predictions(spec: Spec) -> Iterator[Fault]:
    said = spec.predictions
    if said is None:
        if spec.carry_over:
            yield Fault("carry_over", "has no effect without predictions; give that (predictions: {}), or drop this.")
        return
    tasks = list(tasks_of(spec))
    if said.format == "iceberg" and said.to is None:
        yield Fault("predictions.to", "is required by iceberg: the table, as catalog.namespace.table.")
    for position, name in enumerate(said.partition_by):
        if name in said.partition_by[:position]:
            yield Fault(f"predictions.partition_by[{position}]", f"names the column {name!r} twice; keep one.")
    if not any(map(has_label, tasks_of(spec).values())) and not spec.gates:
        for key in ("cluster", "slices", "weight"):
            if getattr(spec.data, key):
                yield Fault(f"data.{key}", "has no effect where nothing is measured; give a label, or drop this.")
    if said.names is not None and said.top_k is not None:
        yield Fault("predictions.names", "has no effect with top_k, whose columns have names of their own; drop it.")
    elif isinstance(said.names, str):
        yield from template_faults(spec, said.names)
    ranked = said.top_k and (said.top_k.task or (tasks[0] if len(tasks) == 1 else None))
    if ranked in tasks and all(kind_of(spec, one, str(ranked)) == NO_SCORE for one in spec.variants):
        yield Fault(
            "predictions.top_k", "has nothing to rank: no variant gives a score; say what one gives, or drop it."
        )
    if said.types is not None and said.top_k is not None:
        yield Fault("predictions.types", "has no effect with top_k, which writes scores as they come; drop it.")
    if said.top_k is not None and said.top_k.task is None and len(tasks) > 1:
        yield Fault("predictions.top_k.task", f"is required, since there are {len(tasks)} tasks: {listing(tasks)}.")
    if said.top_k is not None and said.top_k.task is not None:
        yield from unknown_tasks(spec, "predictions.top_k.task", [said.top_k.task])


def _metrics(spec: Spec) -> Iterator[Fault]:
    unlabelled = [name for name, task in tasks_of(spec).items() if not has_label(task)] if spec.predicts else []
    if spec.metrics and len(unlabelled) == len(tasks_of(spec)):
        yield Fault("metrics", "need a label, and there is none; give data.label, or drop them.")
    for position, metric in enumerate(spec.metrics):
        if isinstance(metric, MetricSpec) and metric.task in unlabelled and len(unlabelled) < len(tasks_of(spec)):
            yield Fault(f"metrics[{position}].task", f"the task {metric.task!r} has no label; give it one.")
        if isinstance(metric, str):
            continue
        if metric.task is not None:
            yield from unknown_tasks(spec, f"metrics[{position}].task", [metric.task])
        yield from _function(f"metrics[{position}]", metric)


def _function(path: str, metric: MetricSpec) -> Iterator[Fault]:
    """A metric of the spec's own."""
    if metric.function is None:
        for key in ("direction", "columns", "settings"):
            if getattr(metric, key):
                yield Fault(f"{path}.{key}", "has no effect without function; give that, or drop this.")
        return
    if not FUNCTION.fullmatch(metric.function):
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
        yield from unknown_tasks(spec, f"{path}.task", [gate.task])
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
