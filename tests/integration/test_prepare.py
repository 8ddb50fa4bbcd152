"""Variants that share a preparation: the values of the same models fed without it, made once, the same bytes however
they are computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.states import committed_tally, states_digest

from assay import api, build
from assay.errors import RunError, SpecError
from assay.pipeline.prepare import prepare
from assay.pipeline.run import How, run
from assay.pipeline.verify import verify
from assay.records import Job, Progress, Rows, Tally, Unit
from assay.spec.load import build_spec
from assay.states import digest
from assay.worker import WorkerSetup

FILE_ROWS = (300, 130)
WORDS = ["cheap", "flight", "to", "rome", "hotel", "lisbon", "soon", "late"]
NUM_BATCHES = 5 + 5 + 1 + 5
"""Of 32 rows, of row groups of 140, 140, 20 and 130."""
VOCABULARY = "cheap flight rome hotel lisbon"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepare")
    (folder / "data").mkdir()
    chance = np.random.default_rng(3)
    for number, rows in enumerate(FILE_ROWS):
        texts = [" ".join(chance.choice(WORDS, chance.integers(0, 7))) for _ in range(rows)]
        table = pa.table(
            {
                "y": (chance.random(rows) < 0.4).astype(np.int8),
                "text": pa.array(texts, mask=chance.random(rows) < 0.1).dictionary_encode(),
                "user": chance.integers(0, 50, rows),
                "price": chance.random(rows),
            }
        )
        pq.write_table(table, folder / "data" / f"{number}.parquet", row_group_size=140)
    (folder / "vocabulary.txt").write_text(VOCABULARY)
    for seed in (1, 2):
        (folder / f"{seed}.seed").write_text(str(seed))
    return folder


def tree(base: Path, log: str = "", *, shared: bool = True, tasks: int | None = None) -> dict[str, Any]:
    """shared: with a preparation; else each model makes its tokens itself."""
    vocabulary = str(base / "vocabulary.txt")
    whole = {"inputs": {"text": "text", "user": "user"}, "receive": "arrow"}
    if shared:
        made, named = {"prepare": "tokens"}, {"receive": "arguments"}
        variants: list[dict[str, Any]] = [
            {"name": "one", "torch": {"load": "fakes.prepared:bag", "path": "1.seed"}, **made},
            {"name": "two", "torch": {"load": "fakes.prepared:named", "path": "2.seed"}, **made, **named},
            {"name": "rule", "callable": {"function": "fakes.prepared:rule", "settings": {"unknown": 0.25}}, **made},
        ]
    else:
        settings = {"vocabulary": vocabulary}
        loader = {"load": "fakes.prepared:whole", "settings": settings}
        rule = {"function": "fakes.prepared:whole_rule", "settings": {**settings, "unknown": 0.25}}
        variants = [
            {"name": "one", "torch": {**loader, "path": "1.seed"}, **whole},
            {"name": "two", "torch": {**loader, "path": "2.seed"}, **whole},
            {"name": "rule", "callable": rule, **whole},
        ]
    preparation: dict[str, Any] = {
        "function": "fakes.prepared:Tokens",
        "inputs": ["text", "user"],
        "settings": {"vocabulary": vocabulary, "log": log},
        "files": ["vocabulary.txt"],
        "batch_rows": 32,
    }
    preparation |= {"tasks": tasks} if tasks else {}
    return {
        "data": {"path": "data/", "label": "y", "where": "price < 0.8", "cluster": "user"},
        "output": {"is": "logit"},
        "variants": variants,
        "prepare": {"tokens": preparation} if shared else {},
        "baseline": "one",
        "metrics": ["auc", "log_loss", "mean_score"],
        "execution": {"unit_rows": 64} if shared else {"unit_rows": 64, "micro_batch": 32},
    }


def silent(progress: Progress) -> None: ...


def evaluated(base: Path, out: Path, how: How, of: dict[str, Any]) -> Tally:
    spec = build_spec(of)
    run(prepare(spec, base), spec, str(out), how, silent)
    return committed_tally(out)


@pytest.fixture(scope="module")
def reference(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Tally:
    return evaluated(base, tmp_path_factory.mktemp("reference") / "run", How("local", 1), tree(base))


def test_the_states_are_those_of_models_that_prepare_for_themselves(
    base: Path, tmp_path: Path, reference: Tally
) -> None:
    alone = evaluated(base, tmp_path / "run", How("local", 1), tree(base, shared=False))
    assert {key.variant for key in reference.states} == {"", "one", "two", "rule"}
    assert states_digest(alone) == states_digest(reference)


def test_it_is_made_once_for_each_micro_batch(base: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    evaluated(base, tmp_path / "run", How("local", 1), tree(base, str(log)))
    calls = [line.split() for line in log.read_text().splitlines()]
    assert len(calls) == NUM_BATCHES
    tables = [pq.read_table(base / "data" / f"{number}.parquet") for number in range(2)]
    assert sum(int(rows) for *_, rows in calls) == sum(np.sum(one["price"].to_numpy() < 0.8) for one in tables)


@pytest.mark.parametrize("workers", [2, 3])
def test_the_bytes_are_the_same_for_any_number_of_workers(
    base: Path, tmp_path: Path, reference: Tally, workers: int
) -> None:
    assert digest(evaluated(base, tmp_path / "run", How("local", workers), tree(base))) == digest(reference)


def test_the_bytes_are_the_same_where_it_is_made_apart(
    base: Path, tmp_path: Path, reference: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows come with what was made of them, and without the columns that it was made of."""
    tables, here = [], build.worker_setup

    def setup(job: Job, bundle: int = 0) -> WorkerSetup:
        read = build.preparing_reader(job)

        def prepared(unit: Unit) -> Iterator[Rows]:
            for rows in read(unit):
                tables.append(rows.table.column_names)
                yield rows

        return replace(here(job, bundle), read=prepared)

    monkeypatch.setattr(build, "worker_setup", setup)
    log = tmp_path / "log"
    tally = evaluated(base, tmp_path / "run", How("local", 1), tree(base, str(log), tasks=1))
    assert states_digest(tally) == states_digest(reference)
    assert tables
    assert not any(tables)
    assert len(log.read_text().splitlines()) == NUM_BATCHES


