"""The table of scenarios: enough of them, drawn from their seeds alone, and none that cannot be played."""

from __future__ import annotations

from itertools import pairwise

import pytest
from chaos.play import replacements
from chaos.scenarios import FEWEST_BETWEEN, SCENARIOS, SHORT, Scenario, mixed, spots
from chaos.stage import NUM_UNITS

from assay.pipeline.replay import Line


def test_there_are_enough_and_each_has_its_name_and_seed() -> None:
    assert len(SCENARIOS) >= 30
    assert len({one.name for one in SCENARIOS}) == len({one.seed for one in SCENARIOS}) == len(SCENARIOS)
    assert set(SHORT) < {one.name for one in SCENARIOS}


def test_a_mixture_is_the_same_whenever_it_is_drawn() -> None:
    assert mixed(7) == mixed(7)
    assert len({mixed(seed).deeds for seed in range(20)}) > 15


@pytest.mark.parametrize("seed", range(20))
def test_units_are_drawn_some_way_apart(seed: int) -> None:
    drawn = spots(seed, 4)
    assert 3 <= drawn[0] <= drawn[-1] <= NUM_UNITS - 6
    assert all(later - one >= FEWEST_BETWEEN for one, later in pairwise(drawn))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_no_two_deeds_wait_for_the_same_unit(scenario: Scenario) -> None:
    places = [deed.at for deed in scenario.deeds] + [scenario.deadly] * (scenario.deadly is not None)
    assert len(set(places)) == len(places)
    assert all(0 <= at < NUM_UNITS for at in places)


def test_a_replacement_is_the_worker_that_was_asked_for_next() -> None:
    told = [
        (0.0, "Worker d-1 is asked for."),
        (1.0, "Worker d-1 is ready."),
        (2.0, "Worker d-1 was lost (its process died); its units are scored again."),
        (2.0, "Worker d-2 is asked for."),
        (3.0, "Worker d-9 is ready."),
        (4.5, "Worker d-2 is ready."),
        (5.0, "Worker d-2 was lost (its process died); its units are scored again."),
        (5.0, "Worker d-3 is asked for."),
    ]
    assert replacements([Line(*one) for one in told]) == [2.5]
