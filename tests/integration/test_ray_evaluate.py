"""Ray datasets as the rows of an evaluation: the digits of the same rows in a frame, whatever the blocks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import ray
import ray.data
from ray.data.expressions import col

import assay
from assay.errors import DataError, RunError
from assay.integrations.ray_data import evaluate
from assay.integrations.ray_data.dataset import DatasetSource
from assay.records import Progress, Unit
from assay.sources.frame import FrameSource

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),  # Ray Data's, at its own defaults
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
ROWS = 400


@pytest.fixture(autouse=True)
def _quiet(ray_address: str) -> Iterator[None]:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    level = logging.getLogger("ray.data").level
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    yield
    logging.getLogger("ray.data").setLevel(level)


def logged() -> pa.Table:
    chance = np.random.default_rng(5)
    y = (chance.random(ROWS) < 0.4).astype(np.int8)
    return pa.table(
        {
            "y": y,
            "user": chance.integers(0, 60, ROWS),
            "country": pa.array(chance.choice(["DE", "US", "FR"], ROWS), mask=chance.random(ROWS) < 0.1),
            "weight": chance.random(ROWS),
            "old": np.clip(0.4 + 0.2 * y + 0.2 * chance.normal(size=ROWS), 0.01, 0.99),
            "new": np.clip(0.4 + 0.3 * y + 0.2 * chance.normal(size=ROWS), 0.01, 0.99),
        }
    )


def pieces(table: pa.Table, *sizes: int) -> ray.data.Dataset:
    """A dataset of blocks of these sizes."""
    starts = np.cumsum([0, *sizes])
    return ray.data.from_arrow([table.slice(start, size) for start, size in zip(starts, sizes, strict=False)])


WORDS: dict[str, Any] = {
    "label": "y",
    "scores": ["old", "new"],
    "baseline": "old",
    "cluster": "user",
    "slices": ["country"],
    "weight": "weight",
    "output": "probability",
    "metrics": ["auc", "log_loss"],
}
TABLES = ("metrics", "comparisons", "coverage", "curves")


def test_the_digits_are_those_of_a_frame_whatever_the_blocks() -> None:
    expected = assay.evaluate(logged(), **WORDS)
    for sizes in [(400,), (1, 0, 250, 149)]:
        found = evaluate(pieces(logged(), *sizes), workers=1, **WORDS)
        for name in TABLES:
            assert getattr(found, name).equals(getattr(expected, name)), name


def test_steps_before_it_are_part_of_the_rows() -> None:
    """A join with labels that came later, a map and a filter; the order is the dataset's."""
    table = logged()
    kept = table.filter(pa.compute.greater(table["weight"], 0.5))
    expected = assay.evaluate(kept.drop_columns("weight"), label="y", scores=["old"], metrics=["auc"], cluster="user")
    ds = pieces(table, 150, 250).filter(expr=col("weight") > 0.5).map(lambda row: {**row, "weight": None})
    found = evaluate(ds, label="y", scores=["old"], metrics=["auc"], cluster="user", workers=1)
    assert found.metrics.equals(expected.metrics)


def test_a_join_is_part_of_the_rows() -> None:
    numbered = logged().append_column("row", pa.array(range(ROWS)))
    left, right = numbered.drop_columns("y"), numbered.select(["row", "y"]).slice(100)
    ds = pieces(left, 200, 200).join(pieces(right, 300), "inner", 2, on=("row",))
    found = evaluate(ds, label="y", scores=["old"], metrics=["auc"], cluster="user", workers=1)
    expected = assay.evaluate(numbered.slice(100), label="y", scores=["old"], metrics=["auc"], cluster="user")
    assert found.metrics["value"].to_pylist() == expected.metrics["value"].to_pylist()
    assert found.metrics["rows"].to_pylist() == [300]


def test_it_says_that_it_cannot_be_resumed(tmp_path: Path) -> None:
    said: list[Progress] = []
    out = tmp_path / "run"
    evaluate(pieces(logged(), 400), out=out, workers=1, report=said.append, **WORDS)
    assert said[0].message == "Executor: ray, for a Ray dataset. The run cannot be resumed."
    (out / "results" / "metrics.parquet").unlink()
    with pytest.raises(
        RunError, match=r"was over a Ray dataset, which is gone\. Start it again in another directory\."
    ):
        assay.resume(out)
    with pytest.raises(RunError, match="already, and one over a Ray dataset cannot go on or be compared with it"):
        evaluate(pieces(logged(), 400), out=out, workers=1, **WORDS)


