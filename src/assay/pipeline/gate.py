"""A finished run judged again, by other gates: from its states, without data. Its own results stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from assay import build, catalogue
from assay.errors import Fault, RunError, SpecError
from assay.gates.judge import run_outcome
from assay.merge import listed, reduced_here
from assay.pipeline.asked import canonical_gates, check_metrics_of_gates
from assay.pipeline.finish import read
from assay.pipeline.judging import Judging, chosen
from assay.pipeline.run import expanded_spec, saved_plan
from assay.pipeline.shards import VariantFindings, in_order, reduction_of, trees
from assay.pipeline.verify import altered
from assay.records import Plan, Results
from assay.spec.document import parse
from assay.spec.load import build_spec
from assay.spec.model import Spec
from assay.spec.names import offer
from assay.store.log import read_committed
from assay.store.run import RunDirectory

KEYS = ("gates", "decide")


def judge_again(out: str, asked: object) -> Results:
    """The run's results with the verdicts of other gates.

    asked: a list of gates as in a spec, or {gates: [...], decide: all | any}; without `decide` it is the run's. Raises
    SpecError as a spec with these gates would, RunError where the run's states are not what its commits say, Unfinished
    when it is not finished.
    """
    directory = RunDirectory.open(out)
    stored, plan = read(directory), saved_plan(directory)
    spec = _with_gates(directory, asked)
    metrics = catalogue.metrics_of(plan.tasks)
    check_metrics_of_gates(spec, metrics)
    ordered = _audited(directory, spec, plan)
    judging = Judging(spec, chosen(spec, metrics, {one.variant: one.selection_value for one in ordered}))
    for one in ordered:
        judging.add(one.variant, one.cases, one.judged_value)
    verdicts = judging.verdicts()
    return replace(stored, verdicts=verdicts, outcome=run_outcome(verdicts, spec.decide))


def read_gates(path: Path, environ: Mapping[str, str]) -> object:
    """What a file of gates says. SpecError when it cannot be read, is no YAML, or has no gates."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError([Fault("", f"the gates file {path} cannot be read: {error.strerror}.")]) from error
    except UnicodeDecodeError as error:
        raise SpecError([Fault("", f"the gates file {path} is no text in UTF-8; expected YAML.")]) from error
    document = parse(text, environ)
    if document.faults:
        raise SpecError([fault._replace(path=f"{path}: {fault.path}".removesuffix(": ")) for fault in document.faults])
    if document.tree is None:
        raise SpecError([Fault("", f"the gates file {path} is empty; expected a list of gates, as in a spec.")])
    return document.tree


def _with_gates(directory: RunDirectory, asked: object) -> Spec:
    """The spec of the run, as it was carried out, with these gates instead of its own."""
    said = _said(asked)
    saved = cast("dict[str, object]", parse(directory.read("spec.yaml").decode(), {}).tree)
    checked = build_spec({**saved, **said})
    changes = {"gates": canonical_gates(checked.gates, build.families(checked)), "decide": checked.decide}
    return expanded_spec(directory).model_copy(update=changes)


def _said(asked: object) -> dict[str, Any]:  # Any: parts of a spec, checked as such
    said = dict(asked) if isinstance(asked, Mapping) else {"gates": asked}
    faults = [Fault(str(key), f"unknown key {key!r}{offer(str(key), KEYS)}") for key in said if key not in KEYS]
    gates = said.get("gates")
    if not faults and not (isinstance(gates, list | tuple) and gates):
        faults = [Fault("gates", f"got {gates!r}; expected a list of one or more gates, as in a spec.")]
    if faults:
        raise SpecError(faults)
    return said


def _audited(directory: RunDirectory, spec: Spec, plan: Plan) -> list[VariantFindings]:
    """What is found of each variant, in the spec's order, once every state file is what its name and its commit say."""
    files = read_committed(directory).files
    wrong = altered(directory, files)
    if wrong:
        raise RunError(
            f"{len(wrong)} of the {len(files)} state files of the run at {directory.place} are missing or altered, "
            f"{wrong[0]} for one: it cannot be judged. `assay verify {directory.place}` says what is wrong."
        )
    return in_order(spec, reduced_here(reduction_of(directory, spec, plan), trees(spec, plan, listed(files))))
