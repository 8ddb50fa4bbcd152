"""From words to a spec, and the place where its run lies."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.command import assay

from assay.cli.app import app
from assay.cli.words import deadline_seconds, default_place
from assay.errors import RunError, SpecError
from assay.spec.load import build_spec
from assay.spec.model import PricesSpec

SPEC = build_spec({"data": {"path": "x", "label": "y"}, "variants": [{"name": "a", "column": "a"}]})


@pytest.mark.parametrize(
    ("target", "name"),
    [("eval.yaml", "eval"), ("data/preds.parquet", "preds"), ("data/day=*/", "day__"), ("..", ".."), ("**", "__")],
)
def test_the_default_place_is_named_after_the_target(target: str, name: str) -> None:
    assert re.fullmatch(rf"runs/{re.escape(name)}-[0-9a-f]{{8}}", default_place(target, SPEC).as_posix())


def test_another_question_has_another_place() -> None:
    other = SPEC.model_copy(update={"seed": 1})
    assert default_place("x", SPEC) == default_place("x", SPEC) != default_place("x", other)


def test_every_command_has_help() -> None:
    commands = [command.callback.__name__ for command in app.registered_commands if command.callback]
    assert commands == [
        "run",
        "predict",
        "plan",
        "resume",
        "show",
        "gate",
        "compare",
        "ls",
        "verify",
        "replay",
        "why",
        "metrics",
        "schema",
    ]
    for command in commands:
        answer = assay(command, "--help")
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.strip().startswith(f"Usage: assay {command} [OPTIONS]")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "x.yaml", "--executor", "rya"], "--executor: got 'rya'; did you mean 'ray'?"),
        (["resume", "x", "--executor", "none"], "--executor: got 'none'; expected 'auto', 'local' or 'ray'."),
        (["show", "x", "--format", "jsn"], "--format: got 'jsn'; did you mean 'json'?"),
        (["metrics", "--family", "class"], "--family: got 'class'; did you mean 'classes'?"),
    ],
)
def test_a_misspelt_choice_is_offered_the_nearest(words: list[str], said: str) -> None:
    assert assay(*words) == (2, "", f"Error: {said}\n")


def test_choices_are_in_help() -> None:
    said = " ".join(assay("run", "--help").out.split())
    assert "--executor [auto|local|ray]" in said
    assert "[default: auto]" in said
    assert "--format [text|json|markdown|junit]" in " ".join(assay("show", "--help").out.split())


def test_numbers_are_named_plainly_in_help() -> None:
    said = assay("run", "--help").out
    assert "range" not in said
    assert re.search(r"--workers +INTEGER", said)
    assert re.search(r"--max-cost +COST", said)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RunError("There is no run."), 2, "Error: There is no run.\n"),
        (SpecError([]), 2, "Error: \n"),
        (RunError("One [bold].\nTwo."), 2, "Error:\nOne [bold].\nTwo.\n"),
    ],
)
def test_errors_are_sentences(monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, text: str) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("assay.api.open_run", fail)
    assert assay("show", Path("x")) == (code, "", text)


def test_faults_of_ours_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("assay.api.open_run", fail)
    with pytest.raises(ZeroDivisionError):
        assay("show", "x")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """60 rows of one of three classes, right in p_new; of users and days."""
    kinds = ["cat", "dog", "fox"] * 20
    rows = {
        "kind": kinds,
        "tags": [[one] for one in kinds],
        "p_old": [[0.5, 0.3, 0.2]] * 60,
        "p_new": [[float(one == name) for name in ("cat", "dog", "fox")] for one in kinds],
        "user": [number // 2 for number in range(60)],
        "day": [number % 20 for number in range(60)],
    }
    pq.write_table(pa.table(rows), tmp_path / "preds.parquet")
    monkeypatch.chdir(tmp_path)
    return "preds.parquet"


WORDS = ("--scores", "p_*", "--output", "probability", "--quiet", "--json")


@pytest.mark.parametrize("classes", ["auto", "cat, dog,fox"])
def test_a_table_of_classes_and_two_clusters(table: str, classes: str) -> None:
    answer = assay(
        "run", table, "--label", "kind", "--classes", classes, "--cluster", "user", "--cluster", "day", *WORDS
    )

    assert answer.code == 0, answer.err
    rows = json.loads(answer.out)["metrics"]
    assert {row["variant"]: row["value"] for row in rows if row["metric"] == "accuracy"} == {
        "p_old": pytest.approx(1 / 3),
        "p_new": 1.0,
    }


def test_a_table_of_labels(table: str) -> None:
    answer = assay("run", table, "--label", "tags", "--labels", "auto", *WORDS, "--metric", "subset_accuracy")

    assert answer.code == 0, answer.err
    assert [row["value"] for row in json.loads(answer.out)["metrics"]] == [pytest.approx(1 / 3), 1.0]


def test_a_plan_says_clusters_and_that_quiet_has_no_effect(table: str) -> None:
    answer = assay(
        "plan", table, "--label", "kind", "--classes", "auto", "--cluster", "user", "--cluster", "day", *WORDS
    )

    assert json.loads(answer.out)["clusters"] == ["user", "day"]
    assert answer.err == "--quiet has no effect without --sample: nothing is scored.\n"


def test_metrics_of_one_family() -> None:
    listed = json.loads(assay("metrics", "--family", "labels", "--json").out)

    assert {one["family"] for one in listed} == {"labels"}
    assert next(one["parameters"] for one in listed if one["name"] == "macro_f1") == {"threshold": 0.5}


# ---- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2h", 7200.0), ("90m", 5400.0), ("1h30m", 5400.0), ("45s", 45.0), ("0.5h", 1800.0), ("0s", 0)],
)
def test_a_deadline_in_words(text: str, seconds: float) -> None:
    assert deadline_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "2 hours", "30m1h", "-1h"])
def test_what_is_no_deadline(text: str) -> None:
    message = rf"^--deadline: got '{text}'; expected a time such as 2h, 90m, 1h30m or 45s.$"
    with pytest.raises(SpecError, match=message):
        deadline_seconds(text)


def test_prices_are_no_part_of_the_place() -> None:
    priced = SPEC.model_copy(update={"prices": PricesSpec(default=1.2)})
    assert default_place("x", SPEC) == default_place("x", priced)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"on_error": "continue"}, True),
        ({"on_error": {"units": 0.1}}, True),
        ({"execution": {"unit_seconds": 60}}, True),
        ({"workers": {"num_cpus": 2}}, True),
        ({"execution": {"unit_rows": 60}}, False),
    ],
)
def test_what_may_change_when_a_run_goes_on_is_no_part_of_its_place(changes: dict[str, object], same: bool) -> None:
    changed = SPEC.model_validate({**SPEC.model_dump(by_alias=True, exclude_defaults=True), **changes})
    assert (default_place("x", SPEC) == default_place("x", changed)) is same


def test_a_run_that_reached_its_deadline_can_go_on(table: str, tmp_path: Path) -> None:
    words = ["--label", "kind", "--classes", "auto", *WORDS[:4], "--out", str(tmp_path / "run"), "--executor", "local"]
    stopped = assay("run", table, *words, "--deadline", "0s")
    assert stopped.code == 4
    assert f"Go on with: assay resume {tmp_path / 'run'} --deadline TIME" in stopped.err
    again = assay("resume", str(tmp_path / "run"), "--deadline", "2h", "--json")
    assert again.code == 0
    assert {row["kind"] for row in json.loads(again.out)["cost"]} >= {"variant", "start-up"}


def test_a_cost_needs_prices(table: str) -> None:
    found = assay("run", table, "--label", "kind", "--classes", "auto", *WORDS[:4], "--max-cost", "5")
    assert found.code == 2
    assert (
        "prices.default: is required for --max-cost: a worker may come on any machine. See docs/cost.md." in found.err
    )
