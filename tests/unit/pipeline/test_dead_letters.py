"""The first reasons, out of files of dead letters."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from assay.pipeline.dead_letters import MOST_FILES, first_reasons
from assay.records import ListedPart, PartFile, Predictions
from assay.store.run import RunDirectory


def written(folder: Path, *files: list[tuple[str, str]]) -> list[ListedPart]:
    (folder / "dead-letter").mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(files):
        columns = {"_variant": [one for one, _ in rows], "_reason": [one for _, one in rows], "_row": range(len(rows))}
        pq.write_table(pa.table(columns), folder / "dead-letter" / f"{number}.parquet")
    return [ListedPart(str(number), PartFile(f"{number}.parquet", 1, 1, "")) for number in range(len(files))]


def manifest(dead: dict[str, int], parts: list[ListedPart]) -> Predictions:
    return Predictions("r", "p", "parquet", 9, (), (), dead, "d", tuple(parts))


def test_the_first_that_differ_in_the_order_of_the_data(tmp_path: Path) -> None:
    first = [("a", "one."), ("a", "one."), ("a", "two."), ("a", "three."), ("a", "four.")]
    parts = written(tmp_path, first, [("b", "five."), ("a", "six.")], [("b", "seven.")])
    found = first_reasons(RunDirectory.create(str(tmp_path)), manifest({"a": 6, "b": 2}, parts))
    assert found == {"a": ("one.", "two.", "three."), "b": ("five.",)}


def test_no_more_than_a_few_files_are_read(tmp_path: Path) -> None:
    parts = written(tmp_path, *([[("a", "one.")]] * MOST_FILES), [("b", "two.")])
    found = first_reasons(RunDirectory.create(str(tmp_path)), manifest({"a": MOST_FILES, "b": 1}, parts))
    assert found == {"a": ("one.",), "b": ()}


def test_a_file_that_is_gone_is_said(tmp_path: Path) -> None:
    parts = written(tmp_path, [("a", "one.")])
    (tmp_path / "dead-letter" / "0.parquet").write_bytes(b"damaged")
    [said] = first_reasons(RunDirectory.create(str(tmp_path)), manifest({"a": 1}, parts))["a"]
    assert "Parquet" in said
    (tmp_path / "dead-letter" / "0.parquet").unlink()
    [said] = first_reasons(RunDirectory.create(str(tmp_path)), manifest({"a": 1}, parts))["a"]
    assert said == f"dead-letter/0.parquet is not in the run at {tmp_path}."
