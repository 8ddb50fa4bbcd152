"""Real data, several kinds of models, missing values everywhere: the merged states are the same bytes however they are
computed."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.states import committed_tally, committed_units, planned_units, states_digest
from sklearn.linear_model import LogisticRegression

from assay.errors import Interrupted
from assay.ledgers import TaskLedger, VariantLedger
from assay.pipeline.prepare import prepare
from assay.pipeline.run import How, run
from assay.pipeline.verify import verify
from assay.records import Progress, StateKey, Tally, Unit
from assay.spec.load import build_spec
from assay.states import digest

FILE_ROWS = (700, 300, 500)
TREE: dict[str, Any] = {
    "data": {
        "path": "data/",
        "weight": "w",
        "cluster": "user",
        "where": "price < 95",
        "slices": ["country", "device", ["country", "device"], {"age": {"edges": [30, 50]}}],
    },
    "tasks": {
        "click": {"label": "clicked", "output": {"is": "probability"}},
        "buy": {"label": "bought", "where": "clicked = 1", "output": {"is": "probability"}},
    },
    "variants": [
        {"name": "old", "column": {"click": "p_click", "buy": "p_buy"}},
        {"name": "new", "column": {"click": "q_click", "buy": "p_buy"}},
        {
            "name": "batch",
            "callable": "fakes.scorers:depends_on_its_batch",
            "inputs": ["age", "price"],
            "receive": "dict",
            "output": {"click": {"is": "logit", "select": "click"}, "buy": {"is": "logit", "select": "buy"}},
        },
        {"name": "fitted", "sklearn": "fitted.joblib", "inputs": ["price", "number"], "trusted": True},
    ],
    "baseline": "old",
    "metrics": ["auc", "log_loss", "ece", "recall", "mean_score"],
    "execution": {"unit_rows": 64, "micro_batch": 32},
}


def table(first: int, rows: int) -> pa.Table:
    """Nulls in labels, scores, weights, clusters and slices, at other rows each; weights of 0."""
    chance = np.random.default_rng(first)
    price = chance.uniform(0, 100, rows)
    clicked = (chance.random(rows) < price / 120).astype(np.float64)

    def some(values: Any, share: float = 0.05) -> pa.Array:  # Any: what Arrow takes
        return pa.array(values, mask=chance.random(rows) < share)

    return pa.table(
        {
            "clicked": some(clicked.astype(np.int8)),
            "bought": some(chance.random(rows) < 0.3),
            "w": some(np.where(chance.random(rows) < 0.1, 0.0, chance.exponential(2.0, rows))),
            "user": some([f"user {one}" for one in chance.integers(0, 80, rows)]),
            "country": some(chance.choice(["DE", "FR", "US"], rows).tolist()),
            "device": chance.choice(["phone", "web"], rows).tolist(),
            "age": some(chance.integers(18, 80, rows).astype(np.float64)),
            "price": price,
            "number": np.arange(first, first + rows, dtype=np.float64) / 1_000,
            "p_click": some(chance.uniform(0, 1, rows)),
            "q_click": some(np.clip(0.2 + 0.5 * clicked + chance.normal(0, 0.2, rows), 0, 1)),
            "p_buy": some(chance.uniform(0, 1, rows).astype(np.float32)),
        }
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("same")
    (folder / "data").mkdir()
    for number, rows in enumerate(FILE_ROWS):
        pq.write_table(table(1_000 * number, rows), folder / "data" / f"{number}.parquet", row_group_size=230)
    features = np.random.default_rng(9).normal(size=(50, 2))
    joblib.dump(LogisticRegression().fit(features, features[:, 0] > 0), folder / "fitted.joblib")
    return folder


def silent(progress: Progress) -> None: ...


def evaluated(
    base: Path,
    out: Path,
    how: How,
    *,
    unit_rows: int = 64,
    reorder: Callable[[list[Unit]], None] | None = None,
    report: Callable[[Progress], None] = silent,
    tree: dict[str, Any] = TREE,
) -> Tally:
    spec = build_spec({**tree, "execution": {"unit_rows": unit_rows, "micro_batch": 32}})
    prepared = prepare(spec, base)
    if reorder is not None:
        units = list(prepared.plan.units)
        reorder(units)
        prepared = replace(prepared, plan=replace(prepared.plan, units=tuple(units)))
    run(prepared, spec, str(out), how, report)
    return committed_tally(out)


@pytest.fixture(scope="module")
def reference(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Tally:
    """One worker, units in the plan's order."""
    return evaluated(base, tmp_path_factory.mktemp("reference") / "run", How("local", 1))


