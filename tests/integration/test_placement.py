"""Where workers and preparation tasks run on a Ray cluster, and that what they give depends on none of it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from fakes.placed import notes
from fakes.states import committed_tally, states_digest

import assay.cluster.actors
import assay.cluster.gauges
import assay.cluster.preparing
from assay import build
from assay.cluster.nodes import nodes
from assay.cluster.preparing import Preparation
from assay.cluster.shelf import Piece, Shelf
from assay.costs import Account
from assay.errors import RunError
from assay.orders import Score
from assay.pipeline.cost import spent
from assay.pipeline.prepare import prepare
from assay.pipeline.run import How, run
from assay.records import Job, Progress
from assay.report.cost import cost_line
from assay.spec.load import build_spec
from assay.store.run import RunDirectory

pytestmark = pytest.mark.ray
ROWS, UNIT_ROWS = 400, 20


@pytest.fixture
def base(tmp_path: Path) -> Path:
    chance = np.random.default_rng(3)
    table = pa.table(
        {
            "clicked": (chance.random(ROWS) < 0.3).astype(np.int8),
            "number": np.arange(ROWS),
            "p": chance.uniform(0, 1, ROWS),
            "ballast": ["x" * 100] * ROWS,
        }
    )
    pq.write_table(table, tmp_path / "data.parquet", row_group_size=100)
    (tmp_path / "notes").mkdir()
    return tmp_path


def tree(base: Path, tasks: int | None = None, **more: Any) -> dict[str, Any]:
    """Two variants of one preparation, whose output is a hundred times what it is made of, and a column."""
    settings = {"folder": str(base / "notes")}
    numbers = {"function": "fakes.placed:wide", "inputs": ["number"], "settings": settings, "batch_rows": 10}
    variants = [{"name": "old", "column": "p"}] + [
        {
            "name": name,
            "callable": {"function": f"fakes.placed:{name}", "settings": settings},
            "prepare": "numbers",
            "receive": "arguments",
        }
        for name in ("mean", "first")
    ]
    return {
        "data": {"path": "data.parquet", "label": "clicked"},
        "output": {"is": "probability"},
        "prepare": {"numbers": {**numbers, **({"tasks": tasks} if tasks else {})}},
        "variants": variants,
        "baseline": "old",
        "metrics": ["auc", "log_loss"],
        "execution": {"unit_rows": UNIT_ROWS, "micro_batch": 10},
        **more,
    }


def evaluated(base: Path, out: str, of: dict[str, Any], how: How) -> str:
    """The digest of all states that are committed."""
    spec = build_spec(of)
    run(prepare(spec, base), spec, str(base / out), how, lambda progress: None)
    return states_digest(committed_tally(base / out))


@pytest.fixture
def reference(base: Path) -> str:
    digest = evaluated(base, "local", tree(base), How("local", 1))
    for file in (base / "notes").iterdir():
        file.unlink()
    return digest


class Watched(Shelf):
    """A shelf that keeps what the driver asked of it."""

    begun: ClassVar[list[Piece]]
    most_bytes: ClassVar[int]

    def next(self) -> Piece | None:
        piece = super().next()
        if piece is not None:
            Watched.begun.append(piece)
        Watched.most_bytes = max(Watched.most_bytes, self.num_bytes)
        return piece


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    Watched.begun, Watched.most_bytes = [], 0
    monkeypatch.setattr(assay.cluster.preparing, "Shelf", Watched)
    return Watched


# ---- preparation tasks -----------------------------------------------------------------------------------------------


def test_preparation_tasks_give_the_same_bytes(
    ray_address: str, base: Path, reference: str, watched: type[Watched]
) -> None:
    assert evaluated(base, "ray", tree(base, tasks=2), How("ray", 1, ray_address)) == reference
    prepared, scored = notes(base / "notes", "prepare"), notes(base / "notes", "score")
    assert len(prepared) in (1, 2)
    assert len(scored) == 1
    assert not prepared & scored  # the worker prepared nothing
    assert len(watched.begun) == len(set(watched.begun)) == ROWS // UNIT_ROWS


def test_what_they_spend_is_in_the_costs_and_in_the_report(ray_address: str, base: Path) -> None:
    spec = build_spec(tree(base, tasks=2))
    results = run(prepare(spec, base), spec, str(base / "ray"), How("ray", 1, ray_address), lambda progress: None)
    accounts = spent(RunDirectory.for_worker(str(base / "ray")))
    busy = accounts[Account("local", "", "preparing", "numbers")]
    assert busy.seconds > 0
    assert busy.node_seconds == pytest.approx(busy.seconds / 3)  # of its three CPUs a task takes one
    places = accounts[Account("local", "", "places", "2")]
    assert places.seconds > busy.seconds
    assert places.node_seconds == 0
    share = 100 * busy.seconds / places.seconds
    assert f"Preparing: 2 tasks, {share:.0f} % busy. Scoring: " in cost_line(results)


def test_prepared_units_take_no_more_than_their_share_of_the_object_store(
    ray_address: str, base: Path, reference: str, watched: type[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit takes 160 kB and something: three fit."""
    whole = ray.cluster_resources()["object_store_memory"]
    monkeypatch.setattr(assay.cluster.preparing, "STORE_FRACTION", 500_000 / whole)
    assert evaluated(base, "ray", tree(base, tasks=2), How("ray", 1, ray_address)) == reference
    assert 320_000 < watched.most_bytes <= 500_000
    assert len(watched.begun) == ROWS // UNIT_ROWS


