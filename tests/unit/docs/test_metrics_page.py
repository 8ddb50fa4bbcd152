"""The page of metrics is the one that the tables give."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from assay import catalogue
from assay.metrics.table import TABLES

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "metrics.md").read_text()


def test_the_page_is_current() -> None:
    assert runpy.run_path(str(DOCS / "make_metrics_page.py"))["page"]() == PAGE, "run `make docs`"


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, table in TABLES.items() for name in table])
def test_every_metric_has_a_line(family: str, name: str) -> None:
    assert re.search(rf"^\| `{name}[`(]", PAGE, re.MULTILINE), (family, name)


def test_the_head_names_metrics_that_there_are() -> None:
    head = PAGE.split("## Which metric for what")[1].split("## What all have in common")[0]
    named = {name.partition("(")[0] for name in re.findall(r"`([^`]+)`", head)} - {"pr"}
    assert named <= {name for table in TABLES.values() for name in table}


def test_the_example_can_be_parsed() -> None:
    example = re.search(r"metrics: \[(.*)\]", PAGE)
    assert example is not None
    names = [name.strip('"') for name in example[1].split(", ")]
    assert [catalogue.metric(name).name for name in names] == names


@pytest.mark.parametrize("name", ["threshold_at", "ece_debiased", "recalibrated_ece"])
def test_metrics_without_an_interval_say_so(name: str) -> None:
    (line,) = re.findall(rf"^\| `{name}\(.*$", PAGE, re.MULTILINE)
    assert "| none |" in line


def test_all_others_have_one() -> None:
    assert PAGE.count("| none |") == 3
