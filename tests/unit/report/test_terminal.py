"""What a terminal shows, as plain text at 80 columns and wider."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pyarrow as pa
import pytest
from rich.console import Console

from assay.gates.judge import ALPHA
from assay.records import Verdict
from assay.report.board import ERROR_RULE, FAMILIES_TITLE, families_title
from assay.report.terminal import MOST_VARIANTS, families_table, render
from assay.stats import tables
from assay.stats.families import FAMILIES


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
        "Slices in which a variant looks worse than the baseline (p < 0.05, uncorrected;",
        "q: BH over slices, exploratory)",
        "slice        variant  metric     rows                  difference       p      q",
        "country=US   new      log_loss  1,200  -0.0300 [-0.0310, -0.0290]  <0.001      -",
        "country=<b>  new      log_loss  1,200     +0.020 [+0.005, +0.035]    0.01  0.031",
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

    assert (
        "Difference from prod, with its 95 % interval (1 more of the metrics in results/comparisons.parquet)"
        in " ".join(lines)
    )
    assert [line.split()[2:] for line in lines if line.startswith("variant  verdict")][-1] == ["log_loss"]


def test_a_variant_that_failed_shows_no_slices(results):
    failed = replace(results, verdicts=(replace(results.verdicts[0], outcome="fail"),))

    assert "country=US" in text_of(render(results))
    assert "country=US" not in text_of(render(failed))


def test_with_directions_only_worse_slices_are_shown(results):
    shown = text_of(render(results, {"log_loss": "lower"}))

    assert "country=<b>" in shown
    assert "country=US" not in shown


def test_names_of_slices_stay_whole_while_numbers_can_be_left_out(results):
    row = {
        "variant": "new", "baseline": "prod", "task": "main", "metric": "average_precision",
        "slice": "origin=LGA,carrier=FL", "rows": 897, "difference": -0.0168, "low": -0.0235, "high": -0.0101,
        "p_value": 0.00002, "q_value": 0.00051,
    }  # fmt: skip
    wide = replace(results, comparisons=pa.Table.from_pylist([row], tables.COMPARISONS))

    def shown(width: int) -> list[str]:
        lines = lines_of(render(wide), width)
        header = next(number for number, line in enumerate(lines) if line.startswith("slice "))
        return [" ".join(line.split()) for line in lines[header : header + 3] if line]

    name = "origin=LGA,carrier=FL new average_precision"
    assert shown(90) == ["slice variant metric rows difference p q", f"{name} 897 -0.0168 ±0.0067 <0.001 <0.001"]
    assert shown(84) == ["slice variant metric rows difference q", f"{name} 897 -0.0168 ±0.0067 <0.001"]
    assert shown(77) == ["slice variant metric difference q", f"{name} -0.0168 ±0.0067 <0.001"]
    assert shown(71) == ["slice variant metric difference q", f"{name} -0.0168 <0.001"]


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


def test_those_not_selected_are_counted(results):
    other = Verdict("other", "not selected", "Rank 2.", ())

    lines = lines_of(render(replace(results, verdicts=(results.verdicts[0], other))))

    assert "1 variant was not selected, and not judged." in lines
    assert families_title(results) == FAMILIES_TITLE
    assert families_title(replace(results, verdicts=(other,))) == f"{FAMILIES_TITLE}; of all seeds, selected or not"
    assert not any("Rank 2." in line for line in lines)


def test_a_difference_whose_simultaneous_interval_excludes_0_is_marked(results):
    limits = {"simultaneous_low": -0.0095, "simultaneous_high": -0.0083}
    rows = [
        {**row, **limits, "variant": variant}
        for row in results.comparisons.to_pylist()
        for variant in ("new", "newer")
        if row["metric"] == "log_loss" and row["slice"] == "overall"
    ]
    rows[1]["simultaneous_high"] = 0.001
    metrics = results.metrics.to_pylist()
    metrics += [{**row, "variant": "newer"} for row in metrics if row["variant"] == "new"]
    marked = replace(
        results,
        metrics=pa.Table.from_pylist(metrics, tables.METRICS),
        comparisons=pa.Table.from_pylist(rows, tables.COMPARISONS),
    )

    lines = lines_of(render(marked), 120)

    ends = [line.split()[-1] for line in lines if line.startswith("new") and "[-0" in line]
    assert ends == ["-0.00849]*", "-0.00849]"]
    assert "* its 95 % simultaneous (max-t) interval excludes 0 too: those of both variants hold at" in " ".join(lines)
    assert "They are in results/comparisons.parquet." in " ".join(lines)
    assert not any("max-t" in line for line in lines_of(render(results), 120))


def test_families(results):
    row = {
        "family": "wide", "task": "main", "metric": "auc", "slice": "overall", "num_seeds": 3, "value": 0.7312,
        "spread": 0.0021, "least": 0.7291, "greatest": 0.7333, "difference": 0.0101, "low": 0.008, "high": 0.0122,
    }  # fmt: skip
    only_baseline = {**row, "family": "old", "num_seeds": 1} | dict.fromkeys(("spread", "difference", "low", "high"))

    lines = lines_of(render(replace(results, families=pa.Table.from_pylist([row, only_baseline], FAMILIES))))

    at = lines.index("Families: means over seeds, the spread between seeds, and the mean difference")
    assert lines[at + 1 : at + 5] == [
        "with its 95 % interval",
        "family  metric  seeds    mean      sd   least  greatest       difference",
        "wide    auc         3  0.7312  0.0021  0.7291    0.7333  +0.0101 ±0.0021",
        "old     auc         1  0.7312       -  0.7291    0.7333",
    ]


def test_a_wide_table_of_families_does_without_the_extremes_and_folds_names_only(results):
    row = {
        "family": "wide", "task": "click", "metric": "recalibrated_log_loss(method=isotonic)", "slice": "overall",
        "num_seeds": 3, "value": 0.7312, "spread": 0.0021, "least": 0.7291, "greatest": 0.7333, "difference": 0.0101,
        "low": 0.008, "high": 0.0122,
    }  # fmt: skip
    both = pa.Table.from_pylist([row, row | {"task": "buy"}], FAMILIES)

    lines = lines_of(families_table(replace(results, families=both)))

    assert lines == [
        "family  task   metric                     seeds    mean      sd       difference",
        "wide    click  recalibrated_log_loss(         3  0.7312  0.0021  +0.0101 ±0.0021",
        "               method=isotonic)",
        "wide    buy    recalibrated_log_loss(         3  0.7312  0.0021  +0.0101 ±0.0021",
        "               method=isotonic)",
    ]
    assert "least" in lines_of(families_table(replace(results, families=both)), 140)[0]


def test_markup_in_names_is_text(results):
    named = replace(results, notes=("[bold]not bold[/bold]",))

    assert "[bold]not bold[/bold]" in text_of(render(named))


def long_board(results):
    """v0 to v32, the later the better, of which v1 passed, v31 failed, and all others are undecided."""
    row = results.metrics.to_pylist()[3] | {"low": None, "high": None}
    many = [{**row, "variant": f"v{number}", "value": number / 100} for number in range(MOST_VARIANTS + 3)]
    outcomes = {"v1": "pass", "v31": "fail"}
    return replace(
        results,
        metrics=pa.Table.from_pylist(many, tables.METRICS),
        comparisons=tables.COMPARISONS.empty_table(),
        verdicts=tuple(Verdict(one["variant"], outcomes.get(one["variant"], "undecided"), "So.", ()) for one in many),
        outcome="fail",
    )


def test_of_a_long_board_the_best_are_shown(results):
    lines = lines_of(render(long_board(results), {"log_loss": "higher"}))

    assert [line.split()[0] for line in lines[1:4]] == ["v1", "v32", "v30"]
    assert len(lines[: lines.index("")]) == 1 + MOST_VARIANTS
    assert lines[MOST_VARIANTS + 2 : MOST_VARIANTS + 4] == [
        "3 more variants are in results/metrics.parquet; shown are the best by verdict,",
        "then by log_loss.",
    ]


def test_of_many_verdicts_each_outcome_is_counted_and_those_that_pass_are_named(results):
    lines = lines_of(render(long_board(results)))

    at = lines.index("13 more verdicts are in results/verdicts.json. In all: 1 fail, 31 undecided, 1")
    assert lines[at + 1 : at + 4] == ["pass.", "Passed: 'v1'.", "The run: fail."]


def named(results, name):
    """One variant of this name, without differences."""
    rows = [row | {"variant": name} for row in results.metrics.to_pylist() if row["variant"] == "new"]
    metrics = pa.Table.from_pylist(rows, tables.METRICS)
    return replace(results, metrics=metrics, comparisons=tables.COMPARISONS.empty_table())


def test_names_are_whole_where_any_metric_fits_beside_them(results):
    name = "ranker_v2_with_all_of_the_embeddings"
    lines = lines_of(render(named(results, name)), 70)
    assert [line.split() for line in lines if line.startswith("variant ")] == [
        ["variant", "verdict", "log_loss"],
        ["variant", "verdict", "auc", "count"],
    ]
    assert all(line.split()[0] == name for line in (lines[1], lines[4]))


def test_a_name_is_whole_where_it_leaves_no_letter_of_the_width_unused(results):
    name = "ranker_v2_with_all_of_the_embeddings"
    assert lines_of(render(named(results, name)), 62)[4] == f"{name}  not gated  - (one class)"
    assert lines_of(render(named(results, name)), 61)[1] == "ranker_v2_with_all_   not gated    0.4412  - (one class)"


def test_names_that_no_metric_fits_beside_have_a_third_of_the_width_and_are_folded_between_words(results):
    lines = lines_of(render(named(results, "ranker_v2_with_all_of_the_embeddings_and_the_new_features")))
    assert lines[1:4] == [
        "ranker_v2_with_all_of_the_  not gated  0.44123 ±0.00094  - (one class)   1200",
        "embeddings_and_the_new_",
        "features",
    ]


@pytest.mark.parametrize("length", range(10, 60, 7))
@pytest.mark.parametrize("width", range(60, 100, 9))
def test_numbers_beside_a_long_name_are_never_cut(results, width, length):
    text = text_of(render(named(results, "n" * length)), width)
    assert all(value in text for value in ("0.4412", "(one class)", "1200"))
    assert max(map(len, text.splitlines())) <= width


def test_only_a_word_that_is_too_long_is_cut(results):
    lines = lines_of(render(named(results, f"v2_{'a' * 60}")))
    assert [line.split()[0] for line in lines[1:5]] == ["v2_", "a" * 26, "a" * 26, "a" * 8]


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
