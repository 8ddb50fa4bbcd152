"""Why a run is silent, found by looking: where a worker's thread is, whether the store answers, how its device is.

Lives here: the looks, none of which takes longer than `PROBE_SECONDS`, and the sentences. Not here: that a run is
silent (`watch.py`), and how an executor reaches its workers' processes.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Generic, NamedTuple, TypeVar

from assay.errors import RunError
from assay.gauge import SILENT_SECONDS, Pulse
from assay.store.bucket import knock
from assay.store.place import Bucket, locate
from assay.telemetry import state_words

PROBE_SECONDS = 5.0
READER = "assay.reader"
LEAST_FREE_BYTES = 1_000_000
"""A disk with less is full, however small the states are."""
NO_ANSWER = "The process does not answer: it may be stopped, swapping, or hold the interpreter lock in native code."
Value = TypeVar("Value")


class Kind(NamedTuple):
    """What a thread does."""

    does: str  # the start of a sentence
    hint: str = ""  # and its end


NETWORK = Kind("It waits for a network answer", ": a model server may be slow or down")
THREAD, PROCESS = Kind("It waits for another thread"), Kind("It waits for another process")
KINDS = {
    **dict.fromkeys(("socket", "ssl", "http", "urllib", "urllib3", "requests", "httpx", "httpcore"), NETWORK),
    **dict.fromkeys(("aiohttp", "grpc", "websockets", "botocore", "tritonclient", "redis"), NETWORK),
    **dict.fromkeys(("threading", "queue", "concurrent"), THREAD),
    **dict.fromkeys(("subprocess", "multiprocessing"), PROCESS),
    **{name: Kind(f"It computes in {name}") for name in ("torch", "numpy", "lightgbm", "sklearn", "pandas", "scipy")},
    "asyncio": Kind("It waits in its event loop", NETWORK.hint),
    "importlib": Kind("It imports modules"),
    "numba": Kind("It compiles code with numba"),
}
"""Top-level module of a frame -> what it tells of whoever called it."""
NATIVE = (
    (re.compile(r"\bsleep\("), Kind("It sleeps")),
    (re.compile(r"\.(recv|recv_into|accept|connect|sendall)\("), NETWORK),
    (re.compile(r"\.(acquire|wait|join)\("), THREAD),
)
"""The same of a line that calls native code, which has no frame."""


class Answer(NamedTuple, Generic[Value]):
    """What came of a call that may hang."""

    value: Value | None
    error: Exception | None
    seconds: float | None  # that it took; None: it has not answered


def within(seconds: float, call: Callable[[], Value]) -> Answer[Value]:
    """Call in a thread of its own, which is left to itself when it takes longer."""
    found: list[Answer[Value]] = []
    started = time.monotonic()

    def run() -> None:
        try:
            found.append(Answer(call(), None, time.monotonic() - started))
        except Exception as error:  # whatever it is, it is the answer
            found.append(Answer(None, error, time.monotonic() - started))

    thread = threading.Thread(target=run, name="assay-probe", daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else Answer(None, None, None)


# ---- where a thread is -----------------------------------------------------------------------------------------------


class Call(NamedTuple):
    """One frame of a stack."""

    module: str
    file: str  # its whole path
    line: int
    function: str
    code: str  # of that line; "" where there is none

    @property
    def place(self) -> str:
        return f"{Path(self.file).name}, line {self.line}, in `{self.function}`"

    @property
    def top(self) -> str:
        """The top-level module."""
        return self.module.partition(".")[0] or self.module


class Whereabouts(NamedTuple):
    """What a worker's process says when it is asked what it does."""

    stack: tuple[Call, ...]  # innermost last; () where that thread is no more
    pulse: Pulse


def stack_of(thread: int | None) -> tuple[Call, ...]:
    """thread: its number in this process."""
    frame = None if thread is None else sys._current_frames().get(thread)
    calls: list[Call] = []
    while frame is not None:
        calls.append(_call(frame))
        frame = frame.f_back
    return tuple(calls[::-1])


def _call(frame: FrameType) -> Call:
    code = frame.f_code
    line = linecache.getline(code.co_filename, frame.f_lineno).strip()
    return Call(str(frame.f_globals.get("__name__", "")), code.co_filename, frame.f_lineno, code.co_name, line)


