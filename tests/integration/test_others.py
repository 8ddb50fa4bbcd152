"""Variants that take what others give: to the last bit as if it stood in a column of the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import lightgbm
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from fakes.stacked import first
from fakes.states import committed_tally, states_digest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from assay.errors import ModelError
from assay.pipeline.finish import read
from assay.pipeline.prepare import prepare
from assay.pipeline.run import How, run
from assay.pipeline.verify import verify
from assay.records import Progress, State, StateKey, Tally
from assay.spec.load import build_spec
from assay.store.run import RunDirectory

ROWS = 900
FIRST = {"callable": "fakes.stacked:first", "inputs": {"x": "x"}, "output": {"select": "score", "is": "logit"}}
TAKEN = {"variant": "first"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`x` a whole number; `p` what `first` gives for it, as predictions of it are written."""
    folder = tmp_path_factory.mktemp("others")
    chance = np.random.default_rng(11)
    x = chance.permutation(ROWS).astype(np.float64)
    p = np.asarray(first(x)["score"])
    table = pa.table(
        {
            "y": (chance.random(ROWS) < 0.4).astype(np.int8),
            "x": x,
            "p": pa.array(p, mask=np.isnan(p)),
            "user": chance.integers(0, 60, ROWS),
        }
    )
    pq.write_table(table, folder / "rows.parquet", row_group_size=300)
    return folder


def tree(*variants: dict[str, Any], baseline: str | None = "first", **changes: Any) -> dict[str, Any]:
    return {
        "data": {"path": "rows.parquet", "label": "y", "where": "x % 10 <> 3", "cluster": "user"},
        "output": {"is": "logit"},
        "variants": list(variants),
        "baseline": baseline,
        "metrics": ["auc", "log_loss", "mean_score"],
        "execution": {"unit_rows": 100, "micro_batch": 25},
        **changes,
    }


def silent(progress: Progress) -> None: ...


def evaluated(base: Path, out: Path, of: dict[str, Any], workers: int = 1) -> Tally:
    spec = build_spec(of)
    run(prepare(spec, base), spec, str(out), How("local", workers), silent)
    assert verify(str(out)).passed
    return committed_tally(out)


def states_of(tally: Tally, variant: str) -> dict[StateKey, State]:
    return {key: state for key, state in tally.states.items() if key.variant == variant}


def equal(left: Tally, right: Tally, variant: str) -> bool:
    one, other = states_of(left, variant), states_of(right, variant)
    return bool(one) and states_digest(replace(left, states=one)) == states_digest(replace(right, states=other))


def stacked(p: object) -> list[dict[str, Any]]:
    """p: where the first variant's score comes from."""
    return [
        {"name": "blend", "callable": "fakes.stacked:blend", "inputs": {"p": p, "x": "x"}},
        {"name": "filled", "callable": "fakes.stacked:filled", "inputs": {"p": [p]}},
    ]


@pytest.mark.parametrize("baseline", ["first", "filled", None])
def test_it_is_as_if_the_output_stood_in_the_file(base: Path, tmp_path: Path, baseline: str | None) -> None:
    given = {"name": "first", **FIRST}
    read = evaluated(base, tmp_path / "read", tree(given, *stacked("p"), baseline=baseline))
    taken = evaluated(base, tmp_path / "taken", tree(*stacked(TAKEN), given, baseline=baseline), workers=2)
    assert all(equal(read, taken, name) for name in ("first", "blend", "filled"))
    assert not equal(read, replace(taken, states={}), "blend")


