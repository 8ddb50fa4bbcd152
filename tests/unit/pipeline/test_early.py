"""Joins while rows are scored: what is complete when, which types it has, and that the end is the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import assay
from assay.errors import DataError, Unfinished
from assay.local import LocalExecutor
from assay.pipeline.early import Complete
from assay.pipeline.join import Join
from assay.pipeline.manifest import MANIFEST
from assay.pipeline.prepare import prepare
from assay.pipeline.verify import verify
from assay.protocols import Work
from assay.records import CommittedFile, Machine, Plan, Progress, Receipt, Worked
from assay.report.cost import cost_line
from assay.spec.load import build_spec

ROWS = 90
GROUP_ROWS, UNIT_ROWS = 30, 14
"""Each row group is a stretch of three units."""


def tree(**changes: object) -> dict[str, Any]:  # Any: a spec
    return {
        "data": {"path": "rows.parquet"},
        "variants": [variant("new", "twice")],
        "predictions": {},
        "carry_over": "all",
        "execution": {"unit_rows": UNIT_ROWS, "micro_batch": 5},
        **changes,
    }


def variant(name: str, function: str, **more: object) -> dict[str, object]:
    return {"name": name, "callable": f"fakes.predictors:{function}", "inputs": ["x"], "receive": "dict", **more}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    table = pa.table({"x": [row / ROWS for row in range(ROWS)], "wide": [f"w{row}" for row in range(ROWS)]})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=GROUP_ROWS)
    return tmp_path


# ---- what is complete ------------------------------------------------------------------------------------------------


def plan_of(base: Path, spec: Mapping[str, object]) -> Plan:
    return prepare(build_spec(spec), base).plan


def committed(*units: str) -> list[CommittedFile]:
    return [CommittedFile("s", tuple(Receipt(unit, 10, "d") for unit in units), "o")]


def test_a_stretch_is_complete_with_its_last_unit_in_whatever_order_they_come(base: Path) -> None:
    plan = plan_of(base, tree())
    places = [[place.units[0].id for place in stretch] for stretch in Complete(plan).stretches]
    assert [len(units) for units in places] == [3, 3, 3]
    units = [(unit, number) for number, several in enumerate(places) for unit in several]
    for seed in range(20):
        found, seen = Complete(plan), list[int]()
        for unit, number in Random(seed).sample(units, len(units)):
            found.note(committed(unit), [])
            seen.append(number)
            assert (number in found.ready) == (seen.count(number) == 3)
        assert sorted(found.ready) == [0, 1, 2]


def test_all_bundles_must_have_scored_it(base: Path) -> None:
    several = [variant("a", "twice", memory_bytes=10), variant("b", "twice_in_float32", memory_bytes=10)]
    plan = plan_of(base, tree(variants=several, budget={"model_bytes": 10}))
    found = Complete(plan)
    assert len(plan.units) == 18
    first = [unit.id for place in found.stretches[0] for unit in place.units]
    assert len(first) == 6
    found.note(committed(*first[:5]), [])
    assert not found.ready
    found.note(committed(first[5]), [])
    assert list(found.ready) == [0]


def test_a_unit_that_was_given_up_misses_nothing_and_what_is_said_twice_is_said_once(base: Path) -> None:
    found = Complete(plan_of(base, tree()))
    first, second, third = (place.units[0].id for place in found.stretches[1])
    found.note(committed(first, third), [])
    found.note(committed(first, third), [])
    assert not found.ready
    found.note([], [second])
    found.note([], [second])
    assert list(found.ready) == [1]


# ---- runs ------------------------------------------------------------------------------------------------------------


class Inline:
    """Work done at once by this thread, told the next time."""

    def __init__(self) -> None:
        self.items: list[tuple[Join, Any]] = []  # Any: stretches
        self.lose = False
        self._done: list[Worked] = []

    def room(self) -> int:
        return 1

    def begin(self, work: Work, number: int, item: Any) -> None:
        assert isinstance(work, Join)
        self.items.append((work, item))
        if self.lose:
            self._done.append(Worked(number, None, Machine(), 0.0, "its node died."))
        else:
            self._done.append(Worked(number, work(item), Machine("cpu"), 2.0))

    def done(self, seconds: float = 0.0) -> Sequence[Worked]:
        done, self._done = self._done, []
        return done

    def close(self) -> None: ...


@pytest.fixture
def aside(monkeypatch: pytest.MonkeyPatch) -> Inline:
    """What joins early in runs of this test. Every unit is committed alone, and a turn follows each."""
    found = Inline()
    monkeypatch.setattr(LocalExecutor, "aside", lambda *_: found)
    monkeypatch.setattr("assay.pipeline.early.TURN_SECONDS", 0.0)
    monkeypatch.setattr("assay.worker.FLUSH_FRACTION", float("inf"))
    return found


@pytest.fixture
def at_the_end(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many stretches each run has joined at its end."""
    found: list[int] = []
    whole = LocalExecutor.map

    def counted(self: LocalExecutor, work: Work, items: Sequence[Any]) -> Iterator[Worked]:
        found.append(len(items))
        return whole(self, work, items)

    monkeypatch.setattr(LocalExecutor, "map", counted)
    return found


