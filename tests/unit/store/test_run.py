"""What lies where in a run directory, and which of it may change."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from assay.errors import RunError
from assay.records import Failure, Receipt
from assay.store.run import RunDirectory, as_json, find_runs


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(str(tmp_path / "run"))


def test_the_head_may_be_written_again(run: RunDirectory) -> None:
    run.write_head("spec.yaml", b"seed: 1")
    run.write_head("spec.yaml", b"seed: 2")
    assert run.read("spec.yaml") == b"seed: 2"


def test_json_comes_back(run: RunDirectory) -> None:
    run.write_head("execution.json", as_json({"path": "loop"}))
    assert run.read_json("execution.json") == {"path": "loop"}
    run.write_head("variants.json", b"{torn")
    with pytest.raises(
        RunError, match=f"^variants.json of the run at {run.place} is not JSON: Expecting property name"
    ):
        run.read_json("variants.json")


def test_a_run_is_opened_by_its_spec(run: RunDirectory) -> None:
    sentence = f"There is no run at {run.place}: it has no spec.yaml. `assay ls` lists the runs of a folder."
    with pytest.raises(RunError, match=f"^{sentence}$"):
        RunDirectory.open(run.place)
    run.write_head("spec.yaml", b"seed: 1")
    assert RunDirectory.open(run.place).read("spec.yaml")


def test_a_worker_that_does_not_see_the_run_says_so(run: RunDirectory) -> None:
    RunDirectory.for_worker(run.place).save_state("abc", b"state")
    assert run.has_state("abc")
    sentence = (
        f"A worker on {socket.gethostname()} does not see the run directory {run.place}/gone. It must be on storage "
        "that all nodes see, at the same path."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        RunDirectory.for_worker(f"{run.place}/gone")


def test_the_runs_of_a_folder_are_found(tmp_path: Path) -> None:
    for name in ("b", "a", "a/deeper"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.parquet").touch()
    assert find_runs(str(tmp_path)) == (f"{tmp_path}/a", f"{tmp_path}/b")
    assert find_runs(f"{tmp_path}/b") == (f"{tmp_path}/b",)
    with pytest.raises(RunError, match=f"^There is no folder '{tmp_path}/gone'.$"):
        find_runs(f"{tmp_path}/gone")


def test_states_come_in_the_order_that_is_asked_for(run: RunDirectory) -> None:
    for name in ("a", "b"):
        run.save_state(name, name.encode())
    assert list(run.read_states(["b", "a", "b"])) == [b"b", b"a", b"b"]


def test_a_state_is_written_once(run: RunDirectory, tmp_path: Path) -> None:
    run.save_state("abc", b"state")
    run.save_state("abc", b"never written")
    assert run.has_state("abc")
    assert run.read_state("abc") == (tmp_path / "run/states/abc.arrow").read_bytes() == b"state"


def test_failures_come_back_for_what_is_committed_alone(run: RunDirectory, tmp_path: Path) -> None:
    """Two workers scored u1; the partial on which only `a` failed was accepted, though the other was saved first."""
    refused, accepted = Receipt("u1", 9, "d1", ("a", "b")), Receipt("u1", 9, "d2", ("a",))
    whole = Receipt("u3", 9, "d3")
    b, a = Failure("u1", "b", "it broke.", 9), Failure("u1", "a", "it broke.", 9)
    of_a = Failure("u1", "a", "so.", 9, '[{"x": 1.5, "y": "\u00e9"}]')
    given_up = Failure("u2", "", "It is given up.", 9)
    run.save_failures([b, a], [refused])
    run.save_failures([of_a], [whole, accepted])
    run.save_failures([given_up], [])
    assert run.failures([accepted, whole], ["u2"]) == (of_a, given_up)
    assert run.failures([refused], []) == (a, b)
    assert json.loads((tmp_path / "run/failures/u1-d2.json").read_bytes()) == [
        {"unit": "u1", "variant": "a", "error": "so.", "rows": 9, "sample": [{"x": 1.5, "y": "\u00e9"}]}
    ]
    assert json.loads((tmp_path / "run/failures/u2.json").read_bytes()) == [
        {"unit": "u2", "variant": "", "error": "It is given up.", "rows": 9}
    ]


def test_results_are_rewritten(run: RunDirectory) -> None:
    assert not run.has_result("verdicts.json")
    run.write_result("verdicts.json", b"old")
    run.write_result("verdicts.json", b"new")
    assert run.read_result("verdicts.json") == b"new"
