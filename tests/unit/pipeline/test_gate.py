"""A finished run judged by other gates: the same verdicts as a run with these gates, the same faults as a spec."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fakes.sweep import WORDS, sweep

from assay import plan
from assay.api import evaluate, list_runs, open_run, resume
from assay.errors import RunError, SpecError
from assay.evaluation import Evaluation
from assay.ledgers import TaskLedger, VariantLedger
from assay.metrics.table import SINGLE
from assay.pipeline import shards
from assay.pipeline.gate import read_gates
from assay.pipeline.verify import verify

VERSION = plan.PLAN_VERSION

OTHER = [{"metric": "auc", "improve": 0.02}, {"metric": "log_loss", "slices": "country", "harm": True}]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    return evaluate(sweep(), **WORDS, out=tmp_path_factory.mktemp("gate") / "run")


def test_it_judges_as_a_run_with_these_gates_does(made: Evaluation) -> None:
    stored = (made.path / "results" / "verdicts.json").read_bytes()

    again = made.gate(OTHER)

    judged = evaluate(sweep(), **{**WORDS, "gates": OTHER})
    assert (again.outcome, repr(again.verdicts)) == (judged.outcome, repr(judged.verdicts))
    assert again.verdicts != made.verdicts
    assert again.metrics.equals(made.metrics)
    assert (made.path / "results" / "verdicts.json").read_bytes() == stored


def test_decide(made: Evaluation) -> None:
    hard = [{"metric": "log_loss", "improve": 0.04}]  # the candidates gain 0.016, 0.058, 0.079 and 0.075

    assert {one.outcome for one in made.gate(hard).verdicts} >= {"fail", "pass"}
    assert made.gate(hard).outcome == "fail"
    assert made.gate({"gates": hard, "decide": "any"}).outcome == "pass"


@pytest.mark.parametrize(
    ("gates", "sentence"),
    [
        (
            [{"metric": "log_los", "margin": 0.1}],
            "gates[0].metric: 'log_los' is not among the metrics of the spec; did you mean 'log_loss'?",
        ),
        (
            [{"metric": "auc", "harm": True, "slices": "contry"}],
            "gates[0].slices: 'contry' is no dimension of data.slices; did you mean 'country'?",
        ),
        (
            [{"metric": "auc", "task": "click", "min": 0.1}],
            "gates[0].task: there is no task 'click'; expected 'main'.",
        ),
        ({"gate": []}, "gate: unknown key 'gate'; did you mean 'gates'?"),
        ([], "gates: got []; expected a list of one or more gates, as in a spec."),
        ({"decide": "any"}, "gates: got None; expected a list of one or more gates, as in a spec."),
        ("auc", "gates: got 'auc'; expected a list of one or more gates, as in a spec."),
    ],
)
def test_faults(made: Evaluation, gates: object, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        made.gate(gates)
    assert str(caught.value) == sentence


def test_states_that_are_not_what_commits_say_are_not_judged(tmp_path: Path) -> None:
    found = evaluate(sweep(), **WORDS, out=tmp_path / "run")
    (state,) = (found.path / "states").iterdir()
    state.write_bytes(state.read_bytes()[:-9])

    with pytest.raises(RunError) as caught:
        found.gate(OTHER)
    assert str(caught.value) == (
        f"1 of the 1 state files of the run at {found.path} are missing or altered, {state.stem} for one: it cannot be "
        f"judged. `assay verify {found.path}` says what is wrong."
    )


def test_the_chosen_are_judged_again_and_nobody_else(tmp_path: Path) -> None:
    found = evaluate(sweep(), **WORDS, confirm={"metric": "auc", "keep": 2}, out=tmp_path / "run")

    again = open_run(tmp_path / "run").gate(OTHER)

    chosen = [one.variant for one in found.verdicts if one.outcome != "not selected"]
    assert len(chosen) == 2
    assert [one.variant for one in again.verdicts if one.gates] == chosen


def test_a_temporary_run_stays_as_long_as_what_was_made_of_it() -> None:
    again = evaluate(sweep(), **WORDS).gate(OTHER).gate(WORDS["gates"])

    assert again.compare("new0", "new1").num_rows == 2 * 5


def test_a_file_of_gates(tmp_path: Path) -> None:
    file = tmp_path / "gates.yaml"
    file.write_text(json.dumps({"gates": OTHER, "decide": "${WHO:-any}"}))

    assert read_gates(file, {}) == {"gates": OTHER, "decide": "any"}
    file.write_text("- {metric: auc, min: ${LEAST}}")
    with pytest.raises(SpecError, match=r"Quote a value with \$\{...\} inside braces|is not set"):
        read_gates(file, {})
    with pytest.raises(SpecError, match=r"^the gates file .*absent.yaml cannot be read: No such file or directory.$"):
        read_gates(tmp_path / "absent.yaml", {})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the gates file {file} is empty; expected a list of gates, as in a spec."),
        (b"# none\n", "the gates file {file} is empty; expected a list of gates, as in a spec."),
        (b"\xff\xfe", "the gates file {file} is no text in UTF-8; expected YAML."),
        (
            b"{[",
            "{file}: the text is not YAML on line 1, column 3: expected the node content, but found '<stream end>'.",
        ),
    ],
)
def test_a_file_that_is_no_list_of_gates(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "gates.yaml"
    file.write_bytes(content)

    with pytest.raises(SpecError) as caught:
        read_gates(file, {})
    assert str(caught.value) == sentence.format(file=file)


def test_a_gate_has_the_metric_of_its_tasks_family(tmp_path: Path) -> None:
    """`accuracy` at 0.5 is of a single score, and of classes a metric without parameters."""
    table = sweep(1)
    other = 1.0 - np.asarray(table["old"])
    table = table.append_column("of_two", [[pair.tolist() for pair in np.stack([other, table["old"]], axis=1)]])
    found = evaluate(
        table,
        tasks={
            "click": {"label": "y", "output": {"is": "probability"}},
            "kind": {"label": "y", "classes": [0, 1], "output": {"is": "probability"}},
        },
        variants=[
            {"name": "old", "column": {"click": "old", "kind": "of_two"}},
            {"name": "new", "column": {"click": "new0", "kind": "of_two"}},
        ],
        baseline="old",
        cluster="user",
        metrics=["accuracy", {"metric": "recall(class=1)", "task": "kind"}],
        out=tmp_path / "run",
    )

    again = found.gate(
        [
            {"metric": "accuracy(threshold=0.50)", "task": "click", "margin": 1.0},
            {"metric": "recall(class='1')", "task": "kind", "margin": 1.0},
        ]
    )

    assert [gate.metric for gate in again.verdicts[0].gates] == ["accuracy", "recall(class=1)"]
    assert again.outcome == "pass"


def test_states_of_another_version_are_not_read(made: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the run had been written with another form of the ledger: its rows would all seem to have failed."""
    monkeypatch.setattr(VariantLedger, "identity", "variant_ledger.v99")
    monkeypatch.setattr(shards, "LEDGERS", {TaskLedger.identity, VariantLedger.identity})

    for again in (lambda: made.gate(OTHER), lambda: made.compare("new0", "new1"), lambda: verify(str(made.path))):
        with pytest.raises(RunError) as caught:
            again()
        assert str(caught.value) == (
            f"The run at {made.path} holds states of 'variant_ledger.v2', which this assay does not read: it was "
            "written by another version. Go on with the assay that wrote it, or start a new run."
        )


def test_a_run_of_metrics_that_there_are_not_is_shown_and_not_judged(
    made: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(SINGLE, "auc")

    found = open_run(made.path)

    assert found.metrics.equals(made.metrics)
    assert "auc" in str(found)
    assert [one.state for one in list_runs(made.path)] == ["finished"]
    with pytest.raises(RunError) as caught:
        found.gate(OTHER)
    assert str(caught.value).startswith(
        f"The run at {made.path} was begun by another version of assay, or with a package of metrics that is not "
        "installed here. There is no metric 'auc'"
    )


@pytest.mark.parametrize("act", [open_run, resume], ids=["open", "resume"])
def test_a_run_of_another_format_says_so_though_its_log_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], Evaluation]
) -> None:
    path = evaluate(sweep(1), **WORDS, out=tmp_path / "run").path
    (path / "results" / "verdicts.json").unlink()
    (path / "commits" / "000001.json").write_text('{"of": "another version"}')
    monkeypatch.setattr(plan, "PLAN_VERSION", 99)

    with pytest.raises(RunError) as caught:
        act(path)
    assert str(caught.value) == (
        f"The run's plan has version {VERSION}, but this assay reads 99. Continue with the assay that wrote it, or "
        "start a new run."
    )
