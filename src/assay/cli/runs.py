"""The commands that carry a run out, or say what it would do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import typer
from rich.console import Console

from assay import api, build
from assay.cli import options
from assay.cli.answers import answer, text_of
from assay.cli.output import print_json, say, show_text
from assay.cli.progress import Reporter
from assay.cli.words import Words, asked, asked_to_predict, deadline_seconds, default_place, said, share_of
from assay.errors import Fault, Interrupted, RunError, SpecError
from assay.evaluation import Evaluation
from assay.gates.judge import exit_code
from assay.gates.rules import words_of
from assay.pipeline.asked import choice_words
from assay.pipeline.prepare import Prepared
from assay.pipeline.written import written_words
from assay.report.plan import Planned, plan_json, render_plan
from assay.report.power import power_json, render_power
from assay.report.predictions import reading
from assay.spec.model import Spec


def run(
    target: options.Target,
    label: options.Label = None,
    scores: options.Scores = None,
    baseline: options.Baseline = None,
    classes: options.Classes = None,
    labels: options.Labels = None,
    cluster: options.Cluster = None,
    weight: options.Weight = None,
    where: options.Where = None,
    slices: options.Slices = None,
    metrics: options.Metrics = None,
    output: options.Output = None,
    overrides: options.Overrides = None,
    out: options.Out = None,
    executor: options.ExecutorName = options.Executor.auto,
    address: options.Address = None,
    workers: options.Workers = None,
    max_cost: options.MaxCost = None,
    deadline: options.Deadline = None,
    junit: options.Junit = None,
    markdown: options.Markdown = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Evaluate: a spec, or a table of predictions with --label and --scores.

    A finished run gives its answer again, an unfinished one goes on.
    """
    words = said(
        label=label,
        scores=scores,
        baseline=baseline,
        classes=classes,
        labels=labels,
        cluster=cluster,
        weight=weight,
        where=where,
        slice=slices,
        metric=metrics,
        output=output,
    )
    spec, base = asked("assay run", target, words, overrides or [])
    place, seconds = out or default_place(target, spec), deadline_seconds(deadline)
    with _stoppable(place), redirect_stdout(sys.stderr), Reporter(Console(stderr=True), quiet) as reporter:
        found = api.run(
            spec,
            base=base,
            out=place,
            executor=executor.value,
            workers=workers,
            address=address,
            max_cost=max_cost,
            deadline=seconds,
            report=reporter,
        )
    for file, form in ((junit, options.Form.junit), (markdown, options.Form.markdown)):
        if file is not None:
            _write(file, text_of(found, form))
    _end(found, as_json)


