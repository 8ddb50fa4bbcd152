"""What the package offers, and that it needs no torch."""

from __future__ import annotations

import subprocess
import sys

import assay.integrations.ray_data as package


def test_public_names() -> None:
    assert package.__all__ == ["ModelSpec", "ParquetRows", "map_batches", "multi_model"]


def test_torch_is_loaded_by_those_who_use_tensors_alone() -> None:
    code = "import sys, assay.integrations.ray_data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code]).returncode == 0
