"""What the package offers, and that it needs no torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

import assay.integrations.ray_data as package


def test_public_names() -> None:
    assert package.__all__ == ["ModelSpec", "ParquetRows", "evaluate", "map_batches", "multi_model"]


def test_torch_is_loaded_by_those_who_use_tensors_alone() -> None:
    code = "import sys, assay.integrations.ray_data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code]).returncode == 0


def test_what_evaluates_is_loaded_by_those_who_evaluate_alone() -> None:
    """Processes of a pipeline import the package for its models."""
    code = "import sys, assay.integrations.ray_data; sys.exit('assay.api' in sys.modules)"
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code]).returncode == 0
    assert package.evaluate.__module__ == "assay.integrations.ray_data.evaluating"


def test_another_name_is_unknown() -> None:
    with pytest.raises(AttributeError, match=r"^module 'assay\.integrations\.ray_data' has no attribute 'evalaute'$"):
        package.evalaute  # noqa: B018
