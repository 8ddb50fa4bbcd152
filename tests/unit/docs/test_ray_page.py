"""What the page on Ray shows is what a spec takes, and what a run says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from assay.cluster.nodes import Demand, Node, lack, of_task, of_worker
from assay.spec.document import parse
from assay.spec.load import build_spec

PAGE = (Path(__file__).parents[3] / "docs" / "ray.md").read_text()
WORDS = " ".join(PAGE.split())
SPECS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", SPECS)
def test_specs_are_specs(text: str) -> None:
    spec = build_spec(cast("dict[str, object]", parse(text, {}).tree))
    assert of_worker(spec.workers).num_gpus in (0.5, 1)
    if spec.prepare:
        assert of_task(spec.prepare.values()) == Demand(1.0, 0.0, {}, {"pool": "cpu"})


def test_there_are_specs() -> None:
    assert len(SPECS) == 2


def test_what_is_said_where_nothing_fits() -> None:
    known = [
        Node("a", {"CPU": 6.0}, free={"CPU": 3.0}),
        Node("b", {"CPU": 2.0}, free={"CPU": 0.0}, draining=True),
    ]
    assert lack(Demand(1.0, 1.0), known) in WORDS
