"""What stops a run whose spec tolerates no failure, and the way out that its message names."""

from __future__ import annotations

from assay.errors import ModelError
from assay.failings import with_way_out


def test_where_predictions_are_written_the_way_out_says_what_becomes_of_the_rows() -> None:
    stopped = with_way_out(ModelError("new", "it raised.", 3, tolerable=True), predicts=True)
    assert (str(stopped), stopped.row) == (
        "Variant 'new': it raised. To go on all the same, set on_error: continue and run again: the other rows and "
        "variants are written, and each row that a variant fails on is a dead letter with its reason.",
        3,
    )


def test_below_the_lines_of_several_variants_it_is_a_line_of_its_own() -> None:
    error = ModelError("new", "it raised.\nVariant 'next': it raised.", tolerable=True)
    assert str(with_way_out(error, predicts=False)).splitlines() == [
        "Variant 'new': it raised.",
        "Variant 'next': it raised.",
        "To go on all the same, set on_error: continue and run again: a variant that fails on a unit is reported and "
        "left out there.",
    ]


def test_none_is_named_where_there_is_none() -> None:
    error = ModelError("new", "loading it raised.")
    assert with_way_out(error, predicts=True) is error
    of_one_value = ModelError("new", "the score 1.5 is outside [0, 1].", 3, tolerable=True)
    assert with_way_out(of_one_value, predicts=False) is of_one_value
