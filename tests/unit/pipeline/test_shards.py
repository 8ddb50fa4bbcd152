"""A run concluded by shards of its variants: the same tables, verdicts and notes as from all states at once."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fakes.sweep import WORDS, sweep

import assay.worker
from assay.api import evaluate
from assay.errors import RunError
from assay.evaluation import Evaluation
from assay.merge import Listed, listed, merge_files, reduced_here
from assay.pipeline import shards
from assay.pipeline.finish import TABLES, conclude_run, merged
from assay.pipeline.run import expanded_spec, saved_plan
from assay.pipeline.shards import Leaf, ShardFindings, ShardReduction, reduction_of, run_accumulators, trees
from assay.pipeline.verify import verify
from assay.records import CommittedFile, Plan, Results, StateKey, Tally
from assay.spec.model import Spec
from assay.states import decode, digest, encode
from assay.store.log import read_committed
from assay.store.run import RunDirectory

GATES = [
    {"metric": "auc", "margin": 0.01},
    {"metric": "log_loss", "improve": "0.1%"},
    {"metric": "auc", "slices": "country", "harm": True},
    {"coverage": 0.9},
    {"same_rows": True},
]
FAMILY = [{"name": f"new{number}", "column": f"new{number}", "family": "new"} for number in range(3)]
VIEWS: dict[str, dict[str, Any]] = {
    "gates": {"gates": GATES},
    "confirm": {"gates": GATES, "confirm": {"metric": "auc", "fraction": 0.4, "keep": 2}},
    "families": {"scores": ["old", "new3"], "variants": FAMILY},
    "recalibrate": {"recalibrate": "isotonic"},
    "two clusters": {"cluster": ["user", "country"], "confirm": 0.5},
    "binned": {"budget": {"exact_rows": 0}},
    "no baseline": {"baseline": None, "gates": None},
}


def with_gaps() -> pa.Table:
    """Some scores of two variants are missing, so that pairs need corrections."""
    table = sweep()
    for name, every in (("old", 11), ("new1", 7)):
        column = [None if row % every == 0 else one for row, one in enumerate(table[name].to_pylist())]
        table = table.set_column(table.column_names.index(name), name, pa.array(column))
    return table


@pytest.fixture(scope="module", params=VIEWS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    """Of a state file a unit."""
    words = {name: value for name, value in {**WORDS, **VIEWS[request.param]}.items() if value is not None}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assay.worker, "FLUSH_FRACTION", math.inf)
        out = tmp_path_factory.mktemp("shards") / "run"
        return evaluate(with_gaps(), **words, execution={"unit_rows": 256}, out=out)


def opened(found: Evaluation) -> tuple[RunDirectory, Spec, Plan, tuple[CommittedFile, ...]]:
    directory = RunDirectory.open(str(found.path))
    return directory, expanded_spec(directory), saved_plan(directory), read_committed(directory).files


def assert_same(one: Results, other: Results) -> None:
    for name in TABLES:
        assert getattr(one, name).equals(getattr(other, name)), name
    assert repr(one.verdicts) == repr(other.verdicts)
    assert (one.outcome, one.notes) == (other.outcome, other.notes)


def whole(found: Evaluation) -> Results:
    """From one tally of all states."""
    directory, spec, plan, files = opened(found)
    leaf = Leaf((), tuple(variant.name for variant in spec.variants))
    findings = reduction_of(directory, spec, plan).conclude(leaf, merged(directory, files, plan))
    return conclude_run(spec, plan, [findings], ())


@pytest.mark.parametrize("num_variants", [1, 3, 99])
@pytest.mark.parametrize("num_leaves", [1, 3])
def test_shards_come_to_the_same_as_the_whole(
    found: Evaluation, monkeypatch: pytest.MonkeyPatch, num_variants: int, num_leaves: int
) -> None:
    directory, spec, plan, files = opened(found)
    assert len(files) > 3
    monkeypatch.setattr(shards, "SHARD_BYTES", -(-plan.state_bytes * num_variants // len(spec.variants)))
    several = trees(spec, plan, listed(files), num_leaves)

    assert max(len(leaf.variants) for leaves in several for leaf in leaves) <= num_variants
    assert sorted(name for leaves in several for name in leaves[0].variants) == sorted(plan.fingerprints)
    assert {len(leaves) for leaves in several} == {num_leaves}
    reduction = pickle.loads(pickle.dumps(reduction_of(directory, spec, plan)))
    assert_same(conclude_run(spec, plan, reduced_here(reduction, several), ()), whole(found))


def test_that_is_what_the_run_says(found: Evaluation) -> None:
    again = whole(found)
    for name in TABLES:
        assert getattr(again, name).equals(getattr(found.results, name)), name
    assert repr(again.verdicts) == repr(found.results.verdicts)


def test_it_can_be_audited(found: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_BYTES", 1)
    audit = verify(str(found.path))
    assert audit.passed, audit.checks


def test_what_is_kept_of_a_shard_can_be_sent(found: Evaluation) -> None:
    directory, spec, plan, files = opened(found)
    reduction = reduction_of(directory, spec, plan)
    leaf = Leaf(listed(files), ("new1",))
    findings: ShardFindings = pickle.loads(pickle.dumps(reduction.conclude(leaf, reduction.read(leaf))))
    assert [one.variant for one in findings.variants] == ["new1"]


def test_a_shard_holds_its_variants_the_baseline_and_the_ledgers_alone(found: Evaluation) -> None:
    directory, spec, plan, files = opened(found)
    tally = reduction_of(directory, spec, plan).read(Leaf(listed(files), ("new2",)))
    assert {key.variant for key in tally.states} == {"", "new2"} | ({spec.baseline} if spec.baseline else set())
    complete = merged(directory, files, plan)
    part = {key: state for key, state in complete.states.items() if key in tally.states}
    assert digest(Tally((), part)) == digest(tally)


# ---- files that are not what they should be --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    return evaluate(sweep(), **WORDS, out=tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture
def state(plain: Evaluation) -> Any:
    """The only state file, put back as it was."""
    (path,) = (Path(plain.path) / "states").iterdir()
    before = path.read_bytes()
    yield path
    for other in path.parent.iterdir():
        other.unlink()
    path.write_bytes(before)


def read(found: Evaluation, variants: Sequence[str], files: Sequence[Listed] | None = None) -> Tally:
    directory, spec, plan, committed = opened(found)
    return reduction_of(directory, spec, plan).read(Leaf(tuple(files or listed(committed)), tuple(variants)))


def refused(found: Evaluation, sentence: str) -> None:
    with pytest.raises(RunError, match=f"^{sentence}$"):
        read(found, ["new0", "new1", "new2", "new3"])


def test_a_file_that_is_gone_is_refused(plain: Evaluation, state: Path) -> None:
    state.unlink()
    refused(plain, f"states/{state.name} is not in the run at .*\\.")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(plain: Evaluation, state: Path, share: float) -> None:
    data = state.read_bytes()
    state.write_bytes(data[: int(len(data) * share)])
    refused(plain, f"states/{state.name} cannot be read: .*\\.")


@pytest.mark.parametrize("place", [index / 40 for index in range(1, 40)])
def test_a_flipped_bit_is_refused_or_changes_nothing(plain: Evaluation, state: Path, place: float) -> None:
    variants = ["new0", "new1", "new2", "new3"]

    def outcome() -> str:
        try:
            return digest(read(plain, variants))
        except RunError as error:
            return str(error)

    before, data = outcome(), bytearray(state.read_bytes())
    data[int(len(data) * place)] ^= 16
    state.write_bytes(bytes(data))
    after = outcome()
    assert after == before or after.startswith(f"states/{state.name} ")


def test_a_state_that_was_altered_with_its_own_digests_is_refused(plain: Evaluation, state: Path) -> None:
    tally = decode(state.read_bytes())
    key = next(key for key in tally.states if key.variant == "new1")
    next(iter(tally.states[key].values())).flat[0] += 1
    state.write_bytes(encode(tally))
    refused(plain, f"states/{state.name} is not what its name says: it was altered, do not trust the run\\.")


def test_two_files_that_changed_places_are_refused(found: Evaluation) -> None:
    directory, _, plan, (one, other, *_) = opened(found)
    swapped = [replace(one, file=other.file), replace(other, file=one.file)]
    with pytest.raises(RunError, match=r"holds 1 units that are not the 1 of its commit: the run cannot be trusted\.$"):
        merge_files(directory.open_state, swapped, run_accumulators(plan))
    with pytest.raises(RunError, match=r"holds 1 units that are not the 1 of its commit: the run cannot be trusted\.$"):
        read(found, ["new1"], listed(swapped))


def test_a_unit_in_two_files_is_refused(found: Evaluation) -> None:
    _, _, _, files = opened(found)
    unit = files[0].receipts[0].unit
    sentence = f"Unit {unit} is in two state files that are to be merged: its rows would count twice."
    with pytest.raises(RunError, match=f"^{sentence}$"):
        listed((*files, files[0]))


def test_states_of_a_variant_that_the_run_does_not_have_are_refused(plain: Evaluation, state: Path) -> None:
    directory, spec, plan, (file,) = opened(plain)
    tally = decode(state.read_bytes())
    foreign = {StateKey("main", "guest", "support.v1", "scored"): next(iter(tally.states.values()))}
    larger = Tally(tally.receipts, {**tally.states, **foreign})
    directory.save_state(digest(larger), encode(larger))
    sentence = (
        f"states/{digest(larger)}.arrow holds states of variant 'guest' in task 'main', which the run does not have: "
        "the run cannot be trusted."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        reduction_of(directory, spec, plan).read(Leaf(listed([replace(file, file=digest(larger))]), ("new0",)))


def test_without_any_file_every_variant_has_failed(plain: Evaluation) -> None:
    directory, spec, plan, _ = opened(plain)
    (findings,) = reduced_here(reduction_of(directory, spec, plan), trees(spec, plan, ()))
    assert findings.tasks == ()
    results = conclude_run(spec, plan, [findings], ())
    assert set(results.metrics["undefined"].to_pylist()) == {"no rows"}


def test_reductions_of_the_same_run_are_equal(plain: Evaluation) -> None:
    directory, spec, plan, _ = opened(plain)
    reduction = reduction_of(directory, spec, plan)
    read(plain, ["new0"])
    assert isinstance(reduction, ShardReduction)
    assert pickle.loads(pickle.dumps(reduction)) == reduction
