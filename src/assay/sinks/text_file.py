"""A file of text, compressed or not."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

COMPRESSIONS = ("none", "gzip", "zstd")
ENDINGS = {"none": "", "gzip": ".gz", "zstd": ".zst"}
GROUP_ROWS = 8_192
"""Rows that are made into text at a time."""


class TextFile:
    """Open for writing."""

    def __init__(self, path: Path, compression: str) -> None:
        self._open = ExitStack()
        self.stream: pa.NativeFile = self._open.enter_context(pa.OSFile(str(path), "wb"))
        if compression != "none":
            self.stream = self._open.enter_context(pa.CompressedOutputStream(self.stream, compression))

    def close(self) -> None:
        self._open.close()
