"""What the engine itself costs: a unit, a loss, a flush, a resume. Models do next to nothing here.

.venv/bin/python -m benchmarks.engine units            # overhead of a unit, here and on Ray
.venv/bin/python -m benchmarks.engine losses           # an actor is killed: seconds to notice, to replace
.venv/bin/python -m benchmarks.engine flushes          # bytes and seconds of a flush, by number of variants
.venv/bin/python -m benchmarks.engine resume           # a log of 100,000 units: seconds until it can go on
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from assay import build
from assay.api import run
from assay.pipeline.prepare import Prepared, prepare
from assay.pipeline.replay import replay
from assay.records import CommittedFile, Job, Progress, Receipt, Unit
from assay.schedule import Schedule
from assay.spec.load import build_spec
from assay.store.log import CommitLog, read_committed
from assay.store.run import RunDirectory
from assay.worker import Worker

NUM_UNITS = {"local": 3000, "ray": 3000}
UNIT_ROWS = 1
VARIANTS = (1, 20, 200)
FLUSH_ROWS = 65_536
KILLS = 5
LOG_UNITS, UNITS_OF_A_COMMIT = 100_000, 10
SCORER = """
import os, time
from pathlib import Path
def slow(p):
    Path({folder!r}, str(os.getpid())).touch()
    time.sleep(0.2)
    return p
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=list(STUDIES))
    Console().print(STUDIES[parser.parse_args().what]())


# ---- a unit ----------------------------------------------------------------------------------------------------------


