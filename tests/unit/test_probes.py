"""Why a run is silent: threads that really hang, a disk that is really asked, a server that is not there."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes import hanging

from assay.gauge import Pulse
from assay.probes import (
    NO_ANSWER,
    Answer,
    Call,
    Free,
    Whereabouts,
    _disk,
    full_words,
    scoring_words,
    stack_of,
    storage_words,
    where_words,
    within,
)
from assay.records import Reading

WAIT = 120.0
"""Seconds after which a thread that should have answered has not."""
PLACE = Path(hanging.__file__).name


@contextmanager
def hangs(function: Callable[..., None], *arguments: object, until: str) -> Iterator[tuple[Call, ...]]:
    """The stack of a thread once its innermost frame, of what Python sees, is in a function of this name."""
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    stack: tuple[Call, ...] = ()
    for _ in range(1_000_000):
        stack = stack_of(thread.ident)
        if stack and stack[-1].function == until:
            break
        os.sched_yield()
    assert stack, "it does not hang"
    assert stack[-1].function == until
    yield stack
    thread.join(WAIT)
    assert not thread.is_alive(), "it was not let go"


def line(function: Callable[..., None], offset: int = 1) -> int:
    return function.__code__.co_firstlineno + offset


def test_a_function_of_the_users_that_reads_from_a_pipe() -> None:
    end, other = os.pipe()
    with hangs(hanging.reads_a_pipe, end, until="reads_a_pipe") as stack:
        number = line(hanging.reads_a_pipe)
        assert where_words(stack) == f"It is in {PLACE}, line {number}, in `reads_a_pipe`: os.read(end, 1)."
        os.write(other, b"x")
    os.close(other)
    os.close(end)


def test_a_model_server_that_does_not_answer() -> None:
    """It takes the connection, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with hangs(hanging.asks_a_server, port, until="readinto") as stack:
            assert where_words(stack) == (
                f"It waits for a network answer (urllib.urlopen, called from {PLACE}, line "
                f"{line(hanging.asks_a_server)}, in `asks_a_server`): a model server may be slow or down."
            )
            answering, _ = server.accept()
            answering.recv(65536)
            answering.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")
            answering.close()


def test_a_socket_of_the_users_own() -> None:
    here, there = socket.socketpair()
    with hangs(hanging.listens_to, here, until="listens_to") as stack:
        assert where_words(stack) == (
            f"It waits for a network answer ({PLACE}, line {line(hanging.listens_to)}, in `listens_to`): a model "
            "server may be slow or down."
        )
        there.sendall(b"x")
    here.close()
    there.close()


def test_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    with hangs(hanging.waits_for_a_lock, lock, until="waits_for_a_lock") as stack:
        number = line(hanging.waits_for_a_lock)
        assert where_words(stack) == f"It waits for another thread ({PLACE}, line {number}, in `waits_for_a_lock`)."
        lock.release()


def test_an_event_of_another_thread() -> None:
    event = threading.Event()
    with hangs(hanging.waits_for_an_event, event, until="wait") as stack:
        assert where_words(stack) == (
            f"It waits for another thread (threading.wait, called from {PLACE}, line "
            f"{line(hanging.waits_for_an_event)}, in `waits_for_an_event`)."
        )
        event.set()


# ---- stacks as they may be -------------------------------------------------------------------------------------------

ASSAY = Call("assay.models.function", "/site-packages/assay/models/function.py", 80, "score", "made = call(rows)")
USER = Call("scorers", "/home/me/scorers.py", 12, "predict", "return model(rows)")


def library(module: str, function: str) -> Call:
    return Call(module, f"/lib/site-packages/{module.replace('.', '/')}.py", 7, function, "")


def test_a_client_that_waits_in_a_thread_of_its_own_still_waits_for_the_network() -> None:
    stack = (ASSAY, USER, library("grpc._channel", "unary"), library("threading", "wait"))
    assert where_words(stack) == (
        "It waits for a network answer (grpc.unary, called from scorers.py, line 12, in `predict`): a model server may "
        "be slow or down."
    )


def test_a_library_that_computes() -> None:
    stack = (ASSAY, USER, library("torch.nn.modules.module", "_call_impl"), library("torch.nn.functional", "linear"))
    assert (
        where_words(stack) == "It computes in torch (torch._call_impl, called from scorers.py, line 12, in `predict`)."
    )


def test_a_sleep() -> None:
    stack = (ASSAY, USER._replace(code="time.sleep(60)"))
    assert where_words(stack) == "It sleeps (scorers.py, line 12, in `predict`)."


