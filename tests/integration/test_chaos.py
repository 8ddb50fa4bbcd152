"""The short form of the chaos suite, in a process of its own: its Ray cluster loses nodes. See docs/chaos.md."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from chaos.scenarios import SHORT

TESTS = Path(__file__).parent.parent
IMPORTABLE = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_runs_whose_nodes_drivers_and_store_fail_give_the_bytes_of_a_local_run() -> None:
    command = [sys.executable, "-m", "chaos", "--short"]
    environment = {**os.environ, "PYTHONPATH": IMPORTABLE}
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=880, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    for name in SHORT:
        [row] = [line for line in answer.stdout.splitlines() if line.startswith(f"| {name} |")]
        assert row.endswith("| yes |")
