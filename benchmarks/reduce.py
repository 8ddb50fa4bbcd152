"""The end of a large run: 1,000 variants in 100 slices, from committed state files to results.

Scores lie in columns of a Parquet file and are scored through the real code, one state file a unit. Then a fresh
process concludes the run, as `assay resume` does, in itself or with tasks on a Ray cluster of this machine. Prints its
seconds and the most memory that it had.

    .venv/bin/python -m benchmarks.reduce [--variants N] [--files N] [--unit-rows N] [--executor local|ray|both]
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import assay.pipeline.run
import assay.worker
from assay import build
from assay.pipeline.prepare import prepare
from assay.pipeline.run import How, begin, run, saved_spec
from assay.records import Job, Progress
from assay.spec.model import Spec
from assay.store.log import CommitLog
from assay.store.run import RunDirectory
from benchmarks.sweep_memory import OUT, make_spec, mebibytes, write_data


def main() -> None:
    arguments = parse_arguments()
    if arguments.conclude:
        print(json.dumps(conclude(arguments.conclude, arguments.executor)))
        return
    console = Console()
    spec = sweep(arguments.variants, arguments.files, arguments.unit_rows)
    folder = Path(tempfile.mkdtemp(dir=OUT))
    try:
        scored = score(spec, folder / "run")
        console.print(scored)
        table = Table("executor", "prepared after", "concluded after", "peak before", "peak")
        for executor in ("local", "ray") if arguments.executor == "both" else (arguments.executor,):
            shutil.rmtree(folder / "copy", ignore_errors=True)
            shutil.copytree(folder / "run", folder / "copy")
            taken = in_fresh_process(folder / "copy", executor)
            table.add_row(
                executor,
                f"{taken['prepared']:.1f} s",
                f"{taken['concluded']:.1f} s",
                mebibytes(taken["before"]),
                mebibytes(taken["peak"]),
            )
        console.print(table)
    finally:
        shutil.rmtree(folder)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", type=int, default=1_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--unit-rows", type=int, default=8_192)
    parser.add_argument("--executor", choices=("local", "ray", "both"), default="both")
    parser.add_argument("--conclude", help=argparse.SUPPRESS)
    return parser.parse_args()


def sweep(num_variants: int, num_files: int, unit_rows: int) -> Spec:
    spec = make_spec(write_data(num_files * unit_rows, num_variants), num_variants, gibibytes=1.0)
    execution = spec.execution.model_copy(update={"unit_rows": unit_rows})
    budget = spec.budget.model_copy(update={"exact_rows": 0})  # as of a large run
    return spec.model_copy(update={"execution": execution, "budget": budget})


def score(spec: Spec, out: Path) -> str:
    """Commit the states of all units, a file each, and say what there is."""
    assay.worker.FLUSH_FRACTION = math.inf
    start = time.perf_counter()
    prepared, directory = prepare(spec, Path.cwd()), RunDirectory.create(str(out))
    with CommitLog(directory) as log:
        begin(directory, prepared, spec, log)
        job = Job(prepared.spec, prepared.plan, str(prepared.base), prepared.source, str(out))
        build.executor("local", 1, None).run(job, log, silent)
        num_files = len(log.files)
    size = sum(file.stat().st_size for file in (out / "states").iterdir())
    plan, seconds = prepared.plan, time.perf_counter() - start
    return (
        f"{len(plan.fingerprints):,} variants, {len(plan.slices.names)} slices, {plan.choice}\n"
        f"Declared {mebibytes(plan.state_bytes)} a tally; {num_files} state files of together {mebibytes(size)}, "
        f"scored in {seconds:.0f} s"
    )


def in_fresh_process(out: Path, executor: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.reduce", "--conclude", str(out), "--executor", executor]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    taken: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return taken


def conclude(out: str, executor: str) -> dict[str, float]:
    """All units are committed: what is left of the run, in this process."""
    assay.pipeline.run.LARGE_MERGE_BYTES = 0  # with Ray, however little there is
    start = time.perf_counter()
    directory = RunDirectory.open(out)
    spec = saved_spec(directory)
    prepared = prepare(spec, Path(directory.read_json("environment.json")["base"]))
    ready, before = time.perf_counter(), most_bytes()
    run(prepared, spec, out, How(executor, workers=2 if executor == "ray" else None), silent)
    return {
        "prepared": ready - start,
        "concluded": time.perf_counter() - ready,
        "before": before,
        "peak": most_bytes(),
    }


def most_bytes() -> int:
    """The most memory that this process has had: what the system's own count also has of the process that began it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024


def silent(progress: Progress) -> None: ...


if __name__ == "__main__":
    main()
