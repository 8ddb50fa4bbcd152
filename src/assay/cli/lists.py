"""The commands that list what there is: runs, metrics, the keys of a spec."""

from __future__ import annotations

from typing import Any

from assay import api, catalogue
from assay.cli import options
from assay.cli.output import print_json, show_text
from assay.cli.words import RUNS
from assay.protocols import Metric
from assay.report.runs import parameters_of, render_metrics, render_runs
from assay.spec.load import json_schema


def ls(folder: options.Folder = str(RUNS), as_json: options.Json = False) -> None:
    """List the runs in a folder."""
    found = api.list_runs(folder)
    if as_json:
        print_json([one._asdict() for one in found])
    else:
        show_text(render_runs(folder, found))


def metrics(family: options.Family = None, as_json: options.Json = False) -> None:
    """List the metrics that a spec may name, by what the task's label is."""
    found = {
        name: catalogue.listed_metrics(name) for name in catalogue.FAMILIES if family is None or name == family.value
    }
    if as_json:
        print_json([{"family": name, **_metric_json(one)} for name, several in found.items() for one in several])
    else:
        show_text(render_metrics({f"Of {catalogue.FAMILIES[name]}": several for name, several in found.items()}))


def schema() -> None:
    """Print the JSON schema of the spec file, for editors."""
    print_json(json_schema())


def _metric_json(metric: Metric) -> dict[str, Any]:  # Any: JSON
    return {
        "name": metric.name,
        "description": metric.description,
        "direction": metric.direction,
        "label": metric.label_kind,
        "parameters": parameters_of(metric),
        "needs_probability": metric.needs_probability,
        "needs_outputs": metric.needs_outputs,
        "needs_interval": metric.needs_interval,
        "needs_baseline": metric.needs_baseline,
    }
