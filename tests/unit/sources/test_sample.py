"""The seeded sample: the same for the same seed, whole pieces, evenly thinned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from assay.sources.csv import CsvSource
from assay.sources.frame import GROUP_ROWS, FrameSource
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
    assert sample(source, ["x"], 0, 100, 1)["x"].to_pylist() in (list(range(10)), list(range(10, 20)))
