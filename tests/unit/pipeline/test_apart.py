"""Where a run and its predictions may lie: not where the next run would read them as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import RunError, SpecError
from assay.pipeline.apart import check_apart, check_predictions_apart
from assay.spec.load import build_spec
from assay.spec.model import Spec


def spec(path: object, **predictions: object) -> Spec:
    said = {"predictions": predictions} if predictions else {}
    return build_spec({"data": {"path": path, "label": "y"}, "variants": [{"name": "a", "column": "p"}], **said})


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "rows" / "day=1").mkdir(parents=True)
    (tmp_path / "rows" / "a.parquet").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("path", "out", "where"),
    [
        ("rows", "rows", "is in the data's folder 'rows'"),
        ("rows/", "rows/run", "is in the data's folder 'rows/'"),
        (["rows/a.parquet", "rows"], "rows/day=1/run", "is in the data's folder 'rows'"),
        (".", "runs/x", "is in the data's folder '.'"),
        ("rows/*", "rows/run", "matches the data's pattern 'rows/*'"),
        ("rows/**/*.parquet", "rows/runs/x", "matches the data's pattern 'rows/**/*.parquet'"),
        ("rows/day=*/", "rows/day=1/run", "matches the data's pattern 'rows/day=*/'"),
        ("rows/*.parquet", "rows", "matches the data's pattern 'rows/*.parquet'"),
    ],
)
def test_a_run_among_its_data_is_refused(base: Path, path: object, out: str, where: str) -> None:
    place = base / out
    with pytest.raises(SpecError) as caught:
        check_apart(spec(path), base, place)
    assert str(caught.value) == (
        f"out: '{place}' {where}, so that what is written would be read as data. Name a folder outside of it."
    )


@pytest.mark.parametrize(
    ("path", "out"),
    [
        ("rows", "runs/x"),
        ("rows", "rows2"),
        ("rows", "rows/_runs/x"),
        ("rows/a.parquet", "rows/run"),
        ("rows/*.parquet", "rows/run"),
        ("rows/*.csv", "rows"),
        ("rows/day=*/", "rows/run"),
        ("runs/*/predictions/*.parquet", "runs/x"),
        ("rows", "s3://bucket/rows/run"),
        (None, "rows"),
    ],
)
def test_a_run_apart_from_its_data_is_not(base: Path, path: object, out: str) -> None:
    check_apart(spec(path), base, out if "://" in out else base / out)


def test_what_the_run_itself_writes_as_predictions_counts(base: Path) -> None:
    path = "runs/*/predictions/*.csv"
    check_apart(spec(path, format="parquet"), base, base / "runs/x")
    with pytest.raises(SpecError, match=r"^out: '.*' matches the data's pattern 'runs/\*/predictions/\*\.csv'"):
        check_apart(spec(path, format="csv"), base, base / "runs/x")


def test_a_file_is_no_place(base: Path) -> None:
    with pytest.raises(SpecError, match=r"^predictions\.to: 'rows/a\.parquet' is a file; expected a folder\.$"):
        check_predictions_apart(spec("rows", to="rows/a.parquet"), base)
    with pytest.raises(RunError, match=r"^A run cannot be at ftp://x: no store has the scheme 'ftp'"):
        check_apart(spec("rows"), base, "ftp://x")


@pytest.mark.parametrize(
    ("to", "fault"),
    [
        (
            "rows/scored",
            "'rows/scored' is in the data's folder 'rows', so that what is written would be read as data. Name a "
            "folder outside of it.",
        ),
        (
            "ftp://x/y",
            "A run cannot be at ftp://x/y: no store has the scheme 'ftp'; expected 's3', 's3a', 'gs', 'az', 'abfs' or "
            "'abfss'.",
        ),
    ],
)
def test_predictions_among_the_data_are_refused(base: Path, to: str, fault: str) -> None:
    with pytest.raises(SpecError) as caught:
        check_predictions_apart(spec("rows", to=to), base)
    assert str(caught.value) == f"predictions.to: {fault}"


def test_predictions_are_not_the_runs_own_folder_nor_around_it(base: Path) -> None:
    run = base / "runs" / "x"
    check_apart(spec("rows", to="runs/x/predictions"), base, run)
    check_apart(spec("rows", to="scored"), base, run)
    check_apart(spec("rows", to="catalog.scored.x", format="iceberg"), base, run)
    for to in ("runs/x", "runs/x/states"):
        with pytest.raises(SpecError) as caught:
            check_apart(spec("rows", to=to), base, run)
        assert str(caught.value) == (
            f"predictions.to: '{to}' is in the run directory '{run}', whose files are the run's own. Name a folder "
            "outside of it, or leave it out."
        )
    with pytest.raises(SpecError) as caught:
        check_apart(spec("rows", to="runs"), base, run)
    assert str(caught.value) == (
        f"predictions.to: the run directory '{run}' is in 'runs', where readers of the predictions would read its "
        "files too. Name another folder for one of them."
    )
