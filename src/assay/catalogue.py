"""The metrics that there are, by name: tables of "module:class" strings, and entry points of the same form.

A plug-in adds one with an entry point in the group `assay.metrics`. Not here: how a name is read and written
(`metrics/parse.py`), and what a metric is (`protocols.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from inspect import Parameter, signature

from assay.loading import load
from assay.metrics.parse import make, parse
from assay.metrics.table import TABLES, Family
from assay.protocols import Accumulator, Metric
from assay.records import LabelKind, OwnMetric, StateChoice, Task
from assay.spec.names import offer

METRIC_PLUGINS = "assay.metrics"
"""The entry-point group: name -> "module:class"."""
FAMILIES: Mapping[Family, str] = {
    "single": "a single score",
    "classes": "several classes",
    "labels": "sets of labels",
}
OWN_METRIC = "assay.metrics.own:FunctionMetric"

Metrics = Mapping[str, tuple[Metric, ...]]
"""By task."""


@cache
def plug_ins() -> dict[str, str]:
    """Name -> "module:class" of the metrics of other packages. Looked up once: that reads all that is installed."""
    return {point.name: point.value for point in entry_points(group=METRIC_PLUGINS)}


def metric_places(family: Family = "single") -> dict[str, str]:
    """Name -> "module:class" of all metrics of one family of tasks, those of plug-ins included."""
    return TABLES[family] | plug_ins()


def metric(text: str, family: Family = "single") -> Metric:
    """The metric that a name stands for. ValueError with a sentence when there is none, or not with these parameters.

    >>> metric("precision(threshold=0.50)").name
    'precision'
    """
    name, parameters = parse(text)
    places = metric_places(family)
    if name not in places:
        elsewhere = next((other for other in TABLES if name in TABLES[other]), None)
        raise ValueError(_not_of(name, family, elsewhere, places))
    made = make(load(places[name]), name, parameters)
    if made.label_kind is not None and family_of(made.label_kind) != family:  # of a plug-in
        raise ValueError(_not_of(name, family, family_of(made.label_kind), TABLES[family]))
    return made


def _not_of(name: str, family: Family, elsewhere: Family | None, known: Iterable[str]) -> str:
    if elsewhere is None:
        return f"There is no metric {name!r}{offer(name, known)}"
    if family == "single":
        return f"{name!r} is a metric of {FAMILIES[elsewhere]}; the task has none: give {elsewhere}."
    return f"{name!r} is a metric of {FAMILIES[elsewhere]}, and the task is of {FAMILIES[family]}; see `assay metrics`."


def listed_metrics(family: Family) -> tuple[Metric, ...]:
    """Each metric of a family by its defaults; one that needs a parameter has some value of it, as an example."""
    made = []
    for name, place in metric_places(family).items():
        metric_class = load(place)
        needed = {key: one for key, one in signature(metric_class).parameters.items() if one.default is one.empty}
        found = make(metric_class, name, {key.rstrip("_"): _example(one) for key, one in needed.items()})
        if found.label_kind is None or family_of(found.label_kind) == family:  # a plug-in is of one alone
            made.append(found)
    return tuple(made)


def _example(parameter: Parameter) -> int | float | str:
    kind = str(parameter.annotation)
    return "a" if "str" in kind else 5 if "int" in kind else 0.5


def family_of(kind: LabelKind) -> Family:
    """The family of metrics for a kind of label."""
    families: dict[LabelKind, Family] = {"class": "classes", "labels": "labels"}
    return families.get(kind, "single")


def accumulators(metrics: Iterable[Metric], choice: StateChoice) -> tuple[Accumulator, ...]:
    """The accumulators of several metrics, each once."""
    every = {one.identity: one for metric in metrics for one in metric.accumulators(choice)}
    return tuple(every.values())


def metrics_of(tasks: Iterable[Task]) -> Metrics:
    """The metrics of resolved tasks."""
    return {task.name: tuple(metric_of(task, name) for name in task.metrics) for task in tasks}


def metric_of(task: Task, name: str) -> Metric:
    """The metric of that canonical name in a resolved task: of the spec's own, or of the tables."""
    own = next((one for one in task.own if one.name == name), None)
    return metric(name, family_of(task.label_kind)) if own is None else own_metric(own)


def own_metric(own: OwnMetric) -> Metric:
    """The metric that a spec defines by a function."""
    made: Metric = load(OWN_METRIC).of(own)
    return made
