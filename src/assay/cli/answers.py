"""The commands that ask a run that is there: its answer, other answers from its states, and whether it is sound."""

from __future__ import annotations

import os

import typer
from rich.console import Group

from assay import api
from assay.cli import options
from assay.cli.output import print_json, say, show_text
from assay.errors import RunError, Unfinished
from assay.evaluation import Evaluation
from assay.gates.judge import exit_code
from assay.pipeline.gate import read_gates
from assay.pipeline.replay import replay as tell
from assay.pipeline.verify import verify as audit
from assay.report.comparison import render_comparison
from assay.report.jsonable import evaluation_json, jsonable, verdicts_json
from assay.report.junit import junit as junit_xml
from assay.report.markdown import markdown as as_markdown
from assay.report.predictions import predictions_json
from assay.report.runs import render_audit
from assay.report.terminal import verdict_lines
from assay.spec.words import listing


def show(path: options.Run, form: options.Format = options.Form.text, as_json: options.Json = False) -> None:
    """Show the answer of a finished run."""
    found = api.open_run(path)
    _ = found.predictions  # a run that has lost their list is not finished
    form = options.Form.json if as_json else form
    if form in (options.Form.markdown, options.Form.junit):
        print(text_of(found, form), end="")
    else:
        answer(found, form is options.Form.json)
    raise typer.Exit(exit_code(found.results.outcome))


def gate(path: options.Run, gates: options.Gates, as_json: options.Json = False) -> None:
    """Judge a finished run by other gates, from its states. What is stored in the run stays as it is."""
    found = api.open_run(path).gate(read_gates(gates, os.environ))
    if as_json:
        print_json(verdicts_json(found.results))
    else:
        show_text(Group(*verdict_lines(found.results)))
    say(f"Judged by {gates}. The verdicts that are stored in {path} stay as they are.")
    raise typer.Exit(exit_code(found.results.outcome))


def compare(
    path: options.Run,
    variant: options.Variant,
    other: options.Other,
    metrics: options.OnlyMetrics = None,
    slices: options.OnlySlices = None,
    as_json: options.Json = False,
) -> None:
    """Compare any two variants of a finished run, from its states."""
    found = api.open_run(path).compare(variant, other, metrics or (), slices or ())
    if as_json:
        print_json({"variant": variant, "other": other, "comparisons": jsonable(found)})
    else:
        show_text(render_comparison(variant, other, found))


def why(path: options.Run, variant: options.WhichVariant = None, as_json: options.Json = False) -> None:
    """Explain the verdict on one variant in sentences, and why it lacks outputs where they were written."""
    found = api.open_run(path)
    if variant is None:
        raise RunError(f"Of which variant? This run has {listing(found.variants)}: assay why {path} VARIANT")
    text = found.why(variant)
    if as_json:
        verdict = next((one for one in found.verdicts if one.variant == variant), None)
        print_json({"variant": variant, "text": text, "verdict": jsonable(verdict)})
    else:
        print(text)


def verify(path: options.Run, as_json: options.Json = False) -> None:
    """Audit a run: digests, every unit once, rows accounted for, results computed again from the states."""
    found = audit(path)
    if as_json:
        checks = [check._asdict() for check in found.checks]
        print_json({"passed": found.passed, "finished": found.finished, "checks": checks})
    else:
        show_text(render_audit(found.checks, finished=found.finished))
    if found.passed and not found.finished:
        raise Unfinished(f"The run at {path} is not finished. Go on with: assay resume {path}")
    raise typer.Exit(0 if found.passed else 1)


def replay(path: options.Run, as_json: options.Json = False) -> None:
    """Tell what happened in a run, and check that its events lead to the same orders again."""
    found = tell(str(path))
    if as_json:
        parts = [{**one._asdict(), "lines": [line._asdict() for line in one.lines]} for one in found.parts]
        print_json({"same": found.same, "drivers": parts})
    else:
        for part in found.parts:
            print("\n".join(f"{line.seconds:10,.1f} s  {line.text}" for line in part.lines))
            print(part.detail)
    raise typer.Exit(0 if found.same else 1)


# ---- steps -----------------------------------------------------------------------------------------------------------


def answer(found: Evaluation, as_json: bool) -> None:
    """What a run came to, on stdout."""
    if as_json:
        written = (
            {} if found.predictions is None else {"predictions": predictions_json(found.predictions, found.reasons)}
        )
        print_json({**evaluation_json(found.results), **written})
    else:
        show_text(found)


def text_of(found: Evaluation, form: options.Form) -> str:
    if form is options.Form.junit:
        return junit_xml(found.results)
    return as_markdown(found.results, found.predictions, found.reasons)
