"""The first rows of a unit that was given up, for whoever looks for the cause: read in a process of their own.

What workers died of may kill its reader too. So the reading has a process that may die, a bound on its time, and is
the first to go where memory is short; where it fails, nothing is shown. It is never an error of the run.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from assay.protocols import Source
from assay.records import Unit
from assay.row_sample import MOST_ROWS, row_sample

GLANCE_SECONDS = 15.0
MOST_CHARACTERS = 20_000
"""Of a sample: what is longer is not kept."""


def first_rows(source: Source, unit: Unit, columns: Sequence[str], seconds: float = GLANCE_SECONDS) -> str:
    """As `Failure.sample` has it; "" where they cannot be read within so many seconds."""
    try:
        if source.resumable:
            text = _read_apart(source, unit, columns, seconds)
        else:  # in memory: it need not be read, and may be too large to be handed on
            text = _first_rows(source, unit, columns)
    except Exception:  # whatever it is, the failure is told without a sample
        return ""
    return text if len(text) <= MOST_CHARACTERS else ""


def _read_apart(source: Source, unit: Unit, columns: Sequence[str], seconds: float) -> str:
    found = subprocess.run(
        [sys.executable, "-m", __name__],
        input=pickle.dumps((source, unit, tuple(columns))),
        capture_output=True,
        timeout=seconds,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return found.stdout.decode()


def _first_rows(source: Source, unit: Unit, columns: Sequence[str]) -> str:
    for chunk in source.read(unit, columns):
        if chunk.table.num_rows:
            return row_sample(chunk.table, columns, range(min(chunk.table.num_rows, MOST_ROWS)))
    return ""


def _main() -> None:
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    source, unit, columns = pickle.load(sys.stdin.buffer)
    sys.stdout.buffer.write(_first_rows(source, unit, columns).encode())


if __name__ == "__main__":
    _main()
