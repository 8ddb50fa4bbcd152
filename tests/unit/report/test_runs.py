"""Lists for a terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from assay import catalogue
from assay.metrics.agreement import FlipRate
from assay.metrics.counts import Count
from assay.metrics.multiclass import TopAccuracy
from assay.metrics.probability import CalibrationRatio
from assay.metrics.ranking import AUC
from assay.report.runs import RunSummary, parameters_of, render_audit, render_metrics, render_runs


def lines_of(renderable, width=100) -> list[str]:
    out = StringIO()
    Console(file=out, width=width).print(renderable)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_runs():
    runs = [
        RunSummary("runs/a", "finished", "pass", 4, 4, 9, "prod"),
        RunSummary("runs/b", "unfinished", "", 1, 1200, 2, ""),
    ]

    assert lines_of(render_runs("runs", runs)) == [
        "run     state       outcome  units       variants  baseline",
        "runs/a  finished    pass     4 of 4      9         prod",
        "runs/b  unfinished  -        1 of 1,200  2         -",
    ]
    assert lines_of(render_runs("here", [])) == ["There are no runs in here."]


def test_paths_and_baselines_are_folded_between_words():
    run = RunSummary("ranker/2026-11-30_embeddings", "finished", "pass", 4, 4, 9, "production_of_last_quarter")

    assert lines_of(render_runs("runs", [run]), 60) == [
        "run         state     outcome  units   variants  baseline",
        "ranker/     finished  pass     4 of 4  9         production_",
        "2026-11-                                         of_last_",
        "30_                                              quarter",
        "embeddings",
    ]


def test_metrics():
    metrics = {
        "Of a single score": [AUC(), Count(), CalibrationRatio(), FlipRate()],
        "Of several classes": [TopAccuracy(5)],
    }

    assert lines_of(render_metrics(metrics)) == [
        "Of a single score, label 0 or 1",
        "metric             better  what it is",
        "auc                higher  area under the ROC curve; ties count one half",
        "calibration_ratio  near 1  sum of probabilities over sum of labels; 1 is right in total (needs a",
        "                           probability)",
        "",
        "Of a single score",
        "metric     better  what it is",
        "count      -       rows scored",
        "flip_rate  -       share of rows on the other side of the threshold than the baseline has them",
        "                   (threshold=0.5; needs a probability; needs a baseline)",
        "",
        "Of several classes",
        "metric          better  what it is",
        "top_accuracy@5  higher  share of rows whose class is among the k with the highest scores (k; needs",
        "                        scores)",
    ]


def test_parameters():
    assert parameters_of(AUC()) == {}
    assert parameters_of(FlipRate()) == {"threshold": 0.5}
    assert parameters_of(catalogue.metric("recall(class=a)", "classes")) == {"class": None}


def test_audit():
    assert lines_of(render_audit([("units", True, "4 units.")])) == [
        "check      what was found",
        "units  ok  4 units.",
        "All checks passed.",
    ]
    assert (
        lines_of(render_audit([("units", False, "1 missing."), ("log", True, "Fine.")]))[-1] == "1 of 2 checks failed."
    )
    unfinished = lines_of(render_audit([("units", True, "2 of 4 units.")], finished=False))
    assert unfinished[-1] == "All checks of what there is passed; the run is not finished."
