"""`assay predict`: words in, files out, and a few lines that say where they are."""

from __future__ import annotations

import json
from pathlib import Path

import deltalake
import duckdb
import pyarrow
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from fakes.command import assay

from assay.api import open_run
from assay.errors import Unfinished

SPEC = """
data: {path: rows.parquet}
variants:
  - {name: a, column: p}
carry_over: [id]
"""
WORD = "The column 'word' of type dictionary<values=string, indices=int8, ordered=0> is written as string."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"id": [1, 2, 3], "p": [0.5, None, 0.25], "y": [0, 1, 1]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    (tmp_path / "predict.yaml").write_text(SPEC)
    return tmp_path


def test_rows_are_written_and_it_says_where(folder: Path) -> None:
    done = assay("predict", "predict.yaml", "--out", "run", "--executor", "local", "-q")
    reading = f"pyarrow.parquet.read_table('{folder}/run/predictions')"
    assert (done.code, done.err) == (0, f"Run: run. Next: assay verify run, then read the rows: {reading}\n")
    said = " ".join(done.out.split())  # lines are as wide as the paths let them
    assert said.startswith(
        f"Predictions: 3 rows in 1 file (parquet) in {folder}/run/predictions Columns: id (int64), a (double) "
        f"Read them with: {reading} Dead letters: rows that a variant has no output for, with the reason, in "
        f"{folder}/run/dead-letter: a: 1 row: it gave no score (null, NaN or infinite). Cost: "
    )
    assert "usable" not in said
    assert "Not gated" not in done.out
    assert pq.read_table("run/predictions").to_pydict() == {"id": [1, 2, 3], "a": [0.5, None, 0.25]}
    assert assay("show", "run").out == done.out
    again = assay("resume", "run")
    assert (again.code, again.out) == (0, done.out)
    assert json.loads(assay("ls", ".", "--json").out)[0]["state"] == "finished"


def test_a_run_that_has_lost_the_list_of_its_files_says_so(folder: Path) -> None:
    assert (
        assay("predict", "predict.yaml", "--set", "data.label=y", "--out", "run", "--executor", "local", "-q").code == 0
    )
    told = assay("show", "run").out
    (folder / "run" / "predictions.json").unlink()
    said = (
        "The run at run has no predictions.json any more, which lists the files of its predictions: nobody can tell "
        "whether all of them are there. Have it written again with: assay resume run"
    )
    for words in ((), ("--json",), ("--format", "markdown")):
        shown = assay("show", "run", *words)
        assert (shown.code, shown.out, shown.err) == (4, "", f"Error: {said}\n")
    found = open_run("run")
    with pytest.raises(Unfinished) as refused:
        _ = found.predictions
    assert str(refused.value) == said
    assert " ".join(str(found).split()).startswith(said)
    assert found.metrics.num_rows > 0
    assert assay("why", "run", "a").code == 0
    assert assay("resume", "run", "--executor", "local", "-q").code == 0
    assert assay("show", "run").out.splitlines()[:2] == told.splitlines()[:2]


def test_as_json(folder: Path) -> None:
    done = assay("predict", "predict.yaml", "--out", "run", "--executor", "local", "--json", "-q")
    assert json.loads(done.out)["predictions"] == {
        "place": str(folder / "run" / "predictions"),
        "format": "parquet",
        "rows": 3,
        "files": 1,
        "columns": [{"name": "id", "type": "int64"}, {"name": "a", "type": "double"}],
        "dead_letters": {
            "place": str(folder / "run" / "dead-letter"),
            "rows": {"a": 1},
            "files": 1,
            "in_all_rows": [],
            "first_reasons": {"a": ["it gave no score (null, NaN or infinite)."]},
        },
        "notes": [],
    }


def test_a_spec_with_a_label_is_measured_too(folder: Path) -> None:
    done = assay("predict", "predict.yaml", "--set", "data.label=y", "--out", "run", "--executor", "local", "-q")
    assert done.code == 0
    assert "auc" in done.out
    assert "Predictions: 3 rows" in done.out


