"""What the page on a nightly job shows can be run: its script with a model that kills the process, and nights that are
done, changed or wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[2] / "docs" / "nightly.md").read_text()
[SPEC] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
MODEL, READING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
[SCRIPT] = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
DAYS = ("2024-05-01", "2024-05-02")
FILES, ROWS = 3, 50
KILLED = """

import os

honest, calls = score, []


def score(age, price):
    calls.append(len(age))
    if len(calls) == 2 and Path("kill").exists():
        Path("kill").unlink()
        os._exit(137)
    return honest(age, price)
"""
COMMAND = """#!/bin/sh
echo "$1" >> commands
exec "$PYTHON" -m assay "$@"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chance = np.random.default_rng(3)
    for day in DAYS:
        (tmp_path / "requests" / f"day={day}").mkdir(parents=True)
        for number in range(FILES):
            rows = {
                "request_id": np.arange(ROWS) + number * ROWS + 2**53,
                "item_id": chance.integers(0, 9, ROWS),
                "country": chance.choice(["at", "fr"], ROWS),
                "age": chance.normal(size=ROWS),
                "price": chance.normal(size=ROWS),
            }
            pq.write_table(pa.table(rows), tmp_path / "requests" / f"day={day}" / f"{number}.parquet")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "assay").write_text(COMMAND)
    (tmp_path / "bin" / "assay").chmod(0o755)
    (tmp_path / "nightly.sh").write_text(SCRIPT)
    (tmp_path / "nightly.yaml").write_text(SPEC)
    (tmp_path / "scoring.py").write_text(MODEL + KILLED)
    (tmp_path / "weights.json").write_text('{"age": 0.5, "price": -0.25}')
    return tmp_path


def night(folder: Path, day: str) -> subprocess.CompletedProcess[str]:
    """The script as a scheduler would start it, without Ray."""
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHON": sys.executable}
    (folder / "commands").unlink(missing_ok=True)
    return subprocess.run(
        ["sh", "nightly.sh", day], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def commands(folder: Path) -> list[str]:
    return (folder / "commands").read_text().split()


def test_a_night_that_is_killed_is_gone_on_with(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "kill").touch()
    for day in DAYS:
        done = night(folder, day)
        assert done.returncode == 0, done.stderr
        assert commands(folder) == ["predict"] * (2 if day == DAYS[0] else 1) + ["verify"]
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(READING, names)
    asked = [pds.dataset(folder / "requests" / f"day={day}").to_table() for day in DAYS]
    wanted = {
        (day, row["request_id"], row["country"], 1 / (1 + np.exp(-(0.5 * row["age"] - 0.25 * row["price"]))))
        for day, rows in zip(DAYS, asked, strict=True)
        for row in rows.to_pylist()
    }
    found = names["scored"].to_table().to_pylist()
    assert Counter((row["day"], row["request_id"], row["country"], row["click"]) for row in found) == Counter(wanted)
    assert {row[2] for row in wanted if row[0] == DAYS[0]} == {"at", "fr"}
    assert len(names["french"]) == sum(row[0] == DAYS[0] and row[2] == "fr" for row in wanted)


def test_a_night_that_is_done_stays_done(folder: Path) -> None:
    assert night(folder, DAYS[0]).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in (folder / "scored").rglob("*")}
    assert night(folder, DAYS[0]).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in (folder / "scored").rglob("*")} == before


def test_what_another_attempt_cannot_mend_is_not_tried_again(folder: Path) -> None:
    assert night(folder, DAYS[0]).returncode == 0
    (folder / "weights.json").write_text('{"age": 0.75, "price": -0.25}')
    changed = night(folder, DAYS[0])
    assert (changed.returncode, commands(folder)) == (2, ["predict"])
    assert "click" in changed.stderr
    missing = night(folder, "2024-05-03")
    assert (missing.returncode, commands(folder)) == (2, ["predict"])
    assert "requests/day=2024-05-03" in missing.stderr
