"""The commands from a spec or a table to tables, JSON and exit codes; each through `main`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.command import Answer, assay

from assay import api
from assay.cli import answers
from assay.ledgers import VariantLedger
from assay.states import decode, digest, encode
from assay.store.entries import encode as encode_entry
from assay.store.entries import entry_path, read_entries
from assay.store.run import RunDirectory

SRC = Path(__file__).parent.parent.parent / "src"
ROWS = 600
TREE: dict[str, Any] = {
    "data": {"path": "preds.parquet", "label": "y", "cluster": "user", "slices": ["country"]},
    "output": {"is": "probability"},
    "variants": [{"name": "old", "column": "p_old"}, {"name": "new", "column": "p_new"}],
    "baseline": "old",
    "metrics": ["auc", "log_loss"],
    "gates": [{"metric": "log_loss", "margin": 0.5}],
    "execution": {"unit_rows": 100, "micro_batch": 50},
}


def write(folder: Path) -> None:
    """`new` is better than `old`, which is better than `bad`; 60 users."""
    chance = np.random.default_rng(0)
    y = (chance.random(ROWS) < 0.4).astype(int)
    scores = {
        name: np.clip(chance.normal(0.4 + lift * (y - 0.4), 0.15), 0.01, 0.99)
        for name, lift in (("p_old", 0.2), ("p_new", 0.4), ("p_bad", 0.0))
    }
    columns = {"y": y, **scores, "user": np.arange(ROWS) // 10, "country": ["DE", "US"] * (ROWS // 2)}
    pq.write_table(pa.table(columns), folder / "preds.parquet", row_group_size=100)
    (folder / "eval.yaml").write_text(json.dumps(TREE))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a spec and its finished run at `run`."""
    folder = tmp_path_factory.mktemp("cli") / "work"
    folder.mkdir()
    write(folder)
    api.run(folder / "eval.yaml", out=folder / "run")
    shutil.copytree(folder, folder.with_name("as made"))
    return folder


