"""From rows to values, and the forms that states can take."""

from __future__ import annotations

import numpy as np

from assay.metrics.ranking import AUC
from assay.testing import CHOICES, CLASSES, choices_of, evaluate, make_block


def test_evaluate_takes_several_blocks():
    rows = make_block([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    halves = [rows.take(np.array(part)) for part in ([0, 3], [1, 2])]
    assert evaluate(AUC(), *halves, choice=CHOICES[0]).value.tolist() == [0.75]


def test_choices_name_the_classes():
    assert choices_of("real") == choices_of(None) == CHOICES
    assert {one.classes for one in choices_of("class")} == {CLASSES}
