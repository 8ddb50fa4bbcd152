"""What a user may call the place of a run, and what is said of what he may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import RunError
from assay.store.place import Bucket, absolute, locate, shown


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("runs/today", Path("runs/today")),
        ("my runs/~x/", Path("my runs/~x")),
        (Path("/mnt/run"), Path("/mnt/run")),
        ("file:///mnt/my%20run", Path("/mnt/my run")),
        ("s3:", Path("s3:")),
        ("s3://bucket", Bucket("s3", "bucket", "")),
        ("s3://bucket/a/b c/", Bucket("s3", "bucket", "a/b c")),
        ("S3://bucket/50%20", Bucket("s3", "bucket", "50%20")),
        (Path("s3://bucket/a"), Bucket("s3", "bucket", "a")),  # pathlib drops a slash
        ("gs://bucket/a", Bucket("gs", "bucket", "a")),
        ("az://container/a", Bucket("az", "container", "a")),
        (
            "abfss://container@account.dfs.core.windows.net/a",
            Bucket("abfss", "container@account.dfs.core.windows.net", "a"),
        ),
    ],
)
def test_a_place_is_a_folder_or_in_a_bucket(text: str | Path, place: Path | Bucket) -> None:
    assert locate(text) == place


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "s4://bucket/a",
            "A run cannot be at s4://bucket/a: no store has the scheme 's4'; expected 's3', 's3a', 'gs', 'az', 'abfs' "
            "or 'abfss'.",
        ),
        ("gcs://bucket/a", "A run cannot be at gcs://bucket/a: no store has the scheme 'gcs'; did you mean 'gs'?"),
        ("s3://", "A run cannot be at s3://: it names no bucket. Write s3://BUCKET/PATH."),
        ("s3:///a", "A run cannot be at s3:///a: it names no bucket. Write s3://BUCKET/PATH."),
        ("s3://bucket/a//b", "A run cannot be at s3://bucket/a//b: a part of its path is empty, '.' or '..'."),
        ("gs://bucket/../b", "A run cannot be at gs://bucket/../b: a part of its path is empty, '.' or '..'."),
        ("file://mnt/run", "A run cannot be at file://mnt/run: a URL of a folder has three slashes, file:///FOLDER."),
    ],
)
def test_a_place_that_cannot_be_is_told(text: str, sentence: str) -> None:
    with pytest.raises(RunError) as caught:
        locate(text)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("text", ["s3://key:secret@bucket/a", "s3://bucket/a?sig=secret", "az://container/a#secret"])
def test_keys_in_a_url_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(RunError) as caught:
        locate(text)
    scheme, prefix = text[:2], "AWS" if text[:2] == "s3" else "AZURE"
    assert str(caught.value) == (
        f"A run cannot be at {scheme}://...: a bucket and a path are all that may be in it. Keys and settings come "
        f"from environment variables ({prefix}_...) or from the machine's own role."
    )


def test_a_place_for_other_processes_and_for_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("runs/a") == f"{tmp_path}/runs/a"
    assert absolute("s3://bucket/a b/") == "s3://bucket/a b"
    assert shown("runs/a/") == Path("runs/a")
    assert shown(Path("s3://bucket/a")) == "s3://bucket/a"


def test_a_path_in_a_bucket_is_taken_as_it_stands() -> None:
    assert locate("s3://bucket/a b/50%20").encoded == "s3://bucket/a%20b/50%2520"  # type: ignore[union-attr]
    assert Bucket("s3", "bucket", "").under("a/").url == "s3://bucket/a"
