"""The plan: units, their order and identity, weights' scale, and the file."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import DataError, RunError
from assay.plan import (
    Decisions,
    check_sums,
    decode_plan,
    encode_plan,
    identity,
    make_plan,
    make_units,
    target_rows,
    weight_exponent,
)
from assay.records import Dimension, Fragment, Sizes, SliceTable, StateChoice, Task, Unit


def fragment(path: str, *row_groups: int) -> Fragment:
    return Fragment(path, 1000, "digest", row_groups)


def ranges(fragments: list[Fragment], unit_rows: int, micro_batch: int = 10) -> list[tuple[str, int, int | None]]:
    units = make_units(fragments, "context", unit_rows, micro_batch, seed=0)
    return sorted((unit.path, unit.first_row, unit.num_rows) for unit in units)


DECISIONS = Decisions(
    fragments=(fragment("a", 50, 50, 500), Fragment("b", 7, "other", (30,))),
    roles={"data.label": "y"},
    tasks=(Task("main", "y", "binary", None, ("auc",)),),
    slices=SliceTable(
        (
            Dimension("overall", None, ("overall",), num_slices=1),
            Dimension("x", "x", ("..0.1", "0.1.."), (0.1,), first_slice=1, num_slices=4),
        ),
        ("overall", "x=..0.1", "x=0.1..", "x=null", "x=other"),
    ),
    sizes=Sizes(5, 64),
    choice=StateChoice(exact_ranking=True, bucketed="all"),
    weight_exponent=-3,
    columns=("x", "y"),
    micro_batch=10,
    seed=0,
    fingerprints={"old": "1", "new": "2"},
    accumulators=("ranking",),
    settings={},
    state_bytes=123,
    unit_rows=100,
)


# ---- units -----------------------------------------------------------------------------------------------------------


def test_row_groups_are_combined_up_to_the_target_within_a_file() -> None:
    assert ranges([fragment("a", 40, 40, 40), fragment("b", 20)], 100) == [("a", 0, 80), ("a", 80, 40), ("b", 0, 20)]


def test_a_row_group_up_to_twice_the_target_stays_whole() -> None:
    assert ranges([fragment("a", 10, 200, 10)], 100) == [("a", 0, 10), ("a", 10, 200), ("a", 210, 10)]


def test_a_longer_one_is_split_on_multiples_of_the_micro_batch() -> None:
    assert ranges([fragment("a", 5, 201, 5)], 100) == [
        ("a", 0, 5), ("a", 5, 70), ("a", 75, 70), ("a", 145, 61), ("a", 206, 5),
    ]  # fmt: skip


def test_empty_row_groups_and_files_give_no_unit() -> None:
    assert ranges([fragment("a", 0, 10, 0), fragment("b"), fragment("c", 0)], 100) == [("a", 0, 10)]


def test_a_file_of_unknown_rows_is_one_unit() -> None:
    assert ranges([Fragment("a.csv", 9, "d", None)], 100) == [("a.csv", 0, None)]


@settings(deadline=None)  # the machine's load is no fault
@given(
    st.lists(st.lists(st.integers(0, 700), max_size=8), max_size=4),
    st.integers(20, 300),
    st.integers(1, 50),
)
def test_units_cover_every_row_once(groups: list[list[int]], unit_rows: int, micro_batch: int) -> None:
    fragments = [fragment(str(name), *rows) for name, rows in enumerate(groups)]
    units = make_units(fragments, "context", unit_rows, micro_batch, seed=1)
    for one, rows in zip(fragments, groups, strict=True):
        own = sorted((unit.first_row, unit.num_rows or 0) for unit in units if unit.path == one.path)
        assert [first for first, _ in own] == [sum(size for _, size in own[:i]) for i in range(len(own))]
        assert sum(size for _, size in own) == sum(rows)
    assert len({unit.id for unit in units}) == len(units)


def test_rounds_take_one_unit_of_each_stratum() -> None:
    units = make_units([fragment(f"{name:03}", 100) for name in range(60)], "context", 100, 10, seed=3)
    for start in range(0, 60, 20):
        assert sorted(unit.stratum for unit in units[start : start + 20]) == list(range(20))
    assert all(int(unit.path) // 3 == unit.stratum for unit in units)


def test_the_order_is_the_seeds() -> None:
    fragments = [fragment(f"{name:03}", 100) for name in range(60)]
    first, again, other = (make_units(fragments, "context", 100, 10, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert sorted(first, key=lambda unit: unit.path) == sorted(other, key=lambda unit: unit.path)


def test_strata_follow_the_event_time_where_it_is_known() -> None:
    fragments = [fragment("a", 100, 100), fragment("b", 100, 100)]
    units = make_units(fragments, "context", 100, 10, 0, first_values={"a": (3.0, 1.0), "b": (0.0, 2.0)})
    strata = {(unit.path, unit.first_row): unit.stratum for unit in units}
    assert strata == {("b", 0): 0, ("a", 100): 1, ("b", 100): 2, ("a", 0): 3}


def test_a_units_id_depends_on_file_range_and_context() -> None:
    def id_of(one: Fragment, context: str = "context") -> str:
        (unit,) = make_units([one], context, 100, 10, seed=0)
        return unit.id

    base = fragment("a", 50)
    changed = [replace(base, path="b"), replace(base, digest="e"), replace(base, size_bytes=1), fragment("a", 49)]
    ids = {id_of(base), id_of(base, "other"), *map(id_of, changed)}
    assert len(ids) == 6
    assert all(len(one) == 16 for one in ids)


def test_a_unit_that_is_too_long() -> None:
    with pytest.raises(DataError) as caught:
        make_units([fragment("a", 150_000_000)], "context", 100_000_000, 10, seed=0)
    assert str(caught.value) == (
        "A unit of 'a' would have 150000000 rows, more than 100000000. Set execution.unit_rows lower."
    )


# ---- sizes and scales ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num_rows", "num_variants", "micro_batch", "expected"),
    [
        (10_000_000_000, 1, 1024, 262_144),
        (None, 1, 1024, 262_144),
        (10_000_000_000, 100, 1024, 40_960),
        (1_000_000, 1, 1024, 63_488),
        (1000, 1, 1024, 16_384),
        (1000, 1, 1000, 17_000),
    ],
)
def test_target_rows(num_rows: int | None, num_variants: int, micro_batch: int, expected: int) -> None:
    assert target_rows(num_rows, num_variants, micro_batch) == expected


@pytest.mark.parametrize(
    ("num_rows", "row_bytes", "expected"),
    [
        (10_000, 1024, 16_384),  # as of any ordinary table
        (10_000_000_000, 1024, 262_144),
        (10_000, 3072, 4096),
        (10_000, 150_528, 1024),  # a sixteenth of the rows, in whole micro-batches
        (1_000_000, 150_528, 1024),  # 262,144 / 256
        (10_000_000_000, 2000, 131_072),
        (1000, 1e12, 1024),
    ],
)
def test_of_large_rows_a_unit_has_fewer(num_rows: int, row_bytes: float, expected: int) -> None:
    assert target_rows(num_rows, 1, 1024, row_bytes) == expected


def test_few_rows_of_many_mebibytes_are_a_unit_each() -> None:
    assert target_rows(3, 1, 1, 20e6) == 1


@settings(deadline=None)
@given(st.floats(1e-200, 1e200))
def test_the_largest_weight_uses_all_bits(maximum: float) -> None:
    assert 2.0**25 < maximum / 2.0 ** weight_exponent(maximum) <= 2.0**26


@settings(deadline=None)
@given(st.integers(1, 2**26), st.data())
def test_integer_weights_are_exact(maximum: int, data: st.DataObject) -> None:
    weight = data.draw(st.integers(0, maximum))
    assert (weight / 2.0 ** weight_exponent(maximum)).is_integer()


@pytest.mark.parametrize("maximum", [-1.0, float("nan"), float("inf")])
def test_a_largest_weight_that_is_none(maximum: float) -> None:
    with pytest.raises(DataError) as caught:
        weight_exponent(maximum)
    assert str(caught.value) == f"The largest weight is {maximum}. Weights are finite numbers, 0 or more."


def test_weights_of_zero() -> None:
    assert weight_exponent(0.0) == 0


def test_more_rows_than_sums_hold() -> None:
    check_sums(None, weighted=True)
    check_sums(2**32, weighted=True)
    check_sums(2**58, weighted=False)
    with pytest.raises(DataError) as caught:
        check_sums(2**32 + 1, weighted=True)
    assert str(caught.value) == (
        "The data have 4294967297 rows, but one run holds at most 4294967296. Evaluate them in parts."
    )


# ---- identity and the file -------------------------------------------------------------------------------------------


def test_equal_decisions_give_an_equal_plan() -> None:
    assert make_plan(DECISIONS) == make_plan(replace(DECISIONS))
    plan = make_plan(DECISIONS)
    assert plan.num_rows == 630
    assert len(plan.units) == 7
    assert plan.identity == identity(plan.identity_parts)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"fragments": (fragment("a", 50),)}, "data"),
        ({"roles": {"data.label": "z"}}, "roles"),
        ({"weight_exponent": 0}, "roles"),
        ({"tasks": (Task("main", "z", "binary", None, ("auc",)),)}, "tasks"),
        ({"slices": SliceTable(DECISIONS.slices.dimensions[:1], ("overall",))}, "slices"),
        ({"sizes": Sizes(5, 32)}, "metrics"),
        ({"choice": StateChoice(exact_ranking=False, bucketed="all")}, "metrics"),
        ({"accumulators": ("sums",)}, "metrics"),
        ({"fingerprints": {"old": "1", "new": "3"}}, "model new"),
        ({"micro_batch": 20}, "execution"),
        ({"clusters": ((1, 2**64 - 1),)}, "clusters"),
        ({"confirm_fraction": 0.5}, "clusters"),
        ({"seed": 1}, "seed"),
        ({"settings": {"baseline": "old"}}, "settings"),
    ],
)
def test_each_thing_that_matters_changes_one_part_and_the_units(change: dict[str, object], part: str) -> None:
    before, after = make_plan(DECISIONS), make_plan(replace(DECISIONS, **change))  # type: ignore[arg-type]  # any field
    differing = {name for name, digest in after.identity_parts.items() if before.identity_parts[name] != digest}
    assert differing == {part}
    assert after.identity != before.identity
    common = {unit.id for unit in after.units} & {unit.id for unit in before.units}
    assert not common or part == "data"


def test_clusters_with_buckets_of_their_own_survive_the_file() -> None:
    plan = make_plan(replace(DECISIONS, clusters=((3, 2**64 - 1), (), (5,)), confirm_fraction=0.25))
    assert decode_plan(encode_plan(plan)) == plan


def test_the_size_of_units_changes_no_identity() -> None:
    assert make_plan(DECISIONS).identity == make_plan(replace(DECISIONS, unit_rows=50)).identity


def test_the_size_of_large_rows_is_part_of_the_identity_unless_the_spec_says_units() -> None:
    ordinary = make_plan(replace(DECISIONS, unit_rows=None, row_bytes=1024.0))
    assert ordinary == make_plan(replace(DECISIONS, unit_rows=None))
    large = make_plan(replace(DECISIONS, unit_rows=None, row_bytes=1025.0))
    differing = large.identity_parts.keys() - ordinary.identity_parts.keys()
    assert differing == {"units"}
    assert make_plan(replace(DECISIONS, row_bytes=1025.0)) == make_plan(DECISIONS)


def test_a_plan_survives_its_file() -> None:
    for decisions in (DECISIONS, replace(DECISIONS, fragments=(Fragment("a.csv", 9, "d", None),))):
        plan = make_plan(decisions)
        assert decode_plan(encode_plan(plan)) == plan
        assert encode_plan(plan) == encode_plan(plan)


BUNDLES = (("old",), ("new",))


def test_in_bundles_each_piece_is_a_unit_of_each() -> None:
    plain, plan = make_plan(DECISIONS), make_plan(replace(DECISIONS, bundles=BUNDLES, num_together=1))
    assert plan.identity != plain.identity
    assert decode_plan(encode_plan(plan)) == plan
    assert [unit.bundle for unit in plan.units] == [0, 1] * len(plain.units)
    for piece, units in zip(plain.units, zip(plan.units[::2], plan.units[1::2], strict=True), strict=True):
        for unit in units:
            place = (unit.path, unit.first_row, unit.num_rows, unit.stratum)
            assert place == (piece.path, piece.first_row, piece.num_rows, piece.stratum)
        first, second = (unit.id for unit in units)
        assert first.removesuffix(".0") == second.removesuffix(".1") != piece.id  # the bundles are in the context
    assert len({unit.id for unit in plan.units}) == len(plan.units)


def test_units_are_as_long_as_suits_the_variants_that_are_scored_together() -> None:
    many = replace(
        DECISIONS,
        fragments=(fragment("a", *[1000] * 3000),),
        unit_rows=None,
        fingerprints={str(i): "" for i in range(100)},
    )
    assert make_plan(many).units[0].num_rows == 40_000
    assert make_plan(replace(many, bundles=BUNDLES, num_together=50)).units[0].num_rows == 80_000


def test_the_file_is_a_table_of_units() -> None:
    plan = make_plan(DECISIONS)
    table = pq.read_table(pa.BufferReader(encode_plan(plan)))
    assert table.column_names == ["id", "path", "first_row", "num_rows", "stratum", "bundle", "order"]
    assert table["id"].to_pylist() == [unit.id for unit in plan.units]
    assert isinstance(decode_plan(encode_plan(plan)).units[0], Unit)


def test_a_file_that_is_no_plan() -> None:
    for data in (b"nothing", encode_plan(make_plan(DECISIONS))[:-20]):
        with pytest.raises(RunError) as caught:
            decode_plan(data)
        assert str(caught.value) == "The run's plan.parquet is damaged or not a plan. Start a new run."
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ["x"]}).replace_schema_metadata({b"assay": b'{"version": 99, "plan": {}}'}), sink)
    with pytest.raises(RunError) as caught:
        decode_plan(sink.getvalue().to_pybytes())
    assert str(caught.value) == (
        "The run's plan has version 99, but this assay reads 3. "
        "Continue with the assay that wrote it, or start a new run."
    )