def predict(
    target: options.PredictSpec,
    overrides: options.Overrides = None,
    out: options.Out = None,
    executor: options.ExecutorName = options.Executor.auto,
    address: options.Address = None,
    workers: options.Workers = None,
    max_cost: options.MaxCost = None,
    deadline: options.Deadline = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write what the variants of a spec give, row by row, with the columns of `carry_over`. It needs no label.

    Where the spec names labels, metrics are measured in the same pass. A finished run gives its answer again, an
    unfinished one goes on.
    """
    spec, base = asked_to_predict("assay predict", target, overrides or [])
    place, seconds = out or default_place(target, spec), deadline_seconds(deadline)
    with _stoppable(place), redirect_stdout(sys.stderr), Reporter(Console(stderr=True), quiet) as reporter:
        found = api.predict(
            spec,
            base=base,
            out=place,
            executor=executor.value,
            workers=workers,
            address=address,
            max_cost=max_cost,
            deadline=seconds,
            report=reporter,
        )
    _end(found, as_json)


def plan(
    target: options.Target,
    label: options.Label = None,
    scores: options.Scores = None,
    baseline: options.Baseline = None,
    classes: options.Classes = None,
    labels: options.Labels = None,
    cluster: options.Cluster = None,
    weight: options.Weight = None,
    where: options.Where = None,
    slices: options.Slices = None,
    metrics: options.Metrics = None,
    output: options.Output = None,
    overrides: options.Overrides = None,
    predicting: options.Predicting = False,
    workers: options.Workers = None,
    share: options.Sample = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check everything and show what a run would do, without scoring a row; with --sample, what data can detect.

    With --predict it shows what `assay predict` would do.
    """
    words = said(
        label=label,
        scores=scores,
        baseline=baseline,
        classes=classes,
        labels=labels,
        cluster=cluster,
        weight=weight,
        where=where,
        slice=slices,
        metric=metrics,
        output=output,
    )
    if predicting:
        _refuse_beside_predict(words, share)
        spec, base = asked_to_predict("assay plan --predict", target, overrides or [])
    else:
        spec, base = asked("assay plan", target, words, overrides or [])
    if share is not None:
        _show_power(spec, base, share_of(share), workers, as_json, quiet)
        return
    if quiet:
        say("--quiet has no effect without --sample: nothing is scored.")
    with redirect_stdout(sys.stderr):
        planned = _planned(api.plan(spec, base=base))
    if as_json:
        print_json(plan_json(planned))
    else:
        show_text(render_plan(planned, workers or build.num_cores()))


def resume(
    path: options.Run,
    executor: options.ExecutorName = options.Executor.auto,
    address: options.Address = None,
    workers: options.Workers = None,
    max_cost: options.MaxCost = None,
    deadline: options.Deadline = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Go on with a run that was stopped or killed. Only what is not committed is scored.

    Without --executor and --address it is done with those that the run had.
    """
    seconds = deadline_seconds(deadline)
    with _stoppable(path), redirect_stdout(sys.stderr), Reporter(Console(stderr=True), quiet) as reporter:
        found = api.resume(
            path,
            executor=executor.value,
            workers=workers,
            address=address,
            max_cost=max_cost,
            deadline=seconds,
            report=reporter,
        )
    _end(found, as_json)


# ---- steps -----------------------------------------------------------------------------------------------------------


@contextmanager
def _stoppable(place: Path | str) -> Iterator[None]:
    """Ctrl-C at a moment when no unit is scored, or the second one."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"Stopped. What is committed in {place} is kept, and the same command goes on.") from None


def _end(found: Evaluation, as_json: bool) -> None:
    """The answer of a run that was carried out, where it lies, what may be done next, and the exit code."""
    answer(found, as_json)
    path, written = found.path, found.predictions
    if found.judged:
        say(f"Run: {path}. Next: assay show {path}, assay why {path} VARIANT, assay verify {path}")
    else:
        rows = f", then read the rows: {reading(written)}" if written and written.parts else ""
        say(f"Run: {path}. Next: assay verify {path}{rows}")
    raise typer.Exit(exit_code(found.results.outcome))


def _refuse_beside_predict(words: Words, share: str | None) -> None:
    """SpecError where what is said has no effect with --predict."""
    beside = [*(f"--{name}" for name in words), *(["--sample"] if share is not None else [])]
    if beside:
        raise SpecError([Fault(beside[0], "has no effect beside --predict, which takes a spec; drop one of them.")])


def _planned(found: Prepared) -> Planned:
    spec = found.spec
    clusters = spec.data.cluster or ()
    return Planned(
        found.plan,
        found.num_rows,
        spec.baseline,
        [words_of(gate) for gate in spec.gates],
        (clusters,) if isinstance(clusters, str) else clusters,
        choice_words(spec, found.metrics),
        found.notes,
        found.why_bundles,
        written_words(spec, found.plan.tasks, found.source),
    )


def _show_power(spec: Spec, base: Path, share: float, workers: int | None, as_json: bool, quiet: bool) -> None:
    with redirect_stdout(sys.stderr), Reporter(Console(stderr=True), quiet) as reporter:
        found = api.power(spec, share, base=base, workers=workers, report=reporter)
    if as_json:
        print_json(power_json(found))
    else:
        show_text(render_power(found))


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"{file} cannot be written: {error.strerror}. The run itself is finished.") from error
