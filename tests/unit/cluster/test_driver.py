"""The executor on Ray: a Ray cluster of its own is started once, and ends with the executor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from assay.cluster import driver
from assay.cluster.driver import RayExecutor
from assay.errors import RunError
from assay.spec.model import WorkersSpec


@dataclass(frozen=True)
class Nothing:
    """A work and a reduction."""

    base: str = "/base"
    workers: WorkersSpec = field(default_factory=WorkersSpec)

    def __call__(self, item: Any) -> Any:
        return item

    read = fold = conclude = __call__


class Ray:
    """What was started and ended, and whether it runs."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.is_running = False

    @contextmanager
    def connected(self, address: str | None, num_cpus: int | None) -> Iterator[str]:
        if self.is_running:
            yield ""
            return
        self.seen.append(f"start {num_cpus}")
        self.is_running = True
        try:
            yield ""
        except RunError as error:
            self.seen.append(f"end after {error}")
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
