"""What scenarios are played on: data, a spec of each kind, what undisturbed runs of them commit, and drivers as
processes.

The reference is a run of the local executor that commits each unit alone: so it also says what a run must commit that
gives a unit up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Literal, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from chaos.traps import FOLDER, Traps
from fakes import command
from fakes.states import committed_tally

import assay.worker
from assay.pipeline.finish import merged
from assay.pipeline.run import saved_plan
from assay.records import CommittedFile, Plan, Unit
from assay.states import digest
from assay.store.log import read_committed
from assay.store.run import RunDirectory

NUM_UNITS, UNIT_ROWS = 48, 20
TESTS = Path(__file__).parent.parent
IMPORTABLE = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
RAISING = {"first": 103, "every": 400}
"""Rows that a variant of the tolerant spec cannot score."""

UNITS_JOINED = 8
"""So many units are joined at once, where rows are written."""
TIMES = 26
"""With so many times the rows columns are copied as they lie: a row group has 4,160."""
BOUND_SECONDS = 4.0
"""A unit of the bounded spec may take so long."""

Kind = Literal["strict", "tolerant", "bounded", "predicting", "copying"]
FILES: Mapping[Kind, str] = {"predicting": "decoded.parquet", "copying": "copied.parquet"}
"""Of those that write rows; the others have rows.parquet."""
CARRIED: Mapping[Kind, set[str]] = {"predicting": {"ZSTD"}, "copying": {"SNAPPY"}}
"""How carried columns are compressed in what they write: as outputs are, or as in the data."""


class Late(Exception):
    """A scenario took longer than it may."""


class Failed(Exception):
    """A scenario did not go as it must: a sentence."""


class Deadline:
    """The end of a scenario's time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends = time.monotonic() + seconds

    def wait(self, until: Callable[[], bool], what: str) -> None:
        while not until():
            self.check(what)
            time.sleep(0.02)

    def check(self, what: str) -> None:
        if time.monotonic() > self._ends:
            raise Late(f"after {self._seconds:.0f} s it still waited until {what}")


class Driver:
    """A process of `assay`, and what it says."""

    def __init__(self, words: Collection[object], environment: dict[str, str], *, disguise: str | None = None) -> None:
        """disguise: see `chaos.driver`."""
        disguises = [] if disguise is None else [disguise]
        command = [sys.executable, "-m", "chaos.driver", *disguises, *map(str, words)]
        environment = {**os.environ, "PYTHONPATH": IMPORTABLE, **environment}
        self.process = subprocess.Popen(command, stdout=DEVNULL, stderr=PIPE, text=True, env=environment)
        self.said: list[tuple[float, str]] = []  # with the time
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    @property
    def text(self) -> str:
        return "\n".join(line for _, line in self.said)

    @property
    def code(self) -> int | None:
        return self.process.poll()

    def times(self, words: str) -> list[float]:
        """When it said these words."""
        return [seconds for seconds, line in list(self.said) if words in line]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reading.join(5.0)

    def ended(self) -> bool:
        if self.code is None:
            return False
        self._reading.join(5.0)
        return True

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append((time.monotonic(), line.rstrip()))


class Reference(NamedTuple):
    """What an undisturbed run commits."""

    plan: Plan
    files: tuple[CommittedFile, ...]  # of one unit each
    directory: RunDirectory

    @property
    def units(self) -> tuple[Unit, ...]:
        """In the order in which they are scored."""
        return self.plan.units

    @property
    def predictions(self) -> dict[str, bytes]:
        """See `predictions_of`."""
        return predictions_of(self.directory.store.url)

    def unit(self, row: int) -> str:
        """The id of the unit that this row lies in."""
        return next(unit.id for unit in self.units if 0 <= row - unit.first_row < (unit.num_rows or 0))

    def digest(self, without: Collection[str]) -> str:
        """Of all that is committed, these units apart."""
        files = [file for file in self.files if file.receipts[0].unit not in without]
        return digest(merged(self.directory, files, self.plan))