def test_the_other_is_called_once_for_all_that_take_it(base: Path, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    callable_ = {"function": "fakes.stacked:first", "settings": {"log": str(log)}}
    evaluated(base, tmp_path / "run", tree({"name": "first", **FIRST, "callable": callable_}, *stacked(TAKEN)))
    assert sum(map(int, log.read_text().split())) == ROWS * 9 // 10


def test_where_the_other_fails_so_do_those_that_take_it(base: Path, tmp_path: Path) -> None:
    callable_ = {"function": "fakes.stacked:first", "settings": {"fails_at": 4.0}}
    last = {"name": "last", "callable": "fakes.stacked:filled", "inputs": {"p": {"variant": "blend"}}}
    alone = {"name": "alone", "callable": "fakes.stacked:filled", "inputs": {"p": "p"}}
    of = tree(alone, *stacked(TAKEN), {"name": "first", **FIRST, "callable": callable_}, last, baseline="alone")
    tally = evaluated(base, tmp_path / "run", {**of, "on_error": "continue"})
    assert [one.failed for one in tally.receipts if one.failed] == [("blend", "filled", "first", "last")]
    with pytest.raises(ModelError) as raised:
        evaluated(base, tmp_path / "stopped", of)
    told = str(raised.value).splitlines()
    said = "function 'fakes.stacked:first' failed with ValueError: it has never seen 4.0 (fakes/stacked.py, line 17)."
    assert told[0].startswith(f"Variant 'first': {said}")
    assert told[1].startswith(
        f"Variant 'blend': it takes what variant 'first' gives, which failed on this unit: {said}"
    )
    assert len(told) == 5
    assert told[4].startswith("To go on all the same, set on_error: continue and run again: ")


def test_bundles_keep_those_that_take_with_those_that_give(base: Path, tmp_path: Path) -> None:
    variants = [{"name": "first", **FIRST}, *stacked(TAKEN)]
    for number in range(3):
        inputs = {"p": {"variant": "filled"}} if number else {"p": "p"}
        settings = {"weight": 1.0 + number}
        callable_ = {"function": "fakes.stacked:filled", "settings": settings}
        variants.append({"name": f"v{number}", "callable": callable_, "inputs": inputs})
    sized = [{**one, "memory_bytes": 10} for one in variants]
    whole = evaluated(base, tmp_path / "whole", tree(*sized, baseline="filled"))
    of = tree(*sized, baseline="filled", budget={"model_bytes": 30})
    prepared = prepare(build_spec(of), base)
    assert prepared.plan.bundles == (("first", "blend", "filled"), ("v0",), ("v1",), ("v2",))
    assert prepared.why_bundles == (
        "One worker does not hold all variants: 6 models take 60 bytes, and budget.model_bytes is 30 bytes. Each has "
        "'first' too, whose outputs the baseline takes."
    )
    packed = evaluated(base, tmp_path / "packed", of, workers=2)
    assert states_digest(packed) == states_digest(whole)


def test_other_outputs_are_taken_too(base: Path, tmp_path: Path) -> None:
    outputs = {"vector": {"type": "list<float64>"}, "said": {"type": "string", "select": "name"}}
    given = {"name": "first", **FIRST, "outputs": outputs}
    taking = [
        {
            "name": "vector",
            "callable": "fakes.stacked:of_vector",
            "inputs": {"v": {**TAKEN, "output": "vector"}, "p": TAKEN},
        },
        {
            "name": "name",
            "callable": "fakes.stacked:of_name",
            "inputs": {"n": {**TAKEN, "output": "said"}},
            "receive": "arrow",
        },
    ]
    plain = [
        {"name": "vector", "column": "vector"},
        {"name": "name", "column": "name"},
    ]
    table = pq.read_table(base / "rows.parquet")
    x, p = table["x"].to_numpy(), table["p"].to_numpy()
    for name, column in {"vector": pa.array(x * np.nan_to_num(p)), "name": pa.array(x % 3)}.items():
        table = table.append_column(name, column)
    (tmp_path / "data").mkdir()
    pq.write_table(table, tmp_path / "data" / "rows.parquet", row_group_size=300)
    expected = evaluated(tmp_path / "data", tmp_path / "expected", tree(*plain, baseline=None))
    found = evaluated(base, tmp_path / "found", tree(given, *taking, baseline=None))
    assert equal(expected, found, "vector")
    assert equal(expected, found, "name")


def test_other_outputs_are_written_in_the_types_that_the_spec_says(base: Path, tmp_path: Path) -> None:
    outputs = {"vector": {"type": "list<float32>[2]"}, "said": {"type": "string", "select": "name"}}
    given = {"name": "first", **FIRST, "outputs": outputs}
    of = tree(given, *stacked(TAKEN), predictions={"to": str(tmp_path / "rows"), "provenance": True}, carry_over=["x"])
    spec = build_spec(of)
    run(prepare(spec, base), spec, str(tmp_path / "run"), How("local", 2), silent)
    files = sorted((tmp_path / "rows").glob("*.parquet"))
    table = pa.concat_tables(pq.read_table(one) for one in files).sort_by("_row")
    x = table["x"].to_numpy()
    score = np.asarray(first(x)["score"])
    assert table.schema.field("first.vector").type == pa.list_(pa.float32(), 2)
    assert table["first.vector"].to_pylist() == [[one, -one] for one in x]
    assert table["first.said"].to_pylist() == [f"x{one:g}" for one in x]
    assert table["first"].type == pa.float32()
    assert np.array_equal(table["first"].to_numpy(), score, equal_nan=True)
    assert np.array_equal(table["filled"].to_numpy(), np.where(np.isnan(score), -5.0, score))


@pytest.fixture(scope="module")
def models(base: Path) -> Path:
    """Models of each kind that were trained on `x` and `p`."""
    table = pq.read_table(base / "rows.parquet", columns=["x", "p", "y"]).to_pandas()
    features, label = table[["x", "p"]], table["y"]
    trained = lightgbm.train(
        {"objective": "binary", "verbose": -1, "num_leaves": 4}, lightgbm.Dataset(features, label), 5
    )
    trained.save_model(base / "model.txt")
    pipeline = make_pipeline(SimpleImputer(), LogisticRegression()).fit(features, label)
    joblib.dump(pipeline, base / "model.joblib")
    torch.manual_seed(1)
    torch.save(torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(0)), base / "model.pt")
    return base