def test_a_gate_without_a_label_is_told(folder: Path) -> None:
    done = assay(
        "predict", "predict.yaml", "--set", "gates=[{coverage: 0.9}]", "--out", "run", "--executor", "local", "-q"
    )
    assert done.code == 1
    assert "a: fail. " in done.out
    assert "The run: fail." in done.out
    assert done.err == "Run: run. Next: assay show run, assay why run VARIANT, assay verify run\n"


def test_where_no_row_passes_nothing_is_to_be_read(folder: Path) -> None:
    where = ["--set", "data.where=id > 100"]
    done = assay("predict", "predict.yaml", *where, "--out", "run", "--executor", "local", "-q")
    assert (done.code, done.err) == (0, "Run: run. Next: assay verify run\n")
    assert "Predictions: no rows, so that there is no file (parquet) in" in " ".join(done.out.split())
    assert "Read them with" not in done.out
    assert "3 of 3 rows read are left out by the filter." in done.out


def test_what_is_said_to_be_written_is_written(folder: Path) -> None:
    done = assay("predict", "predict.yaml", "--out", "run", "--executor", "local")
    assert [line for line in done.err.splitlines() if line.startswith("Writ")] == [
        "Writing the predictions of 1 unit.",
        "Written: 3 rows in 1 file.",
    ]
    none = assay("predict", "predict.yaml", "--set", "data.where=id > 100", "--out", "none", "--executor", "local")
    assert "Written: no file, since there is no row to write: none passes data.where (id > 100).\n" in none.err


def test_why_says_of_a_run_without_gates_what_there_is(folder: Path) -> None:
    label = ["--set", "data.label=y", "--set", "data.where=p > 0"]
    assert assay("predict", "predict.yaml", *label, "--out", "run", "--executor", "local", "-q").code == 0
    told = assay("why", "run", "a").out.splitlines()
    assert told[0] == "a: not gated. No gate was declared."
    assert told[-2:] == ["Its metrics are shown by: assay show run", "Variant 'a' lacks no outputs."]


def test_why_without_a_variant_names_those_there_are(folder: Path) -> None:
    assert assay("predict", "predict.yaml", "--out", "run", "--executor", "local", "-q").code == 0
    assert assay("why", "run") == (2, "", "Error: Of which variant? This run has 'a': assay why run VARIANT\n")


def test_a_gate_of_coverage_alone_is_told_without_the_rule_for_errors(folder: Path) -> None:
    gated = ["--set", "gates=[{coverage: 0.5}]"]
    done = assay("predict", "predict.yaml", *gated, "--out", "run", "--executor", "local", "-q")
    assert "The run: pass." in done.out
    shown = "".join(assay("show", "run", "--format", form).out for form in ("text", "markdown"))
    assert "Holm" not in done.out + shown + assay("why", "run", "a").out


def test_why_a_variant_lacks_outputs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert assay("predict", "predict.yaml", "--out", "run", "--executor", "local", "-q").code == 0
    lines = [
        "Variant 'a' lacks outputs in 1 of 3 rows: it gave no score (null, NaN or infinite).",
        f"These are dead letters, in {folder}/run/dead-letter",
    ]
    monkeypatch.setenv("COLUMNS", "80")  # no path is broken
    assert assay("why", "run", "a").out.splitlines()[-2:] == lines
    assert json.loads(assay("why", "run", "a", "--json").out)["text"].splitlines()[-2:] == lines
    (folder / "run" / "predictions.json").unlink()
    lost = assay("why", "run", "a")
    assert (lost.code, lost.out.splitlines()[0]) == (0, "a: not gated. No gate was declared.")
    assert "The run at run has no predictions.json any more" in " ".join(lost.out.split())


BY_ID = "partitioning=pyarrow.dataset.partitioning(pyarrow.schema([('id', 'int64')]), flavor='hive')"


