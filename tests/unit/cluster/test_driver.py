"""The executor on Ray: a Ray cluster of its own is started once, and ends with the executor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.small_run import Positions, job
from ray.exceptions import WorkerCrashedError

from assay.cluster import actors, driver
from assay.cluster.actors import Actors
from assay.cluster.connect import first_line
from assay.cluster.driver import RayExecutor
from assay.errors import RunError
from assay.records import Job
from assay.spec.model import WorkersSpec


@dataclass(frozen=True)
class Nothing:
    """A work and a reduction."""

    base: str = "/base"
    workers: WorkersSpec = field(default_factory=WorkersSpec)

    def __call__(self, item: Any) -> Any:
        return item

    read = fold = conclude = __call__


WHERE = "Ray: joined the cluster at head:6379."


class Ray:
    """What was started and ended, and whether it runs."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.is_running = False

    @contextmanager
    def connected(self, address: str | None, num_cpus: int | None) -> Iterator[str]:
        if self.is_running:
            yield WHERE
            return
        self.seen.append(f"start {num_cpus}")
        self.is_running = True
        try:
            yield WHERE
        except RunError as error:
            self.seen.append(f"end after {error}")
            raise
        else:
            self.seen.append("end")
        finally:
            self.is_running = False

    def done(self, work: Any, items: Sequence[Any], *_: Any) -> Iterator[Any]:
        assert self.is_running
        self.seen.append("work")
        yield from items


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    found = Ray()
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(driver, "connected", found.connected)
    monkeypatch.setattr(driver, "mapped_as_tasks", found.done)
    monkeypatch.setattr(driver, "reduced_as_tasks", found.done)
    monkeypatch.setattr(driver, "reduce_options", lambda *_: {})
    monkeypatch.setattr(driver, "cluster_cpus", lambda: 2)
    return found


def executor() -> RayExecutor:
    return RayExecutor(2, lambda *_: pytest.fail("no worker is wanted"))


def test_within_its_context_ray_is_started_once_and_ends_with_it(ray: Ray) -> None:
    with executor() as opened:
        assert list(opened.map(Nothing(), [1, 2])) == [1, 2]
        assert list(opened.map(Nothing(), [3])) == [3]
        assert list(opened.reduce(Nothing(), [[4]])) == [[4]]
        assert ray.seen == ["start 2", "work", "work", "work"]
    assert ray.seen[-1] == "end"


def test_where_nothing_is_done_nothing_is_started(ray: Ray) -> None:
    with executor():
        pass
    assert ray.seen == []


def test_without_a_context_it_ends_with_the_call(ray: Ray) -> None:
    alone = executor()
    for _ in range(2):
        list(alone.map(Nothing(), [1]))
    assert ray.seen == ["start 2", "work", "end"] * 2


def test_what_went_wrong_is_known_where_ray_ends(ray: Ray) -> None:
    def fails() -> None:
        with executor() as opened:
            list(opened.map(Nothing(), [1]))
            raise RunError("the head is gone.")

    with pytest.raises(RunError):
        fails()
    assert ray.seen[-1] == "end after the head is gone."  # it need not wait for a head then


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Of each crew the run that its head says to go on with. Actors need no Ray cluster as long as none is started."""
    found: list[str | None] = []
    context = SimpleNamespace(gcs_address="head:6379")
    monkeypatch.setattr(actors, "ray", SimpleNamespace(put=lambda _: None, get_runtime_context=lambda: context))
    monkeypatch.setattr(actors, "Head", lambda address, run: found.append(run))
    monkeypatch.setattr(actors, "nodes", lambda: ())
    return found


def over_a_frame(of: Job) -> Job:
    assert isinstance(of.source, Positions)
    return replace(of, source=replace(of.source, resumable=False))


def test_the_crew_tells_once_on_which_cluster_the_run_is(
    ray: Ray, runs: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Sequence[str]] = []
    monkeypatch.setattr(driver, "drive", lambda of, log, crew, *_, **__: told.extend([crew.news(), crew.news()]))
    executor().run(job(tmp_path, {"base": "same"}), SimpleNamespace(), lambda _: None)  # type: ignore[arg-type]  # unused
    assert told == [(WHERE,), ()]


def test_a_head_that_is_gone_names_the_run_only_where_it_can_be_resumed(
    ray: Ray, runs: list[str | None], tmp_path: Path
) -> None:
    of = job(tmp_path, {"base": "same"})
    for each in (of, over_a_frame(of)):
        Actors(each, lambda *_: pytest.fail("no worker is wanted"), 1)
    assert runs == [of.run, None]


@pytest.mark.parametrize("resumable", [True, False])
def test_where_ray_fails_it_is_said_what_is_to_be_done(
    ray: Ray, runs: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resumable: bool
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise WorkerCrashedError

    monkeypatch.setattr(driver, "drive", fails)
    of = job(tmp_path, {"base": "same"})
    with pytest.raises(RunError) as caught:
        executor().run(of if resumable else over_a_frame(of), SimpleNamespace(), lambda _: None)  # type: ignore[arg-type]  # unused
    way = f"Go on with: assay resume {of.run}" if resumable else "The run cannot be resumed: start it again."
    assert str(caught.value) == (
        f"Ray failed, and the run with it: {first_line(WorkerCrashedError()).rstrip('.')}. {way}"
    )


def test_where_no_worker_came_the_way_on_is_one_that_there_is(
    ray: Ray, runs: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actors, "lack", lambda *_: "None is free.")
    monkeypatch.setattr(actors, "FIRST_WORKER_SECONDS", 0.0)
    monkeypatch.setattr(actors, "GROWING_SECONDS", 0.0)
    of = job(tmp_path, {"base": "same"})
    for each, way in ((of, "resume the run"), (over_a_frame(of), "start the run again")):
        crew = Actors(each, lambda *_: pytest.fail("no worker is wanted"), 1)
        crew._head = SimpleNamespace(silent=False)  # type: ignore[assignment]  # as one that answers
        crew._members = {"d-1": SimpleNamespace(node="")}  # type: ignore[dict-item]  # one that waits for its place
        with pytest.raises(RunError, match=rf"`workers`\); then {way}\.$"):
            crew._check_start()
