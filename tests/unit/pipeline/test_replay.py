"""Runs told again from their events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fakes.small_run import job, make_setup

from assay.errors import ModelError, RunError
from assay.local import LocalExecutor
from assay.pipeline.replay import replay
from assay.plan import encode_plan
from assay.records import Job
from assay.store.log import CommitLog
from assay.store.run import RunDirectory


def run(of: Job, workers: int = 2) -> RunDirectory:
    directory = RunDirectory.create(of.run)
    with CommitLog(directory) as log:
        directory.write_head("plan.parquet", encode_plan(of.plan))
        directory.write_head("spec.yaml", b"")
        LocalExecutor(workers, make_setup).run(of, log, lambda _: None)
    return directory


@pytest.fixture
def of(tmp_path: Path) -> Job:
    return job(tmp_path, {"base": "same", "half": "half"})


def test_a_run_is_told_and_its_orders_are_the_same(of: Job) -> None:
    run(of)
    found = replay(of.run)
    assert found.same
    [part] = found.parts
    assert part.num_units == 6
    texts = [line.text for line in part.lines]
    assert texts[0] == f"Driver {part.driver} began, with up to 2 workers and 6 units to score."
    assert texts[1] == f"Worker {part.driver}-1 is asked for."
    assert any(text.startswith(f"Worker {part.driver}-") and text.endswith(" is ready.") for text in texts)
    assert texts[-2].startswith("Committed ")
    assert texts[-2].endswith("; 6 done so far.")
    assert texts[-1] == "All units are done."
    assert part.detail == f"{part.num_events} events give the orders that were carried out."
    assert [line.seconds for line in part.lines] == sorted(line.seconds for line in part.lines)


def test_each_driver_of_a_run_is_told(tmp_path: Path, of: Job) -> None:
    broken = job(tmp_path, {"base": "same", "broken": "fails_at_45"})
    with pytest.raises(ModelError):
        run(broken, 1)
    run(replace(job(tmp_path, {"base": "same", "broken": "same"}), run=broken.run), 1)
    first, second = replay(broken.run).parts
    assert (first.same, second.same) == (True, True)
    assert first.num_units + second.num_units == 6
    end = "Variant 'broken': it cannot score 45. It was given rows 44 to 47 of rows.parquet."
    assert first.lines[-1].text == f"The run ended: {end}"
    assert second.lines[0].text.endswith(f"with up to 1 worker and {6 - first.num_units} units to score.")


def test_events_that_were_changed_are_found_out(of: Job) -> None:
    directory = run(of, 1)
    [name] = directory.event_names()
    path = Path(of.run) / "events" / name
    lines = path.read_text().splitlines()
    ready = next(number for number, line in enumerate(lines) if "ready" in line)
    del lines[ready]
    path.write_text("\n".join([*lines, ""]))
    [part] = replay(of.run).parts
    assert not part.same
    assert part.detail in (
        "The same events give other orders than those that were carried out.",
        "It records a commit that was not ordered.",
    )


def test_a_run_without_events_is_refused(of: Job) -> None:
    directory = run(of)
    for name in directory.event_names():
        (Path(of.run) / "events" / name).unlink()
    sentence = (
        rf"^The run at {of.run} has no events/: nothing was scored, no driver lived to write them or could, or an "
        r"older version ran it\.$"
    )
    with pytest.raises(RunError, match=sentence):
        replay(of.run)