def test_a_library_that_nobody_knows_called_by_the_user_and_by_us() -> None:
    other = library("xgboost.core", "predict")
    assert where_words((ASSAY, USER, other)) == "It is in scorers.py, line 12, in `predict`."
    assert where_words((ASSAY, other)) == "It is in xgboost.core: core.py, line 7, in `predict`."


def test_rows_that_do_not_come() -> None:
    stack = (ASSAY._replace(module="assay.worker"), ASSAY._replace(module="assay.reader"), library("threading", "wait"))
    assert where_words(stack) == "It waits for rows: the storage of the data may be slow."


def test_code_of_ours_and_no_code_at_all_tell_nothing() -> None:
    assert where_words((ASSAY,)) == ""
    assert where_words(()) == ""
    assert stack_of(None) == stack_of(0) == ()


def test_whoever_started_the_process_is_not_where_it_is() -> None:
    """A script of the user's may be at the bottom of the stack."""
    assert where_words((USER, ASSAY)) == ""
    assert where_words((USER, ASSAY, library("sklearn.base", "predict"))).startswith("It computes in sklearn (")


def test_a_stack_goes_from_process_to_process() -> None:
    found = Whereabouts(stack_of(threading.get_ident()), Pulse(1.0, "", Reading(), 0.0))
    assert pickle.loads(pickle.dumps(found)) == found
    assert found.stack[-2].function == sys._getframe().f_code.co_name


# ---- what a worker says ----------------------------------------------------------------------------------------------


def says(reading: Reading = Reading(), silent: float = 0.0, *stack: Call) -> str:  # noqa: B008  # frozen
    return scoring_words(Answer(Whereabouts(stack, Pulse(1.0, "", reading, silent)), None, 0.1))


def test_where_it_is_and_how_its_device_is() -> None:
    full = Reading(memory_used=24e9, memory=24e9)
    assert says(full, 0.0, ASSAY, USER) == (
        "It is in scorers.py, line 12, in `predict`: return model(rows). Its GPU's memory is full (24.0 of 24.0 GB)."
    )


def test_a_driver_that_hangs() -> None:
    assert says(Reading(), 95.0) == "Its GPU's driver has not answered for 95 s."


def test_a_process_that_does_not_answer() -> None:
    assert scoring_words(Answer(None, None, None)) == NO_ANSWER
    assert scoring_words(Answer(None, OSError("the actor died"), 0.2)) == "It could not be asked: the actor died"


# ---- calls that hang -------------------------------------------------------------------------------------------------


def test_a_call_that_answers_that_fails_and_that_hangs() -> None:
    assert within(WAIT, lambda: 7).value == 7
    error = OSError("no")

    def fails() -> int:
        raise error

    assert within(WAIT, fails)[:2] == (None, error)
    let_go = threading.Event()
    assert within(0.01, lambda: let_go.wait(WAIT)) == (None, None, None)
    let_go.set()


# ---- storage ---------------------------------------------------------------------------------------------------------


def test_a_disk_that_has_room(tmp_path: Path) -> None:
    said = storage_words(str(tmp_path), 1_200_000_000 if _disk(tmp_path).bytes > 1_200_000_000 else 0)
    assert said.startswith("The store of the run answers in 0.")
    assert said.endswith(" s, so the worker's own network or the size of its states (up to 1.2 GB) may be the cause.")


def test_a_disk_that_has_no_room_for_the_states(tmp_path: Path) -> None:
    """Its real figures, and states that are larger than what is free."""
    free = _disk(tmp_path).bytes
    assert storage_words(str(tmp_path), 1000 * free).startswith(f"The disk of {tmp_path} has ")


def test_the_words_for_a_full_disk() -> None:
    assert full_words("/runs", Free(0, 900), 5) == "The disk of /runs has 0 bytes free."
    assert full_words("/runs", Free(1_500_000, None), 2_000_000) == "The disk of /runs has 1.5 MB free."
    assert (
        full_words("/runs", Free(10**9, 0), 5)
        == "The disk of /runs has no room for another file: its inodes are used up."
    )
    assert full_words("/runs", Free(10**9, None), 5) == ""


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    assert storage_words(str(tmp_path / "gone"), 5).startswith(f"{tmp_path}/gone cannot be looked at: [Errno 2]")


def test_a_store_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    elsewhere(monkeypatch, port)
    said = storage_words("s3://bucket/run", 5)
    assert said.startswith("s3://bucket/run cannot be reached from this machine: ")
    assert "Connection refused" in said or "error sending request" in said


def test_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        elsewhere(monkeypatch, server.getsockname()[1])
        assert storage_words("s3://bucket/run", 5, seconds=0.6) == "s3://bucket/run did not answer within 1 s."


def elsewhere(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
