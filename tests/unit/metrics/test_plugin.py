"""A metric of another package, found by its installed entry point, keeps the laws and is made by its name."""

from __future__ import annotations

import re
import sys

import numpy as np
import pandas as pd
import pytest

import assay
from assay import catalogue
from assay.records import StateChoice
from assay.testing import check_metric, evaluate, make_block

MODULE = '''
"""The share of rows whose score is far from the label: a metric of the full protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assay.accumulators import SUPPORT, TermSum
from assay.metrics.parse import canonical
from assay.metrics.pooled import PooledMetric
from assay.metrics.terms import pooled_terms


@dataclass(frozen=True)
class FarTerms:
    distance: float

    def __call__(self, block):
        return ((np.abs(block.raw - block.label) > self.distance).astype(np.float64),)


@dataclass(frozen=True)
class Far(PooledMetric):
    distance: float = 1.0
    description = "share of rows whose score is further from the label than that"
    label_kind = "real"
    direction = "lower"

    @property
    def name(self):
        return canonical("far", {"distance": self.distance}, {"distance": 1.0})

    def far(self):
        return TermSum(f"far(distance={self.distance!r}).v1", FarTerms(self.distance))

    def accumulators(self, choice):
        return (SUPPORT, self.far())

    def formula(self, states, counts, choice):
        return pooled_terms(states, self.far()).mean, []
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with an entry point, as pip leaves it on Python's path."""
    (tmp_path / "far_metrics.py").write_text(MODULE)
    information = tmp_path / "far_metrics-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: far-metrics\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[assay.metrics]\nfar = far_metrics:Far\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "far_metrics", raising=False)
    catalogue.plug_ins.cache_clear()
    yield
    catalogue.plug_ins.cache_clear()


def test_it_is_a_metric_like_others(installed):
    metric = catalogue.metric("far(distance=0.25)")
    assert (metric.name, catalogue.metric("far").name) == ("far(distance=0.25)", "far")
    rows = make_block([0.0, 1.0, 2.0], [0.25, 0.0, 2.5], probability=False, weight=[2, 1, 1])
    assert evaluate(metric, rows, choice=StateChoice(True, "all")).value.tolist() == [0.5]
    check_metric(metric, bounds=(0.0, 1.0))


def test_it_is_offered_and_a_misspelt_one_is_refused(installed):
    assert catalogue.metric_places()["far"] == "far_metrics:Far"
    with pytest.raises(ValueError, match=re.escape("There is no metric 'fahr'; did you mean 'far'?")):
        catalogue.metric("fahr")


def test_it_enters_a_run(installed):
    rng = np.random.default_rng(0)
    label = rng.normal(size=500)
    frame = pd.DataFrame({"user": np.arange(500), "y": label, "p": label + rng.normal(size=500)})
    done = assay.evaluate(frame, label="y", scores=["p"], cluster="user", metrics=["far(distance=1.0)", "mae"])
    expected = float((np.abs(frame["p"] - label) > 1.0).mean())
    assert done.metrics["metric"].to_pylist() == ["far", "mae"]
    assert done.metrics["value"].to_pylist()[0] == pytest.approx(expected, rel=1e-15)
