"""A program that is connected to a Ray cluster itself, perhaps with a `runtime_env` of its own, and predicts there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

PROGRAM = """
import os, sys
import ray
import assay
address, modules, spec, out = sys.argv[1:]
sys.path.insert(0, modules)
ray.init(address=address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": modules, "FACTOR": "3"}})
assay.predict(spec, out=out, executor="ray", workers=1)
"""
MODEL = """
import os
import theirs

def scaled(inputs):
    return theirs.OFFSET + float(os.environ["FACTOR"]) * inputs["x"]
"""

BESIDE = """
import os, sys
from dataclasses import dataclass, field
import ray
from assay.cluster.driver import RayExecutor
from assay.spec.model import WorkersSpec

@dataclass(frozen=True)
class Asked:
    base: str | None = None
    workers: WorkersSpec = field(default_factory=WorkersSpec)
    def __call__(self, item):
        return ray.get_runtime_context().runtime_env.env_vars()

del os.environ["PYTHONPATH"]
ray.init(address=sys.argv[1], log_to_driver=False)
[one] = RayExecutor(1, None).map(Asked(), [0])
print(sorted(one.result))
"""


def test_models_find_the_modules_and_variables_of_the_job(ray_address: str, tmp_path: Path) -> None:
    modules, beside = tmp_path / "modules", tmp_path / "beside"
    modules.mkdir()
    beside.mkdir()
    (modules / "theirs.py").write_text("OFFSET = 0.5\n")
    (beside / "model_of_the_job.py").write_text(MODEL)
    pq.write_table(pa.table({"x": [1.0, 2.0, 4.0]}), beside / "rows.parquet")
    variant = {"name": "new", "callable": "model_of_the_job:scaled", "inputs": ["x"], "receive": "dict"}
    (beside / "spec.yaml").write_text(json.dumps({"data": {"path": "rows.parquet"}, "variants": [variant]}))
    words = [ray_address, modules, beside / "spec.yaml", tmp_path / "run"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert pq.read_table(tmp_path / "run" / "predictions")["new"].to_pylist() == [3.5, 6.5, 12.5]


def test_no_task_is_given_up_in_a_process_that_may_own_what_is_the_users(ray_address: str) -> None:
    """Its actors and objects would go with the process."""
    done = subprocess.run([sys.executable, "-c", BESIDE, ray_address], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['MKL_NUM_THREADS', 'OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS']\n"
