"""Work on many items as Ray tasks: results in order, tasks that die done again, errors as the work raised them."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

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


def test_results_in_the_order_of_the_items(ray_address: str, tmp_path: Path) -> None:
    found = executor(ray_address).map(Squares(str(tmp_path), deadly=3), range(12))
    assert list(found) == [item * item for item in range(12)]
    assert (tmp_path / "died").exists()


def test_nothing_to_do(ray_address: str, tmp_path: Path) -> None:
    assert list(executor(ray_address).map(Squares(str(tmp_path)), [])) == []


def test_an_error_of_the_work_is_raised_as_it_is(ray_address: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^-1 is negative\.$"):
        list(executor(ray_address).map(Squares(str(tmp_path)), [2, -1, 3]))


def test_any_other_error_is_told_with_what_to_do(ray_address: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^A task failed: .*ZeroDivisionError.* resume the run, or "):
        list(executor(ray_address).map(Squares(str(tmp_path)), [2000]))
