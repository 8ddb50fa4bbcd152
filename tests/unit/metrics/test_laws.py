"""Every metric of the table keeps every law, under every choice of states."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from assay.metrics.table import TABLE
from assay.testing import CHOICES, check_metric

BOUNDS = {
    "mean_score": (-np.inf, np.inf),
    "log_loss": (0.0, 24 * np.log(2) + 1e-6),
    "count": (0.0, np.inf),
    "normalised_entropy": (0.0, np.inf),
    "calibration_ratio": (0.0, np.inf),
    "rmse": (0.0, np.inf),
    "mae": (0.0, np.inf),
}
PARAMETERS = {"precision": {"threshold": 0.3}, "f1": {"threshold": 0.25}, "ece": {"bins": 7}}


def metric_class(name):
    module, attribute = TABLE[name].split(":")
    return getattr(import_module(module), attribute)


@pytest.mark.parametrize("name", TABLE)
def test_metric_keeps_the_laws(name):
    metric = metric_class(name)()
    assert metric.name == name
    check_metric(metric, bounds=BOUNDS.get(name, (0.0, 1.0)), counts_rows=name == "count")


@pytest.mark.parametrize("name", PARAMETERS)
def test_metric_with_parameters_keeps_the_laws(name):
    check_metric(metric_class(name)(**PARAMETERS[name]), bounds=(0.0, 1.0), choices=CHOICES[:2], seed=3)
