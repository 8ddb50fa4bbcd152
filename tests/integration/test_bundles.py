"""Variants in bundles: the merged states and the results are those of one worker that holds all of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.states import committed_tally, committed_units, planned_units, states_digest

from assay.errors import ModelError
from assay.ledgers import VariantLedger
from assay.pipeline.budget import least_bytes
from assay.pipeline.finish import TABLES
from assay.pipeline.prepare import prepare
from assay.pipeline.replay import replay
from assay.pipeline.run import How, run, stored_plan
from assay.pipeline.verify import verify
from assay.records import Progress, Results, StateKey
from assay.spec.load import build_spec
from assay.store.run import RunDirectory

ROWS = 600
NUM_VARIANTS = 12
MODEL_BYTES = 1000
"""Of each variant; with room for four in a worker, the baseline among them, twelve are in four bundles."""


def variant(number: int) -> dict[str, Any]:
    """Columns with missing scores, and functions of which some fail on some units."""
    if number % 3:
        return {"name": f"v{number}", "column": f"p{number}", "memory_bytes": MODEL_BYTES}
    bounds = {"first": 50 * number, "last": 50 * number + 60}
    return {
        "name": f"v{number}",
        "callable": {"function": "fakes.scorers:fails_between", "settings": bounds},
        "inputs": ["row", "p1"],
        "receive": "dict",
        "memory_bytes": MODEL_BYTES,
    }


METRICS = ["auc", "log_loss", "ece", "mean_score", "prediction_correlation"]
TREE: dict[str, Any] = {
    "data": {
        "path": "rows.parquet",
        "label": "y",
        "weight": "w",
        "cluster": ["user", "day"],
        "slices": ["country"],
        "where": "row <> 17",
    },
    "output": {"is": "probability"},
    "variants": [variant(number) for number in range(1, NUM_VARIANTS + 1)],
    "baseline": "v3",
    "metrics": ["auc", "log_loss", "prediction_correlation"],
    "confirm": 0.6,
    "on_error": "continue",
    "execution": {"unit_rows": 100, "micro_batch": 20},
    "budget": {"model_bytes": NUM_VARIANTS * MODEL_BYTES},
}
BUNDLED = {**TREE, "budget": {"model_bytes": 4 * MODEL_BYTES}}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    chance = np.random.default_rng(3)
    label = chance.integers(0, 2, ROWS)
    scores = {
        f"p{number}": pa.array(
            np.clip(0.5 * label + chance.uniform(0, 0.5, ROWS), 0, 1), mask=chance.random(ROWS) < 0.03
        )
        for number in range(1, NUM_VARIANTS + 1)
    }
    columns = {
        "y": pa.array(label, mask=chance.random(ROWS) < 0.02),
        "w": chance.integers(0, 4, ROWS).astype(np.float64),
        "user": chance.integers(0, 60, ROWS),
        "day": chance.integers(0, 30, ROWS),
        "country": chance.choice(["DE", "FR", "US"], ROWS).tolist(),
        "row": np.arange(ROWS, dtype=np.float64),
    }
    pq.write_table(pa.table(columns | scores), folder / "rows.parquet", row_group_size=100)
    return folder


def evaluated(
    base: Path,
    out: Path,
    how: How,
    tree: dict[str, Any] = BUNDLED,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Results:
    spec = build_spec(tree)
    return run(prepare(spec, base), spec, str(out), how, report)


@pytest.fixture(scope="module")
def whole(base: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    """The run without bundles."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, evaluated(base, out, How("local", 2), TREE)


def check_same(out: Path, found: Results, whole: tuple[Path, Results]) -> None:
    reference, results = whole
    assert states_digest(committed_tally(out)) == states_digest(committed_tally(reference))
    for name in TABLES:
        assert getattr(found, name).equals(getattr(results, name))
    assert repr(found.verdicts) == repr(results.verdicts)
    assert found.notes == results.notes
    assert committed_units(out) == planned_units(out)
    audit = verify(str(out))
    assert audit.passed, audit.checks
    assert replay(str(out)).same


def test_the_data_have_all_that_could_go_wrong(whole: tuple[Path, Results]) -> None:
    tally = committed_tally(whole[0])
    assert {key.view for key in tally.states} == {"", "second", "both", "selection"}
    assert {key.part for key in tally.states} == {"scored", "baseline_only", "variant_only"}
    failed = {
        name for name in (f"v{number}" for number in range(1, NUM_VARIANTS + 1))
        if tally.states[StateKey("main", name, VariantLedger.identity, "scored")]["failed"][0]
    }  # fmt: skip
    assert {"v3", "v6", "v1"} <= failed  # the baseline, and so all; v6 on units of its own