def predict(base: Path, name: str, said: list[str] | None = None, **changes: object) -> assay.Evaluation:
    def report(progress: Progress) -> None:
        if said is not None and progress.message:
            said.append(progress.message)

    spec = build_spec(tree(**changes))
    return assay.predict(spec, base=base, out=base / name, executor="local", workers=1, report=report)


def files(run: Path) -> dict[str, bytes]:
    every = [*(run / "predictions").rglob("part-*"), *(run / "dead-letter").rglob("part-*")]
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(every)}


def reference(base: Path, monkeypatch: pytest.MonkeyPatch, **changes: object) -> dict[str, bytes]:
    """Of a run that joins all at its end."""
    with monkeypatch.context() as patch:
        patch.setattr(LocalExecutor, "aside", lambda *_: None)
        predict(base, "reference", **changes)
    return files(base / "reference")


def test_what_was_joined_early_is_not_joined_again_and_the_files_are_the_same(
    base: Path, aside: Inline, at_the_end: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = predict(base, "run")
    assert len(aside.items) + at_the_end[0] == 3
    assert len(aside.items) >= 2
    assert found.predictions is not None
    assert found.predictions.rows == ROWS
    assert files(base / "run") == reference(base, monkeypatch)
    assert not list((base / "run").glob("joins/*"))
    assert verify(str(base / "run")).passed


def test_failures_and_dead_letters_too(base: Path, aside: Inline, monkeypatch: pytest.MonkeyPatch) -> None:
    several = [variant("gaps", "gaps_above_half"), variant("bad", "fails_at_a_third")]
    changes: dict[str, object] = {"variants": several, "on_error": "continue", "predictions": {"provenance": True}}
    predict(base, "run", **changes)
    assert len(aside.items) >= 2
    assert files(base / "run") == reference(base, monkeypatch, **changes)
    assert verify(str(base / "run")).passed


def test_types_that_widen_late_are_right_in_all_files(
    base: Path, aside: Inline, at_the_end: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """float32 at first, float64 in the last third."""
    changes: dict[str, object] = {"variants": [variant("new", "wider_above_two_thirds")]}
    predict(base, "run", **changes)
    early = [work.columns.schema.field("new").type for work, _ in aside.items]
    assert early[0] == pa.float32()
    assert len(aside.items) + at_the_end[0] > 3  # something was joined again
    assert pq.read_table(base / "run" / "predictions").schema.field("new").type == pa.float64()
    assert files(base / "run") == reference(base, monkeypatch, **changes)
    assert verify(str(base / "run")).passed


def test_a_join_that_is_lost_is_done_at_the_end(
    base: Path, aside: Inline, at_the_end: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    aside.lose = True
    said: list[str] = []
    predict(base, "run", said)
    assert at_the_end == [3]
    assert said.count("A join was lost while rows are scored: its node died. It is done at the end.") == 1
    assert files(base / "run") == reference(base, monkeypatch)


def test_a_column_that_cannot_be_written_ends_the_run_at_once_and_what_is_committed_stays(
    base: Path, aside: Inline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Join, item: object) -> None:
        raise DataError("The column 'wide' cannot be written.")

    with monkeypatch.context() as patch:
        patch.setattr(Join, "__call__", refuse)
        with pytest.raises(DataError, match=r"^The column 'wide' cannot be written\.$"):
            predict(base, "run")
    entries = [json.loads(path.read_text()) for path in sorted((base / "run" / "commits").iterdir())]
    committed_now = [one for entry in entries for file in entry["files"] for one in file["receipts"]]
    assert 3 <= len(committed_now) < 9
    assay.resume(base / "run", executor="local", workers=1)
    assert files(base / "run") == reference(base, monkeypatch)


def test_what_was_joined_early_in_a_run_that_stopped_is_known_to_the_next_driver(
    base: Path, aside: Inline, at_the_end: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reached(*_: object) -> str | None:
        return "deadline" if aside.items else None

    with monkeypatch.context() as patch:
        patch.setattr("assay.drive._Teller.reached", reached)
        patch.setattr("assay.drive._Teller.stopped", lambda *_: Unfinished("Stopped."))
        with pytest.raises(Unfinished):
            predict(base, "run")
    before = len(aside.items)
    assert 1 <= before < 3
    assert len(list((base / "run" / "joins").iterdir())) >= 1
    del aside.items[:]
    assay.resume(base / "run", executor="local", workers=1)
    assert len(aside.items) + at_the_end[0] == 3 - before
    assert files(base / "run") == reference(base, monkeypatch)


def test_how_far_it_has_come_is_said_now_and_then(base: Path, aside: Inline) -> None:
    said: list[str] = []
    predict(base, "run", said)
    told = [one for one in said if one.startswith("Predictions written so far: ")]
    assert told[:2] == [
        "Predictions written so far: 3 of 9 units.",
        "Predictions written so far: 6 of 9 units.",
    ]


@pytest.mark.parametrize(
    "predictions",
    [{"top_k": {"k": 1, "group": "wide"}}, {"format": "delta", "to": "table"}],
    ids=["best rows", "table"],
)
def test_the_best_of_groups_and_tables_wait_for_the_end(
    base: Path, aside: Inline, predictions: dict[str, object]
) -> None:
    found = predict(base, "run", predictions=predictions)
    assert aside.items == []
    assert found.predictions is not None
    assert found.predictions.rows == ROWS


# ---- the end ---------------------------------------------------------------------------------------------------------


def killed_in_a_join(base: Path, monkeypatch: pytest.MonkeyPatch, at: int, **changes: object) -> None:
    """A run whose driver ends before it has joined the stretch of this row."""
    whole: Callable[[Join, Any], Any] = Join.__call__

    def dies(self: Join, item: Any) -> Any:
        if item[0].unit.first_row == at:
            raise KeyboardInterrupt
        return whole(self, item)

    with monkeypatch.context() as patch:
        patch.setattr(Join, "__call__", dies)
        patch.setattr("assay.pipeline.joining.KEEP_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt):
            predict(base, "run", **changes)
    assert not (base / "run" / MANIFEST).exists()


def test_a_driver_that_died_in_a_join_is_followed_by_one_that_joins_the_rest(
    base: Path, at_the_end: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_in_a_join(base, monkeypatch, at=60)
    said: list[str] = []

    def report(progress: Progress) -> None:
        said.append(progress.message)

    assay.resume(base / "run", executor="local", workers=1, report=report)
    assert at_the_end == [3, 1]
    assert "Writing the predictions of 9 units, of which 6 are written already." in said
    assert files(base / "run") == reference(base, monkeypatch)
    assert verify(str(base / "run")).passed


def test_a_part_that_is_gone_is_joined_again(
    base: Path, at_the_end: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_in_a_join(base, monkeypatch, at=60)
    next((base / "run" / "predictions").glob("part-00001-*")).unlink()
    assay.resume(base / "run", executor="local", workers=1)
    assert at_the_end == [3, 2]
    assert files(base / "run") == reference(base, monkeypatch)


def test_all_is_written_again_once_the_manifest_was_removed(
    base: Path, at_the_end: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    predict(base, "run")
    (base / "run" / MANIFEST).unlink()
    part = next((base / "run" / "predictions").glob("part-00001-*"))
    before = part.read_bytes()
    part.write_bytes(b"altered")
    assay.resume(base / "run", executor="local", workers=1)
    assert at_the_end == [3, 3]
    assert part.read_bytes() == before


def test_a_table_takes_each_part_once_too(base: Path, at_the_end: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, object] = {"predictions": {"format": "delta", "to": "table"}}
    killed_in_a_join(base, monkeypatch, at=60, **changes)
    found = assay.resume(base / "run", executor="local", workers=1)
    assert at_the_end == [3, 1]
    assert found.predictions is not None
    listed = {part.file.path for part in found.predictions.parts}
    assert len(listed) == 9
    assert listed == {path.name for path in (base / "table").glob("part-*")}


# ---- what it costs ---------------------------------------------------------------------------------------------------


def test_joins_are_in_the_cost_early_ones_and_repeated_ones(
    base: Path, aside: Inline, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = predict(base, "run")
    assert found.results.cost is not None
    joining = [row for row in found.results.cost.to_pylist() if row["kind"] == "joining"]
    early = [row for row in joining if row["node_type"] == "cpu"]
    assert [row["seconds"] for row in early] == [2.0 * len(aside.items)]
    assert "s of joins" in cost_line(found.results)
    (base / "run" / MANIFEST).unlink()
    assay.resume(base / "run", executor="local", workers=1)
    again = assay.open_run(base / "run").results.cost
    assert again is not None

    def seconds(table: pa.Table) -> float:
        return float(np.sum([row["seconds"] for row in table.to_pylist() if row["kind"] == "joining"]))

    assert seconds(again) > seconds(found.results.cost)
