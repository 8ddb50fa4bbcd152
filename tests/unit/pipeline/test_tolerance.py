"""Runs in which something fails: what is tolerated, what is kept of it, and what may change when one goes on."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.states import committed_tally

from assay import build
from assay.api import resume, run
from assay.errors import ModelError, RunError, Unfinished
from assay.evaluation import Evaluation
from assay.pipeline.finish import read
from assay.pipeline.verify import Audit, verify
from assay.records import Tally
from assay.spec.load import build_spec
from assay.states import digest
from assay.store.run import RunDirectory


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """900 rows in 9 units. The variant `new` fails where x is above 0.99: in units 2 and 7."""
    chance = np.random.default_rng(3)
    x = chance.random(900) * 0.9
    x[[250, 777]] = 1.0
    pq.write_table(
        pa.table({"y": chance.integers(0, 2, 900), "old": chance.random(900), "x": x}), tmp_path / "data.parquet"
    )
    (tmp_path / "scorers.py").write_text(
        "def new(x):\n    if x.max() > 0.99:\n        raise ValueError(f'x is {x.max()}')\n    return x\n"
    )
    return tmp_path


def evaluated(
    base: Path, out: str, on_error: object, execution: dict[str, float] | None = None, **how: float
) -> Evaluation:
    tree = {
        "data": {"path": "data.parquet", "label": "y"},
        "variants": [
            {"name": "old", "column": "old"},
            {"name": "new", "callable": "scorers:new", "inputs": ["x"]},
        ],
        "output": {"is": "probability"},
        "baseline": "old",
        "metrics": ["auc"],
        "on_error": on_error,
        "execution": {"unit_rows": 100, "micro_batch": 100, **(execution or {})},
    }
    return run(build_spec(tree), base=base, out=base / out, executor="local", workers=2, **how)


def detail(audit: Audit, name: str) -> tuple[bool, str]:
    [found] = [(one.passed, one.detail) for one in audit.checks if one.name == name]
    return found


def test_a_run_within_its_tolerance_is_whole_and_says_what_failed(base: Path) -> None:
    evaluated(base, "run", {"units": 0.25})
    assert notes(base / "run")[-1].startswith(
        "Variant 'new' failed on 2 of 9 units: function 'scorers:new' failed with "
    )
    audit = verify(str(base / "run"))
    assert audit.passed, audit.checks
    assert detail(audit, "failures") == (
        True,
        "For each variant, planned units are scored, failed or given up: 2 failures of 1 variant, 0 units given up, "
        "each explained.",
    )
    records = [json.loads(path.read_bytes()) for path in sorted((base / "run" / "failures").iterdir())]
    assert [[(one["variant"], one["rows"]) for one in of] for of in records] == [[("new", 100)]] * 2
    assert all(1.0 not in (None, one["sample"][0]) and set(one["sample"][0]) == {"x"} for [one] in records)
    assert digest(committed_tally(base / "run")) == digest(_whole(base))


def _whole(base: Path) -> Tally:
    evaluated(base, "continued", "continue")
    return committed_tally(base / "continued")


def notes(run: Path) -> tuple[str, ...]:
    return read(RunDirectory.open(str(run))).notes


def test_a_variant_that_raises_stops_a_run_that_tolerates_none_with_the_way_out(base: Path) -> None:
    with pytest.raises(ModelError) as stopped:
        evaluated(base, "run", "stop")
    assert str(stopped.value).startswith("Variant 'new': function 'scorers:new' failed with ValueError: x is 1.0")
    assert str(stopped.value).endswith(
        ". To go on all the same, set on_error: continue and run again: a variant that fails on a unit is reported and "
        "left out there."
    )
    evaluated(base, "run", "continue")
    assert digest(committed_tally(base / "run")) == digest(_whole(base))


def test_a_run_beyond_its_tolerance_stops_and_goes_on_once_that_is_raised(base: Path) -> None:
    beyond = r"^Variant 'new' failed on 2 of 9 units, where on_error tolerates \{units: 0.2\}\. "
    with pytest.raises(RunError, match=beyond):
        evaluated(base, "run", {"units": 0.2})
    with pytest.raises(RunError, match=beyond):
        resume(base / "run", executor="local")
    evaluated(base, "run", {"units": 0.25})
    assert digest(committed_tally(base / "run")) == digest(_whole(base))
    assert verify(str(base / "run")).passed


@pytest.mark.parametrize(
    ("on_error", "tolerated"),
    [("stop", "on_error: stop tolerates none"), ({"units": 0.1}, r"on_error tolerates \{units: 0\.1\}")],
)
def test_what_is_committed_counts_once_less_is_tolerated(base: Path, on_error: object, tolerated: str) -> None:
    evaluated(base, "run", "continue")
    sentence = rf"^Variant 'new' failed on 2 of 9 units, where {tolerated}\. "
    with pytest.raises(RunError, match=sentence):
        evaluated(base, "run", on_error)  # the run that is finished
    finish = max((base / "run" / "commits").iterdir())
    finish.unlink()
    for path in (base / "run" / "results").iterdir():
        path.unlink()
    with pytest.raises(RunError, match=sentence):
        evaluated(base, "run", on_error)
    assert digest(committed_tally(base / "run")) == digest(_whole(base))


def test_how_long_a_unit_may_take_is_no_part_of_what_a_run_is(base: Path) -> None:
    with pytest.raises(Unfinished):
        evaluated(base, "run", "continue", deadline=0.0)
    evaluated(base, "run", "continue", {"unit_seconds": 60.0})
    evaluated(base, "run", "continue", {"unit_seconds": 7.5})  # the run that is finished
    with pytest.raises(RunError, match=r"^The run at .* is of something else: execution changed since it began\."):
        evaluated(base, "run", "continue", {"unit_rows": 100, "micro_batch": 50})


def test_a_run_is_gone_on_with_by_the_executor_that_it_had(base: Path) -> None:
    with pytest.raises(Unfinished):
        evaluated(base, "run", "continue", deadline=0.0)
    kept = base / "run" / "executor.json"
    assert json.loads(kept.read_bytes()) == {"executor": "local", "address": None}
    said = list[str]()
    kept.write_text('{"executor": "ray", "address": "nowhere.invalid:6379"}')
    with (
        patch.object(
            build, "executor", side_effect=RunError("not had")
        ) as asked,  # whatever this process is connected to
        pytest.raises(RunError, match=r"^not had$"),
    ):
        resume(base / "run", report=lambda progress: said.append(progress.message))
    assert asked.call_args.args[:3] == ("ray", None, "nowhere.invalid:6379")
    assert said[-1] == "Executor: ray at nowhere.invalid:6379, as the run had."
    resume(base / "run", executor="local", report=lambda progress: said.append(progress.message))
    assert verify(str(base / "run")).passed
    assert json.loads(kept.read_bytes()) == {"executor": "local", "address": None}


def test_a_run_of_an_earlier_version_is_gone_on_with_by_what_suits_it(base: Path) -> None:
    with pytest.raises(Unfinished):
        evaluated(base, "run", "continue", deadline=0.0)
    (base / "run" / "executor.json").unlink()
    said = list[str]()
    resume(base / "run", report=lambda progress: said.append(progress.message))
    assert "Executor: local, since 900 rows and 2 variants are few enough for this process." in said


def test_a_failure_that_is_not_explained_is_found(base: Path) -> None:
    evaluated(base, "run", "continue")
    first, second = sorted((base / "run" / "failures").iterdir())
    first.write_bytes(second.read_bytes())
    passed, said = detail(verify(str(base / "run")), "failures")
    assert not passed
    assert said.startswith("Not explained, or not in the log: new on unit ")
    first.unlink()
    assert detail(verify(str(base / "run")), "failures")[1].endswith(
        f"{first.name} is not in the run at {base / 'run'}."
    )


# ---- what a run is ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["spec.yaml", "plan.parquet", "variants.json", "environment.json", "execution.json"])
def test_a_file_that_was_altered_under_a_finished_run_is_found(base: Path, name: str) -> None:
    evaluated(base, "run", "continue")
    path = base / "run" / name
    path.write_bytes(path.read_bytes() + b"\n")
    audit = verify(str(base / "run"))
    assert detail(audit, "head") == (False, f"Missing or altered since the first commit: {name}.")
    sentence = (
        rf"^{name} of the run at .*run is not what it was when its first unit was committed: what it would come to "
        r"could not be trusted. Put back what was there, or start a new run in another directory\.$"
    )
    with pytest.raises(RunError, match=sentence):
        resume(base / "run", executor="local")
    with pytest.raises(RunError, match=sentence):
        evaluated(base, "run", "continue")
