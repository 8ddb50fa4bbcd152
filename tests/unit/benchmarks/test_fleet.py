"""Simulated fleets around the real scheduler: what its decisions are worth. No test looks at a clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.fleet import START_SECONDS, Fleet, World


def over(world: World) -> float:
    """The time of scoring as a multiple of the ideal one."""
    outcome = Fleet(world).run()
    return (outcome.makespan - START_SECONDS) / (outcome.ideal - START_SECONDS)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("workers", "units"), [(2, 8), (4, 20), (8, 40), (8, 80)])
def test_one_worker_five_times_slower_costs_less_than_three_tenths(workers: int, units: int, seed: int) -> None:
    assert over(World("", workers, units, slow_fraction=1 / workers, slowness=5.0, seed=seed)) < 1.3


def test_without_speculation_it_costs_more() -> None:
    world = World("", 8, 40, slow_fraction=1 / 8, slowness=5.0)
    assert over(world) + 0.4 < over(replace(world, speculate=False))


def test_a_fleet_of_equals_copies_nothing() -> None:
    outcome = Fleet(World("", 20, 1000)).run()
    assert outcome.repeated == pytest.approx(0.0, abs=1e-3)
    assert outcome.makespan < 1.1 * outcome.ideal


def test_what_is_lost_is_scored_again_and_no_more() -> None:
    outcome = Fleet(World("", 50, 5000, losses_per_hour=1.0)).run()
    assert 0.0 < outcome.repeated < 0.03
    assert outcome.makespan < 1.15 * outcome.ideal


def test_the_same_seed_gives_the_same_run() -> None:
    world = World("", 20, 400, losses_per_hour=5.0, slow_fraction=0.1)
    first, second = Fleet(world).run(), Fleet(world).run()
    assert first[:5] == second[:5]
    assert Fleet(replace(world, seed=1)).run().makespan != first.makespan
