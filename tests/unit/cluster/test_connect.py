"""The head of a Ray cluster, as a driver sees it, and what of Ray's errors is told."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.exceptions import RayTaskError, WorkerCrashedError

from assay.cluster.connect import Head, HeadGone, connected, first_line, is_the_users
from assay.errors import ModelError


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_head_that_answers(listening: socket.socket) -> None:
    head = Head(address(listening), "runs/a")
    assert head.check()
    assert not head.silent


def test_a_head_that_is_gone_for_long_ends_the_run(listening: socket.socket) -> None:
    clock = Clock()
    place = address(listening)
    head = Head(place, "runs/a", clock)
    listening.close()
    assert not head.check()
    assert head.silent
    clock.now = 24.0
    assert not head.check()
    clock.now = 25.0
    sentence = (
        rf"The head of the Ray cluster at {place} has not answered for 25 seconds \(\[Errno 111\] Connection "
        r"refused\)\. "
        r"What is committed in runs/a stays; start the Ray cluster again, then go on with: assay resume runs/a"
    )
    with pytest.raises(HeadGone, match=f"^{sentence}$"):
        head.check()


def test_a_run_that_cannot_be_resumed_is_to_be_started_again(listening: socket.socket) -> None:
    clock = Clock()
    head = Head(address(listening), None, clock)
    listening.close()
    assert not head.check()
    clock.now = 25.0
    with pytest.raises(HeadGone, match=r"refused\)\. The run cannot be resumed: start it again\.$"):
        head.check()


def test_a_head_that_comes_back_has_all_its_time_again(listening: socket.socket) -> None:
    clock = Clock()
    place = address(listening)
    head = Head(place, "runs/a", clock)
    listening.close()
    assert not head.check()
    host, port = place.split(":")
    with socket.create_server((host, int(port))):
        assert head.check()
        assert not head.silent
    clock.now = 30.0
    assert not head.check()


def test_of_a_head_behind_a_proxy_nothing_is_told() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        head = Head(address(silent), "runs/a")
        assert head.check()


def test_of_an_error_of_ray_the_first_line_is_told() -> None:
    assert first_line(WorkerCrashedError()).startswith("The worker died unexpectedly while executing this task.")
    assert first_line(ValueError("\n  one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"


def test_of_an_error_in_an_actor_its_own_words_are_told() -> None:
    cause = ModelError("new", "it is broken.")
    error = RayTaskError("load", "a long traceback", cause)  # type: ignore[no-untyped-call]
    assert first_line(error) == "ModelError: Variant 'new': it is broken."


Connect = Callable[[], None]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Connects this process to a Ray cluster at head:6379, as a program of the user's would; here there is none."""
    state = SimpleNamespace(is_connected=False)

    def init(**_: Any) -> None:
        state.is_connected = True

    def shutdown() -> None:
        state.is_connected = False

    monkeypatch.setattr(ray, "is_initialized", lambda: state.is_connected)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", shutdown)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address="head:6379"))
    return init


OWN = "Ray: a cluster of this run's own, started on this machine at head:6379. It ends with the run."
JOINED = "Ray: joined the cluster at head:6379."
THE_USERS = "Ray: the cluster at head:6379, which this process is connected to."


@pytest.mark.parametrize(("address", "said"), [(None, OWN), ("local", OWN), ("ray://head", JOINED)])
def test_it_is_said_on_which_cluster_a_run_is_however_often_it_connects(
    connect: Connect, address: str | None, said: str
) -> None:
    """A dataset of Ray Data is read on the cluster first, and then the executor connects."""
    with connected(address, 2) as first, connected(None, 2) as second:
        assert (first, second) == (said, said)
        assert not is_the_users()
    assert not ray.is_initialized()


def test_a_cluster_that_the_user_has_connected_to_is_told_as_such_and_stays(connect: Connect) -> None:
    with connected("local", 2):
        pass  # an earlier run, of which nothing is left
    connect()
    with connected("local", 2) as said:
        assert said == THE_USERS
        assert is_the_users()
    assert ray.is_initialized()


def test_a_run_that_failed_leaves_no_cluster_and_no_word_of_one(connect: Connect) -> None:
    with pytest.raises(ValueError, match=r"^broken$"), connected("local", 2):
        raise ValueError("broken")
    assert not ray.is_initialized()
    connect()
    with connected("local", 2) as said:
        assert said == THE_USERS
