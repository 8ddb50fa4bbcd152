"""What is said while a run goes on, on a terminal and in a log."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from assay.cli import progress as module
from assay.cli.progress import Reporter, rates
from assay.records import Progress


def told(*reports: Progress, quiet: bool = False) -> list[str]:
    out = StringIO()
    with Reporter(Console(file=out, width=40), quiet) as reporter:
        for report in reports:
            reporter(report)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (Progress(0, 4, 0, 4000, 2, 0.0), "starting"),
        (Progress(2, 4, 2000, 4000, 2, 2.0), "1,000 rows/s, 2,000 row-variants/s, about 2 s left"),
        (Progress(2, 4, 2000, None, 2, 2.0), "1,000 rows/s, 2,000 row-variants/s"),
        (Progress(2, 4, 3000, 4000, 2, 2.0, rows_before=1000), "1,000 rows/s, 2,000 row-variants/s, about 1 s left"),
        (Progress(2, 4, 1000, 4000, 2, 2.0, rows_before=1000), "starting"),
    ],
)
def test_rates(progress: Progress, words: str) -> None:
    assert rates(progress) == words


def test_a_log_gets_the_first_line_the_last_and_one_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([0.0, 1.0, 11.0, 12.0, 13.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(moments))
    lines = told(*(Progress(done, 5, done * 10, 50, 1, float(done)) for done in range(1, 6)))
    assert [line.partition(" ")[0] for line in lines] == ["1/5", "3/5", "5/5"]


def test_messages_are_lines_of_their_own_and_not_broken() -> None:
    message = "Worker w1 was lost (its process died); its units are scored again. [see the log]"
    assert told(Progress(0, 2, 0, 20, 1, 0.0, message=message))[0] == message


def test_that_all_units_are_done_is_told_once() -> None:
    done = Progress(2, 2, 20, 20, 1, 2.0)
    written = Progress(2, 2, 20, 20, 1, 2.0, message="Written: 1 of 2 units.")
    assert told(done, written, written) == [
        "2/2 units, 10 rows/s, 10 row-variants/s, about 0 s left",
        "Written: 1 of 2 units.",
        "Written: 1 of 2 units.",
    ]


def test_where_nothing_was_scored_there_is_the_message_alone() -> None:
    message = "The run at run was finished before: nothing is scored or written again."
    assert told(Progress(2, 2, 20, 20, 1, 0.0, rows_before=20, message=message)) == [message]


def test_quiet_says_nothing() -> None:
    assert told(Progress(1, 1, 10, 10, 1, 1.0, message="lost"), quiet=True) == []


def test_a_terminal_gets_a_bar_that_goes_away() -> None:
    out = StringIO()
    with Reporter(Console(file=out, width=80, force_terminal=True)) as reporter:
        reporter(Progress(1, 2, 10, 20, 1, 1.0))
    assert "1/2" in out.getvalue()
    assert "1/2 units," not in out.getvalue()