@pytest.fixture(autouse=True)
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`made`, as it was made, in which the test runs: a run knows where its spec lies."""
    shutil.rmtree(made)
    shutil.copytree(made.with_name("as made"), made)
    monkeypatch.chdir(made)
    return made


def table(name: str, run: str = "run") -> bytes:
    return Path(run, "results", name).read_bytes()


def unfinish(run: str = "run") -> None:
    """As if the driver had died before its first commit."""
    shutil.rmtree(Path(run, "results"))
    shutil.rmtree(Path(run, "states"))
    for entry in Path(run, "commits").iterdir():
        if entry.name != "000001.json":
            entry.unlink()


def parsed(answer: Answer) -> Any:
    return json.loads(answer.out)


# ---- run -------------------------------------------------------------------------------------------------------------


def test_a_spec_gives_the_table_on_stdout_and_progress_on_stderr() -> None:
    answer = assay("run", "eval.yaml", "--out", "fresh", "--workers", "2")
    assert answer.code == 0
    assert "new: pass. 1 gate passed." in answer.out
    first, *progress, last = answer.err.splitlines()
    assert first == "Executor: local, since 600 rows and 2 variants are few enough for this process."
    assert progress[0] == "0/6 units, starting"
    assert progress[-1].startswith("6/6 units, ")
    assert last == "Run: fresh. Next: assay show fresh, assay why fresh VARIANT, assay verify fresh"
    assert table("metrics.parquet", "fresh") == table("metrics.parquet")


def test_words_for_a_table() -> None:
    words = ("--label", "y", "--scores", "*", "--baseline", "p_old", "--cluster", "user", "--slice", "country")
    answer = assay("run", "preds.parquet", *words, "--metric", "auc", "--out", "fresh", "--quiet", "--json")
    found = parsed(answer)
    assert answer.code == 0
    assert found["outcome"] == "not gated"
    assert {row["variant"] for row in found["metrics"]} == {"p_old", "p_new", "p_bad"}  # not y, not user
    assert {row["slice"] for row in found["metrics"]} >= {"overall", "country=DE", "country=US"}


def test_the_default_place_follows_from_the_question() -> None:
    words = ("run", "preds.parquet", "--label", "y", "--scores", "p_*", "--metric", "auc", "--quiet")
    places = [assay(*words, *more).err for more in ((), (), ("--where", "user > 3"))]
    assert places[0] == places[1] != places[2]
    assert places[0].startswith("Run: runs/preds-")


def test_a_finished_run_gives_its_answer_again() -> None:
    shown, again = assay("show", "run"), assay("run", "eval.yaml", "--out", "run")
    assert (again.code, again.out) == (0, shown.out)
    assert again.err.splitlines() == [
        "The run at run was finished before: nothing is scored or written again.",
        "Run: run. Next: assay show run, assay why run VARIANT, assay verify run",
    ]


def test_results_that_are_gone_are_computed_from_the_states() -> None:
    before = table("comparisons.parquet")
    shutil.rmtree("run/results")
    answer = assay("run", "eval.yaml", "--out", "run")
    assert (answer.code, "units" in answer.err) == (0, False)
    assert table("comparisons.parquet") == before
    Path("run/results/curves.parquet").unlink()
    assert assay("resume", "run").code == 0
    assert Path("run/results/curves.parquet").exists()


def test_an_unfinished_run_goes_on() -> None:
    before = table("metrics.parquet")
    unfinish()
    answer = assay("run", "eval.yaml", "--out", "run", "--workers", "1")
    assert (answer.code, table("metrics.parquet")) == (0, before)
    assert "6/6 units" in answer.err


@pytest.mark.parametrize(
    ("words", "change", "what"),
    [
        (("--set", "seed=1"), None, "is of something else: clusters, seed changed since it began."),
        (
            ("--set", "metrics=[auc]", "--set", "gates=[]"),
            None,
            "is of something else: metrics, tasks changed since it began.",
        ),
        ((), "data", "is of something else: data changed since it began."),
        (("--set", "variants[1].column=p_bad"), None, "is of something else: model new changed since it began."),
        (("--set", "gates[0].margin=0.4"), None, "began with another spec: gates changed."),
    ],
)
def test_what_changed_is_told(words: tuple[str, ...], change: str | None, what: str) -> None:
    if change == "data":
        pq.write_table(pq.read_table("preds.parquet"), "preds.parquet", row_group_size=300)
    answer = assay("run", "eval.yaml", "--out", "run", *words)
    advice = "Choose another directory for a new run, or undo the change to go on with this one."
    assert (answer.code, answer.err) == (2, f"Error: The run at run {what} {advice}\n")


@pytest.mark.parametrize(
    ("gates", "decide", "code"),
    [
        ([{"metric": "log_loss", "margin": 0.05}], "all", 1),  # new passes, bad fails
        ([{"metric": "log_loss", "margin": 0.05}], "any", 0),
        ([{"metric": "auc", "min": 0.99}], "any", 1),
        ([{"metric": "auc", "harm": True, "slices": "country"}], "any", 0),
        ([{"metric": "mean_score", "max": 0.401}], "all", 3),
        ([], "all", 0),
    ],
)
def test_exit_codes_follow_the_verdicts(gates: list[dict[str, Any]], decide: str, code: int) -> None:
    variants = [*TREE["variants"], {"name": "bad", "column": "p_bad"}]
    tree = {**TREE, "variants": variants, "metrics": ["auc", "log_loss", "mean_score"], "gates": gates}
    Path("eval.yaml").write_text(json.dumps({**tree, "decide": decide}))
    answer = assay("run", "eval.yaml", "--out", "fresh", "--quiet")
    assert answer.code == code
    assert assay("show", "fresh").code == code


def test_values_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("eval.yaml").write_text(json.dumps({**TREE, "data": {**TREE["data"], "path": "${DAY}.parquet"}}))
    answer = assay("run", "eval.yaml", "--out", "fresh")
    assert (answer.code, answer.err) == (
        2,
        "Error: data.path: the environment variable 'DAY' is not set; set it, or write ${DAY:-default}.\n",
    )
    monkeypatch.setenv("DAY", "preds")
    assert assay("run", "eval.yaml", "--out", "fresh").code == 0


def test_a_gate_may_name_its_metric_in_full() -> None:
    gates = json.dumps([{"metric": "precision(threshold=0.50)", "min": 0.1}])
    words = ("--set", "metrics=[precision]", "--set", f"gates={gates}")
    assert assay("run", "eval.yaml", "--out", "fresh", *words).code == 0
    assert assay("verify", "fresh").code == 0


# ---- reading commands ------------------------------------------------------------------------------------------------


def test_plan_scores_nothing() -> None:
    answer = assay("plan", "eval.yaml", "--workers", "3")
    lines = {line.split("  ")[0]: line for line in answer.out.splitlines()}
    assert answer.code == 0
    assert lines["data"].split() == ["data", "600", "rows", "in", "1", "file"]
    assert "6 units" in lines["units"]
    assert "country (4 slices)" in lines["slices"]
    assert "3 workers" in lines["states"]
    assert lines["gates"].split(maxsplit=1)[1].rstrip() == "log_loss not worse by more than 0.5"
    assert not Path("runs").exists()


def test_resume() -> None:
    before = table("verdicts.json")
    unfinish()
    answer = assay("resume", "run")
    assert (answer.code, table("verdicts.json")) == (0, before)
    assert answer.err.splitlines()[-1] == "Run: run. Next: assay show run, assay why run VARIANT, assay verify run"


def test_an_unfinished_run_shows_how_far_it_came() -> None:
    unfinish()
    sentence = "Error: The run at run is not finished: 0 of 6 units committed. Go on with: assay resume run\n"
    for words in (("show", "run"), ("why", "run", "new"), ("show", "run", "--json")):
        answer = assay(*words)
        assert (answer.code, answer.out, answer.err) == (4, "", sentence)
    assert parsed(assay("ls", ".", "--json")) == [
        {
            "path": "run",
            "state": "unfinished",
            "outcome": "",
            "units_done": 0,
            "num_units": 6,
            "num_variants": 2,
            "baseline": "old",
        }
    ]


def test_the_audit_of_an_unfinished_run_says_how_far_it_came() -> None:
    unfinish()

    answer = assay("verify", "run")

    assert answer.code == 4
    assert "0 of 6 units committed, each once, so far." in answer.out
    assert answer.err == "Error: The run at run is not finished. Go on with: assay resume run\n"


@pytest.mark.parametrize("words", [("resume", "run"), ("run", "eval.yaml", "--out", "run")])
def test_a_run_whose_driver_died_before_the_last_entry_is_ended(words: tuple[str, ...]) -> None:
    last = max(Path("run/commits").iterdir())
    assert json.loads(last.read_text())["kind"] == "finish"
    last.unlink()
    before = table("verdicts.json")
    assert assay("verify", "run").code == 4

    assert assay(*words, "--quiet").code == 0

    assert (assay("verify", "run").code, table("verdicts.json")) == (0, before)


def test_results_that_are_missing_are_told() -> None:
    Path("run/results/verdicts.json").unlink()
    answer = assay("show", "run")
    assert (answer.code, answer.err) == (
        4,
        "Error: The run at run is not finished: the results are missing. Go on with: assay resume run\n",
    )


def test_ls_goes_on_past_a_run_that_cannot_be_read() -> None:
    shutil.copytree("run", "torn")
    Path("torn/plan.parquet").write_bytes(b"?")
    answer = assay("ls", ".")
    assert (answer.code, [line.split()[:2] for line in answer.out.splitlines()]) == (
        0,
        [["run", "state"], ["run", "finished"], ["torn", "unreadable"]],
    )


def test_ls_of_a_folder_without_runs() -> None:
    Path("empty").mkdir()
    assert assay("ls", "empty") == (0, "There are no runs in empty.\n", "")


def test_why_explains_and_offers_the_nearest() -> None:
    answer = assay("why", "run", "new")
    assert (answer.code, answer.out.splitlines()[0]) == (0, "new: pass.")
    answer = assay("why", "run", "nwe")
    assert (answer.code, answer.err) == (2, "Error: There is no variant 'nwe' in this run; did you mean 'new'?\n")


def test_show_in_every_form() -> None:
    markdown, junit = (assay("show", "run", "--format", form) for form in ("markdown", "junit"))
    assert (markdown.code, markdown.out.splitlines()[0]) == (0, "## assay: pass")
    assert (junit.code, junit.out.splitlines()[0]) == (0, "<?xml version='1.0' encoding='utf-8'?>")
    assert assay("show", "run", "--format", "json") == assay("show", "run", "--json")
    assert assay("show", "run", "--format", "text") == assay("show", "run")


def test_a_run_writes_its_answer_to_files() -> None:
    answer = assay("run", "eval.yaml", "--out", "run", "--junit", "gates.xml", "--markdown", "answer.md")
    assert answer.code == 0
    assert Path("gates.xml").read_text() == assay("show", "run", "--format", "junit").out
    assert Path("answer.md").read_text() == assay("show", "run", "--format", "markdown").out
    answer = assay("run", "eval.yaml", "--out", "run", "--junit", "absent/gates.xml")
    sentences = [
        "The run at run was finished before: nothing is scored or written again.",
        "Error: absent/gates.xml cannot be written: No such file or directory. The run itself is finished.",
    ]
    assert (answer.code, answer.err.splitlines()) == (2, sentences)


def test_gate_judges_again_and_leaves_the_run_as_it_is() -> None:
    Path("gates.yaml").write_text("- {metric: log_loss, improve: 0.3}")
    stored = table("verdicts.json")
    answer = assay("gate", "run", "--gates", "gates.yaml")
    assert (answer.code, answer.out.splitlines()[0][:5]) == (1, "new: ")
    assert answer.err == "Judged by gates.yaml. The verdicts that are stored in run stay as they are.\n"
    assert table("verdicts.json") == stored
    content = parsed(assay("gate", "run", "--gates", "gates.yaml", "--json"))
    assert (content["outcome"], content["verdicts"][0]["gates"][0]["limit"]) == ("fail", 0.3)


def test_a_gate_on_a_misspelt_metric_is_refused() -> None:
    Path("gates.yaml").write_text("gates: [{metric: log_los, margin: 0.3}]")
    answer = assay("gate", "run", "--gates", "gates.yaml")
    sentence = "gates[0].metric: 'log_los' is not among the metrics of the spec; did you mean 'log_loss'?"
    assert (answer.code, answer.out, answer.err) == (2, "", f"Error: {sentence}\n")


def test_compare() -> None:
    answer = assay("compare", "run", "new", "old", "--metric", "auc", "--slice", "overall")
    head, columns, row, *_ = answer.out.splitlines()
    assert (answer.code, head) == (0, "new against old")
    assert columns.split() == ["metric", "rows", "new", "old", "difference", "p"]
    assert row.split()[:2] == ["auc", "600"]
    content = parsed(assay("compare", "run", "new", "old", "--metric", "auc", "--slice", "overall", "--json"))
    (found,) = content["comparisons"]
    assert (content["variant"], content["other"], found["metric"], found["slice"]) == ("new", "old", "auc", "overall")
    assert found["difference"] == pytest.approx(found["value"] - found["other_value"])


def test_a_plan_with_a_sample_says_what_can_be_detected() -> None:
    answer = assay("plan", "eval.yaml", "--sample", "100%", "--workers", "1", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Differences from the baseline that all data detect, over all rows\n")
    content = parsed(assay("plan", "eval.yaml", "--sample", "1.0", "--workers", "1", "--quiet", "--json"))
    assert (content["share"], [one["metric"] for one in content["metrics"]]) == (1.0, ["auc", "log_loss"])
    for text in ("0", "one", "1%%", "200%"):
        answer = assay("plan", "eval.yaml", "--sample", text)
        sentence = f"--sample: got {text!r}; expected a share above 0 and up to 1, such as 1% or 0.01."
        assert (answer.code, answer.err) == (2, f"Error: {sentence}\n")


def test_verify() -> None:
    answer = assay("verify", "run")
    assert (answer.code, answer.out.splitlines()[-1]) == (0, "All checks passed.")


def test_replay_tells_what_happened() -> None:
    answer = assay("replay", "run")
    first, *_, end, proof = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "")
    assert first.startswith("       0.0 s  Driver ")
    assert end.endswith("All units are done.")
    assert proof.endswith(" events give the orders that were carried out.")
    told = parsed(assay("replay", "run", "--json"))
    assert told["same"]
    assert told["drivers"][0]["lines"][0]["text"] in first


def tamper_with_a_state() -> None:
    state = next(Path("run/states").iterdir())
    data = bytearray(state.read_bytes())
    data[len(data) // 2] ^= 1
    state.write_bytes(bytes(data))


def test_verify_finds_a_lost_row() -> None:
    """A state in which a usable row has no fate under a variant, committed under its true digest."""
    entry = next(entry for entry in read_entries(RunDirectory.open("run")) if entry.files)
    first, *others = entry.files
    tally = decode(Path(f"run/states/{first.file}.arrow").read_bytes())
    ledger = next(key for key in tally.states if key.accumulator == VariantLedger.identity)
    tally.states[ledger]["scored"][0] -= 1
    altered = replace(first, file=digest(tally))
    Path(f"run/states/{altered.file}.arrow").write_bytes(encode(tally))
    Path("run", entry_path(entry.number)).write_bytes(encode_entry(replace(entry, files=(altered, *others))))

    checks = {one["name"]: one for one in parsed(assay("verify", "run", "--json"))["checks"]}
    assert checks["states"]["passed"]
    assert checks["coverage"]["detail"] == f"Usable rows lost or counted twice: {ledger.variant} for main."


def alter_a_result() -> None:
    place = "run/results/metrics.parquet"
    found = pq.read_table(place)
    values = found["value"].to_pylist()
    altered = pa.array([0.5, *values[1:]], pa.float64())
    pq.write_table(found.set_column(found.column_names.index("value"), "value", altered), place)


def lose_what_a_commit_lists() -> None:
    for entry in read_entries(RunDirectory.open("run")):
        Path("run", entry_path(entry.number)).write_bytes(encode_entry(replace(entry, files=())))


@pytest.mark.parametrize(
    ("damage", "check", "sentence"),
    [
        (tamper_with_a_state, "states", " missing or altered: "),
        (lambda: next(Path("run/states").iterdir()).unlink(), "states", " missing or altered: "),
        (alter_a_result, "results", "Computed again from the states, these differ: metrics."),
        (
            lambda: Path("run/results/metrics.parquet").write_bytes(b"PAR1"),
            "results",
            "results/metrics.parquet of the run at run cannot be read: ",
        ),
        (
            lambda: Path("run/results/verdicts.json").write_text("{"),
            "results",
            "results/verdicts.json of the run at run cannot be read: ",
        ),
        (
            lambda: Path("run/commits/000001.json").unlink(),
            "log",
            "commits/000001.json is missing from the run at run, ",
        ),
        (
            lambda: Path("run/commits/000002.json").write_text("{"),
            "log",
            "commits/000002.json in the run at run is torn ",
        ),
        (lose_what_a_commit_lists, "units", "6 units missing, 0 counted twice, 0 not in the plan."),
    ],
)
def test_verify_finds_damage(damage: Any, check: str, sentence: str) -> None:
    damage()
    shown, answer = assay("verify", "run"), assay("verify", "run", "--json")
    [failed] = [one for one in parsed(answer)["checks"] if not one["passed"]]
    assert (answer.code, parsed(answer)["passed"], failed["name"]) == (1, False, check)
    assert sentence in failed["detail"]
    assert (shown.code, "1 of " in shown.out.splitlines()[-1]) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "eval.yaml", "--out", "fresh"),
        ("run", "eval.yaml", "--out", "run"),
        ("plan", "eval.yaml"),
        ("show", "run"),
        ("ls", "."),
        ("why", "run", "new"),
        ("why", "run", "old"),
        ("verify", "run"),
        ("metrics",),
    ],
)
def test_json_is_json(words: tuple[str, ...]) -> None:
    answer = assay(*words, "--json")
    assert answer.code == 0

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    json.loads(answer.out, parse_constant=refuse)


def test_schema_is_the_schema_of_the_spec() -> None:
    found = parsed(assay("schema"))
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert {"data", "variants", "baseline", "gates"} <= found["properties"].keys()


def test_metrics_are_listed_with_what_they_need() -> None:
    found = {(one["family"], one["name"]): one for one in parsed(assay("metrics", "--json"))}
    assert found["single", "log_loss"]["needs_probability"] is True
    assert found["classes", "log_loss"]["label"] == "class"
    directions = [found["single", name]["direction"] for name in ("auc", "calibration_ratio")]
    assert directions == ["higher", 1.0]


def test_ctrl_c_before_the_first_unit_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "prepare", interrupted)
    assert assay("run", "eval.yaml", "--out", "fresh") == (
        4,
        "",
        "Error: Stopped. What is committed in fresh is kept, and the same command goes on.\n",
    )


@pytest.mark.parametrize(
    ("words", "step"),
    [
        (["plan", "eval.yaml"], (api, "plan")),
        (["show", "run"], (api, "open_run")),
        (["verify", "run"], (answers, "audit")),
    ],
)
def test_ctrl_c_in_any_other_command_is_no_failed_gate(
    monkeypatch: pytest.MonkeyPatch, words: list[str], step: tuple[ModuleType, str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(*step, interrupted)
    assert assay(*words) == (4, "", "Error: Stopped before the command came to its end.\n")


def test_a_real_process_keeps_stdout_for_the_answer() -> None:
    command = [sys.executable, "-m", "assay", "run", "eval.yaml", "--out", "fresh", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (answer.returncode, json.loads(answer.stdout)["outcome"]) == (0, "pass")
    assert "6/6 units" in answer.stderr


LOUD = """
def scores(p):
    print("scoring", len(p))
    return p