def test_the_data_have_all_that_could_go_wrong(reference: Tally) -> None:
    assert len(reference.receipts) == 27
    assert sum(receipt.rows for receipt in reference.receipts) == sum(FILE_ROWS)
    assert {key.part for key in reference.states} == {"scored", "baseline_only", "variant_only"}
    assert {key.variant for key in reference.states} == {"", "old", "new", "batch", "fitted"}
    for task in ("click", "buy"):
        ledger = reference.states[StateKey(task, "", TaskLedger.identity, "scored")]
        for name in ("rows_read", "rows_filtered", "null_label", "null_weight", "null_cluster"):
            assert ledger[name][0] > 0
        for variant in ("old", "batch"):
            missed = reference.states[StateKey(task, variant, VariantLedger.identity, "scored")]["null_score"]
            assert missed[0] > 0


@pytest.mark.parametrize("workers", [2, 3])
def test_for_any_number_of_workers(base: Path, tmp_path: Path, reference: Tally, workers: int) -> None:
    assert digest(evaluated(base, tmp_path / "run", How("local", workers))) == digest(reference)


@pytest.mark.parametrize("reorder", [list.reverse, random.Random(5).shuffle], ids=["reversed", "shuffled"])
def test_for_any_order_of_units(
    base: Path, tmp_path: Path, reference: Tally, reorder: Callable[[list[Unit]], None]
) -> None:
    assert digest(evaluated(base, tmp_path / "run", How("local", 2), reorder=reorder)) == digest(reference)


@pytest.mark.parametrize(("unit_rows", "num_units"), [(32, 53), (230, 9), (100_000, 3)])
def test_for_any_size_of_units(base: Path, tmp_path: Path, reference: Tally, unit_rows: int, num_units: int) -> None:
    tally = evaluated(base, tmp_path / "run", How("local", 2), unit_rows=unit_rows)
    assert len(tally.receipts) == num_units
    assert states_digest(tally) == states_digest(reference)


CROSSED = {**TREE, "data": {**TREE["data"], "cluster": ["user", "device"]}, "confirm": 0.6}


def test_with_two_clusters_and_rows_set_apart_to_select_by(base: Path, tmp_path: Path, reference: Tally) -> None:
    one = evaluated(base, tmp_path / "one", How("local", 1), tree=CROSSED)
    other = evaluated(base, tmp_path / "other", How("local", 2), tree=CROSSED, unit_rows=230)
    assert {key.view for key in one.states} == {"", "second", "both", "selection"}
    assert states_digest(one) == states_digest(other)
    for task in ("click", "buy"):
        whole, *parts = (
            tally.states[StateKey(task, "", TaskLedger.identity, "scored", view)]
            for tally, view in ((reference, ""), (one, ""), (one, "selection"))
        )
        for name in ("rows_read", "null_label", "null_weight", "bucket_rows"):
            np.testing.assert_array_equal(parts[0][name].sum() + parts[1][name].sum(), whole[name].sum())
    audit = verify(str(tmp_path / "one"))
    assert audit.passed, audit.checks


def test_for_a_run_that_was_stopped_and_resumed(base: Path, tmp_path: Path, reference: Tally) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.units_done == 5 and not progress.message:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        evaluated(base, tmp_path / "run", How("local", 2), report=interrupt)
    assert 5 <= len(committed_units(tmp_path / "run")) < len(planned_units(tmp_path / "run"))
    assert digest(evaluated(base, tmp_path / "run", How("local", 1))) == digest(reference)


@pytest.mark.ray
def test_on_ray(base: Path, tmp_path: Path, reference: Tally, ray_address: str) -> None:
    assert digest(evaluated(base, tmp_path / "run", How("ray", 2, ray_address))) == digest(reference)
