"""What Ray Data is given of an error: one of its own kind, whose words are ours alone."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from ray.exceptions import RayTaskError, UserCodeException

from assay.errors import DataError, ModelError
from assay.integrations.ray_data.failures import shown

BLOCK = pa.table({"x": [1, 2, 3]})


def failing(error: Exception, cause: Exception | None = None) -> Any:
    def step(block: pa.Table) -> pa.Table:
        raise error from cause

    return step


def halves(block: pa.Table) -> Iterator[pa.Table]:
    yield block.slice(0, 1)
    yield block.slice(1)


def test_what_a_step_makes_is_handed_on() -> None:
    assert list(shown(lambda block: block, BLOCK)) == [BLOCK]
    assert list(shown(halves, BLOCK)) == [BLOCK.slice(0, 1), BLOCK.slice(1)]


@pytest.mark.parametrize("error", [ModelError("m", "it cannot.", 2), DataError("There is none.")])
def test_an_error_stays_of_its_kind_and_is_one_that_ray_data_leaves_alone(error: Exception) -> None:
    cause = KeyError("ages")
    with pytest.raises(type(error)) as caught:
        list(shown(failing(error, cause), BLOCK))
    assert isinstance(caught.value, UserCodeException)
    assert str(caught.value) == str(error)
    assert caught.value.__cause__ is cause
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(error)


@pytest.mark.parametrize("error", [ModelError("m", "it cannot."), DataError("There is none.")])
def test_what_ray_data_appends_does_not_follow_the_sentence(error: Exception) -> None:
    with pytest.raises(UserCodeException) as caught:
        list(shown(failing(error), BLOCK))
    caught.value.args = (f"{caught.value.args[0]}\nTo change retry attempts, configure it.",)
    assert str(caught.value) == str(error)


def test_the_error_that_a_task_raises_is_of_the_same_kind() -> None:
    with pytest.raises(ModelError) as caught:
        list(shown(failing(ModelError("m", "it cannot.")), BLOCK))
    in_a_task = RayTaskError("f", f"Traceback (most recent call last):\n{caught.value}", caught.value, "f", 1, "ip")
    raised = in_a_task.as_instanceof_cause()
    assert isinstance(raised, ModelError)
    assert str(raised).splitlines()[-1] == "Variant 'm': it cannot."


def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError):
        list(shown(failing(ZeroDivisionError()), BLOCK))