def leaves(p):
    raise SystemExit(3)
"""


def test_what_a_model_prints_does_not_get_into_the_answer() -> None:
    Path("loud.py").write_text(LOUD)
    variants = [{"name": "old", "callable": "loud:scores", "inputs": {"p": "p_old"}}]
    Path("loud.yaml").write_text(json.dumps({**TREE, "variants": variants, "gates": []}))

    answer = assay("run", "loud.yaml", "--out", "loud", "--json", "--executor", "local")

    assert parsed(answer)["outcome"] == "not gated"
    assert "scoring 50" in answer.err


def test_nor_does_what_its_package_prints_into_the_plan() -> None:
    Path("louder").mkdir()
    Path("louder/__init__.py").write_text('print("imported")')
    Path("louder/model.py").write_text("def f(p): return p")
    variants = [{"name": "old", "callable": "louder.model:f", "inputs": {"p": "p_old"}}]
    Path("louder.yaml").write_text(json.dumps({**TREE, "variants": variants, "gates": []}))

    answer = assay("plan", "louder.yaml", "--json")

    assert parsed(answer)["baseline"] == "old"
    assert "imported" in answer.err


def test_a_model_that_ends_the_process_fails_by_name() -> None:
    Path("loud.py").write_text(LOUD)
    variants = [{"name": "old", "callable": "loud:leaves", "inputs": {"p": "p_old"}}]
    Path("loud.yaml").write_text(json.dumps({**TREE, "variants": variants, "gates": []}))

    answer = assay("run", "loud.yaml", "--out", "loud", "--quiet", "--executor", "local")

    assert answer.code == 2
    assert answer.err.startswith(
        "Error: Variant 'old': function 'loud:leaves' failed with SystemExit: 3 (loud.py, line 7). It was given "
    )


def test_a_reader_that_has_enough_is_no_verdict() -> None:
    command = [sys.executable, "-m", "assay", "metrics"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
        assert (process.wait(60), told) == (141, b"")
