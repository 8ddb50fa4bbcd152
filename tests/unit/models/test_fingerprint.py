from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from assay.errors import ModelError
from assay.models.fingerprint import digest_path, fingerprint, path_bytes


def test_a_files_digest_is_the_sha256_of_its_content(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert digest_path("v", tmp_path / "empty") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_folders_digest_is_its_files_and_their_names(tmp_path: Path) -> None:
    one = tmp_path / "one"
    (one / "sub").mkdir(parents=True)
    (one / "a.bin").write_bytes(b"a")
    (one / "sub" / "b.bin").write_bytes(b"b")
    before = digest_path("v", one)
    assert digest_path("v", shutil.copytree(one, tmp_path / "two")) == before
    (one / "__pycache__").mkdir()
    (one / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert digest_path("v", one) == before
    (one / "a.bin").rename(one / "c.bin")
    assert digest_path("v", one) != before


def test_a_models_bytes_are_those_that_are_digested(tmp_path: Path) -> None:
    (tmp_path / "one" / "sub" / "__pycache__").mkdir(parents=True)
    (tmp_path / "weights").write_bytes(b"1234")
    (tmp_path / "one" / "a").write_bytes(b"12")
    (tmp_path / "one" / "sub" / "b").write_bytes(b"1")
    (tmp_path / "one" / "sub" / "__pycache__" / "c.pyc").write_bytes(b"12345")
    assert path_bytes(tmp_path / "weights", tmp_path / "one") == 7
    assert path_bytes(tmp_path / "gone") == path_bytes() == 0


def test_a_files_content_changes_the_digest(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    before = digest_path("v", tmp_path / "a")
    (tmp_path / "a").write_bytes(b"b")
    assert digest_path("v", tmp_path / "a") != before


def test_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        digest_path("v", tmp_path / "gone")
    assert str(caught.value) == f"Variant 'v': there is no file or folder '{tmp_path}/gone'."


def test_parts_are_told_apart_and_their_order_does_not_matter() -> None:
    assert fingerprint("k", {"a": 1, "b": "2"}) == fingerprint("k", {"b": "2", "a": 1})
    assert fingerprint("k", {"a": 1, "b": "2"}) != fingerprint("k", {"a": "1", "b": 2})
    assert fingerprint("k", {}) != fingerprint("l", {})
