"""What a terminal shows, as plain text at 80 columns and wider."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pyarrow as pa
import pytest
from rich.console import Console

from assay.gates.judge import ALPHA
from assay.report.board import ERROR_RULE
from assay.report.terminal import MOST_VARIANTS, render
from assay.stats import tables


def text_of(renderable, width=80, **console) -> str:
    out = StringIO()
    Console(file=out, width=width, **console).print(renderable)
    return out.getvalue()


def lines_of(renderable, width=80) -> list[str]:
    return [line.rstrip() for line in text_of(renderable, width).splitlines()]


def test_everything_at_80_columns(results):
    rule = [
        "Intervals are plain 95 %. A variant passes only if all its gates pass, at a",
        "one-sided 0.025 after Holm's correction over the variants; it fails if one of",
        "its gates is broken at that level after the correction over variants, gates and",
        "slices; anything else is undecided and does not pass.",
    ]
    assert lines_of(render(results)) == [
        "variant  verdict            log_loss            auc  count",
        "prod     baseline     0.4501 ±0.0010   0.710 ±0.010   1200",
        "new      undecided  0.44123 ±0.00094  - (one class)   1200",
        "",
        "Difference from prod, with its 95 % interval",
        "variant  verdict                         log_loss            auc",
        "prod     baseline",
        "new      undecided  -0.00889 [-0.00929, -0.00849]  - (one class)",
        "",
        "Slices in which a variant looks worse than the baseline (p < 0.05, uncorrected)",
        "slice        variant  metric     rows                  difference       p",
        "country=US   new      log_loss  1,200  -0.0300 [-0.0310, -0.0290]  <0.001",
        "country=<b>  new      log_loss  1,200     +0.020 [+0.005, +0.035]    0.01",
        "",
        "new: undecided. No gate failed, 1 of 2 gates undecided.",
        "The run: undecided.",
        *rule,
        "Note: Rows are the clusters.",
        "Note: 60 of 1,300 rows read are left out by the filter.",
        "Note: 40 of 1,300 rows read have no label.",
        "Note: new: of 1,200 usable rows 7 scores are missing and it failed on 3.",
    ]


def test_without_room_for_half_widths_only_values_are_shown(results):
    lines = lines_of(render(results), width=52)

    assert lines[:3] == [
        "variant  verdict    log_loss            auc  count",
        "prod     baseline     0.4501           0.71   1200",
        "new      undecided    0.4412  - (one class)   1200",
    ]
    assert all(len(line) <= 52 for line in lines)


def test_metrics_that_do_not_fit_follow_in_a_table_of_their_own(results):
    lines = lines_of(render(results), width=45)

    heads = [line for line in lines if line.startswith("variant")]
    assert [head.split()[2:] for head in heads[:2]] == [["log_loss", "auc"], ["count"]]


def test_differences_that_do_not_fit_are_counted_and_those_of_gates_shown(results):
    lines = lines_of(render(results), width=55)

    assert "Difference from prod, with its 95 % interval (1 more in comparisons.parquet)" in " ".join(lines)
    assert [line.split()[2:] for line in lines if line.startswith("variant  verdict")][-1] == ["log_loss"]


def test_a_variant_that_failed_shows_no_slices(results):
    failed = replace(results, verdicts=(replace(results.verdicts[0], outcome="fail"),))

    assert "country=US" in text_of(render(results))
    assert "country=US" not in text_of(render(failed))


def test_with_directions_only_worse_slices_are_shown(results):
    shown = text_of(render(results, {"log_loss": "lower"}))

    assert "country=<b>" in shown
    assert "country=US" not in shown


def test_verdicts_are_coloured_where_there_is_colour(results):
    assert "\x1b[33mundecided" in text_of(render(results), force_terminal=True, color_system="standard", no_color=False)
    assert "\x1b" not in text_of(render(results), no_color=True)


def test_without_gates_it_says_so_and_says_no_rule(results):
    shown = text_of(render(replace(results, verdicts=(), outcome="not gated")))

    assert "Not gated: the spec declares no gates." in shown
    assert "Holm" not in shown


def test_failed_variants_come_first(results):
    first = results.verdicts[0]
    verdicts = (
        replace(first, variant="a", outcome="pass", reason="Well."),
        replace(first, variant="b", outcome="fail"),
    )

    shown = text_of(render(replace(results, verdicts=verdicts, outcome="fail")))

    assert shown.index("b: fail.") < shown.index("a: pass. Well.")


def test_markup_in_names_is_text(results):
    named = replace(results, notes=("[bold]not bold[/bold]",))

    assert "[bold]not bold[/bold]" in text_of(render(named))


def test_a_long_board_is_cut_and_says_so(results):
    row = results.metrics.to_pylist()[3]
    many = [{**row, "variant": f"v{number}"} for number in range(MOST_VARIANTS + 3)]
    long = replace(
        results,
        metrics=pa.Table.from_pylist(many, tables.METRICS),
        comparisons=tables.COMPARISONS.empty_table(),
        verdicts=(),
        outcome="not gated",
    )

    assert "3 more variants are in results/metrics.parquet." in text_of(render(long))


def test_tasks_are_named_when_there_are_several(results):
    rows = [{**row, "task": task} for task in ("click", "buy") for row in results.metrics.to_pylist()]
    several = replace(results, metrics=pa.Table.from_pylist(rows, tables.METRICS))

    lines = lines_of(render(several))

    assert [line for line in lines if line.startswith("task ")] == ["task click", "task buy"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(results, width):
    assert max(len(line) for line in lines_of(render(results), width)) <= width


def test_the_rule_for_errors_is_the_one_of_the_gates():
    assert f"one-sided {ALPHA}" in ERROR_RULE
