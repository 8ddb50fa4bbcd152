"""The seeded sample: the same for the same seed, whole pieces, evenly thinned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from assay.sources.csv import CsvSource
from assay.sources.frame import GROUP_ROWS, FrameSource
from assay.sources.parquet import ParquetSource
from assay.sources.sample import sample

SOURCE = FrameSource(pa.table({"x": np.arange(5 * GROUP_ROWS), "y": np.zeros(5 * GROUP_ROWS)}))


def rows(seed: int, max_rows: int, max_pieces: int) -> list[int]:
    table = sample(SOURCE, ["x"], seed, max_rows, max_pieces)
    assert table.column_names == ["x"]
    return list(table["x"].to_pylist())


def test_all_rows_when_they_fit() -> None:
    assert rows(0, 5 * GROUP_ROWS, 5) == list(range(5 * GROUP_ROWS))


def test_the_seed_decides() -> None:
    assert rows(1, 1000, 3) == rows(1, 1000, 3)
    assert rows(1, 1000, 3) != rows(2, 1000, 3)


def test_pieces_and_rows_are_bounded_and_rows_keep_their_order() -> None:
    drawn = rows(1, 1000, 3)
    assert 990 <= len(drawn) <= 1000
    assert drawn == sorted(drawn)
    assert len({row // GROUP_ROWS for row in drawn}) == 3


def test_thinned_rows_are_spread_over_their_piece() -> None:
    drawn = np.array(rows(1, 4000, 5)) % GROUP_ROWS
    assert np.histogram(drawn, bins=8, range=(0, GROUP_ROWS))[0].min() > 400


def test_files_without_row_groups_are_streamed(tmp_path: Path) -> None:
    for name, start in (("a.csv", 0), ("b.csv", 10)):
        (tmp_path / name).write_text("x\n" + "".join(f"{i}\n" for i in range(start, start + 10)))
    source = CsvSource(["a.csv", "b.csv"], tmp_path)
    assert sample(source, ["x"], 0, 100, 4)["x"].to_pylist() == list(range(20))
    assert sample(source, ["x"], 0, 10, 1)["x"].to_pylist() in (list(range(10)), list(range(10, 20)))


def test_of_small_pieces_more_are_drawn(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}.csv").write_text("x\n" + f"{number}\n" * 10)
    paths = [f"{number}.csv" for number in range(9)]
    groups = pa.table({"x": np.repeat(np.arange(9), 10)})
    pq.write_table(groups, tmp_path / "all.parquet", row_group_size=10)
    for source in (CsvSource(paths, tmp_path), ParquetSource(["all.parquet"], tmp_path)):
        assert sample(source, ["x"], 0, 90, 2).equals(groups)
        assert len(sample(source, ["x"], 0, 40, 2)) == 40
