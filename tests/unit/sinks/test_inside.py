"""What files of text say of themselves."""

from __future__ import annotations

import pytest

from assay.sinks import inside as module
from assay.sinks.inside import Unreadable, inside


def test_a_line_may_end_within_quotes_and_pieces_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 3)
    found = inside(b'"i, d","te""xt"\n1,"a ""b"",\nc"\n2,""\n', "country=US/part-0.csv")
    assert ([name for name, _ in found.columns], found.rows) == (["i, d", 'te"xt'], 2)
    found = inside(b'{"id": "a \\"\\nb", "x": 1}\n{"id": null, "x": 2}\n', "part-0.jsonl")
    assert ([name for name, _ in found.columns], found.rows) == (["id", "x"], 2)


@pytest.mark.parametrize("content", [b"3\n", b"[1]\n", b"", b"x"])
def test_json_lines_that_are_none(content: bytes) -> None:
    with pytest.raises(Unreadable):
        inside(content, "part-0.jsonl")