KINDS: dict[str, dict[str, Any]] = {
    "lightgbm": {"lightgbm": "model.txt"},
    "sklearn": {"sklearn": "model.joblib", "trusted": True},
    "torch": {"torch": {"path": "model.pt"}, "trusted": True, "receive": "matrix"},
}


def test_models_of_all_kinds_take_them(models: Path, tmp_path: Path) -> None:
    def of(p: object) -> dict[str, Any]:
        return tree(
            {"name": "first", **FIRST},
            *({"name": name, **kind, "inputs": {"x": "x", "p": p}} for name, kind in KINDS.items()),
        )

    read_, taken = evaluated(models, tmp_path / "read", of("p")), evaluated(models, tmp_path / "taken", of(TAKEN))
    assert all(equal(read_, taken, name) for name in KINDS)


def test_what_a_kind_cannot_take_is_said_when_the_run_is_planned(models: Path) -> None:
    given = {"name": "first", **FIRST, "outputs": {"said": {"type": "string", "select": "name"}}}
    takes = {"name": "torch", **KINDS["torch"], "inputs": {"x": "x", "p": {**TAKEN, "output": "said"}}}
    with pytest.raises(ModelError) as raised:
        prepare(build_spec(tree(given, takes)), models)
    assert str(raised.value) == (
        "Variant 'torch': column 'said of variant first' is of type string, which cannot go in a matrix of numbers; "
        "give it as an argument of its own, or say receive: arrow or receive: pandas."
    )


# ---- written out -----------------------------------------------------------------------------------------------------


def predicted(base: Path, out: Path, of: dict[str, Any], how: How) -> pa.Table:
    spec = build_spec({**of, "carry_over": ["x"], "predictions": {"provenance": True, **of.get("predictions", {})}})
    run(prepare(spec, base), spec, str(out), how, silent)
    assert verify(str(out)).passed
    return pq.read_table(out / "predictions")


def test_rows_that_a_variant_raises_on_are_dead_letters_and_no_others(base: Path, tmp_path: Path) -> None:
    picky = {"name": "picky", "callable": "fakes.stacked:dislikes", "inputs": {"x": "x"}}
    after = {"name": "after", "callable": "fakes.stacked:filled", "inputs": {"p": {"variant": "picky"}}}
    of = tree({"name": "first", **FIRST}, picky, after, on_error="continue")
    table = predicted(base, tmp_path / "run", of, How("local", 2))
    dead = pq.read_table(tmp_path / "run" / "dead-letter").to_pylist()
    told = {one["x"]: one["_reason"] for one in dead if one["_variant"] == "picky"}
    assert set(told) == {500.0, 777.0}  # 13 does not pass the filter
    assert told[500.0] == "it gave no score (null, NaN or infinite)."
    assert told[777.0] == (
        "function 'fakes.stacked:dislikes' failed with ValueError: I do not like 777 (fakes/stacked.py, line 45)."
    )
    x = table["x"].to_numpy()
    expected = np.where(np.isin(x, list(told)), np.nan, np.sin(x))
    assert np.array_equal(table["picky"].to_numpy(), expected, equal_nan=True)
    assert np.array_equal(table["after"].to_numpy(), np.where(np.isnan(expected), -5.0, expected))
    results = RunDirectory.open(str(tmp_path / "run"))
    notes = read(results).notes
    assert (
        "On 1 of 9 units, variant picky: calls were halved, since it raised on some rows. Last digits there may differ "
        "from those of a run without such rows."
    ) in notes


@pytest.mark.ray
def test_the_same_on_ray(base: Path, tmp_path: Path, ray_address: str) -> None:
    """Taken outputs, embeddings, dead rows and the best of each group."""
    given = {"name": "first", **FIRST, "outputs": {"vector": {"type": "list<float32>"}}}
    picky = {"name": "picky", "callable": "fakes.stacked:dislikes", "inputs": {"x": "x"}}
    vector = {"v": {**TAKEN, "output": "vector"}, "p": {"variant": "picky"}}
    taking = {"name": "vector", "callable": "fakes.stacked:of_vector", "inputs": vector}
    of = tree(taking, picky, given, baseline="first", on_error="continue")
    top = {**of, "predictions": {"top_k": {"k": 2, "group": "user"}}}
    for name, one in {"all": of, "top": top}.items():
        local = predicted(base, tmp_path / f"{name}-local", one, How("local", 1))
        on_ray = predicted(base, tmp_path / f"{name}-ray", one, How("ray", 2, ray_address))
        assert local.equals(on_ray)
        assert len(local) == (810 if name == "all" else 3 * 2 * 60)