def predictions_of(run: str) -> dict[str, bytes]:
    """All that a reader of a run's folders would read, by path; nothing of one that writes no predictions."""
    files = [path for folder in ("predictions", "dead-letter") for path in sorted(Path(run, folder).rglob("*"))]
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in files
        if path.is_file() and not path.name.startswith("_")
    }


class Stage:
    """A spec of each kind over its file, and a folder where runs go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.traps = Traps(folder / FOLDER)
        pq.write_table(_table(NUM_UNITS * UNIT_ROWS), folder / "rows.parquet", row_group_size=UNIT_ROWS)
        for kind, name in FILES.items():
            rows = _unit_rows(kind)
            pq.write_table(_table(NUM_UNITS * rows), folder / name, row_group_size=UNITS_JOINED * rows)
        self._references: dict[Kind, Reference] = {}

    def spec(self, kind: Kind) -> Path:
        return self.folder / f"{kind}.yaml"

    def reference(self, kind: Kind) -> Reference:
        """Made when it is first asked for, between two scenarios."""
        if kind not in self._references:
            self._references[kind] = self._make_reference(kind)
        return self._references[kind]

    def _make_reference(self, kind: Kind) -> Reference:
        self.spec(kind).write_text(json.dumps(self._tree(kind)))
        place = self.folder / f"reference {kind}"
        with patch.object(assay.worker, "FLUSH_FRACTION", float("inf")):
            answer = command.assay("run", self.spec(kind), "--out", place, "--executor", "local", "--workers", 1)
        assert answer.code == 0, answer.err
        self.traps.clear()
        directory = RunDirectory.open(str(place))
        reference = Reference(saved_plan(directory), read_committed(directory).files, directory)
        assert len(reference.files) == NUM_UNITS
        assert reference.digest(()) == digest(committed_tally(place))
        assert _compressions(place / "predictions") == CARRIED.get(kind, set())
        return reference

    def _tree(self, kind: Kind) -> dict[str, object]:
        unit_rows = _unit_rows(kind)
        settings = {"folder": str(self.traps.folder), "unit_rows": unit_rows}
        function = {"function": "chaos.traps:scores", "settings": settings}
        variants: list[dict[str, object]] = [
            {"name": "old", "column": "p"},
            {"name": "new", "callable": function, "inputs": ["row"], "receive": "dict"},
        ]
        if kind == "tolerant":
            function = {"function": "chaos.traps:raises", "settings": RAISING}
            variants.append({"name": "frail", "callable": function, "inputs": ["row"], "receive": "dict"})
        execution = {"unit_rows": unit_rows, "micro_batch": unit_rows // 2}
        predicting = {"predictions": {"provenance": True}, "carry_over": ["wide", "row"]}
        return {
            **(predicting if kind in FILES else {}),
            "data": {"path": FILES.get(kind, "rows.parquet"), "label": "y"},
            "output": {"is": "probability"},
            "variants": variants,
            "baseline": "old",
            "metrics": ["auc", "log_loss"],
            "execution": {**execution, "unit_seconds": BOUND_SECONDS} if kind == "bounded" else execution,
            "on_error": "continue" if kind == "tolerant" else "stop",
        }


def _unit_rows(kind: Kind) -> int:
    return UNIT_ROWS * TIMES if kind == "copying" else UNIT_ROWS


def _table(rows: int) -> pa.Table:
    chance = np.random.default_rng(0)
    return pa.table(
        {
            "y": chance.integers(0, 2, rows),
            "row": np.arange(float(rows)),
            "p": chance.random(rows),
            "wide": [[f"{row}-{item}" for item in range(row % 4)] for row in range(rows)],
        }
    )


def _compressions(folder: Path) -> set[str]:
    """Of the first column in all files there: it is a carried one."""
    return {pq.read_metadata(path).row_group(0).column(0).compression for path in folder.glob("*.parquet")}