def test_where_memory_is_short_it_is_made_of_fewer_rows_and_the_report_says_so(base: Path, tmp_path: Path) -> None:
    of = tree(base)
    of["variants"][2] = {"name": "rule", "callable": "fakes.prepared:small", "prepare": "tokens"}
    spec = build_spec(of)
    results = run(prepare(spec, base), spec, str(tmp_path / "run"), How("local", 2), silent)
    receipts = committed_tally(tmp_path / "run").receipts
    deviation = ("variant rule: 2 rows per call",)
    assert sorted(one.rows for one in receipts) == [2, 12, 12, 20, *[64] * 6]
    assert all(one.deviations == (deviation if one.rows > 2 else ()) for one in receipts)
    assert (
        "Memory was short on 9 of 10 units: variant rule: 2 rows per call. Last digits there may differ from those of "
        "a run with more memory."
    ) in results.notes
    assert verify(str(tmp_path / "run")).passed


def test_what_a_preparation_lacks_is_told_once_for_all_that_need_it(base: Path) -> None:
    of = tree(base)
    of["prepare"]["tokens"] |= {"inputs": ["txet", "user"], "files": []}
    with pytest.raises(SpecError) as caught:
        prepare(build_spec(of), base)
    assert str(caught.value) == (
        "prepare.tokens: preparation 'tokens' reads column 'txet', which the data do not have; did you mean 'text'? "
        "The variants 'one', 'two' and 'rule' need it."
    )
    of["prepare"]["tokens"] |= {"inputs": ["text", "user"], "files": ["nowhere.txt"]}
    with pytest.raises(SpecError) as caught:
        prepare(build_spec(of), base)
    assert str(caught.value) == (
        f"prepare.tokens: preparation 'tokens': there is no file or folder {str(base / 'nowhere.txt')!r}. The variants "
        "'one', 'two' and 'rule' need it."
    )


def test_a_run_goes_on_with_a_preparation_that_is_made_elsewhere(base: Path, tmp_path: Path) -> None:
    evaluated(base, tmp_path / "run", How("local", 1), tree(base))
    evaluated(base, tmp_path / "run", How("local", 1), tree(base, tasks=2))
    changed = tree(base)
    changed["prepare"]["tokens"]["batch_rows"] = 16
    with pytest.raises(RunError, match=r"is of something else: execution, model one, model rule, model two changed"):
        evaluated(base, tmp_path / "run", How("local", 1), changed)


@pytest.mark.ray
def test_the_bytes_are_the_same_of_tasks_on_ray(base: Path, tmp_path: Path, reference: Tally, ray_address: str) -> None:
    tally = evaluated(base, tmp_path / "run", How("ray", 2, ray_address), tree(base, tasks=2))
    assert digest(tally) == digest(reference)


@pytest.mark.ray
def test_the_bytes_are_the_same_on_ray(base: Path, tmp_path: Path, reference: Tally, ray_address: str) -> None:
    assert digest(evaluated(base, tmp_path / "run", How("ray", 2, ray_address), tree(base))) == digest(reference)


def test_it_can_be_asked_for_in_python(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(base)
    of = tree(base)
    found = api.evaluate(
        "data/",
        label="y",
        where="price < 0.8",
        output="logit",
        variants=of["variants"],
        baseline="one",
        metrics=["auc"],
        prepare=of["prepare"],
        workers=1,
        executor="local",
    )
    assert [row["variant"] for row in found.metrics.to_pylist()] == ["one", "two", "rule"]