def test_a_plan_packs_by_size(base: Path) -> None:
    plan = prepare(build_spec(BUNDLED), base).plan
    assert plan.bundles == (
        ("v1", "v2", "v3", "v4"), ("v5", "v6", "v7"), ("v8", "v9", "v10"), ("v11", "v12"),
    )  # fmt: skip
    assert len(plan.units) == 4 * 6
    assert [unit.bundle for unit in plan.units] == [0, 1, 2, 3] * 6
    assert len({(unit.path, unit.first_row) for unit in plan.units[::4]}) == 6


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_for_any_number_of_workers(base: Path, tmp_path: Path, whole: tuple[Path, Results], workers: int) -> None:
    seen: list[Progress] = []
    found = evaluated(base, tmp_path / "run", How("local", workers), report=seen.append)
    check_same(tmp_path / "run", found, whole)
    assert found.cost is not None
    assert sum(row["rows"] for row in found.cost.to_pylist() if row["kind"] == "reading") == ROWS
    last = seen[-1]
    assert (last.units_done, last.num_units, last.rows_done, last.num_rows) == (24, 24, ROWS, ROWS)


def test_for_a_run_whose_driver_was_killed(base: Path, tmp_path: Path, whole: tuple[Path, Results]) -> None:
    """In its second bundle: with one worker the first is committed by then."""
    out = tmp_path / "run"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    killed = subprocess.run([sys.executable, __file__, str(base), str(out)], env=environment, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    before = committed_units(out)
    assert 6 <= len(before) < 24
    assert {unit.rpartition(".")[2] for unit in before} >= {"0"}
    check_same(out, evaluated(base, out, How("local", 2)), whole)


@pytest.mark.ray
@pytest.mark.timeout(600)  # some ten processes load their models, one after the other where cores are few
def test_on_ray(base: Path, tmp_path: Path, whole: tuple[Path, Results], ray_address: str) -> None:
    check_same(tmp_path / "run", evaluated(base, tmp_path / "run", How("ray", 3, ray_address)), whole)


def test_states_that_do_not_fit_are_packed_and_come_to_the_same_in_that_form(base: Path, tmp_path: Path) -> None:
    """The same form of states in one worker with room for all, and in bundles."""
    data = {**TREE["data"], "cluster": "user"}
    plain = {**TREE, "data": data, "variants": TREE["variants"][:5], "metrics": METRICS}
    del plain["confirm"]
    found = prepare(build_spec(plain), base)
    least = [least_bytes(found.spec, found.plan.tasks, found.plan.sizes, found.num_rows, number) for number in (3, 5)]
    small, large = ({**plain, "budget": {"state_bytes": one}} for one in least)
    one = evaluated(base, tmp_path / "one", How("local", 1), large)
    many = evaluated(base, tmp_path / "many", How("local", 1), small)
    plans = [stored_plan(RunDirectory.open(str(tmp_path / name))) for name in ("one", "many")]
    assert [plan.bundles for plan in plans] == [(), (("v1", "v2", "v3"), ("v4", "v5"))]
    assert plans[0].choice == plans[1].choice
    check_same(tmp_path / "many", many, (tmp_path / "one", one))


def test_a_baseline_that_fails_in_one_bundle_alone_stops_the_run(base: Path, tmp_path: Path) -> None:
    """It fails the first time that it sees row 300: in the first bundle, or in another where they go at once."""
    moody = {
        "name": "v3",
        "callable": {"function": "fakes.scorers:fails_once", "settings": {"row": 300, "folder": str(tmp_path)}},
        "inputs": ["row", "p1"],
        "receive": "dict",
        "memory_bytes": MODEL_BYTES,
    }
    variants = [moody if one["name"] == "v3" else one for one in TREE["variants"]]
    tree = {**BUNDLED, "variants": variants}
    sentence = (
        r"^Variant 'v3': it is the baseline, which each of 4 bundles of variants is compared with, and on unit \w+\.1 "
        r"\(rows\.parquet, from row 300\) it did not fail, though in another bundle it failed on the same rows\. "
    )
    with pytest.raises(ModelError, match=sentence):
        evaluated(base, tmp_path / "run", How("local", 1), tree)
    assert not any(unit.endswith((".2", ".3")) for unit in committed_units(tmp_path / "run"))
    with pytest.raises(ModelError, match=sentence):  # what is committed stays so
        evaluated(base, tmp_path / "run", How("local", 1), tree)


if __name__ == "__main__":

    def kill(progress: Progress) -> None:
        if progress.units_done == 8:
            signal.raise_signal(signal.SIGKILL)

    evaluated(Path(sys.argv[1]), Path(sys.argv[2]), How("local", 1), report=kill)
