"""The page on metrics of one's own: its examples run, and the metric in it keeps the laws."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import assay
from assay.metrics.own import Batch
from assay.records import StateChoice
from assay.spec.model import MetricSpec, Spec
from assay.testing import evaluate, make_block

PAGE = Path(assay.__file__).parents[2] / "docs" / "metrics-of-your-own.md"


@pytest.fixture(scope="module")
def names():
    """What the page's Python defines, run from its top to its end."""
    found: dict[str, object] = {"__name__": "page"}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), found)
    return found


def test_the_function(names):
    rows = make_block([0.9, 0.2], [1, 1], columns={"price": [3.0, 5.0]})
    assert names["revenue"](Batch.of(rows, ("price",)), fee=0.5).tolist() == [2.5, 0.0]


def test_the_metric_of_the_full_protocol(names):
    rows = make_block([3.0, 1.0], [1.0, 3.0], probability=False)
    assert evaluate(names["Surplus"](), rows, choice=StateChoice(True, "all")).value.tolist() == [0.5]
    names["test_surplus"]()


def test_a_batch_has_what_the_table_says():
    table = re.findall(r"^\| `(\w+)`", PAGE.read_text(), re.MULTILINE)
    assert tuple(table) == tuple(Batch.__dataclass_fields__)


def test_the_spec_is_one():
    spec = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert set(re.findall(r"^ {4}(\w+):", spec[1], re.MULTILINE)) <= set(MetricSpec.model_fields)
    assert {"metrics", "gates"} <= set(Spec.model_fields)
