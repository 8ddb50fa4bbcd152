"""What a user can get wrong, each answered by a whole sentence on stderr and exit code 2; and what only looks wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.command import Answer, assay

ROWS = 80
GOOD: dict[str, Any] = {
    "y": [0, 1] * (ROWS // 2),
    "p_old": [0.2, 0.6] * (ROWS // 2),
    "p_new": [0.1, 0.9] * (ROWS // 2),
    "user": [row // 2 for row in range(ROWS)],
    "country": ["DE", "US", "FR", "US"] * (ROWS // 4),
    "w": [1.0, 2.0] * (ROWS // 2),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str = "preds.parquet", **changes: Any) -> None:
    """The good table with some columns changed; None drops one."""
    columns = {column: values for column, values in {**GOOD, **changes}.items() if values is not None}
    pq.write_table(pa.table(columns), name)


def run(*words: object, data: str = "preds.parquet") -> Answer:
    given = (*words, "--label", "y") if "--label" not in words else words
    return assay("run", data, "--scores", "p_*", "--cluster", "user", "--out", "run", "--quiet", *given)


def refused(answer: Answer) -> str:
    """What stderr says of a mistake."""
    assert (answer.code, answer.out) == (2, "")
    return answer.err


def spec(**changes: Any) -> str:
    """A spec file over the good table; JSON is YAML."""
    tree = {
        "data": {"path": "preds.parquet", "label": "y", "cluster": "user"},
        "output": {"is": "probability"},
        "variants": [{"name": "old", "column": "p_old"}, {"name": "new", "column": "p_new"}],
        "baseline": "old",
        "metrics": ["auc", "log_loss"],
    }
    Path("eval.yaml").write_text(json.dumps({**tree, **changes}))
    return "eval.yaml"


# ---- files -----------------------------------------------------------------------------------------------------------


def test_no_file(folder: Path) -> None:
    write()
    assert refused(run(data="pred.parquet")) == (
        f"Error: There is no file or folder '{folder}/pred.parquet'. Did you mean '{folder}/preds.parquet'?\n"
    )


def test_a_folder_without_data(folder: Path) -> None:
    Path("empty").mkdir()
    assert refused(run(data="empty")) == (
        f"Error: There are no Parquet or CSV files in '{folder}/empty'. Files are known by their ending (.parquet, "
        ".parq, .pq, .csv, .csv.gz, .csv.bz2, .csv.zst); set data.format when they have none of these.\n"
    )


def test_a_glob_without_match(folder: Path) -> None:
    assert refused(run(data="day-*.parquet")) == (
        f"Error: The pattern '{folder}/day-*.parquet' matches no file. Check it with: ls {folder}/day-*.parquet\n"
    )


def test_a_truncated_file(folder: Path) -> None:
    write()
    Path("preds.parquet").write_bytes(Path("preds.parquet").read_bytes()[:1000])
    assert refused(run()) == (
        f"Error: The file '{folder}/preds.parquet' (1000 bytes) is not a complete Parquet file: it does not end with a "
        "footer. It may be truncated or of another format; write it again or leave it out.\n"
    )


def test_a_file_truncated_in_the_middle_of_its_footer_is_no_traceback() -> None:
    write()
    whole = Path("preds.parquet").read_bytes()
    Path("preds.parquet").write_bytes(whole[:200] + whole[-8:])
    command = [sys.executable, "-m", "assay", "run", "preds.parquet", "--label", "y", "--scores", "p_*"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("Error: The file ")
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("name", ["preds.parquet", "preds.csv"])
def test_no_rows(folder: Path, name: str) -> None:
    if name == "preds.csv":
        Path(name).write_text("y,p_old,p_new,user\n")
        end = f"1 CSV file(s) under '{folder}', only headers."
    else:
        pq.write_table(pa.table(GOOD).slice(0, 0), name)
        end = f"1 Parquet file(s) under '{folder}', all empty."
    cure = "Name data with rows in data.path; for these there is nothing to score."
    assert refused(run(data=name)) == f"Error: The data have no rows: {end} {cure}\n"


# ---- labels ----------------------------------------------------------------------------------------------------------


def test_the_label_is_missing() -> None:
    write(y=None, yes=[0, 1] * (ROWS // 2))
    assert refused(run("--label", "yas")) == (
        "Error: data.label: there is no column 'yas' in the data; did you mean 'yes'?\n"
    )


def test_the_label_is_of_a_wrong_type() -> None:
    write(y=["no", "yes"] * (ROWS // 2))
    assert refused(run()) == (
        "Error: data.label: 'y' is of type string, but a label is a number or true/false. An SQL expression can "
        "make it one: \"y = 'yes'\". Where it is one of several classes, say `classes: auto`.\n"
    )


def test_the_label_is_not_0_or_1_by_the_footer() -> None:
    write(y=[0, 2] * (ROWS // 2))
    assert refused(run()) == (
        "Error: The label 'y' goes from 0 to 2, but auc takes 0 and 1 only. Write a condition as the label, such as "
        '"y > 0", or ask for metrics of a real label (rmse, mae).\n'
    )


def test_the_label_is_not_0_or_1_by_its_rows() -> None:
    write(y=[0, 1] * 20 + [0, 0.5] + [0, 1] * 19)
    assert refused(run()) == (
        "Error: data.label: 'y' is 0.5 in row 41 of 'preds.parquet', but the metrics of this label take 0 and 1 only. "
        'Write a condition as the label, such as "y > 0".\n'
    )


def test_labels_that_the_filter_leaves_out_may_be_anything() -> None:
    write(y=[-1] + [1, 0] * 39 + [1])
    assert run("--where", "y >= 0").code == 0


@pytest.mark.parametrize("label", ["y", "y + 0"])
def test_every_label_is_null(label: str) -> None:
    write(y=pa.array([None] * ROWS, pa.int64()))
    expected = {
        "y": "0 of 80 rows usable: the label 'y' is null in all of them.",
        "y + 0": "0 of 80 rows usable for the label 'y + 0': 0 dropped by a filter, 80 with a null label, 0 with a "
        "null weight, 0 with weight 0. Nothing can be said of any variant; check the label, the weight and `where`.",
    }
    assert refused(run("--label", label)) == f"Error: {expected[label]}\n"


def test_the_filter_leaves_nothing() -> None:
    write()
    assert refused(run("--where", "user < 0")) == (
        "Error: 0 of 80 rows usable for the label 'y': 80 dropped by a filter, 0 with a null label, 0 with a null "
        "weight, 0 with weight 0. Nothing can be said of any variant; check the label, the weight and `where`.\n"
    )


def test_every_weight_is_0() -> None:
    write(w=[0.0] * ROWS)
    assert refused(run("--weight", "w")) == (
        "Error: 0 of 80 rows usable for the label 'y': 0 dropped by a filter, 0 with a null label, 0 with a null "
        "weight, 80 with weight 0. Nothing can be said of any variant; check the label, the weight and `where`.\n"
    )


# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"metrics": ["aucc"]}, "metrics[0]: There is no metric 'aucc'; did you mean 'auc'?"),
        (
            {"metrics": ["f1(treshold=0.3)"]},
            "metrics[0]: The metric 'f1' has no parameter 'treshold'; did you mean 'threshold'?",
        ),
        ({"metrcs": ["auc"]}, "metrcs: unknown key 'metrcs'; did you mean 'metrics'?"),
        ({"baseline": "odl"}, "baseline: there is no variant 'odl'; did you mean 'old'?"),
        (
            {"variants": [{"name": "old", "column": "p_old"}, {"name": "old", "column": "p_new"}]},
            "variants[1].name: the name 'old' is taken by variants[0]; give another.",
        ),
        (
            {"variants": [{"name": "old", "column": "p_odl"}]},
            "Variant 'old': the model wants column 'p_odl', which the data do not have; did you mean 'p_old'?",
        ),
        (
            {"variants": [{"name": "old", "column": "country"}]},
            "Variant 'old': column 'country' is of type string; a score must be a number.",
        ),
        (
            {"gates": [{"metric": "brier", "margin": 0.1}]},
            "gates[0].metric: 'brier' is not among the metrics of the spec; expected 'auc' or 'log_loss'.",
        ),
        (
            {"output": {}},
            "variants[0].output: log_loss needs a probability, but the spec does not say what the output of 'old' is; "
            "say output: {is: probability} or {is: logit}.\n"
            "variants[1].output: log_loss needs a probability, but the spec does not say what the output of 'new' is; "
            "say output: {is: probability} or {is: logit}.",
        ),
    ],
)
def test_names_of_a_spec(changes: dict[str, Any], sentence: str) -> None:
    write()
    lead = "Error:\n" if "\n" in sentence else "Error: "
    assert refused(assay("run", spec(**changes), "--out", "run")) == f"{lead}{sentence}\n"


@pytest.mark.parametrize(
    ("role", "sentence"),
    [
        ({"cluster": "usr"}, "data.cluster: there is no column 'usr' in the data; did you mean 'user'?"),
        ({"weight": "country"}, "data.weight: 'country' is of type string, but a weight is a number, 0 or more."),
        ({"where": "w"}, "data.where is of type double. Write a condition: true or false for each row."),
        ({"time": "yy"}, "data.time: there is no column 'yy'; did you mean 'y'?"),
        (
            {"slices": ["contry"]},
            "data.slices (contry): there is no column 'contry' in the data; did you mean 'country'?",
        ),
    ],
)
def test_columns_in_their_roles(role: dict[str, Any], sentence: str) -> None:
    write()
    data = {"path": "preds.parquet", "label": "y", **role}
    assert refused(assay("run", spec(data=data), "--out", "run")) == f"Error: {sentence}\n"


def test_all_faults_at_once() -> None:
    write(y=["no", "yes"] * (ROWS // 2))
    data = {
        "path": "preds.parquet",
        "label": "y",
        "cluster": "usr",
        "where": "w +",
        "time": "day",
        "slices": ["contry"],
    }
    wrong = spec(
        data=data,
        metrics=["aucc", "f2"],
        variants=[{"name": "old", "column": "p_odl"}, {"name": "new", "column": "country"}],
    )
    lines = refused(assay("run", wrong)).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "Error",
        "metrics[0]",
        "metrics[1]",
        "data.where",
        "data.cluster",
        "data.slices (contry)",
        "data.time",
        "Variant 'old'",
        "Variant 'new'",
    ]


def test_no_score_column_matches() -> None:
    write()
    assert refused(assay("run", "preds.parquet", "--label", "y", "--scores", "q_*", "--scores", "p_old")) == (
        "Error: scores: no column matches 'q_*'; expected 'p_old', 'p_new', 'user' or 'w'.\n"
    )


def test_a_score_column_that_is_not_there() -> None:
    write()
    assert refused(assay("run", "preds.parquet", "--label", "y", "--scores", "p_odl")) == (
        "Error: scores: no column matches 'p_odl'; did you mean 'p_old'?\n"
    )


def test_a_glob_that_matches_only_what_it_may_not_take() -> None:
    write()
    assert refused(assay("run", "preds.parquet", "--label", "y", "--scores", "[yc]*")) == (
        "Error: scores: '[yc]*' matches 'y' or 'country' alone, which is no number or plays another part; name a "
        "column outright to take it all the same.\n"
    )


def test_a_model_that_wants_a_column_that_is_not_there() -> None:
    write()
    Path("rules.py").write_text("def score(age):\n    return age\n")
    variants = [
        {"name": "old", "column": "p_old"},
        {"name": "rule", "callable": "rules:score", "inputs": {"age": "agee"}},
    ]
    assert refused(assay("run", spec(variants=variants))) == (
        "Error: Variant 'rule': the model wants column 'agee', which the data do not have; expected 'y', 'p_old', "
        "'p_new', 'user', 'country' or 'w'.\n"
    )


# ---- values ----------------------------------------------------------------------------------------------------------


def test_a_score_outside_0_and_1_names_variant_value_file_and_row() -> None:
    write(p_new=[0.1, 0.9] * 20 + [0.1, 1.5] + [0.1, 0.9] * 19)
    answer = run("--output", "probability", "--where", "user > 0")
    assert refused(answer) == (
        "Error: Variant 'p_new': the score 1.5 in row 39 of the batch is outside [0, 1], but the output is a "
        "probability; if it is none, say output: {is: logit} or {is: score}. "
        "In the data that is row 41 of preds.parquet.\n"
    )


@pytest.mark.parametrize(("value", "shown"), [(-1.0, "-1"), (float("nan"), "nan"), (float("inf"), "inf")])
def test_a_weight_that_is_none(value: float, shown: str) -> None:
    write(w=[1.0] * 41 + [value] + [1.0] * 38)
    assert refused(run("--weight", "w")) == (
        f"Error: data.weight: 'w' is {shown} in row 41 of 'preds.parquet'. Weights are finite numbers, 0 or more.\n"
    )


# ---- no errors, but shown and counted --------------------------------------------------------------------------------


def results(answer: Answer) -> dict[str, Any]:
    assert (answer.code, answer.err.splitlines()[:-1]) == (0, [])
    found: dict[str, Any] = json.loads(answer.out)
    return found


def values(found: dict[str, Any], variant: str = "p_new") -> dict[str, tuple[float | None, str | None]]:
    rows = [row for row in found["metrics"] if row["variant"] == variant and row["slice"] == "overall"]
    return {row["metric"]: (row["value"], row["undefined"]) for row in rows}


def test_a_single_class_leaves_log_loss_defined() -> None:
    write(y=[1] * ROWS)
    found = values(results(run("--output", "probability", "--metric", "auc", "--metric", "log_loss", "--json")))
    assert found["auc"] == (None, "one class")
    assert found["log_loss"][0] == pytest.approx((0.10536051565782628 + 2.3025850929940455) / 2, abs=1e-6)


def test_null_labels_and_scores_are_counted() -> None:
    write(y=[None, None] + [0, 1] * 39, p_new=[0.1, 0.9] * 39 + [0.1, None])
    found = results(run("--metric", "count", "--json"))
    [row] = [row for row in found["coverage"] if row["variant"] == "p_new"]
    assert (row["rows_read"], row["null_label"], row["null_score"], row["scored"]) == (80, 2, 1, 77)
    shown = assay("show", "run").out
    assert "2 of 80 rows read have no label." in shown
    assert "of 78 usable rows 1 scores are missing" in shown or "1 score is missing" in shown


def test_empty_slices_are_no_rows() -> None:
    write(y=[None if country == "FR" else y for y, country in zip(GOOD["y"], GOOD["country"], strict=True)])
    found = results(run("--metric", "mean_score", "--slice", "country", "--json"))
    rows = {row["slice"]: row for row in found["metrics"] if row["variant"] == "p_new"}
    assert (rows["country=FR"]["value"], rows["country=FR"]["rows"]) == (None, 0)
    assert (rows["country=null"]["undefined"], rows["country=other"]["undefined"]) == ("no rows", "no rows")
    assert rows["country=DE"]["value"] == pytest.approx(0.1)


def test_one_row() -> None:
    pq.write_table(pa.table({"y": [1], "p_old": [0.5], "p_new": [0.25], "user": [1]}), "preds.parquet")
    found = results(run("--output", "probability", "--metric", "log_loss", "--metric", "auc", "--json"))
    assert values(found)["log_loss"] == (pytest.approx(1.3862943611), "too few clusters")
    assert values(found)["auc"] == (None, "one class")


# ---- places ----------------------------------------------------------------------------------------------------------


def _file(name: str) -> None:
    Path(name).write_text("x")


@pytest.mark.parametrize(
    ("words", "before", "sentence"),
    [
        (("run", "eval.yaml"), lambda: Path("eval.yaml").unlink(), "there is no spec file eval.yaml; check the path."),
        (
            ("run", "folder.yaml"),
            lambda: Path("folder.yaml").mkdir(),
            "the spec file folder.yaml cannot be read: [Errno 21] Is a directory: 'folder.yaml'.",
        ),
        (
            ("run", "preds.yaml"),
            lambda: Path("preds.yaml").write_bytes(b"PAR1\xd4\xff"),
            "the spec file preds.yaml cannot be read: 'utf-8' codec can't decode byte 0xd4 in position 4: invalid "
            "continuation byte.",
        ),
        (
            ("run", "eval.yaml", "--out", "taken"),
            lambda: _file("taken"),
            "The folder taken for the run cannot be made: File exists.",
        ),
        (
            ("run", "eval.yaml", "--out", "taken/run"),
            lambda: _file("taken"),
            "The folder taken/run for the run cannot be made: Not a directory.",
        ),
        (
            ("show", "nowhere"),
            lambda: None,
            "There is no run at nowhere: no such folder. `assay ls` lists the runs of a folder.",
        ),
        (
            ("show", "empty"),
            lambda: Path("empty").mkdir(),
            "There is no run at empty: it has no spec.yaml. `assay ls` lists the runs of a folder.",
        ),
        (
            ("verify", "preds.parquet"),
            lambda: None,
            "There is no run at preds.parquet: no such folder. `assay ls` lists the runs of a folder.",
        ),
        (("ls", "nowhere"), lambda: None, "There is no folder 'nowhere'."),
        (
            ("run", "eval.yaml", "--set", "seed"),
            lambda: None,
            "got --set 'seed'; expected a path and a value, as in data.path=new/.",
        ),
        (
            ("run", "eval.yaml", "--metric", "auc"),
            lambda: None,
            "--metric: the spec says this; change it with --set PATH=VALUE.",
        ),
        (
            ("run", "eval.yaml", "--executor", "local", "--address", "head:6379"),
            lambda: None,
            "The executor 'local' uses this process alone, but got the address 'head:6379'; drop one of them.",
        ),
    ],
)
def test_places_and_words(words: tuple[str, ...], before: Callable[[], None], sentence: str) -> None:
    write()
    spec()
    before()
    assert refused(assay(*words)) == f"Error: {sentence}\n"


def test_a_table_needs_its_words() -> None:
    write()
    assert refused(assay("run", "preds.parquet")) == (
        "Error: preds.parquet is not a spec (a YAML file, .yaml or .yml), and a table of predictions needs a label and "
        "scores: assay run preds.parquet --label COLUMN --scores COLUMN\n"
    )


@pytest.mark.parametrize("words", [("run",), ("bogus",), ("show", "--bogus")])
def test_usage(words: tuple[str, ...]) -> None:
    answer = assay(*words)
    assert answer.code == 2
    assert answer.err.startswith("Usage: assay ")


def test_an_executor_that_there_is_not() -> None:
    said = "Error: --executor: got 'dask'; expected 'auto', 'local' or 'ray'.\n"
    assert assay("run", "x", "--executor", "dask") == (2, "", said)
