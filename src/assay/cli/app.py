"""The command line: which commands there are, and how each of them ends. What they do is in `runs.py`, `answers.py`
and `lists.py`; no arithmetic here.

Exit codes: 0 pass or not gated, 1 a gate failed, 2 a usage, spec or data error, 3 undecided, 4 not finished
or stopped by Ctrl-C, --deadline or --max-cost.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from assay.cli.answers import compare, gate, replay, show, verify, why
from assay.cli.lists import ls, metrics, schema
from assay.cli.output import say
from assay.cli.runs import plan, predict, resume, run
from assay.errors import AssayError, Interrupted

COMMANDS = (run, predict, plan, resume, show, gate, compare, ls, verify, replay, why, metrics, schema)

OUTPUT_CLOSED = 141
"""What a command ends with whose output nobody reads on (`| head -1`), as the shell says it: it is no verdict."""


class _Commands(TyperGroup):
    """Ctrl-C ends any command with a sentence, and a closed pipe with a code of its own; not as typer ends them."""

    def invoke(self, ctx: Any) -> Any:  # Any: click's context, which some versions of typer bring along
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # so that Python's own flush at exit succeeds
            raise typer.Exit(OUTPUT_CLOSED) from None
        except KeyboardInterrupt:
            raise Interrupted("Stopped before the command came to its end.") from None


app = typer.Typer(
    name="assay",
    cls=_Commands,
    help="Evaluate many variants of a model in one pass, and say which of them may ship, and why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in COMMANDS:
    app.command()(command)


def main() -> None:
    """The entry point. A user's mistake ends with a sentence and an exit code, never with a traceback."""
    try:
        app(prog_name="assay")
    except AssayError as error:
        say(f"Error: {error}" if "\n" not in str(error) else f"Error:\n{error}")
        sys.exit(error.exit_code)
