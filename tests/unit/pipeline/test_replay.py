"""Runs told again from their events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fakes.small_run import job, make_setup

from assay.errors import ModelError, RunError
from assay.events import Begin, Recorder
from assay.gauge import Gauge, Pulse
from assay.local import LocalExecutor
from assay.orders import Tick, WorkerFailed, WorkerLost, WorkerReady
from assay.pipeline.replay import replay
from assay.plan import encode_plan
from assay.records import Job, Reading
from assay.schedules import scheduler
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


def test_a_device_that_slows_down_is_told(of: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    hot = Gauge(Reading)
    monkeypatch.setattr(hot, "pulse", lambda: Pulse(0.58, "its GPU runs at 1,500 of 2,600 MHz", Reading(), 0.0))
    monkeypatch.setattr("assay.local.gauge", lambda: hot)
    run(of, 1)
    [part] = replay(of.run).parts
    assert part.same
    told = f"Worker {part.driver}-1 now runs at 58 % of full speed: its GPU runs at 1,500 of 2,600 MHz."
    assert [line.text for line in part.lines if "full speed" in line.text] == [told]


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


# ---- stories that no small run has -----------------------------------------------------------------------------------


def told(of: Job, *events: tuple[float, WorkerReady | WorkerLost | WorkerFailed | Tick]) -> list[str]:
    """What a replay says of these events, as a driver would have kept them; its proof is checked."""
    directory = RunDirectory.create(of.run)
    directory.write_head("plan.parquet", encode_plan(of.plan))
    directory.write_head("spec.yaml", b"")
    with CommitLog(directory) as log:
        begin = Begin(log.driver, 1, tolerant=True, most_failed=0.5, unit_seconds=9.0)
        schedule, recorder = scheduler(of.plan, begin), Recorder(of.plan.units, begin)
        schedule.start()
        for at, event in events:
            named = (
                event if isinstance(event, Tick) else replace(event, incarnation=f"{log.driver}-{event.incarnation}")
            )
            recorder.add(at, named, schedule.handle(named, at))
        directory.save_events(*recorder.take())
    [part] = replay(of.run).parts
    assert part.same, part.detail
    return [line.text.replace(f"{part.driver}-", "") for line in part.lines]


def test_a_unit_that_wants_memory_is_told(of: Job) -> None:
    lines = told(
        of, (1.0, WorkerReady("1")), (2.0, WorkerLost("1", "4 of 4 GiB", out_of_memory=True)), (3.0, WorkerReady("2"))
    )
    assert lines[2:] == [
        "Worker 1 is ready.",
        "Worker 1 was ended for its memory.",
        "Worker 1 was lost (4 of 4 GiB); its units are scored again.",
        "Worker 2 is asked for.",
        "Worker 2 is ready.",
        "Unit u000 is scored with 1/4 of the rows per call, for want of memory.",
    ]


def test_an_error_of_a_workers_own_is_told(of: Job) -> None:
    lines = told(
        of, (1.0, WorkerReady("1")), (2.0, WorkerFailed("1", RunError("The disk is full."))), (3.0, WorkerReady("2"))
    )
    assert lines[3:] == [
        "Worker 1 met an error: The disk is full.",
        "Worker 1 was lost (it met an error: The disk is full); its units are scored again.",
        "Worker 2 is asked for.",
        "Worker 2 is ready.",
    ]


def test_a_unit_past_its_time_is_told(of: Job) -> None:
    lines = told(of, (1.0, WorkerReady("1")), (10.5, Tick()))
    reason = "it scored unit u000 for 10 seconds, where execution.unit_seconds allows 9"
    assert lines[3:] == [f"Worker 1 was lost ({reason}); its units are scored again.", "Worker 2 is asked for."]
