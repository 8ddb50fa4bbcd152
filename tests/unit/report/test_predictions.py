"""What a run has written, in each of the forms of a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from rich.console import Console

from assay.records import ListedPart, PartFile, Predictions, Results
from assay.report.markdown import markdown
from assay.report.notebook import html
from assay.report.predictions import (
    dead_lines_of,
    dead_rows,
    dead_title,
    lacking,
    lacking_lines,
    prediction_lines,
    predictions_json,
    reading,
    render_predictions,
)
from assay.stats import tables
from assay.stats.families import FAMILIES

PART = ListedPart("u", PartFile("part-0.parquet", 1200, 9, ""))
FOUND = Predictions(
    "r", "/runs/x/predictions", "parquet", 1200, (("id", "int64"), ("new<b>", "float")), (PART,),
    {"new<b>": 7, "prod": 1}, "/runs/x/dead-letter", (), ("the column 'day' is written as text.",),
)  # fmt: skip
REASONS = {"new<b>": ("it gave no score.", "function 'm:f' failed with ValueError: <i>."), "prod": ("no score.",)}
DEAD = "Dead letters: rows that a variant has no output for, with the reason, in /runs/x/dead-letter"


@pytest.fixture
def unmeasured() -> Results:
    empty = {name: getattr(tables, name.upper()).empty_table() for name in ("metrics", "comparisons", "curves")}
    coverage = {
        "variant": "prod", "task": "main", "slice": "overall", "rows_read": 1300, "rows_filtered": 100,
        "null_label": 0, "null_weight": 0, "null_score": 1, "failed": 0, "scored": 1199, "weight": 1200.0,
    }  # fmt: skip
    of_rows = pa.Table.from_pylist([coverage], tables.COVERAGE)
    return Results(**empty, coverage=of_rows, families=FAMILIES.empty_table(), verdicts=(), outcome="not gated")


def test_in_a_terminal() -> None:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render_predictions(FOUND, REASONS))
    assert [line.rstrip() for line in capture.get().splitlines()] == [
        "Predictions: 1,200 rows in 1 file (parquet) in /runs/x/predictions",
        "Columns: id (int64), new<b> (float)",
        "Read them with: pyarrow.parquet.read_table('/runs/x/predictions')",
        f"{DEAD}:",
        "  new<b>: 7 rows. The first reasons:",
        "    - it gave no score.",
        "    - function 'm:f' failed with ValueError: <i>.",
        "  prod: 1 row: no score.",
        "Note: the column 'day' is written as text.",
    ]


def test_columns_that_a_line_does_not_hold_have_one_each_in_a_terminal() -> None:
    wide = replace(
        FOUND, columns=(("id", "int64"), ("at", "timestamp[us, tz=UTC]"), ("v", "list<item: float>[384]")) * 2
    )
    console = Console(width=80)
    with console.capture() as capture:
        console.print(render_predictions(wide, REASONS))
    assert [line.rstrip() for line in capture.get().splitlines()[1:8]] == [
        "Columns:",
        *["  id (int64)", "  at (timestamp[us, tz=UTC])", "  v (list<item: float>[384])"] * 2,
    ]


def test_a_variant_without_any_output_is_told_first(unmeasured: Results) -> None:
    found = replace(FOUND, dead={"new<b>": 1200, "prod": 1199})
    line = (
        "Variant 'new<b>' lacks outputs in all 1,200 rows: it gave no score. These are dead letters, in "
        "/runs/x/dead-letter"
    )
    assert lacking_lines(found, REASONS) == [line]
    assert lacking_lines(found, {}) == [line.replace(": it gave no score.", ".")]
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render_predictions(found, REASONS))
    assert capture.get().splitlines()[0].rstrip() == line
    assert markdown(unmeasured, found, REASONS).splitlines()[2] == "- " + line.replace("<b>", r"\<b\>")
    assert "<p>Variant &#39;new&lt;b&gt;&#39; lacks outputs in all 1,200 rows: " in html(unmeasured, {}, found, REASONS)
    assert predictions_json(found, REASONS)["dead_letters"]["in_all_rows"] == ["new<b>"]  # type: ignore[index,call-overload]  # JSON


def test_where_there_is_no_row_there_is_no_file_to_read() -> None:
    assert prediction_lines(replace(FOUND, rows=0, dead={}, parts=())) == [
        "Predictions: no rows, so that there is no file (parquet) in /runs/x/predictions",
        "Columns: id (int64), new<b> (float)",
    ]


def test_why_one_variant_lacks_outputs() -> None:
    place = "These are dead letters, in /runs/x/dead-letter"
    assert dead_lines_of(FOUND, REASONS, "prod") == [
        "Variant 'prod' lacks outputs in 1 of 1,200 rows: no score.",
        place,
    ]
    assert dead_lines_of(FOUND, REASONS, "new<b>") == [
        "Variant 'new<b>' lacks outputs in 7 of 1,200 rows. The first reasons:",
        "- it gave no score.",
        "- function 'm:f' failed with ValueError: <i>.",
        place,
    ]
    assert dead_lines_of(FOUND, {}, "prod")[0] == "Variant 'prod' lacks outputs in 1 of 1,200 rows."
    assert dead_lines_of(FOUND, REASONS, "other") == []


@pytest.mark.parametrize(("rows", "said"), [(1, "the only row"), (2, "both rows"), (3, "all 3 rows")])
def test_a_variant_without_any_output_is_told_in_one_sentence_everywhere(rows: int, said: str) -> None:
    found, why = replace(FOUND, rows=rows, dead={"prod": rows}), {"prod": ("no score.",)}
    lines = [f"Variant 'prod' lacks outputs in {said}: no score.", "These are dead letters, in /runs/x/dead-letter"]
    assert dead_lines_of(found, why, "prod") == lines
    assert lacking_lines(found, why) == [" ".join(lines)]


def test_where_only_the_best_of_groups_are_written_their_number_says_nothing_of_all_rows() -> None:
    ranked = replace(FOUND, columns=(("_variant", "string"), ("_rank", "int32")))
    assert dead_lines_of(ranked, REASONS, "prod")[0] == "Variant 'prod' lacks outputs in 1 row: no score."


def test_nobody_lacks_all_rows_where_there_are_none_or_only_the_best_of_groups() -> None:
    assert lacking(replace(FOUND, rows=0, dead={}, parts=())) == []
    ranked = replace(FOUND, dead={"prod": 1200}, columns=(("_variant", "string"), ("_rank", "int32")))
    assert lacking(ranked) == []


def test_columns_of_partitions_do_not_hide() -> None:
    columns = tuple((f"c{number}", "int64") for number in range(15))
    part = replace(PART, file=replace(PART.file, partition={"c7": "1", "c8": None}))
    said = prediction_lines(replace(FOUND, columns=columns, parts=(part,)))[1]
    assert said.startswith("Columns: c0 (int64), ")
    assert said.endswith(
        ", ... 3 more ..., c9 (int64), c10 (int64), c11 (int64), c12 (int64), c13 (int64), c14 (int64); partitioned by "
        "c7, c8"
    )


def test_of_many_columns_the_first_and_the_last() -> None:
    columns = tuple((f"c{number}", "double") for number in range(15))
    assert prediction_lines(replace(FOUND, columns=columns))[1] == (
        "Columns: c0 (double), c1 (double), c2 (double), c3 (double), c4 (double), c5 (double), ... 3 more ..., "
        "c9 (double), c10 (double), c11 (double), c12 (double), c13 (double), c14 (double)"
    )


def test_of_many_variants_those_that_lack_most() -> None:
    many = replace(FOUND, dead={f"v{number}": number + 1 for number in range(25)})
    assert dead_title(many) == f"{DEAD} (of 25 variants the 20 that lack most)"
    rows = dead_rows(many, {})
    assert (len(rows), rows[0]) == (20, ("v24", 25, ()))
    assert (dead_title(replace(FOUND, dead={})), dead_rows(replace(FOUND, dead={}), {})) == ("", [])


def test_an_iceberg_table_is_read_from_its_catalog() -> None:
    assert reading(replace(FOUND, format="iceberg", place="prod.scores.daily")) == (
        "pyiceberg.catalog.load_catalog('prod').load_table('scores.daily').scan().to_arrow()"
    )


@pytest.mark.parametrize("partition", [{}, {"day": "1"}])
def test_json_lines_are_read_with_types_from_all_rows_and_partitions_of_the_run_alone(
    tmp_path: Path, partition: dict[str, str]
) -> None:
    place = tmp_path / "hour=7" / "predictions"
    file = place / "".join(f"{name}={value}/" for name, value in partition.items()) / "part-0-u-d.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text('{"a": "2024-01-31"}\n' * 30_000 + '{"a": "soon"}\n')
    part = ListedPart("u", PartFile("part-0-u-d.jsonl", 30_001, 9, "", partition))
    rows = eval(reading(replace(FOUND, format="jsonl", place=str(place), parts=(part,))), {"duckdb": duckdb})
    assert {"a", *partition} <= set(rows.column_names)
    assert ("hour" in rows.column_names) == bool(
        partition
    )  # DuckDB takes those of the path too, where it is to take any
    assert (rows["a"][0].as_py(), rows["a"][-1].as_py(), len(rows)) == ("2024-01-31", "soon", 30_001)


def test_in_a_notebook(unmeasured: Results) -> None:
    text = html(unmeasured, {}, FOUND, REASONS)
    assert (
        "<p>Predictions: 1,200 rows in 1 file (parquet) in /runs/x/predictions<br>Columns: id (int64), new&lt;b&gt; "
        "(float)<br>Read them with: pyarrow.parquet.read_table(&#39;/runs/x/predictions&#39;)</p>" in text
    )
    assert f"<caption>{DEAD}</caption>" in text
    assert (
        '<tr><td>new&lt;b&gt;</td><td>7</td><td class="text">it gave no score.<br>function &#39;m:f&#39; failed with '
        "ValueError: &lt;i&gt;.</td></tr>" in text
    )
    assert "<p><small>Note: 100 of 1,300 rows read are left out by the filter.</small></p>" in text
    assert "usable" not in text
    assert "verdict" not in text


def test_in_markdown(unmeasured: Results) -> None:
    assert markdown(unmeasured, FOUND, REASONS).splitlines() == [
        "## assay: predictions",
        "",
        "- Predictions: 1,200 rows in 1 file (parquet) in /runs/x/predictions",
        r"- Columns: id (int64), new\<b\> (float)",
        r"- Read them with: pyarrow.parquet.read\_table('/runs/x/predictions')",
        "- the column 'day' is written as text.",
        "",
        f"{DEAD}.",
        "",
        "| variant | first reasons | rows |",
        "| --- | --- | --: |",
        r"| new\<b\> | it gave no score.<br>function 'm:f' failed with ValueError: \<i\>. | 7 |",
        "| prod | no score. | 1 |",
        "",
        "- 100 of 1,300 rows read are left out by the filter.",
    ]
    assert markdown(replace(unmeasured, outcome="fail"), FOUND).startswith("## assay: fail\n")