@pytest.mark.parametrize(
    ("settings", "expression"),
    [
        ("{format: parquet}", "pyarrow.parquet.read_table('{place}')"),
        ("{format: parquet, partition_by: id}", f"pyarrow.dataset.dataset('{{place}}', {BY_ID}).to_table()"),
        ("{format: arrow}", "pyarrow.dataset.dataset('{place}', format='arrow').to_table()"),
        (
            "{format: arrow, partition_by: id}",
            f"pyarrow.dataset.dataset('{{place}}', format='arrow', {BY_ID}).to_table()",
        ),
        ("{format: csv}", "pyarrow.dataset.dataset('{place}', format='csv').to_table()"),
        ("{format: csv, compression: gzip}", "pyarrow.dataset.dataset('{place}', format='csv').to_table()"),
        (
            "{format: jsonl}",
            "duckdb.read_json('{place}/**/part-*', sample_size=-1, hive_partitioning=False).to_arrow_table()",
        ),
        (
            "{format: jsonl, compression: gzip}",
            "duckdb.read_json('{place}/**/part-*', sample_size=-1, hive_partitioning=False).to_arrow_table()",
        ),
        (
            "{format: jsonl, compression: zstd, partition_by: id}",
            "duckdb.read_json('{place}/**/part-*', sample_size=-1, hive_partitioning=True).to_arrow_table()",
        ),
        ("{format: delta}", "deltalake.DeltaTable('{place}').to_pyarrow_table()"),
    ],
)
def test_the_way_to_read_that_is_offered_reads(folder: Path, settings: str, expression: str) -> None:
    words = ["predict", "predict.yaml", "--set", f"predictions={settings}", "--out", "run", "--executor", "local", "-q"]
    done = assay(*words)
    assert done.code == 0
    offered = done.err.strip().partition("read the rows: ")[2]
    assert offered == expression.replace("{place}", str(folder / "run" / "predictions"))
    rows = eval(offered, {"pyarrow": pyarrow, "deltalake": deltalake, "duckdb": duckdb})
    found = {name: rows[name].to_pylist() for name in rows.column_names}
    assert sorted(zip(found["id"], found["a"], strict=True)) == [(1, 0.5), (2, None), (3, 0.25)]


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_partitions_are_offered_with_their_types(folder: Path, format: str) -> None:
    rows = pa.table({"zip": ["01069", None, "10115"], "yes": [True, False, None], "p": [0.5, 0.25, 0.75]})
    pq.write_table(rows, folder / "coded.parquet")
    settings = f"{{format: {format}, partition_by: [zip, yes]}}"
    changes = ["--set", "data.path=coded.parquet", "--set", "carry_over=[zip, yes]", "--set", f"predictions={settings}"]
    done = assay("predict", "predict.yaml", *changes, "--out", "run", "--executor", "local", "-q")
    assert done.code == 0, done.err
    offered = done.err.strip().partition("read the rows: ")[2]
    found = eval(offered, {"pyarrow": pyarrow}).select(["zip", "yes"]).to_pylist()
    assert sorted(found, key=str) == sorted(rows.select(["zip", "yes"]).to_pylist(), key=str)


@pytest.mark.parametrize(
    ("format", "stored", "notes"),
    [
        (
            "delta",
            "id (int32), word (string), a (double)",
            ["The column 'id' of type uint16 is written as int32.", WORD],
        ),
        ("csv", "id (uint16), word (string), a (double)", [WORD]),
        ("jsonl", "id (uint16), word (string), a (double)", [WORD]),
        ("parquet", "id (uint16), word (dictionary<values=string, indices=int8, ordered=0>), a (double)", []),
    ],
)
def test_columns_have_the_types_that_are_written(folder: Path, format: str, stored: str, notes: list[str]) -> None:
    words = pa.array(["x", "y", "x"]).cast(pa.dictionary(pa.int8(), pa.string()))
    rows = pa.table({"id": pa.array([1, 2, 3], pa.uint16()), "word": words, "p": [0.5, 0.125, 0.25]})
    pq.write_table(rows, "rows.parquet")
    sets = ["--set", f"predictions={{format: {format}}}", "--set", "carry_over=[id, word]"]
    done = assay("predict", "predict.yaml", *sets, "--out", "run", "--executor", "local", "-q")
    assert done.code == 0
    shown = " ".join(done.out.split())
    assert f"Columns: {stored} Read".replace(",", "") in shown.replace(",", "")  # in one line or several
    assert json.loads(Path("run/predictions.json").read_text())["notes"] == notes
    assert all(f"Note: {note}" in shown for note in notes)


