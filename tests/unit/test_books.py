"""Where units are, and how many."""

from __future__ import annotations

import pytest

from assay.books import Books, audit
from assay.errors import RunError
from assay.records import CommittedFile, Receipt, Unit


def units(*rows: int | None) -> tuple[Unit, ...]:
    return tuple(Unit(f"u{index}", "day.parquet", 0, num, 0) for index, num in enumerate(rows))


def file(*of: Receipt) -> CommittedFile:
    return CommittedFile("file", of)


def test_units_are_taken_in_the_order_of_the_plan_also_when_they_come_back() -> None:
    books = Books(units(10, 10, 10), (), ())
    assert [books.take(), books.take()] == [0, 1]
    books.give_back(0)
    assert [books.take(), books.take(), books.take()] == [0, 2, None]


def test_what_is_committed_or_given_up_is_not_queued() -> None:
    books = Books(units(10, 20, 40), [file(Receipt("u0", 11, ""))], ["u2"])
    assert (books.num_queued, books.rows_queued(), books.num_left, books.num_done) == (1, 20, 1, 2)
    assert books.take() == 1


def test_rows_are_counted_as_they_were_read_and_once() -> None:
    books = Books(units(10, 20), (), ())
    assert (books.take(), books.take()) == (0, 1)
    first, second = Receipt("u0", 9, ""), Receipt("u1", 19, "")
    books.accept(0, first)
    books.accept(1, second)
    assert (books.rows_done, books.num_done, books.num_left) == (28, 2, 2)
    books.commit([first])
    books.release(1, second)
    assert (books.rows_done, books.num_done, books.num_left) == (9, 1, 1)


def test_the_first_of_the_queue_can_be_looked_at() -> None:
    books = Books(units(*[10] * 50), (), ["u3"])
    assert books.first(5) == [0, 1, 2, 4, 5]
    taken = [books.take() for _ in range(20)]
    before = books.num_queue_changes
    for position in (7, 2, 11):
        books.give_back(position)
    assert books.num_queue_changes == before + 3
    assert books.first(5) == [2, 7, 11, 21, 22]
    assert books.first(99) == [2, 7, 11, *range(21, 50)]
    assert books.first(0) == []
    assert taken[:4] == [0, 1, 2, 4]  # looking changed nothing


def test_nothing_is_first_in_an_empty_queue() -> None:
    assert Books([], (), ()).first(3) == []


def test_rows_that_the_plan_does_not_know_are_taken_to_be_the_mean_of_those_read() -> None:
    books = Books(units(None, None, None, 7), (), ())
    assert (books.rows(0), books.rows(3)) == (0.0, 7)
    books.take()
    books.accept(0, Receipt("u0", 40, ""))
    assert books.rows(1) == 40.0


def test_rows_queued_are_estimated_where_the_plan_knows_none() -> None:
    books = Books(units(None, None, None), (), ())
    books.take()
    books.accept(0, Receipt("u0", 40, ""))
    assert books.rows_queued() == 80.0


def test_the_books_pass_their_own_audit_once_all_is_committed() -> None:
    books = Books(units(10, 10), (), ["u1"])
    with pytest.raises(RunError, match=r"^The commit log does not agree with the plan: unit u0 is missing\.$"):
        books.audit()
    books.take()
    books.commit([Receipt("u0", 10, "")])
    books.audit()


def test_an_audit_names_what_is_missing_twice_or_foreign() -> None:
    sentence = (
        "The commit log does not agree with the plan: unit u1 is there 2 times; unit u9 is not in the plan; "
        "unit u2 is missing."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        audit(["u1", "u2"], ["u1", "u9"], ["u1"])


def test_an_audit_passes_when_each_unit_is_committed_or_given_up() -> None:
    audit(["u1", "u2"], ["u2"], ["u1"])