def test_rows_are_read_by_position_across_blocks() -> None:
    table = logged()
    source, frame = DatasetSource(pieces(table, 100, 0, 150, 150)), FrameSource(table)
    assert source.schema == frame.schema
    assert source.fragments[0].row_groups == (400,)
    for first, rows in [(0, 400), (90, 20), (100, 150), (399, 1), (249, 2)]:
        (chunk,) = source.read(Unit("u", "dataset", first, rows, 0), ["user", "country"])
        assert (chunk.path, chunk.first_row) == ("dataset", first)
        assert chunk.table.equals(table.select(["user", "country"]).slice(first, rows))


def test_row_groups_of_large_rows_are_small() -> None:
    wide = pa.table({"x": range(10), "image": pa.array([bytes(20 << 20)] * 10)})
    source = DatasetSource(pieces(wide, 3, 7))
    assert source.fragments[0].row_groups == (4, 4, 2)
    chunks = list(source.read(Unit("u", "dataset", 2, 8, 0), ["x"]))
    assert [(chunk.first_row, chunk.table["x"].to_pylist()) for chunk in chunks] == [
        (2, [2, 3]),
        (4, [4, 5, 6, 7]),
        (8, [8, 9]),
    ]
    assert source.first_values("x") == {"dataset": (0.0, 4.0, 8.0)}


def test_statistics_are_those_of_a_frame() -> None:
    table = logged().append_column("nan", pa.array([float("nan")] * 200 + [1.5] * 199 + [None]))
    source, frame = DatasetSource(pieces(table, 200, 50, 150)), FrameSource(table)
    for name in [*table.column_names, "no such column"]:
        assert source.statistics(name) == frame.statistics(name), name
    assert source.first_values("user") == {"dataset": (float(min(table["user"].to_pylist())),)}
    assert source.first_values("country") is None
    assert source.first_values("no such column") is None


def test_columns_as_they_were_come_out_for_carrying_over() -> None:
    table = pa.table({"day": pa.array([1, 2], pa.date32()), "word": pa.array(["a", None]).dictionary_encode()})
    source = DatasetSource(pieces(table, 1, 1))
    (chunk,) = source.read_original(Unit("u", "dataset", 0, 2, 0), ["word", "day"])
    assert chunk.table.equals(table.select(["word", "day"]).unify_dictionaries())


def test_what_workers_get_is_where_the_rows_are() -> None:
    """Of 32 MB a few thousand bytes travel with the job."""
    wide = pa.table({"y": range(1000), "text": [b"x" * 32_000] * 1000})
    assert len(ray.cloudpickle.dumps(DatasetSource(pieces(wide, 500, 500)))) < 20_000


def test_the_datasets_own_settings_stay_as_they_are() -> None:
    ds = pieces(logged(), 400)
    DatasetSource(ds)
    assert not ds.context.execution_options.preserve_order


def test_what_cannot_be_evaluated_is_said() -> None:
    def breaks(row: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("no such luck")

    with pytest.raises(DataError, match=r"^The data have no rows: the dataset is empty\. Look at its filters; "):
        evaluate(pieces(logged(), 400).filter(expr=col("weight") > 2), **WORDS)
    with pytest.raises(DataError, match=r"^The dataset cannot be read: .*no such luck"):
        evaluate(pieces(logged(), 400).map(breaks), **WORDS)
    with pytest.raises(RunError, match=r"^A Ray dataset cannot be read by the executor 'local': drop it, or say exec"):
        evaluate(pieces(logged(), 400), executor="local", **WORDS)
    with pytest.raises(RunError, match=r"^A Ray dataset is evaluated on the Ray cluster that it belongs to, but got"):
        evaluate(pieces(logged(), 400), address="a:1", **WORDS)
    words = {"label": "y", "variants": [{"name": "old", "column": "old"}], "metrics": ["auc"]}
    with pytest.raises(
        RunError, match=r"^The rows are those of a Ray dataset, which the executor 'local' cannot have\."
    ):
        assay.evaluate(DatasetSource(pieces(logged(), 400)), executor="local", **words)
    both = pieces(pa.table({"y": [1]}), 1).union(pieces(pa.table({"y": [1], "z": [2]}), 1))
    with pytest.raises(
        DataError, match=r"^Some blocks of the dataset have a column 'z' and others have not\. Give each"
    ):
        evaluate(both, **WORDS)
