"""What Python callers get: the same answer for every form of the same rows, and objects that print."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import assay.pipeline.head
from assay import api
from assay.api import evaluate, list_runs, open_run, predict, resume, run
from assay.errors import DataError, Interrupted, RunError, SpecError, Unfinished
from assay.evaluation import Evaluation
from assay.pipeline.run import saved_spec
from assay.records import Progress
from assay.spec.load import build_spec, spec_to_yaml
from assay.spec.model import Spec
from assay.store.run import RunDirectory

ROWS = 240
TABLE = pa.table(
    {
        "y": [0, 1, 0, 1, 1, 0] * (ROWS // 6),
        "old": [0.4, 0.5, 0.6, 0.3, 0.7, 0.2] * (ROWS // 6),
        "new": [0.2, 0.7, 0.3, 0.6, 0.8, 0.4] * (ROWS // 6),
        "user": [row // 3 for row in range(ROWS)],
        "country": ["DE", "US", "FR", "US"] * (ROWS // 4),
        "w": [1.0, 0.5] * (ROWS // 2),
    }
)
WORDS: dict[str, Any] = {
    "label": "y",
    "scores": ["old", "new"],
    "baseline": "old",
    "cluster": "user",
    "weight": "w",
    "slices": ["country"],
    "output": "probability",
    "metrics": ["auc", "log_loss"],
    "gates": [{"metric": "log_loss", "improve": "1%"}],
}
TABLES = ("metrics", "comparisons", "curves", "coverage")


@pytest.fixture(scope="module")
def found() -> Evaluation:
    return evaluate(TABLE, **WORDS)


def saved(write: Callable[[pa.Table, str], object], name: str, folder: Path) -> str:
    write(TABLE, str(folder / name))
    return str(folder / name)


@pytest.mark.parametrize(
    "form",
    [
        lambda folder: TABLE.to_pandas(),
        lambda folder: pl.from_arrow(TABLE),
        lambda folder: TABLE.to_reader(max_chunksize=7),
        lambda folder: saved(pq.write_table, "preds.parquet", folder),
        lambda folder: Path(saved(pq.write_table, "preds.parquet", folder)),
        lambda folder: [saved(pq.write_table, "preds.parquet", folder)],
        lambda folder: saved(pyarrow.csv.write_csv, "preds.csv", folder),
    ],
    ids=["pandas", "polars", "reader", "parquet", "path", "list", "csv"],
)
def test_every_form_of_the_rows_gives_the_same_tables(
    found: Evaluation, form: Callable[[Path], object], tmp_path: Path
) -> None:
    again = evaluate(form(tmp_path), **WORDS)
    assert all(getattr(again, name).equals(getattr(found, name)) for name in TABLES)
    assert again.verdicts == found.verdicts


def test_rows_without_cluster_are_told(found: Evaluation) -> None:
    alone = evaluate(TABLE, **{**WORDS, "cluster": None})
    assert alone.metrics["value"].equals(found.metrics["value"])
    assert alone.results.notes[0].startswith("No cluster is named, so every row counts as independent.")


# ---- scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "variants"),
    [
        ({"scores": "*"}, ["old", "new"]),
        ({"scores": ["n*", "old"]}, ["old", "new"]),
        ({"scores": ["*", "user"]}, ["old", "new", "user"]),
        ({"scores": ["*"], "cluster": None}, ["old", "new", "user"]),
        ({"scores": ["*"], "where": "user < 40 AND new > 0"}, ["old"]),
        ({"scores": ["*"], "label": "old > 0.45", "baseline": "new"}, ["y", "new"]),
        ({"scores": ["*"], "slices": [{"wide": {"of": "new", "edges": [0.5]}}]}, ["old"]),
        ({"scores": ["old"], "variants": [{"name": "other", "column": "new"}]}, ["old", "other"]),
    ],
)
def test_a_glob_takes_numbers_that_play_no_other_part(words: dict[str, Any], variants: list[str]) -> None:
    tree = {**WORDS, "gates": [], "metrics": ["auc"], "output": None, **words}
    found = evaluate(TABLE, **tree)
    assert found.metrics["variant"].unique().to_pylist() == variants


def test_patterns_without_match_are_told_all_at_once() -> None:
    sentence = (
        r"^scores: no column matches 'p_\*'; expected 'old' or 'new'\.\n"
        r"scores: no column matches 'odl'; did you mean 'old'\?$"
    )
    with pytest.raises(SpecError, match=sentence):
        evaluate(TABLE, **{**WORDS, "scores": ["p_*", "odl"]})


# ---- words and settings ----------------------------------------------------------------------------------------------


def test_settings_of_a_spec_and_of_its_data_pass_through(tmp_path: Path) -> None:
    settings = {"seed": 5, "decide": "any", "on_error": "continue", "slice_cap": 1, "weight_max": 8.0}
    found = evaluate(
        TABLE, **WORDS, **settings, budget={"exact_rows": 0}, execution={"micro_batch": 64}, out=tmp_path / "run"
    )
    spec = saved_spec(RunDirectory.open(str(found.path)))
    assert (spec.seed, spec.decide, spec.on_error, spec.execution.micro_batch) == (5, "any", "continue", 64)
    assert (spec.data.slice_cap, spec.data.weight_max, spec.budget.exact_rows) == (1, 8.0, 0)
    assert found.metrics["slice"].unique().to_pylist() == ["overall", "country=US", "country=null", "country=other"]


def test_tasks() -> None:
    tasks = {"click": {"label": "y", "output": {"is": "probability"}}, "rich": {"label": "w > 0.7"}}
    variants = [{"name": "both", "column": {"click": "new", "rich": "old"}}]
    metrics = ["auc", {"metric": "brier", "task": "click"}]
    found = evaluate(TABLE, tasks=tasks, variants=variants, metrics=metrics)
    values = {(row["task"], row["metric"]): row["rows"] for row in found.metrics.to_pylist()}
    assert values == {("click", "auc"): ROWS, ("click", "brier"): ROWS, ("rich", "auc"): ROWS}


OF_CLASSES = TABLE.append_column("p_old", [[[1 - p, p] for p in TABLE["old"].to_pylist()]]).append_column(
    "p_new", [[[1 - p, p] for p in TABLE["new"].to_pylist()]]
)


@pytest.mark.parametrize("classes", ["auto", [0, 1], ["0", "1"]])
def test_classes_and_the_columns_of_lists_that_a_glob_takes(classes: Any) -> None:
    found = evaluate(OF_CLASSES, label="y", classes=classes, scores=["p_*"], output="probability", metrics=["accuracy"])

    values = {row["variant"]: row["value"] for row in found.metrics.to_pylist()}
    assert values == {"p_old": 3 / 6, "p_new": 1.0}


def test_labels_by_their_columns() -> None:
    found = evaluate(
        OF_CLASSES, labels={"no": "y = 0", "yes": "y"}, scores=["p_*"], output="probability", metrics=["micro_recall"]
    )

    assert [row["value"] for row in found.metrics.to_pylist()] == [pytest.approx(4 / 6), 1.0]


def test_two_clusters_a_choice_and_recalibration() -> None:
    table = TABLE.append_column("day", pa.array([row % 60 for row in range(ROWS)]))
    words = {**WORDS, "scores": ["old", "new", "w"], "weight": None, "cluster": ["user", "day"], "gates": ()}

    found = evaluate(table, **words, confirm=0.5, recalibrate="platt")

    assert "recalibrated_log_loss(method=platt)" in found.metrics["metric"].to_pylist()
    assert sorted(one.outcome for one in found.verdicts) == ["not gated", "not selected"]


def test_an_unknown_word_offers_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"^sed: unknown key 'sed'; did you mean 'seed'\?$"):
        evaluate(TABLE, **WORDS, sed=3)
    with pytest.raises(SpecError, match=r"^clases: unknown key 'clases'; did you mean 'classes'\?$"):
        evaluate(TABLE, **WORDS, clases="auto")
    with pytest.raises(SpecError, match=r"^slice_cup: unknown key 'slice_cup'; did you mean 'slice_cap'\?$"):
        evaluate(TABLE, **WORDS, slice_cup=3)


def test_a_spec_made_in_python_is_checked_like_a_file() -> None:
    variant = {"name": "a", "column": "old", "lightgbm": "m.txt"}
    made = Spec.model_validate({"data": {"label": "y"}, "variants": [variant]})
    with pytest.raises(SpecError, match=r"^variants\[0\]: got column and lightgbm; expected exactly one of "):
        run(made, frame=TABLE)


def test_an_unknown_executor_offers_the_nearest() -> None:
    with pytest.raises(RunError, match=r"^There is no executor 'locl'; did you mean 'local'\?$"):
        evaluate(TABLE, **WORDS, executor="locl")


# ---- the object ------------------------------------------------------------------------------------------------------


def test_it_prints(found: Evaluation) -> None:
    assert repr(found) == str(found)
    assert "new: pass. 1 gate passed." in str(found)
    assert "<table" in found._repr_html_()


def test_it_hands_out_frames(found: Evaluation) -> None:
    frame = found.to_pandas("comparisons")
    assert isinstance(frame, pd.DataFrame)
    assert frame.equals(found.comparisons.to_pandas())
    assert len(found.to_pandas()) == found.metrics.num_rows
    with pytest.raises(ValueError, match=r"^There is no table 'metric'; did you mean 'metrics'\?$"):
        found.to_pandas("metric")  # type: ignore[arg-type]  # what is tested


def test_why(found: Evaluation) -> None:
    assert found.why("new").splitlines()[0] == "new: pass."


# ---- places ----------------------------------------------------------------------------------------------------------


def test_a_temporary_run_goes_with_its_result() -> None:
    found = evaluate(TABLE, **WORDS)
    place = found.path
    assert (place / "results" / "metrics.parquet").exists()
    del found
    gc.collect()
    assert not place.exists()


def test_a_temporary_run_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RunError):
        evaluate(TABLE, **WORDS, executor="locl")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_kept(tmp_path: Path) -> None:
    path = saved(pq.write_table, "preds.parquet", tmp_path)
    found = evaluate(path, **WORDS, out=tmp_path / "run")
    assert found.path == tmp_path / "run"
    for again in (open_run(found.path), resume(found.path), evaluate(path, **WORDS, out=tmp_path / "run")):
        assert again.metrics.equals(found.metrics)
        assert (again.outcome, again.verdicts[0].outcome, str(again)) == (found.outcome, "pass", str(found))
    assert [one[:3] for one in list_runs(tmp_path)] == [(str(tmp_path / "run"), "finished", "pass")]
    assert list_runs(tmp_path / "run") == list_runs(tmp_path)


def test_limits_stop_an_evaluation_as_they_stop_a_run(tmp_path: Path) -> None:
    path = saved(pq.write_table, "preds.parquet", tmp_path)
    start = r"^Stopped at the deadline with 0 of \d+ units? committed in "
    with pytest.raises(Unfinished, match=start):
        evaluate(path, **WORDS, out=tmp_path / "late", deadline=0.0)
    with pytest.raises(Unfinished, match=r"^Stopped at --max-cost with 0 of \d+ units? committed in "):
        evaluate(path, **WORDS, out=tmp_path / "dear", prices={"default": 1.0}, max_cost=0.0)
    with pytest.raises(SpecError, match=r"^prices.default: is required for --max-cost: "):
        evaluate(path, **WORDS, out=tmp_path / "priceless", max_cost=1.0)
    found = evaluate(path, **WORDS, out=tmp_path / "late", deadline=3600.0)
    assert found.outcome == evaluate(path, **WORDS).outcome


def test_a_run_over_a_frame_is_not_resumed(tmp_path: Path) -> None:
    evaluate(TABLE, **WORDS, out=tmp_path / "run")
    (tmp_path / "run" / "results" / "verdicts.json").unlink()
    with pytest.raises(RunError, match=r"was over a frame in memory, which is gone\. Start it again with the frame\.$"):
        resume(tmp_path / "run")
    with pytest.raises(RunError, match="already, and one over a frame in memory cannot go on or be compared with it"):
        evaluate(TABLE, **WORDS, out=tmp_path / "run")


def test_a_stopped_run_is_unfinished_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(TABLE, tmp_path / "preds.parquet", row_group_size=60)
    words = {**WORDS, "execution": {"unit_rows": 60}, "workers": 1, "executor": "local"}

    def stop(progress: Progress) -> None:
        if progress.units_done:
            raise Interrupted("Stopped.")

    with pytest.raises(Interrupted):
        evaluate(tmp_path / "preds.parquet", **words, out=tmp_path / "run", report=stop)
    with pytest.raises(Unfinished, match=r" of 4 units committed\. Go on with: assay resume "):
        open_run(tmp_path / "run")
    seen: list[Progress] = []
    found = resume(tmp_path / "run", executor="local", workers=1, report=seen.append)
    assert seen[-1].units_done == 4
    assert found.metrics.equals(evaluate(tmp_path / "preds.parquet", **words).metrics)


def test_what_was_committed_before_is_told_and_that_a_run_was_finished(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "preds.parquet", row_group_size=60)
    words = {**WORDS, "execution": {"unit_rows": 60}, "workers": 1, "out": tmp_path / "run"}

    def stop(progress: Progress) -> None:
        if progress.units_done == 1 and not progress.message:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match=r"^Stopped with (\d) of 4 units committed in ") as stopped:
        evaluate(tmp_path / "preds.parquet", **words, report=stop)
    before = int(str(stopped.value).split()[2])
    seen: list[Progress] = []
    evaluate(tmp_path / "preds.parquet", **words, report=seen.append)
    verb = "is" if before == 1 else "are"
    assert [one.message for one in seen if one.message] == [
        f"Going on: {before} of 4 units {verb} committed already.",
        "Executor: local, since 240 rows and 2 variants are few enough for this process.",
    ]
    counts = [(one.units_done, one.num_units, one.rows_done, one.rows_before) for one in seen]
    assert counts[:2] == [(before, 4, 60 * before, 60 * before)] * 2
    assert counts[-1] == (4, 4, ROWS, 60 * before)

    sentence = f"The run at {tmp_path / 'run'} was finished before: nothing is scored or written again."
    for again in (
        lambda: evaluate(tmp_path / "preds.parquet", **words, report=seen.append),
        lambda: resume(tmp_path / "run", report=seen.append),
    ):
        seen.clear()
        again()
        assert [(one.message, one.units_done, one.num_units) for one in seen] == [(sentence, 4, 4)]


def test_going_on_with_other_versions_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(TABLE, tmp_path / "preds.parquet", row_group_size=60)
    installed = {"numpy": "1.9.0", "duckdb": "1.0"}

    def version(package: str) -> str:
        if package not in installed:
            raise PackageNotFoundError(package)
        return installed[package]

    def stop(progress: Progress) -> None:
        if progress.units_done == 1 and not progress.message:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(assay.pipeline.head, "version", version)
    words = {**WORDS, "execution": {"unit_rows": 60}, "workers": 1, "executor": "local"}
    with pytest.raises(Interrupted):
        evaluate(tmp_path / "preds.parquet", **words, out=tmp_path / "run", report=stop)
    installed = {"numpy": "2.0.0", "pyarrow": "24.0"}  # duckdb is gone, pyarrow is new: neither can be compared

    notes = resume(tmp_path / "run").results.notes
    assert [note for note in notes if note.startswith("This run began with")] == [
        "This run began with numpy 1.9.0 and went on with 2.0.0; last digits may differ between its units."
    ]
    assert open_run(tmp_path / "run").results.notes == notes


def test_rows_that_had_to_be_counted_are_told_in_progress(tmp_path: Path) -> None:
    seen: list[Progress] = []
    evaluate(saved(pyarrow.csv.write_csv, "preds.csv", tmp_path), **WORDS, report=seen.append)
    assert {one.num_rows for one in seen} == {ROWS}


def test_a_spec_file_says_where_its_paths_start(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "preds.parquet")
    text = "{data: {path: preds.parquet, label: y}, variants: [{name: new, column: new}], metrics: [auc]}"
    (tmp_path / "eval.yaml").write_text(text)
    found = run(tmp_path / "eval.yaml")
    assert found.metrics["variant"].to_pylist() == ["new"]
    assert api.plan(tmp_path / "eval.yaml").num_rows == ROWS


# ---- specs in Python -------------------------------------------------------------------------------------------------

SPEC: dict[str, Any] = {
    "data": {"label": "y"},
    "variants": [{"name": "a", "column": "old"}, {"name": "b", "column": "new"}],
    "metrics": ["auc"],
}
WRITTEN: dict[str, Any] = {"data": {}, "variants": [{"name": "a", "column": "old"}], "carry_over": "user"}


def test_a_spec_may_be_a_mapping_an_object_or_a_file(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    tree = {**SPEC, "data": {"label": "y", "path": "rows.parquet"}}
    (tmp_path / "eval.yaml").write_text(spec_to_yaml(build_spec(tree)))
    found = [
        run(tmp_path / "eval.yaml"),
        run(tree, base=tmp_path),
        run(build_spec(tree), base=tmp_path),
        run(SPEC, frame=TABLE),
    ]
    assert {one.metrics["value"].to_pylist()[0] for one in found} == {found[0].metrics["value"][0].as_py()}
    assert len(api.plan(tree, base=tmp_path).plan.units) == len(api.plan(SPEC, frame=TABLE).plan.units) == 1


def test_predictions_of_a_mapping_an_object_or_a_file(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    tree = {**WRITTEN, "data": {"path": "rows.parquet"}}
    asked = build_spec({**tree, "predictions": {}})
    (tmp_path / "predict.yaml").write_text(spec_to_yaml(asked).replace("predictions: {}\n", ""))
    labelled = build_spec(SPEC)
    found = [
        predict(tmp_path / "predict.yaml"),
        predict(tree, base=tmp_path),
        predict(asked, base=tmp_path),
        predict(WRITTEN, frame=TABLE),
        predict(labelled, frame=TABLE),  # which says nothing of predictions
    ]
    written = [one.predictions for one in found]
    assert [one and [name for name, _ in one.columns] for one in written] == [["user", "a"]] * 4 + [["a", "b"]]
    assert [one and one.rows for one in written] == [ROWS] * 5
    assert [one.judged for one in found] == [False] * 4 + [True]


def test_with_a_frame_a_mapping_need_say_nothing_of_data() -> None:
    bare = {name: value for name, value in WRITTEN.items() if name != "data"}
    found = predict(bare, frame=TABLE).predictions
    assert found is not None
    assert (found.rows, found.columns) == (ROWS, (("user", "int64"), ("a", "double")))
    measured = {"variants": bare["variants"], "gates": [{"coverage": 0.5}], "predictions": {}}
    assert run({**measured, "data": None}, frame=TABLE).results.outcome == "pass"
    assert api.plan(measured, frame=TABLE).num_rows == ROWS
    for call in (run, predict, api.plan):
        with pytest.raises(SpecError, match=r"^data: is required, and not given\.$"):
            call(bare if call is predict else measured)


def test_a_plan_of_predictions(tmp_path: Path) -> None:
    found = api.plan(WRITTEN, frame=TABLE, predicting=True)
    assert found.spec.predicts
    with pytest.raises(
        DataError, match=r"^predictions\.compression: parquet has no compression 'zst'; did you mean 'zstd'"
    ):
        api.plan({**WRITTEN, "predictions": {"compression": "zst"}}, frame=TABLE, predicting=True)
    with pytest.raises(SpecError, match=r"^data\.label: is required"):
        api.plan(WRITTEN, frame=TABLE)


@pytest.mark.parametrize("call", [run, predict, api.plan])
def test_what_is_no_spec(call: Callable[..., object], tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        call(TABLE)
    assert str(caught.value) == (
        "got a Table; expected a spec: its file, a mapping with the keys of such a file, or an assay.Spec. Rows in "
        "memory are given as frame=..."
    )
    place = tmp_path / "rows.parquet"
    pq.write_table(TABLE, place)
    with pytest.raises(SpecError, match=rf"^{place} is no spec: a spec is a YAML file"):
        call(place)


def test_a_spec_without_data_says_what_is_missing() -> None:
    sentence = (
        r"^data\.path: is required: the file, folder or glob of the rows, or frame=\.\.\. with the rows themselves\.$"
    )
    for call in (run, predict, api.plan):
        with pytest.raises(SpecError, match=sentence):
            call(SPEC)


def test_where_a_run_may_not_lie(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    with pytest.raises(
        SpecError, match=r"^out: '.*run' is in the data's folder '\.', so that what is written would be read"
    ):
        run({**SPEC, "data": {"label": "y", "path": "."}}, base=tmp_path, out=tmp_path / "run")
    with pytest.raises(SpecError, match=r"^out: '.*run' is in the data's folder '.*', so that"):
        evaluate(tmp_path, **WORDS, out=tmp_path / "run")