def test_one_unit_is_prepared_at_a_time_where_it_is_larger_than_that_share(
    ray_address: str, base: Path, reference: str, watched: type[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assay.cluster.preparing, "STORE_FRACTION", 0.0)
    assert evaluated(base, "ray", tree(base, tasks=2), How("ray", 1, ray_address)) == reference
    assert 160_000 < watched.most_bytes < 320_000
    assert not notes(base / "notes", "prepare") & notes(base / "notes", "score")


@pytest.mark.parametrize("deaths", [1, 2])
def test_where_a_task_dies_the_unit_is_prepared_again(
    ray_address: str, base: Path, reference: str, watched: type[Watched], deaths: int
) -> None:
    """By a task after the first death, by the worker after the second."""
    for number in range(deaths):
        (base / "notes" / f"dies_at_205_{number}").touch()
    assert evaluated(base, "ray", tree(base, tasks=1), How("ray", 1, ray_address)) == reference
    assert not list((base / "notes").glob("dies_at_*"))
    by_worker = notes(base / "notes", "prepare") & notes(base / "notes", "score")
    assert len(by_worker) == deaths - 1
    assert len(watched.begun) == ROWS // UNIT_ROWS


def test_where_no_node_suits_the_tasks_workers_prepare(
    ray_address: str, base: Path, reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assay.cluster.preparing, "PATIENCE_SECONDS", 0.2)
    of = tree(base, tasks=1)
    of["prepare"]["numbers"]["resources"] = {"tokenizer": 1.0}
    assert evaluated(base, "ray", of, How("ray", 1, ray_address)) == reference
    assert notes(base / "notes", "prepare") == notes(base / "notes", "score")


def test_what_a_worker_waits_for_is_said(ray_address: str, base: Path) -> None:
    of = tree(base, tasks=1)
    of["prepare"]["numbers"]["resources"] = {"tokenizer": 1.0}
    prepared = prepare(build_spec(of), base)
    job = Job(prepared.spec, prepared.plan, str(base), prepared.source, str(base / "run"))
    first, second, *_ = prepared.plan.units
    now = [0.0]
    preparation = Preparation(job, ray.put(job), build.preparing_reader, {}, lambda: now[0])
    preparation.see(nodes())
    assert preparation.give(Score("w", first, second, ())) is not None  # to be had once it is made
    assert preparation.give(Score("v", second, None, ())) is None  # there is one task, and its size is not known
    needs = (
        r"A task needs 1 CPU and 1 of 'tokenizer'; the Ray cluster has 3 CPUs and 0 of 'tokenizer', of which \d and 0 "
        r"are free\."
    )
    assert re.fullmatch(f"Its unit is not prepared and has had a task for 0 s\\. {needs}", preparation.late(first))
    assert re.fullmatch(f"Its unit is not prepared and has no task yet\\. {needs}", preparation.late(second))
    now[0] = 61.0  # nobody waits any longer
    for worker, unit in (("u", first), ("v", second)):
        assert preparation.give(Score(worker, unit, None, ())) == (Score(worker, unit, None, ()), {})
    preparation.close()


def test_bundles_take_the_same_prepared_units(
    ray_address: str, base: Path, reference: str, watched: type[Watched]
) -> None:
    of = tree(base, tasks=1, budget={"model_bytes": 100})
    for variant in of["variants"]:
        variant["memory_bytes"] = 0 if variant["name"] == "old" else 60
    spec = build_spec(of)
    assert prepare(spec, base).plan.bundles == (("old", "mean"), ("first",))
    assert evaluated(base, "ray", of, How("ray", 2, ray_address)) == reference
    assert len(watched.begun) == len(set(watched.begun)) == ROWS // UNIT_ROWS


def test_a_driver_that_ends_leaves_no_task(ray_address: str, base: Path) -> None:
    folder = base / "notes"
    for pipe in ("arrived", "go"):
        os.mkfifo(folder / pipe)
    spec = build_spec(tree(base, tasks=2))
    prepared = prepare(spec, base)
    (folder / "stop_at").write_text(str(prepared.plan.units[1].first_row))
    hanging: list[int] = []

    def stop(progress: Progress) -> None:
        if progress.units_done and not hanging:
            hanging.append(int((folder / "arrived").read_text()))
            raise RuntimeError("The driver ends here.")

    with pytest.raises(RuntimeError, match=r"^The driver ends here\.$"):
        run(prepared, spec, str(base / "ray"), How("ray", 1, ray_address), stop)
    assert in_time(lambda: not alive(hanging[0]))
    assert in_time(lambda: ray.available_resources().get("CPU") == 3)


def test_only_columns_that_some_model_reads_are_on_the_way(base: Path) -> None:
    """Neither what a preparation is made of, nor what nobody reads."""
    spec = build_spec(tree(base, tasks=2))
    prepared = prepare(spec, base)
    job = Job(prepared.spec, prepared.plan, str(base), prepared.source, str(base / "run"))
    [rows] = build.preparing_reader(job)(prepared.plan.units[0])
    assert rows.table.column_names == ["p"]
    [first, second] = rows.prepared["numbers"]
    assert first["x"].shape == second["x"].shape == (10, 1000)


# ---- workers ---------------------------------------------------------------------------------------------------------


def test_a_cluster_without_what_is_asked_for_is_not_waited_for_without_end(
    ray_address: str, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assay.cluster.actors, "FIRST_WORKER_SECONDS", 0.0)
    of = tree(base, workers={"num_gpus": 1})
    sentence = (
        r"The Ray cluster gave no worker within \d+ seconds. A worker needs 1 CPU and 1 GPU; the Ray cluster has 3 "
        r"CPUs and 0 GPUs, of which \d and 0 are free. Wait for other jobs to end, add nodes, or ask for less "
        r"\(the spec's `workers`\); then resume the run."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        evaluated(base, "ray", of, How("ray", None, ray_address))


def test_workers_that_take_long_to_load_have_been_given(
    ray_address: str, base: Path, reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assay.cluster.actors, "FIRST_WORKER_SECONDS", 0.0)
    monkeypatch.setattr(assay.cluster.gauges, "PROBE_SECONDS", 60.0)  # in which its process begins
    assert evaluated(base, "ray", tree(base), How("ray", 1, ray_address)) == reference


def test_what_ray_cannot_be_asked_for_is_refused(ray_address: str, base: Path) -> None:
    sentence = (
        "The spec's workers.num_gpus is 1.5, but Ray gives more than one GPU only whole: take a fraction below 1, or a "
        "whole number."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        evaluated(base, "ray", tree(base, workers={"num_gpus": 1.5}), How("ray", None, ray_address))
    sentence = "^Ray cannot give workers what the spec's `workers` asks for: Invalid label selector value `a b`"
    with pytest.raises(RunError, match=sentence):
        evaluated(base, "labels", tree(base, workers={"labels": {"zone": "a b"}}), How("ray", None, ray_address))


def test_what_ray_cannot_be_asked_for_by_tasks_is_refused(ray_address: str, base: Path) -> None:
    of = tree(base, tasks=1)
    of["prepare"]["numbers"]["labels"] = {"no key!": "x"}
    sentence = "^Ray cannot give tasks what the spec's `prepare` asks for: Invalid label key name `no key!`"
    with pytest.raises(RunError, match=sentence):
        evaluated(base, "ray", of, How("ray", 1, ray_address))


def in_time(holds: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Does it hold within so long?"""
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return holds()


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
