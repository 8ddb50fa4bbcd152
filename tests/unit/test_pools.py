"""Which memory pool Arrow takes by default, and that it comes back."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from assay.pools import CHOSEN_BY_USER, memory_kept

BACKENDS = pa.supported_memory_backends()
with_jemalloc = pytest.mark.skipif("jemalloc" not in BACKENDS, reason="this pyarrow was built without jemalloc")


def backend() -> str:
    return str(pa.default_memory_pool().backend_name)


@with_jemalloc
def test_inside_memory_is_kept_and_afterwards_all_is_as_before() -> None:
    before = backend()
    with memory_kept():
        assert backend() == "jemalloc"
        rows = pa.array(range(1000))
    assert backend() == before != "jemalloc"
    assert rows.to_pylist() == list(range(1000))  # made there, and still whole


@with_jemalloc
def test_the_last_one_to_leave_puts_the_first_pool_back() -> None:
    before, inside, leave = backend(), threading.Event(), threading.Event()

    def other() -> None:
        with memory_kept():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with memory_kept():
        thread.start()
        assert inside.wait(60)
    assert backend() == "jemalloc"
    leave.set()
    thread.join(60)
    assert backend() == before


@with_jemalloc
def test_an_error_inside_changes_nothing_of_that() -> None:
    before = backend()
    with pytest.raises(ZeroDivisionError), memory_kept():
        raise ZeroDivisionError
    assert backend() == before


def test_a_pool_that_the_user_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = backend()
    monkeypatch.setenv(CHOSEN_BY_USER, before)
    with memory_kept():
        assert backend() == before