def test_markdown_says_what_was_written(folder: Path) -> None:
    assert assay("predict", "predict.yaml", "--out", "run", "--executor", "local", "-q").code == 0
    lines = assay("show", "run", "--format", "markdown").out.splitlines()
    assert lines[0] == "## assay: predictions"
    assert lines[3:5] == [
        "- Columns: id (int64), a (double)",
        f"- Read them with: pyarrow.parquet.read\\_table('{escaped(folder)}/run/predictions')",
    ]
    assert lines[8:11] == [
        "| variant | first reasons | rows |",
        "| --- | --- | --: |",
        "| a | it gave no score (null, NaN or infinite). | 1 |",
    ]


def escaped(path: Path) -> str:
    return str(path).replace("_", "\\_")


def test_another_carry_over_is_another_run(folder: Path) -> None:
    words = ["predict", "predict.yaml", "--out", "run", "--executor", "local", "-q"]
    assert assay(*words).code == 0
    done = assay(*words, "--set", "carry_over=all")
    assert done.code == 2
    assert "began with another spec: carry_over changed" in done.err


def test_where_its_runs_are_by_default(folder: Path) -> None:
    done = assay("predict", "predict.yaml", "--executor", "local", "-q")
    assert done.code == 0
    [run] = (folder / "runs").iterdir()
    assert run.name.startswith("predict-")
    assert (run / "predictions.json").exists()


def test_a_plan_of_what_predict_would_do(folder: Path) -> None:
    done = assay("plan", "predict.yaml", "--predict")
    assert done.code == 0
    assert [" ".join(line.split()) for line in done.out.splitlines()] == [
        "data 3 rows in 1 file",
        "units 1 unit",
        "columns read p",
        "task no label: scores are written, not measured",
        "variants a",
        "rows per call a row group",
        "written parquet in predictions/ of the run directory: 2 columns: 1 carried over (id), 1 of variants (a)",
    ]


def test_a_plan_of_a_run_says_how_to_ask_for_that_of_predictions(folder: Path) -> None:
    faults = (
        "Error:\ndata.label: is required: the column, or SQL expression, with the label.\n"
        "carry_over: has no effect without predictions; give that (predictions: {}), or drop this.\n"
        "As a spec of predictions it has no fault: "
    )
    assert assay("plan", "predict.yaml") == (2, "", f"{faults}assay plan --predict predict.yaml\n")
    assert assay("run", "predict.yaml") == (2, "", f"{faults}assay predict predict.yaml\n")
    assert "As a spec of predictions" not in assay("plan", "predict.yaml", "--set", "metrics=[auc]").err


@pytest.mark.parametrize(
    ("words", "option"),
    [(["--label", "y"], "--label"), (["--sample", "1%"], "--sample"), (["--metric", "auc"], "--metric")],
)
def test_what_has_no_effect_beside_predict(folder: Path, words: list[str], option: str) -> None:
    sentence = f"Error: {option}: has no effect beside --predict, which takes a spec; drop one of them.\n"
    assert assay("plan", "predict.yaml", "--predict", *words) == (2, "", sentence)


