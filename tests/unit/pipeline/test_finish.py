"""What a run's results say of units that went otherwise than planned."""

from __future__ import annotations

import pyarrow as pa
import pytest

import assay
from assay.errors import DataError
from assay.pipeline.finish import deviation_notes, failure_notes
from assay.plan import in_bundles
from assay.records import Failure, Plan, Receipt, Sizes, SliceTable, StateChoice, Unit


def plan(*bundles: tuple[str, ...]) -> Plan:
    pieces = [Unit(f"p{index}", "day.parquet", 100 * index, 100, 0) for index in range(3)]
    return Plan(
        units=in_bundles(pieces, len(bundles)) if bundles else tuple(pieces),
        fragments=(),
        tasks=(),
        slices=SliceTable((), ("overall",)),
        sizes=Sizes(1, 64),
        choice=StateChoice(exact_ranking=True, bucketed="all"),
        weight_exponent=0,
        columns=(),
        micro_batch=1,
        seed=0,
        fingerprints={"base": "", "a": "", "b": ""},
        identity="",
        identity_parts={},
        state_bytes=0,
        num_rows=300,
        bundles=bundles,
    )


def short(unit: str, *variants: str) -> Receipt:
    return Receipt(unit, 100, "", (), tuple(f"variant {one}: 4 rows per call" for one in variants))


def test_where_no_row_is_usable_it_is_said_why() -> None:
    rows = pa.table({"y": pa.array([None] * 2000 + [1] * 1500), "p": [0.5] * 3500})
    with pytest.raises(DataError) as refused:
        assay.evaluate(rows, label="y", scores=["p"], where="y is null", executor="local")
    assert str(refused.value) == (
        "0 of 3,500 rows usable for the label 'y': 1,500 dropped by a filter, 2,000 with a null label, 0 with a null "
        "weight, 0 with weight 0. Nothing can be said of any variant; check the label, the weight and `where`."
    )


def test_units_short_of_memory_are_counted_of_those_that_a_variant_has() -> None:
    rest = "Last digits there may differ from those of a run with more memory."
    both = [f"Memory was short on 2 of 3 units: variant base: 4 rows per call. {rest}"]
    assert deviation_notes([short("p0", "base"), short("p1", "base"), short("p2")], plan()) == both
    several = [short("p0.0", "base"), short("p0.1", "b", "base"), short("p1.1", "base"), short("p2.0")]
    assert deviation_notes(several, plan(("base", "a"), ("b",))) == [
        f"Memory was short on 1 of 3 units: variant b: 4 rows per call. {rest}",
        *both,
    ]


def test_units_that_were_given_up_are_told_apart_from_variants_that_failed() -> None:
    failures = [Failure("p1", "a", "it raised.", 100), Failure("p0", "a", "it fell.", 100)]
    lost = [Failure("p2", "", "Unit p2 killed its workers. It is given up.", 100)]
    failed = "Variant 'a' failed on 2 of 3 units: it fell."
    assert failure_notes([*failures, *lost], plan()) == [
        "1 of 3 units was given up: Unit p2 killed its workers. It is given up.",
        failed,
    ]
    assert failure_notes([*failures, *lost, Failure("p0", "", "Unit p0 hung.", 100)], plan()) == [
        "2 of 3 units were given up: Unit p0 hung.",
        failed,
    ]
