"""Which models share an actor."""

from __future__ import annotations

import pytest

from assay.integrations.ray_data.packing import Needs, needs_of_all, pack

NO_LIMIT = float("inf")
ONE_GPU = Needs(None, 1, NO_LIMIT)


def gpus(**models: float) -> dict[str, Needs]:
    return {name: Needs(None, share, 0) for name, share in models.items()}


@pytest.mark.parametrize(
    ("needs", "actors"),
    [
        (gpus(a=0, b=0, c=0), (("a", "b", "c"),)),
        (gpus(a=0, b=0.5, c=0, d=0.5), (("a", "c"), ("b", "d"))),  # no GPU held for a model that needs none
        (gpus(a=0.5, b=0.6, c=0.4, d=0.5), (("a", "d"), ("b", "c"))),
        (gpus(a=2, b=0.5), (("a",), ("b",))),
        (gpus(**{f"m{number}": 0.1 for number in range(11)}), (tuple(f"m{n}" for n in range(10)), ("m10",))),
    ],
)
def test_gpu_shares(needs: dict[str, Needs], actors: tuple[tuple[str, ...], ...]) -> None:
    assert pack(needs, ONE_GPU) == actors


def test_memory_is_counted_too() -> None:
    needs = {name: Needs(1, 0, memory) for name, memory in {"a": 60, "b": 50, "c": 40, "d": 200}.items()}
    assert pack(needs, Needs(None, 1, 100)) == (("a", "c"), ("b",), ("d",))


def test_an_actor_calls_one_model_after_another() -> None:
    together = needs_of_all([Needs(2, 0.1, 5), Needs(None, 0.2, 7), Needs(1, 0, 0)])
    assert together == Needs(2, 0.3, 12)
    assert needs_of_all([Needs(None, 0, 0)]).num_cpus is None
