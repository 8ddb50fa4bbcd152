"""A plan as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

from rich.console import Console

from assay.records import Dimension, Fragment, Plan, Sizes, SliceTable, StateChoice, Task, Unit
from assay.report.plan import Planned, plan_json, render_plan

DIMENSIONS = (Dimension("overall", None, ()), Dimension("country", "country", ("US",), first_slice=1, num_slices=3))
PLAN = Plan(
    units=tuple(Unit(str(number), "a.parquet", 0, 10, 0) for number in range(4)),
    fragments=(Fragment("a.parquet", 100, "d", (4000,)),),
    tasks=(Task("main", "y", "binary", "s = 1", ("auc", "log_loss")),),
    slices=SliceTable(DIMENSIONS, ("overall", "country=US", "country=null", "country=other")),
    sizes=Sizes(4, 64),
    choice=StateChoice(True, "all"),
    weight_exponent=0,
    columns=tuple(f"c{number}" for number in range(14)),
    micro_batch=1024,
    seed=0,
    fingerprints={"prod": "a", "new": "b"},
    identity="i",
    identity_parts={},
    state_bytes=3 << 20,
    num_rows=None,
    batch_rows={"prod": None, "new": 1024},
)
GATES = ["auc not significantly worse in each country"]
PLANNED = Planned(PLAN, 4000, "prod", GATES, ("user", "day"), "", ["Rows are the clusters."])


def test_where_nothing_is_measured_what_says_nothing_is_left_out():
    slices = SliceTable(DIMENSIONS[:1], ("overall",))
    plan = replace(
        PLAN,
        tasks=(Task("main", "", "real", None, ()),),
        slices=slices,
        columns=("c",),
        fingerprints={"overall": "a", "new": "b"},  # which is no fact on slices
        batch_rows={"overall": None, "new": 1024},
    )
    out = StringIO()
    written = "parquet: 2 columns (id, new)"
    Console(file=out, width=160).print(render_plan(Planned(plan, 4000, None, [], (), "", [], written=written), 2))

    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "data           4,000 rows in 1 file",
        "units          4 units",
        "columns read   c",
        "task           no label: scores are written, not measured",
        "variants       overall, new",
        "rows per call  1,024 (new); a row group (overall)",
        "written        parquet: 2 columns (id, new)",
    ]


def test_text():
    out = StringIO()
    Console(file=out, width=160).print(render_plan(PLANNED, 2))

    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "data           4,000 rows in 1 file",
        "units          4 units",
        "columns read   c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 and 2 more",
        "task           y (binary), where s = 1: auc, log_loss",
        "slices         overall; country (3 slices)",
        "clusters       user and day",
        "variants       prod, new",
        "rows per call  1,024 (new); a row group (prod)",
        "baseline       prod",
        "gates          auc not significantly worse in each country",
        "states         2 of at most 3.0 MiB a worker, 12.0 MiB in 2 workers; exact AUC; intervals in all slices",
        "Note: Rows are the clusters.",
    ]


def test_json_has_numbers_for_long_lists():
    content = json.loads(json.dumps(plan_json(PLANNED), allow_nan=False))

    assert (content["num_units"], content["num_files"], content["num_rows"]) == (4, 1, 4000)
    assert (content["baseline"], content["notes"]) == ("prod", ["Rows are the clusters."])
    assert content["slices"]["names"] == ["overall", "country=US", "country=null", "country=other"]
    assert "units" not in content


def test_bundles_are_told_with_their_reason():
    bundled = replace(PLAN, bundles=(("prod",), ("new",)))
    planned = PLANNED._replace(plan=bundled, why_bundles="One worker does not hold all variants: they are large.")
    lines = _lines(planned)
    assert lines[1] == "units          4 units: 2 pieces of the data for each of 2 bundles"
    assert lines[7] == (
        "bundles        0: prod; 1: new, each with prod. One worker does not hold all variants: they are large."
    )
    assert plan_json(planned)["bundles"] == [["prod"], ["new"]]
    assert plan_json(PLANNED)["bundles"] == []


def _lines(planned: Planned) -> list[str]:
    out = StringIO()
    Console(file=out, width=160).print(render_plan(planned, 2))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_classes_and_labels_are_named():
    tasks = (
        Task("kind", "species", "class", None, ("accuracy",), ("cat", "dog")),
        Task("tags", "", "labels", None, ("micro_f1",), ("indoor", "night"), ("is_indoor", "hour > 20")),
        Task("one", "tags", "labels", None, ("micro_f1",), ("indoor",)),
    )

    lines = _lines(PLANNED._replace(plan=replace(PLAN, tasks=tasks)))

    assert lines[3:6] == [
        "task kind      species (2 classes: cat, dog): accuracy",
        "task tags      (2 labels: indoor: is_indoor, night: hour > 20): micro_f1",
        "task one       tags (1 label: indoor): micro_f1",
    ]


def test_without_clusters_and_with_a_choice():
    lines = _lines(
        PLANNED._replace(clusters=(), choice="the best by auc on 50 % of the clusters, judged on the others")
    )

    assert "clusters       none: every row counts as independent" in lines
    assert "chosen         the best by auc on 50 % of the clusters, judged on the others" in lines