def where_words(stack: Sequence[Call]) -> str:
    """What the thread does, in a sentence; "" where it is in nobody's code but ours."""
    own, ours = _last(stack, _is_users), _last(stack, _is_ours)
    if max(own, ours) < 0:
        return ""
    caller, inner = stack[max(own, ours)], stack[max(own, ours) + 1 :]
    if caller.module == READER:
        return "It waits for rows: the storage of the data may be slow."
    return _sentence(caller, inner) if inner or own > ours else ""


def _last(stack: Sequence[Call], which: Callable[[Call], bool]) -> int:
    """-1: none."""
    return max((index for index, call in enumerate(stack) if which(call)), default=-1)


def _sentence(caller: Call, inner: Sequence[Call]) -> str:
    kind = _kind(caller, inner)
    if kind is not None:
        call = f"{inner[0].top}.{inner[0].function}, called from " if inner else ""
        return f"{kind.does} ({call}{caller.place}){kind.hint}."
    if _is_ours(caller):
        return f"It is in {inner[-1].module}: {inner[-1].place}."
    return f"It is in {caller.place}{f': {caller.code}' if caller.code and not inner else ''}."


def _kind(caller: Call, inner: Sequence[Call]) -> Kind | None:
    """A client that waits for an answer in a thread of its own still waits for the network."""
    kinds = [KINDS[one.top] for one in reversed(inner) if one.top in KINDS]
    if NETWORK in kinds:
        return NETWORK
    if kinds or inner:
        return kinds[0] if kinds else None
    return next((kind for pattern, kind in NATIVE if pattern.search(caller.code)), None)


def _is_ours(call: Call) -> bool:
    return call.top == "assay"


def _is_users(call: Call) -> bool:
    """Neither ours, nor the standard library, nor an installed package."""
    if _is_ours(call) or call.file.startswith("<frozen"):
        return False
    installed = "site-packages" in call.file or "dist-packages" in call.file
    return not installed and not call.file.startswith((sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")))


# ---- sentences on a stall --------------------------------------------------------------------------------------------


def scoring_words(answer: Answer[Whereabouts]) -> str:
    """Where a worker is that scores, or loads, and what of its device may be the cause."""
    if answer.value is None:
        return NO_ANSWER if answer.error is None else f"It could not be asked: {answer.error}"
    where, pulse = answer.value
    device = state_words(pulse.reading)
    if pulse.silent_seconds > SILENT_SECONDS:
        device = f"Its GPU's driver has not answered for {pulse.silent_seconds:.0f} s."
    return " ".join(filter(None, [where_words(where), device]))


def storage_words(place: str, state_bytes: int, seconds: float = PROBE_SECONDS) -> str:
    """Whether the storage of a run is full, or slow, or away. place: of its directory. state_bytes: of one worker's."""
    located = locate(place)
    look = (lambda: knock(located, round(seconds))) if isinstance(located, Bucket) else (lambda: _disk(located))
    shown = located.url if isinstance(located, Bucket) else str(located)
    answer = within(seconds, look)
    if answer.seconds is None:
        return f"{shown} did not answer within {seconds:.0f} s."
    if isinstance(answer.error, RunError):
        return str(answer.error)
    if answer.error is not None:
        return f"{shown} cannot be looked at: {answer.error}."
    free = answer.value
    if isinstance(free, Free) and (full := full_words(shown, free, state_bytes)):
        return full
    return (
        f"The store of the run answers in {answer.seconds:.1f} s, so the worker's own network or the size of its "
        f"states (up to {_size(state_bytes)}) may be the cause."
    )


class Free(NamedTuple):
    """What a disk has left for this user."""

    bytes: int
    files: int | None  # None: it does not count them


def _disk(folder: Path) -> Free:
    found = os.statvfs(folder)
    return Free(found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None)


def full_words(folder: str, free: Free, state_bytes: int) -> str:
    """ "" where there is room for a worker's states."""
    if free.bytes < max(LEAST_FREE_BYTES, state_bytes):
        return f"The disk of {folder} has {_size(free.bytes)} free."
    if free.files == 0:
        return f"The disk of {folder} has no room for another file: its inodes are used up."
    return ""


def _size(number: int) -> str:
    """
    >>> _size(0), _size(999_999), _size(1_200_000_000)
    ('0 bytes', '1.0 MB', '1.2 GB')
    """
    if number < 100_000:
        return f"{number:,} bytes"
    return f"{number / 1e6:,.1f} MB" if number < 1e9 else f"{number / 1e9:,.1f} GB"
