"""The coverage study: what its cells say, and that the same worlds come back whatever else is asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.coverage import STUDIES, Cell, Sample, Study, Truth, buckets_of, cell_of, draw, shown, simulate
from benchmarks.worlds import LAWS, Crowd


def test_a_cell_counts_the_intervals_that_there_are():
    nan = math.nan
    sample = Sample(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 1.0, 2.5, nan]), np.array([2.0, 3.0, 3.5, nan]))
    cell = cell_of(sample, Truth(2.0, 0.1))
    deviation = np.std([1.0, 2.0, 3.0, 4.0], ddof=1)
    assert cell.coverage == pytest.approx(2 / 3)
    assert cell.missing == 0.25
    assert cell.error == pytest.approx(math.sqrt(0.95 * 0.05 / 3))
    assert cell.width == pytest.approx((2 + 2 + 1) / 3 / (2 * 1.959964 * deviation))
    assert cell.bias == pytest.approx(0.5 / deviation)
    assert cell.truth_error == pytest.approx(0.1 / deviation)


def test_what_is_unusual_about_a_cell_is_shown():
    assert shown(Cell(0.948, 0.005, 1.02, 0.0, 0.1, 0.0)) == "0.948 (1.02)"
    assert shown(Cell(0.9, 0.005, 0.9, 0.125, -0.5, 0.0)) == "0.900 (0.90) -12.5% bias -0.5"
    assert shown(Cell(math.nan, math.nan, math.nan, 1.0, 0.0, 0.0)) == "no interval"


@pytest.mark.parametrize("law", LAWS)
def test_a_world_is_made_of_its_number_alone(law):
    study = Study("", law, ())
    one, again, other = (draw(study, 300, number) for number in (3, 3, 4))
    assert one.scores.tobytes() == again.scores.tobytes()
    assert one.scores.tobytes() != other.scores.tobytes()
    assert one.label.shape == one.user.shape == one.scores.shape[-1:] == (300,)


def test_users_are_few_or_alone_where_the_crowd_says_so():
    few = draw(Study("", "binary", (), Crowd(num_users=10)), 2000, 0)
    assert len(np.unique(few.user)) == 10
    assert len(np.unique(buckets_of(few, "users", 0)[""])) == 10  # one each
    alone = draw(Study("", "binary", (), Crowd(independent=True)), 100, 0)
    assert len(np.unique(alone.user)) == 100


def test_more_repetitions_leave_the_first_ones_as_they_are():
    study = Study("", "binary", ("log_loss", "auc"))
    some, more = simulate(study, 500, 3), simulate(study, 500, 5)
    assert some.keys() == {(name, one) for name in ("log_loss", "auc") for one in ("value", "difference")}
    for key, sample in some.items():
        assert sample.low.tolist() == more[key].low[:3].tolist()


def test_rows_that_are_hashed_alone_give_intervals_that_are_too_narrow():
    right, wrong = (simulate(Study("", "binary", ("log_loss",), clusters=one), 2000, 10) for one in ("users", "rows"))
    assert wrong["log_loss", "value"].width.mean() < 0.9 * right["log_loss", "value"].width.mean()


def test_every_study_names_a_law_and_a_metric_that_there_is():
    for study in STUDIES.values():
        assert simulate(study, 300, 1), study.title
