"""What a sample says, as people read it."""

from __future__ import annotations

import json
import math
from io import StringIO

from rich.console import Console

from assay.report.power import Detectable, Needed, Power, power_json, render_power

MARGIN = Needed("log_loss not worse by more than 0.001", 0.001, 439_942)
POWER = Power(
    share=0.01,
    sample_clusters=400,
    clusters=40_123,
    num_variants=3,
    how="Sampled by cluster: all rows were read, those of 1 % of the clusters scored.",
    metrics=(
        Detectable("main", "auc", 0.00123, 0.00234, "new", (), None),
        Detectable("main", "log_loss", 0.01, 0.02, "odd", (MARGIN,), None),
        Detectable("main", "ece", math.nan, math.nan, "", (), "too few clusters"),
    ),
    more=None,
)


def lines_of(power: Power, width: int = 80) -> list[str]:
    out = StringIO()
    Console(file=out, width=width).print(render_power(power))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_tables() -> None:
    assert lines_of(POWER) == [
        "Differences from the baseline that all data detect, over all rows",
        "metric    median variant  every variant   which varies most",
        "auc               0.0012         0.0023                 new",
        "log_loss            0.01           0.02                 odd",
        "ece                    -              -  (too few clusters)",
        "",
        "gate                                   difference  clusters needed  there are",
        "log_loss not worse by more than 0.001       0.001          440,000     40,123",
        "Sampled by cluster: all rows were read, those of 1 % of the clusters scored.",
        "Detected: with a power of 80 %, one-sided at 0.025, at the first step of Holm's",
        "correction over 3 variants. A margin gate passes so a variant that equals the",
        "baseline; an improve gate one that is better by twice the improvement.",
    ]


def test_the_name_of_the_variant_that_varies_most_is_folded_between_words() -> None:
    one = Detectable("main", "auc", 0.00123, 0.00234, "ranker_v2_with_all_of_the_embeddings", (), None)
    assert lines_of(POWER._replace(metrics=(one,)), 60)[2:5] == [
        "metric  median variant  every variant      which varies most",
        "auc             0.0012         0.0023    ranker_v2_with_all_",
        "                                           of_the_embeddings",
    ]


def test_a_sample_that_is_too_small() -> None:
    unsteady = lines_of(POWER._replace(more=0.025))
    nothing = lines_of(POWER._replace(more=0.1, sample_clusters=4, metrics=POWER.metrics[2:]))

    assert unsteady[-1] == "The sample holds 400 clusters, too few for steady figures; try --sample 2.5%."
    assert nothing[-1] == "The sample holds 4 clusters, too few to say anything; try --sample 10%."


def test_json_has_no_nan() -> None:
    content = json.loads(json.dumps(power_json(POWER), allow_nan=False))

    assert content["metrics"][2]["typical"] is None
    assert content["metrics"][1]["gates"] == [
        {"gate": "log_loss not worse by more than 0.001", "margin": 0.001, "clusters": 439_942}
    ]
