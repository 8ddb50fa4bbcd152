"""Which files a path, folder, glob or list means."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import DataError
from assay.sources.files import find_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("day=2/b.parquet", "day=1/a.parquet", "day=1/.a.crc", "_SUCCESS", "_old/c.parquet", "readme.txt"):
        (tmp_path / "requests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "requests" / name).touch()
    return tmp_path


def test_a_folder_is_searched_to_any_depth_without_hidden_and_other_files(folder: Path) -> None:
    files = find_files(str(folder / "requests"))
    assert files.root == folder / "requests"
    assert files.paths == ("day=1/a.parquet", "day=2/b.parquet")
    assert files.format == "parquet"


def test_a_file_is_relative_to_its_folder(folder: Path) -> None:
    assert find_files(str(folder / "requests/day=1/a.parquet"))[:2] == (folder / "requests/day=1", ("a.parquet",))


def test_a_glob_may_match_folders_and_files_each_once(folder: Path) -> None:
    patterns = [str(folder / "requests/day=*"), str(folder / "requests/**/a.parquet")]
    assert find_files(patterns)[:2] == (folder / "requests", ("day=1/a.parquet", "day=2/b.parquet"))


def test_a_relative_path_means_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert find_files("requests") == find_files(str(folder / "requests"))
    assert find_files("requests/day=*/*") == find_files(str(folder / "requests"))


def test_with_a_format_a_folders_files_need_no_ending(tmp_path: Path) -> None:
    for name in ("part-0", "part-1.csv", "part-2.parquet"):
        (tmp_path / name).touch()
    assert find_files(str(tmp_path), "parquet").paths == ("part-0", "part-2.parquet")
    assert find_files(str(tmp_path), "csv").paths == ("part-0", "part-1.csv")


def refusal(where: str | list[str]) -> str:
    with pytest.raises(DataError) as caught:
        find_files(where)
    return str(caught.value)


def test_a_path_that_is_not_there_offers_the_nearest(folder: Path) -> None:
    assert refusal(f"{folder}/reqests") == (
        f"There is no file or folder '{folder}/reqests'. Did you mean '{folder}/requests'?"
    )
    assert refusal(f"{folder}/zzz/a.parquet") == (
        f"There is no file or folder '{folder}/zzz/a.parquet': there is no 'zzz' in '{folder}'."
    )


def test_a_glob_without_match(tmp_path: Path) -> None:
    assert refusal(f"{tmp_path}/*.parquet") == (
        f"The pattern '{tmp_path}/*.parquet' matches no file. Check it with: ls {tmp_path}/*.parquet"
    )


def test_a_folder_without_data(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    assert refusal(str(tmp_path)) == (
        f"There are no Parquet or CSV files in '{tmp_path}'. Files are known by their ending (.parquet, .parq, .pq, "
        ".csv, .csv.gz, .csv.bz2, .csv.zst); set data.format when they have none of these."
    )


def test_mixed_formats(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.parquet").touch()
    assert refusal(str(tmp_path)) == (
        f"The data mix Parquet ('{tmp_path}/b.parquet') and CSV ('{tmp_path}/a.csv'). "
        "Set data.format, or name the files of one of them."
    )


def test_an_unknown_ending(tmp_path: Path) -> None:
    (tmp_path / "data.bin").touch()
    assert refusal(str(tmp_path / "data.bin")) == (
        f"The ending of '{tmp_path}/data.bin' says neither Parquet nor CSV. Set data.format to parquet or csv."
    )
