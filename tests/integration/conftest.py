"""One small Ray cluster for all tests that need one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from assay.cluster.connect import connected

TESTS = Path(__file__).parent.parent
IMPORTABLE = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """The address of a cluster with three CPUs, to which this process is connected; its actors can import the fakes."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = IMPORTABLE
    with connected("local", num_cpus=3):
        yield ray.get_runtime_context().gcs_address
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
