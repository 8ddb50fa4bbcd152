"""The summary for a pull request, to the letter."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from assay.records import Results, Verdict
from assay.report.board import ERROR_RULE
from assay.report.markdown import markdown
from assay.stats.families import FAMILIES


def test_the_whole(results: Results) -> None:
    assert markdown(results).splitlines() == [
        "## assay: undecided",
        "",
        "| variant | verdict | log\\_loss | auc | count |",
        "| --- | --- | --: | --: | --: |",
        "| prod | baseline | 0.4501 ±0.0010 | 0.710 ±0.010 | 1200 |",
        "| new | undecided | 0.44123 ±0.00094<br>-0.00889 \\[-0.00929, -0.00849\\] | (one class) | 1200<br>0 |",
        "",
        "<sub>Below each value: the difference from prod, with its 95 % interval.</sub>",
        "",
        "- **new**: undecided. No gate failed, 1 of 2 gates undecided.",
        "",
        "- Rows are the clusters.",
        "- 60 of 1,300 rows read are left out by the filter.",
        "- 40 of 1,300 rows read have no label.",
        "- new: of 1,200 usable rows 7 scores are missing and it failed on 3.",
        "",
        f"<sub>{ERROR_RULE}</sub>",
    ]


def test_names_are_escaped(results: Results) -> None:
    named = replace(results, verdicts=(replace(results.verdicts[0], variant="a|b", reason="<b>[x]*"),))

    assert r"- **a\|b**: undecided. \<b\>\[x\]\*" in markdown(named)


def test_without_gates_there_is_no_verdict_and_no_rule(results: Results) -> None:
    text = markdown(replace(results, verdicts=(), outcome="not gated"))

    assert text.startswith("## assay: not gated\n")
    assert "Holm" not in text


def test_those_not_selected_are_counted(results: Results) -> None:
    others = [Verdict(name, "not selected", "Rank 2.", ()) for name in ("a", "b")]

    lines = markdown(replace(results, verdicts=(results.verdicts[0], *others))).splitlines()

    at = lines.index("- **new**: undecided. No gate failed, 1 of 2 gates undecided.")
    assert lines[at + 1] == "- 2 variants were not selected, and not judged."


def test_families(results: Results) -> None:
    row = {
        "family": "wide", "task": "main", "metric": "auc", "slice": "overall", "num_seeds": 3, "value": 0.7312,
        "spread": 0.0021, "least": 0.7291, "greatest": 0.7333, "difference": 0.0101, "low": 0.008, "high": 0.0122,
    }  # fmt: skip
    failed = {**dict.fromkeys(FAMILIES.names), "family": "tall", "task": "main", "metric": "auc", "num_seeds": 2}
    failed["undefined"] = "the variant failed"

    lines = markdown(replace(results, families=pa.Table.from_pylist([row, failed], FAMILIES))).splitlines()

    assert ("| wide | main | auc | 3 | 0.7312 | 0.0021 | 0.7291 | 0.7333 | +0.0101 \\[+0.0080, +0.0122\\] |") in lines
    assert "| tall | main | auc | 2 | - | - | - | - | (the variant failed) |" in lines
