"""The head of a Ray cluster, as a driver sees it, and what of Ray's errors is told."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from ray.exceptions import RayTaskError, WorkerCrashedError

from assay.cluster.connect import Head, HeadGone, first_line
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


def test_where_rows_were_in_the_cluster_nothing_can_be_gone_on_with(listening: socket.socket) -> None:
    clock = Clock()
    head = Head(address(listening), None, clock)
    listening.close()
    assert not head.check()
    clock.now = 25.0
    with pytest.raises(HeadGone, match=r"Its rows were in the cluster: begin anew\.$"):
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
