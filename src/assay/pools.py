"""The memory that Arrow takes: kept for the next piece, while one piece after the other is read and written.

Lives here: which of Arrow's memory pools is the default one, and for how long. Arrow's own choice hands what is freed
back to the system at once, and has it cleared and mapped again for the next piece, which takes long where pieces are
wide. jemalloc keeps it for a while.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

CHOSEN_BY_USER = "ARROW_DEFAULT_MEMORY_POOL"
_LOCK = threading.Lock()
_before: list[pa.MemoryPool] = []
"""The default pool as it was before each of those who are inside; the first one is put back by the last to leave."""


@contextmanager
def memory_kept() -> Iterator[None]:
    """What Arrow allocates inside comes from a pool that keeps what is freed; of any thread, since the default is one
    for all. Nothing changes where there is no such pool, or the environment names one."""
    keeps = "jemalloc" in pa.supported_memory_backends() and CHOSEN_BY_USER not in os.environ
    if not keeps:
        yield
        return
    with _LOCK:
        _before.append(pa.default_memory_pool())
        pa.set_memory_pool(pa.jemalloc_memory_pool())
    try:
        yield
    finally:
        with _LOCK:
            before = _before.pop()
            if not _before:
                pa.set_memory_pool(before)
