"""What is said while a run goes on, on a terminal and in a log."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from assay.cli import progress as module
from assay.cli.progress import Reporter, Speed
from assay.records import Progress


def told(*reports: Progress, quiet: bool = False) -> list[str]:
    out = StringIO()
    with Reporter(Console(file=out, width=40), quiet) as reporter:
        for report in reports:
            reporter(report)
    return out.getvalue().splitlines()


def at(units: int, rows: int, seconds: float, before: int = 0, num_rows: int | None = 8000) -> Progress:
    return Progress(units, 8, rows, num_rows, 2, seconds, rows_before=before)


def words(*reports: Progress) -> str:
    """The last ones."""
    speed = Speed()
    return [speed.words(report) for report in reports][-1]


def test_the_start_of_the_workers_is_in_no_rate() -> None:
    """Ray and the models take 20 s, and then there are 1,000 rows a second."""
    assert words(at(1, 1000, 21.0, num_rows=40_000), at(7, 22_000, 42.0, num_rows=40_000)) == (
        "1,000 rows/s, 2,000 row-variants/s, about 18 s left"
    )


def test_before_there_is_a_rate_it_is_said_what_is_done() -> None:
    assert words(at(0, 0, 0.0)) == "starting"
    assert words(at(0, 0, 9.0)) == "starting"
    assert words(at(1, 1000, 10.0)) == "scoring"
    assert words(at(1, 1000, 10.0), at(1, 1000, 30.0)) == "scoring"


def test_first_units_that_end_together_are_no_rate() -> None:
    """Four workers began at 0, and took 10 s each for a unit: they will take 10 s for four more."""
    together = [at(1, 1000, 10.0), at(4, 4000, 10.1)]
    assert words(*together) == "scoring"
    assert words(*together, at(6, 6000, 20.0)) == "500 rows/s, 1,000 row-variants/s, about 4 s left"


def test_after_a_long_start_a_rate_is_not_waited_for_as_long_again() -> None:
    """The first unit is done after 20 minutes, and then there is one every ten seconds."""
    start = at(1, 1000, 1200.0)
    assert words(start, at(3, 3000, 1229.9)) == "scoring"
    assert words(start, at(4, 4000, 1230.0)) == "100 rows/s, 200 row-variants/s, about 40 s left"


def test_what_earlier_drivers_did_is_in_no_rate() -> None:
    assert words(at(4, 4000, 2.0, before=4000)) == "starting"
    assert words(at(5, 5000, 2.0, before=4000), at(7, 7000, 4.0, before=4000)) == (
        "1,000 rows/s, 2,000 row-variants/s, about 1 s left"
    )


def test_the_time_left_is_unknown_where_the_number_of_rows_is() -> None:
    assert words(at(1, 1000, 1.0, num_rows=None), at(3, 3000, 3.0, num_rows=None)) == (
        "1,000 rows/s, 2,000 row-variants/s"
    )


def test_a_long_time_left_is_told_in_minutes() -> None:
    assert words(at(1, 10, 1.0), at(2, 20, 3.0)).endswith(", about 27 min left")


def test_at_the_end_it_is_said_how_long_it_took() -> None:
    assert words(at(1, 1000, 4.0), at(8, 8000, 5.0)) == "all scored in 5.0 s"
    assert words(at(1, 1000, 1.0), at(8, 8000, 8.0)) == "1,000 rows/s, 2,000 row-variants/s, all scored in 8.0 s"
    assert words(at(8, 8000, 0.0, before=8000)) == "all scored"


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
        "2/2 units, all scored in 2.0 s",
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