# ---- something else than a spec --------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["predict", "plan --predict"])
def test_a_table_in_the_place_of_a_spec(folder: Path, command: str) -> None:
    sentence = (
        "Error: rows.parquet is no spec: a spec is a YAML file (.yaml or .yml) that names the data, as in "
        f"data: {{path: rows.parquet}}, and the variants. Write one, then: assay {command} SPEC.yaml. Scores that are "
        "in a table already are measured by: assay run rows.parquet --label COLUMN --scores COLUMN\n"
    )
    assert assay(*command.split(), "rows.parquet") == (2, "", sentence)


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_table_without_what_it_needs(folder: Path, command: str) -> None:
    sentence = (
        "Error: rows.parquet is not a spec (a YAML file, .yaml or .yml), and a table of predictions needs a label and "
        f"scores: assay {command} rows.parquet --label COLUMN --scores COLUMN\n"
    )
    assert assay(command, "rows.parquet") == (2, "", sentence)
    label = "Error: --scores: a table needs it; rows.parquet is no spec (.yaml).\n"
    assert assay(command, "rows.parquet", "--label", "y") == (2, "", label)


@pytest.mark.parametrize(
    ("command", "then"),
    [
        ("predict", " and name it in a spec (data: {path: table.parquet}), then: assay predict SPEC.yaml"),
        ("run", ", then: assay run table.parquet --label COLUMN --scores COLUMN"),
        ("plan", ", then: assay plan table.parquet --label COLUMN --scores COLUMN"),
    ],
)
def test_a_table_of_another_format(folder: Path, command: str, then: str) -> None:
    (folder / "table.xls").write_bytes(bytes(range(256)))
    what = "is neither a spec (a YAML file, .yaml or .yml) nor a table in Parquet or CSV. Save it as one of these"
    assert assay(command, "table.xls") == (2, "", f"Error: table.xls {what}{then}\n")


def test_nothing_of_that_name(folder: Path) -> None:
    near = "did you mean predict.yaml?"
    assert assay("predict", "predict") == (2, "", f"Error: there is no spec file predict; {near}\n")
    assert assay("run", "predict.yml").err == f"Error: there is no spec file predict.yml; {near}\n"
    assert assay("run", "predict").err == f"Error: there is no file or folder predict; {near}\n"
    expected = "expected a spec (a YAML file, .yaml or .yml) or a table."
    assert assay("plan", "zzz").err == f"Error: there is no file or folder zzz; {expected}\n"


# ---- where it may lie ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "predict"])
def test_a_run_among_its_data_is_refused(folder: Path, command: str) -> None:
    (folder / "rows").mkdir()
    (folder / "rows.parquet").rename(folder / "rows" / "a.parquet")
    words = [command, "predict.yaml", "--set", "data={path: rows, label: y}", "--set", "predictions={}"]
    sentence = (
        "Error: out: 'rows/run' is in the data's folder 'rows', so that what is written would be read as data. Name a "
        "folder outside of it.\n"
    )
    assert assay(*words, "--out", "rows/run", "--executor", "local") == (2, "", sentence)
    assert not (folder / "rows" / "run").exists()


def test_a_run_whose_place_is_taken_takes_another(folder: Path) -> None:
    words = ["predict", "predict.yaml", "--executor", "local", "-q"]
    assert assay(*words, "--out", "first", "--set", "predictions={to: scored}").code == 0
    refused = assay(*words, "--out", "second", "--set", "predictions={to: scored}")
    assert refused.code == 2
    assert refused.err.startswith(f"Error: {folder}/scored holds the predictions of another run (")
    done = assay(*words, "--out", "second", "--set", "predictions={to: other}")
    assert (done.code, pq.read_table("other").num_rows) == (0, 3)


def test_a_plan_says_which_columns_are_written(folder: Path) -> None:
    done = assay("plan", "predict.yaml", "--set", "predictions={provenance: true}")
    assert done.code == 0
    assert [" ".join(line.split()) for line in done.out.splitlines() if line.startswith("written")] == [
        "written parquet in predictions/ of the run directory: 4 columns: 1 carried over (id), 2 of provenance (_file, "
        "_row), 1 of variants (a)"
    ]
    assert "task           no label: scores are written, not measured" in done.out
