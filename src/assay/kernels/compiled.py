"""The decorator of all kernels: compiled when first called, and kept on disk for the next process.

Numba keeps compiled code by itself, but lets two processes that save two forms of one kernel at the same moment
(float32 and float64, say) choose one file for both. A third one would then run the code of one form on values of the
other. So whoever saves holds a lock, a file beside the code.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache

LOCK = "assay-kernels.lock"

Function = TypeVar("Function", bound=Callable[..., Any])  # Any: of any kernel


class LockedCache(FunctionCache):
    """Numba's cache of one function, into which one process at a time saves."""

    def save_overload(self, sig: Any, data: Any) -> None:  # Any: numba's own
        with locked(Path(self.cache_path)):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """No other process is inside with the same folder; others may be where it takes no locks, as some network disks."""
    with ExitStack() as stack:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context((folder / LOCK).open("a"))  # closed, it is free; so it is when the process dies
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def kernel(function: Function) -> Function:
    """Compiled without Python objects, so that threads run beside it; its `py_func` is the plain function."""
    dispatcher: Any = njit(nogil=True)(function)  # Any: numba's own
    dispatcher._cache = LockedCache(function)  # type: ignore[no-untyped-call]  # `enable_caching` takes no other kind
    return cast(Function, dispatcher)
