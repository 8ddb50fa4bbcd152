"""A distant object as a file: parts are fetched as they are read, and some of what follows with them."""

from __future__ import annotations

import io
from collections.abc import Callable

AHEAD_BYTES = 4 << 20
"""Fetched at least: parts that are read one after the other cost one request for many."""


class RangeReader(io.RawIOBase):
    """For one thread. What `fetch` raises comes out of `read`."""

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, ahead: int = AHEAD_BYTES) -> None:
        """fetch: (start, end) -> these bytes, of an object of `size` bytes."""
        self._fetch = fetch
        self._size = size
        self._ahead = ahead
        self._place = 0
        self._start = 0  # of what was fetched last
        self._data = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._place + size, self._size)
        if self._place >= end:
            return b""
        if not self._start <= self._place <= end <= self._start + len(self._data):
            # Near the end, where a file says what it holds, what lies before belongs to it.
            self._start = max(0, min(self._place, self._size - self._ahead))
            self._data = self._fetch(self._start, min(max(end, self._start + self._ahead), self._size))
        found = self._data[self._place - self._start : end - self._start]
        self._place = end
        return found
