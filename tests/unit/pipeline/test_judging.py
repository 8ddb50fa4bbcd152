"""Choosing on one part of the clusters and judging on the other, from the spec to verdicts and notes."""

from __future__ import annotations

import re

import pytest
from fakes.sweep import WORDS, sweep

from assay.api import evaluate
from assay.errors import SpecError
from assay.evaluation import Evaluation
from assay.pipeline.verify import verify

TABLE = sweep()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    return evaluate(
        TABLE, **WORDS, confirm={"metric": "auc", "fraction": 0.4}, out=tmp_path_factory.mktemp("c") / "run"
    )


def test_the_best_is_judged_and_the_others_are_not_selected(found: Evaluation) -> None:
    outcomes = {verdict.variant: verdict.outcome for verdict in found.verdicts}

    assert outcomes == {"new0": "not selected", "new1": "not selected", "new2": "pass", "new3": "not selected"}
    assert found.outcome == "pass"
    assert re.fullmatch(
        r"Its auc is 0\.\d+ on the part that serves to choose, rank 4 of 4; the best one was judged\.",
        found.verdicts[0].reason,
    )


def test_the_report_shows_the_value_on_both_parts(found: Evaluation) -> None:
    how, optimism, *_ = found.results.notes

    assert how.startswith("1 of 4 variants was chosen by auc on 60 % of the clusters and judged on the other 40 %;")
    judged = next(row for row in found.metrics.to_pylist() if row["variant"] == "new2" and row["metric"] == "auc")
    number = r"(0\.\d+)"
    match = re.fullmatch(rf"new2: auc {number} where it was chosen, {number} where it is judged\.", optimism)
    assert match is not None
    assert float(match[2]) == pytest.approx(judged["value"], abs=1e-6)
    assert match[1] != match[2]


def test_both_parts_together_are_all_clusters(found: Evaluation) -> None:
    whole = evaluate(TABLE, **WORDS)
    rows = [row["rows"] for one in (found, whole) for row in one.metrics.to_pylist()[:1]]

    assert 0.3 < rows[0] / rows[1] < 0.5
    assert rows[0] % 4 == 0  # a user's four rows are in one part


def test_corrections_are_over_the_chosen_alone(found: Evaluation) -> None:
    gate = found.verdicts[2].gates[0]
    limits = [row["simultaneous_low"] for row in found.comparisons.to_pylist() if row["slice"] == "overall"]

    assert gate.adjusted_p_pass == gate.p_pass
    assert [low is not None for low in limits] == [False] * 4 + [True] * 2 + [False] * 2


def test_it_can_be_audited(found: Evaluation) -> None:
    assert verify(str(found.path)).passed


@pytest.mark.parametrize(
    ("confirm", "sentence"),
    [
        (
            {"metric": "acu"},
            "confirm.metric: 'acu' is not among the metrics of task 'main'; did you mean 'auc'?",
        ),
        (
            {"keep": 4},
            "confirm.keep: keeps 4 of 4 variants, so nothing is chosen; drop confirm to judge all on all rows.",
        ),
    ],
)
def test_faults_are_told_before_the_run(confirm: dict[str, object], sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        evaluate(TABLE, **WORDS, confirm=confirm)
    assert str(caught.value) == sentence


def test_families_and_simultaneous_intervals_of_a_run() -> None:
    variants = [{"name": f"new{number}", "column": f"new{number}", "family": "new"} for number in range(3)]
    variants.append({"name": "new3", "column": "new3", "family": "other"})
    found = evaluate(TABLE, **{**WORDS, "scores": ["old"], "variants": variants})

    auc = found.families.to_pylist()[0]
    assert found.results.notes[0] == "The family 'other' has one variant: there is no spread between seeds to show."
    rows = [row for row in found.comparisons.to_pylist() if row["metric"] == "auc" and row["slice"] == "overall"]
    assert (auc["family"], auc["num_seeds"], auc["slice"]) == ("new", 3, "overall")
    assert auc["difference"] == pytest.approx(sum(row["difference"] for row in rows[:3]) / 3)
    assert all(row["simultaneous_low"] < row["low"] < row["high"] < row["simultaneous_high"] for row in rows)
    assert all(row["q_value"] is None for row in rows)
    sliced = [row for row in found.comparisons.to_pylist() if row["slice"] in ("country=DE", "country=US")]
    assert all(row["q_value"] >= row["p_value"] and row["simultaneous_low"] is None for row in sliced)
