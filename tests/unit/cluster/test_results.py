"""What is said where a Ray task is late, lost, or raises."""

from __future__ import annotations

from typing import Any

import pytest
import ray
from ray.exceptions import GetTimeoutError, RayTaskError, WorkerCrashedError

from assay.cluster.results import result_of
from assay.errors import DataError, RunError


def raised(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def get(wanted: Any, timeout: float) -> Any:
        raise error

    monkeypatch.setattr(ray, "get", get)


def in_a_task(cause: Exception) -> RayTaskError:
    return RayTaskError("f", "the traceback", cause)


def test_a_result_is_waited_for_with_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "get", lambda wanted, timeout: (wanted, timeout))
    assert result_of("a reference", "A task") == ("a reference", 1_800.0)


def test_a_late_task_ends_the_run_and_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    raised(monkeypatch, GetTimeoutError("late"))
    with pytest.raises(RunError) as caught:
        result_of("a reference", "A task that merges states")
    assert str(caught.value) == (
        "A task that merges states was not done within 30 minutes: the Ray cluster gave it no room, or lost it again "
        "and again. All units are committed; resume the run."
    )


def test_an_error_of_ours_comes_as_it_was_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    error = DataError("The column 'p' has nulls.")
    raised(monkeypatch, in_a_task(error))
    with pytest.raises(DataError) as caught:
        result_of("a reference", "A task")
    assert caught.value is error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (in_a_task(KeyError("p")), "KeyError: 'p'"),
        (WorkerCrashedError(), "The worker died unexpectedly while executing this task"),
    ],
)
def test_any_other_error_is_a_sentence(monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    raised(monkeypatch, error)
    with pytest.raises(RunError) as caught:
        result_of("a reference", "A task")
    assert str(caught.value).startswith(f"A task failed: {said}")
    assert str(caught.value).endswith(
        "All units are committed; resume the run, or do without Ray for what is left of it, with --executor local."
    )
