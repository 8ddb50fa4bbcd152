"""Merging as Ray tasks: the same tables and verdicts as in this process, and sentences where a task fails."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fakes.sweep import WORDS, sweep

import assay.pipeline.run
import assay.worker
from assay.api import evaluate
from assay.cluster.driver import RayExecutor
from assay.errors import RunError
from assay.evaluation import Evaluation
from assay.merge import listed, reduced_here
from assay.pipeline import shards
from assay.pipeline.finish import TABLES, conclude_run
from assay.pipeline.run import expanded_spec, saved_plan
from assay.pipeline.shards import reduction_of, trees
from assay.spec.model import WorkersSpec
from assay.store.log import read_committed
from assay.store.run import RunDirectory

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assay.worker, "FLUSH_FRACTION", math.inf)
        out = tmp_path_factory.mktemp("reduce") / "run"
        return evaluate(sweep(), **WORDS, confirm={"metric": "auc", "keep": 2}, execution={"unit_rows": 128}, out=out)


@pytest.mark.parametrize("num_leaves", [1, 13])
def test_tasks_come_to_the_same_as_this_process(
    ray_address: str, found: Evaluation, monkeypatch: pytest.MonkeyPatch, num_leaves: int
) -> None:
    directory = RunDirectory.open(str(found.path))
    spec, plan, files = expanded_spec(directory), saved_plan(directory), listed(read_committed(directory).files)
    monkeypatch.setattr(shards, "SHARD_BYTES", plan.state_bytes // 2)
    reduction, several = reduction_of(directory, spec, plan), trees(spec, plan, files, num_leaves)
    assert (len(several) > 1, len(several[0])) == (True, num_leaves)

    here = conclude_run(spec, plan, reduced_here(reduction, several), ())
    there = conclude_run(spec, plan, RayExecutor(2, _no_setup).reduce(reduction, several), ())

    for name in TABLES:
        assert getattr(here, name).equals(getattr(there, name)), name
    assert (repr(here.verdicts), here.notes) == (repr(there.verdicts), there.notes)


def test_a_run_on_ray_merges_there(
    ray_address: str, found: Evaluation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[int] = []

    class Watched(RayExecutor):
        def reduce(self, reduction: Any, several: Sequence[Sequence[Any]]) -> Any:
            asked.append(len(several))
            return super().reduce(reduction, several)

    monkeypatch.setattr(assay.pipeline.run, "LARGE_MERGE_BYTES", 0)
    monkeypatch.setattr("assay.cluster.driver.RayExecutor", Watched)
    words: dict[str, Any] = {
        "confirm": {"metric": "auc", "keep": 2},
        "execution": {"unit_rows": 128},
        "out": tmp_path / "run",
    }
    where: dict[str, Any] = {"executor": "ray", "workers": 2, "address": ray_address}
    again = evaluate(sweep(), **{**WORDS, **words, **where})

    assert asked == [1]
    for name in TABLES:
        assert getattr(again.results, name).equals(getattr(found.results, name)), name


def _no_setup(job: Any, bundle: int) -> Any:
    raise AssertionError("nothing is scored")


@dataclass(frozen=True)
class Adding:
    """Leaves are numbers or files that count tries; a part is a sum."""

    base: str
    workers: WorkersSpec = field(default_factory=WorkersSpec)

    def read(self, leaf: Any) -> int:
        if isinstance(leaf, int):
            return leaf
        name, failures = leaf
        tries = Path(self.base, name)
        tries.write_text(tries.read_text() + "." if tries.exists() else ".")
        if len(tries.read_text()) <= failures:
            if name == "killed":
                os._exit(1)
            raise OSError("a read failed") if name == "one" else RunError(f"{name} cannot be read.")
        return len(tries.read_text())

    def fold(self, parts: Sequence[int]) -> int:
        return sum(parts)

    def conclude(self, leaf: Any, part: int) -> tuple[Any, int]:
        return leaf, part


def test_results_come_in_the_order_of_the_trees(ray_address: str, tmp_path: Path) -> None:
    several = [list(range(first, first + 21)) for first in range(12)]
    found = list(RayExecutor(2, _no_setup).reduce(Adding(str(tmp_path)), several))
    assert found == [(leaves[0], sum(leaves)) for leaves in several]


@pytest.mark.parametrize("name", ["one", "killed"])
def test_a_task_that_fails_or_dies_is_done_again(ray_address: str, tmp_path: Path, name: str) -> None:
    several = [[(name, 2), 5]]
    assert list(RayExecutor(2, _no_setup).reduce(Adding(str(tmp_path)), several)) == [((name, 2), 8)]


def test_one_that_fails_again_and_again_is_told(ray_address: str, tmp_path: Path) -> None:
    sentence = r"^A task that merges states failed: .* All units are committed; resume the run"
    with pytest.raises(RunError, match=sentence):
        list(RayExecutor(2, _no_setup).reduce(Adding(str(tmp_path)), [[("one", 99), 5]]))
    assert Path(tmp_path, "one").read_text() == "...."


def test_a_file_that_is_not_what_it_must_be_is_told_at_once(ray_address: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=re.escape("altered cannot be read.")):
        list(RayExecutor(2, _no_setup).reduce(Adding(str(tmp_path)), [[("altered", 99), 5]]))
    assert Path(tmp_path, "altered").read_text() == "."
