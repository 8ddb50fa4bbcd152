"""From words to a spec, and the place where its run lies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakes.command import assay

from assay.cli.app import app, default_place
from assay.errors import RunError, SpecError
from assay.spec.load import build_spec

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
    assert commands == ["run", "plan", "resume", "show", "ls", "verify", "why", "metrics", "schema"]
    for command in commands:
        answer = assay(command, "--help")
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.strip().startswith(f"Usage: assay {command} [OPTIONS]")


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

    monkeypatch.setattr("assay.cli.app.api.open_run", fail)
    assert assay("show", Path("x")) == (code, "", text)


def test_faults_of_ours_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("assay.cli.app.api.open_run", fail)
    with pytest.raises(ZeroDivisionError):
        assay("show", "x")
