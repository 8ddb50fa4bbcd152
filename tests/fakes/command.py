"""The command line in this process: what a shell would see of it."""

from __future__ import annotations

import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple
from unittest.mock import patch

from assay.cli.app import main


class Answer(NamedTuple):
    code: int
    out: str
    err: str


def assay(*words: object) -> Answer:
    """`assay WORDS`; an exception that is no exit goes through, as a traceback would."""
    out, err = StringIO(), StringIO()
    with patch.object(sys, "argv", ["assay", *map(str, words)]), redirect_stdout(out), redirect_stderr(err):
        code = _exit_code()
    return Answer(code, out.getvalue(), err.getvalue())


def _exit_code() -> int:
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0