def units() -> Table:
    """Units of one row each: wall and CPU of this process between a tenth of the units and the last."""
    table = _table("executor", "workers", "units", "ms a unit, wall", "ms a unit, CPU of the driver's process")
    for executor, workers in (("local", 1), ("local", 2), ("ray", 1), ("ray", 2)):
        number, seen = NUM_UNITS[executor], list[tuple[float, float, int]]()

        def note(progress: Progress, seen: list[tuple[float, float, int]] = seen) -> None:
            seen.append((time.perf_counter(), time.process_time(), progress.units_done))

        with tempfile.TemporaryDirectory() as folder:
            _write_rows(Path(folder), number * UNIT_ROWS)
            spec = build_spec(_tree(1, unit_rows=UNIT_ROWS))
            run(spec, base=folder, out=Path(folder, "run"), executor=executor, workers=workers, report=note)
        began, ended = next(one for one in seen if one[2] > number // 10), seen[-1]
        wall, cpu, done = (after - before for before, after in zip(began, ended, strict=True))
        table.add_row(executor, str(workers), f"{number:,}", f"{1000 * wall / done:.2f}", f"{1000 * cpu / done:.2f}")
    return table


# ---- a loss ----------------------------------------------------------------------------------------------------------


def losses() -> Table:
    """One of two actors is killed in a run of units of 0.2 s: from the kill, by the driver's clock."""
    table = _table("kill", "s until it is noticed", "s until another is ready", "s until that has scored a unit")
    found = [_loss() for _ in range(KILLS)]
    for number, seconds in enumerate(found, start=1):
        table.add_row(str(number), *(f"{one:.2f}" for one in seconds))
    table.add_row("median", *(f"{median(several):.2f}" for several in zip(*found, strict=True)))
    return table


def _loss() -> tuple[float, float, float]:
    killed: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        pids = Path(folder, "pids")
        pids.mkdir()
        Path(folder, "scorer.py").write_text(SCORER.format(folder=str(pids)))
        _write_rows(Path(folder), 4000)
        tree = _tree(1, unit_rows=64) | {
            "variants": [{"name": "slow", "callable": "scorer:slow", "inputs": ["p"]}],
            "execution": {"unit_rows": 64, "micro_batch": 64},
        }

        def kill(progress: Progress) -> None:
            if progress.units_done >= 10 and not killed and not progress.message:
                killed.append(progress.seconds)
                os.kill(int(next(pids.iterdir()).name), signal.SIGKILL)

        run(build_spec(tree), base=folder, out=Path(folder, "run"), executor="ray", workers=2, report=kill)
        [part] = replay(str(Path(folder, "run"))).parts
        [driver] = Path(folder, "run", "events").glob("*-000001.jsonl")
        said = driver.read_text().splitlines()
    lost = next(line for line in part.lines if "was lost" in line.text).seconds
    ready = next(line for line in part.lines if line.text == f"Worker {part.driver}-3 is ready.").seconds
    first = next(float(line[1:].split(",")[0]) for line in said if ',"done",3,' in line)
    return lost - killed[0], ready - killed[0], first - killed[0]


# ---- a flush ---------------------------------------------------------------------------------------------------------


def flushes() -> Table:
    """The states of one unit, on a local disk: the default metrics, 64 buckets, 4 slices beside all rows."""
    table = _table("variants", "rows", "MB", "s to encode and write", "of it CPU", "s to score the unit", "of it CPU")
    for number in VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            _write_rows(Path(folder), FLUSH_ROWS)
            prepared = prepare(build_spec(_tree(number, unit_rows=FLUSH_ROWS)), Path(folder))
            worker = Worker(build.worker_setup(_job(prepared, Path(folder))))
            worker.score(prepared.plan.units[0], None, ())  # what is compiled is compiled
            began = (time.perf_counter(), time.process_time())
            receipt = worker.score(prepared.plan.units[0], None, ()).receipt
            scored = (time.perf_counter(), time.process_time())
            file = worker.flush((receipt.unit,))
            written = (time.perf_counter(), time.process_time())
            size = Path(folder, "run", "states", f"{file.file}.arrow").stat().st_size
            worker.close()
        spent = [
            late - early for pair in ((scored, written), (began, scored)) for early, late in zip(*pair, strict=True)
        ]
        table.add_row(str(number), f"{FLUSH_ROWS:,}", f"{size / 1e6:.2f}", *(f"{one:.2f}" for one in spent))
    return table


# ---- a resume --------------------------------------------------------------------------------------------------------


def resume() -> Table:
    """A log of 100,000 units on a local disk: what comes before the first order of a new driver."""
    table = _table("units", "entries", "s to read the log", "s to take the run over", "s to make the schedule")
    plan = [Unit(f"{index:064x}", "rows.parquet", index, 1, 0) for index in range(LOG_UNITS + 1)]
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory.create(folder)
        with CommitLog(directory) as log:
            for first in range(0, LOG_UNITS, UNITS_OF_A_COMMIT):
                name = f"{first:064x}"
                directory.save_state(name, b"")
                receipts = (Receipt(unit.id, 1, "0" * 64) for unit in plan[first : first + UNITS_OF_A_COMMIT])
                log.commit([CommittedFile(name, tuple(receipts))], (), ())
        times = [time.perf_counter()]
        known = read_committed(directory)
        times.append(time.perf_counter())
        with CommitLog(directory, known=known) as log:
            times.append(time.perf_counter())
            Schedule(plan, log.files, log.lost, driver="d", num_workers=1).start()
            times.append(time.perf_counter())
    seconds = (f"{after - before:.2f}" for before, after in pairwise(times))
    table.add_row(f"{LOG_UNITS:,}", f"{len(known.entries):,}", *seconds)
    return table


# ---- worlds ----------------------------------------------------------------------------------------------------------


def _write_rows(folder: Path, number: int) -> None:
    chance = np.random.default_rng(0)
    probability = chance.random(number).astype(np.float32)
    columns = {
        "p": probability,
        "y": (chance.random(number) < probability).astype(np.int8),
        "country": chance.choice(["CH", "DE"], number),
        "user": chance.integers(0, max(2, number // 10), number),
    }
    pq.write_table(pa.table(columns), folder / "rows.parquet")


def _tree(num_variants: int, unit_rows: int) -> dict[str, object]:
    many = unit_rows > 1
    return {
        "data": {"path": "rows.parquet", "label": "y"} | ({"cluster": "user", "slices": ["country"]} if many else {}),
        "variants": [{"name": f"v{number}", "column": "p"} for number in range(num_variants)],
        "output": {"is": "probability"},
        "metrics": [] if many else ["log_loss"],  # the default ones
        "execution": {"unit_rows": unit_rows, "micro_batch": min(unit_rows, 1024)},
    }


def _job(prepared: Prepared, folder: Path) -> Job:
    (folder / "run").mkdir()
    directory = RunDirectory.create(str(folder / "run"))
    directory.write_head("spec.yaml", b"")
    return Job(prepared.spec, prepared.plan, str(folder), prepared.source, directory.store.url)


def _table(*columns: str) -> Table:
    table = Table()
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table


STUDIES = cast(
    "dict[str, Callable[[], Table]]", {"units": units, "losses": losses, "flushes": flushes, "resume": resume}
)

if __name__ == "__main__":
    main()
