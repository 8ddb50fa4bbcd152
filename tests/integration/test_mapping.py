"""Work on many items as Ray tasks: results as they come, tasks that die done again, slow ones a second time, errors as
the work raised them."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import ray

from assay.cluster import outstanding
from assay.cluster.driver import RayExecutor
from assay.errors import DataError, RunError
from assay.spec.model import WorkersSpec

pytestmark = pytest.mark.ray


@dataclass(frozen=True)
class Squares:
    """The squares of numbers; the first process that is to square `deadly` ends itself."""

    base: str
    deadly: int = -1
    workers: WorkersSpec = field(default_factory=WorkersSpec)

    def __call__(self, item: int) -> int:
        died = Path(self.base) / "died"
        if item == self.deadly and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if item < 0:
            raise DataError(f"{item} is negative.")
        if item > 1000:
            raise ZeroDivisionError
        return item * item


def executor(address: str) -> RayExecutor:
    return RayExecutor(2, lambda *_: pytest.fail("no worker is wanted"), address)


def test_there_is_a_result_of_each_item_and_what_it_took(ray_address: str, tmp_path: Path) -> None:
    found = sorted(executor(ray_address).map(Squares(str(tmp_path), deadly=3), range(12)), key=lambda one: one.number)
    assert [(one.number, one.result) for one in found] == [(item, item * item) for item in range(12)]
    assert (tmp_path / "died").exists()
    assert {one.machine.share for one in found} == {1 / 3}  # of a machine with three CPUs
    assert all(one.seconds >= 0 for one in found)


@dataclass(frozen=True)
class Environment:
    """What its process was asked to find in its environment."""

    base: str | None
    workers: WorkersSpec = field(default_factory=WorkersSpec)

    def __call__(self, item: int) -> dict[str, str]:
        found: dict[str, str] = ray.get_runtime_context().runtime_env.get("env_vars", {})
        return found


def test_what_needs_no_module_of_the_users_asks_for_no_process_of_its_own(
    ray_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH")
    anywhere, beside = Environment(None), Environment(str(tmp_path))
    assert [one.result for one in executor(ray_address).map(anywhere, [0])] == [{}]
    [found] = [one.result for one in executor(ray_address).map(beside, [0])]
    assert (found["PYTHONPATH"], found["OMP_NUM_THREADS"]) == (str(tmp_path), "1")


@dataclass(frozen=True)
class StopsFirst:
    """The first process that is to do item 0 writes itself into a pipe and waits until another one is opened."""

    base: str
    workers: WorkersSpec = field(default_factory=WorkersSpec)

    def __call__(self, item: int) -> int:
        place = Path(self.base)
        if item == 0 and not (place / "stopped").exists():
            (place / "stopped").touch()
            os.close(os.open(place / "go", os.O_RDONLY))
        return item


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "go")
    return tmp_path / "go"


def test_a_slow_first_item_keeps_no_other_waiting(ray_address: str, tmp_path: Path, gate: Path) -> None:
    found = executor(ray_address).map(StopsFirst(str(tmp_path)), range(20))
    others = [next(found).number for _ in range(19)]
    assert sorted(others) == list(range(1, 20))
    held = os.open(gate, os.O_RDWR)
    assert [one.number for one in found] == [0]
    os.close(held)


def test_one_that_is_late_is_done_a_second_time(
    ray_address: str, tmp_path: Path, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outstanding, "LEAST_LATE_SECONDS", 0.5)
    found = executor(ray_address).map(StopsFirst(str(tmp_path)), range(6))
    assert sorted(one.result for one in found) == list(range(6))  # and nobody opened the gate


def test_nothing_to_do(ray_address: str, tmp_path: Path) -> None:
    assert list(executor(ray_address).map(Squares(str(tmp_path)), [])) == []


def test_an_error_of_the_work_is_raised_as_it_is(ray_address: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^-1 is negative\.$"):
        list(executor(ray_address).map(Squares(str(tmp_path)), [2, -1, 3]))


def test_any_other_error_is_told_with_what_to_do(ray_address: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^A task failed: .*ZeroDivisionError.* resume the run, or "):
        list(executor(ray_address).map(Squares(str(tmp_path)), [2000]))
