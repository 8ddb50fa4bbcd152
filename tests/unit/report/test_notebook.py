"""The HTML fragment: well-formed, escaped, with the same numbers as the terminal."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from assay.report.notebook import html

VOID = {"br"}


class Reader(HTMLParser):
    """Collects the cells of tables, and fails on tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] = f"{self.rows[-1][-1]} {data.strip()}".strip()


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def test_the_board(results):
    assert read(html(results)).rows == [
        ["variant", "verdict", "log_loss", "auc", "count"],
        ["prod", "baseline", "0.4501 ±0.0010", "0.710 ±0.010", "1200"],
        ["new", "undecided", "0.44123 ±0.00094 -0.00889 [-0.00929, -0.00849]", "one class", "1200 0"],
        ["slice", "variant", "metric", "rows", "difference", "p", "q"],
        ["country=US", "new", "log_loss", "1,200", "-0.0300 [-0.0310, -0.0290]", "<0.001", "-"],
        ["country=<b>", "new", "log_loss", "1,200", "+0.020 [+0.005, +0.035]", "0.01", "0.031"],
    ]


def test_names_and_reasons_are_escaped(results):
    verdict = replace(results.verdicts[0], reason="<script>alert(1)</script>")
    text = html(replace(results, verdicts=(verdict,), notes=("<i>",)))

    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "Note: &lt;i&gt;" in text
    read(text)


def test_without_gates_there_is_no_rule(results):
    assert "Holm" not in html(replace(results, verdicts=(), outcome="not gated"))
