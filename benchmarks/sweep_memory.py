"""Memory and time of a sweep: 200 variants in 100 slices, with a baseline and the default metrics of probabilities.

Scores lie in columns of a Parquet file, so that states are what counts. Prints which form of states the plan takes
within the default budget, what every state is declared to take, and what the process took in the end.

    .venv/bin/python -m benchmarks.sweep_memory [--rows N] [--variants N] [--workers N] [--gibibytes N]
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import assay
from assay import catalogue
from assay.pipeline.budget import choices, tally_bytes
from assay.pipeline.run import saved_plan
from assay.records import Plan
from assay.spec.model import Spec
from assay.store.run import RunDirectory

OUT = Path(__file__).parent / "out"
SEED = 7
ROW_GROUP_ROWS = 16_384
DIMENSIONS = {"country": 29, "device": 19, "hour": 19, "surface": 9, "tier": 13}
"""Values of each; with `null` and `other` of each and `overall` there are 100 slices."""


class Taken(NamedTuple):
    """What one evaluation took."""

    seconds: float
    scoring_seconds: float
    before_bytes: int  # peak of the process, with all that is imported
    scoring_bytes: int  # its peak when the last unit was counted
    peak_bytes: int  # its peak at the end, when results were written


def main() -> None:
    arguments = parse_arguments()
    console = Console()
    data = write_data(arguments.rows, arguments.variants)
    spec = make_spec(data, arguments.variants, arguments.gibibytes)
    folder = tempfile.mkdtemp(dir=OUT)
    try:
        taken = evaluate(spec, Path(folder) / "run", arguments.workers)
        plan = saved_plan(RunDirectory.open(str(Path(folder) / "run")))
        state_files = sum(file.stat().st_size for file in (Path(folder) / "run" / "states").iterdir())
    finally:
        shutil.rmtree(folder)
    console.print(f"{arguments.rows:,} rows, {arguments.variants} variants, {len(plan.slices.names)} slices")
    console.print(f"Choice: {plan.choice}")
    console.print(
        f"Declared {mebibytes(plan.state_bytes)} a tally; state files {mebibytes(state_files)}. "
        f"Scored in {taken.scoring_seconds:.1f} s, concluded after {taken.seconds:.1f} s. Peak of the process: "
        f"{mebibytes(taken.before_bytes)} before the run, {mebibytes(taken.scoring_bytes)} when all was scored, "
        f"{mebibytes(taken.peak_bytes)} at the end"
    )
    console.print(states_table(plan), choices_table(spec, plan))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--variants", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--gibibytes", type=float, default=1.0, help="budget.state_bytes; 1 is the default of a spec")
    return parser.parse_args()


def write_data(num_rows: int, num_variants: int) -> Path:
    """A label, a user of ten rows, columns to slice by, and scores that know more or less of the label."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"sweep-{num_rows}-{num_variants}.parquet"
    if path.exists():
        return path
    generator = np.random.default_rng(SEED)
    logit = generator.normal(-2, 1.5, num_rows)
    columns: dict[str, NDArray[Any]] = {"user": np.arange(num_rows) // 10}  # Any: of several types
    columns["label"] = (generator.random(num_rows) < 1 / (1 + np.exp(-logit))).astype(np.int8)
    columns |= {name: generator.integers(0, number, num_rows) for name, number in DIMENSIONS.items()}
    for variant in range(num_variants):
        seen = logit + generator.normal(0, 0.2 + 0.005 * variant, num_rows)
        columns[f"p{variant:03}"] = (1 / (1 + np.exp(-seen))).astype(np.float32)
    pq.write_table(pa.table(columns), path, row_group_size=ROW_GROUP_ROWS)
    return path


def make_spec(data: Path, num_variants: int, gibibytes: float) -> Spec:
    return Spec.model_validate(
        {
            "data": {"path": str(data), "label": "label", "cluster": "user", "slices": list(DIMENSIONS)},
            "output": {"is": "probability"},
            "variants": [{"name": f"p{one:03}", "column": f"p{one:03}"} for one in range(num_variants)],
            "baseline": "p000",
            "budget": {"state_bytes": int(gibibytes * 2**30)},
        }
    )


def evaluate(spec: Spec, out: Path, workers: int) -> Taken:
    before = peak_bytes()
    scored = [(0.0, before)]
    start = time.perf_counter()
    assay.run(
        spec,
        out=out,
        executor="local",
        workers=workers,
        report=lambda progress: scored.append((time.perf_counter() - start, peak_bytes())),
    )
    return Taken(time.perf_counter() - start, scored[-1][0], before, scored[-1][1], peak_bytes())


def peak_bytes() -> int:
    """The most memory that this process has had so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def states_table(plan: Plan) -> Table:
    """What one variant's states are declared to take; a baseline's pairs take up to three times as much."""
    table = Table("state", title="Declared by state")
    for heading in ("a variant", "share of all states"):
        table.add_column(heading, justify="right")
    metrics = catalogue.metrics_of(plan.tasks)
    several = [one for task in plan.tasks for one in catalogue.accumulators(metrics[task.name], plan.choice.of(task))]
    sizes = {one.identity: one.num_bytes(plan.sizes, plan.num_rows) for one in several}
    for identity, size in sorted(sizes.items(), key=lambda pair: -pair[1]):
        table.add_row(identity, mebibytes(size), f"{size / sum(sizes.values()):.0%}")
    return table


def choices_table(spec: Spec, plan: Plan) -> Table:
    """What the plan chooses from, best first, and the budget that each form needs."""
    table = Table(title="budget.state_bytes that each form of states needs")
    for heading in ("ranking", "buckets of", "bits", "bits of slices", "needs"):
        table.add_column(heading, justify="right")
    for one in choices(None, few=plan.num_rows is not None and plan.num_rows <= spec.budget.exact_rows):
        needed = mebibytes(tally_bytes(spec, plan.tasks, one, plan.sizes, plan.num_rows))
        mark = " <" if one == plan.choice else ""
        if one.exact_ranking:
            table.add_row("exact", one.bucketed, "", "", needed + mark)
        elif one.ranking_bits in (7, 11):
            table.add_row("binned", one.bucketed, str(one.ranking_bits), str(one.slice_bits), needed + mark)
    return table


def mebibytes(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"


if __name__ == "__main__":
    main()
