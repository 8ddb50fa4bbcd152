"""Functions that hang until they are let go: on a pipe, on a server that does not answer, on a lock."""

from __future__ import annotations

import os
import socket
import threading
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
from fakes.small_run import FakeModel, make_setup

from assay.records import Job
from assay.worker import WorkerSetup


def reads_a_pipe(end: int) -> None:
    os.read(end, 1)


def asks_a_server(port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/predict") as answer:
        answer.read()


def listens_to(connection: socket.socket) -> None:
    connection.recv(1)


def waits_for_a_lock(lock: threading.Lock) -> None:
    lock.acquire()
    lock.release()


def waits_for_an_event(event: threading.Event) -> None:
    event.wait()


# ---- in a run --------------------------------------------------------------------------------------------------------


def opens_a_gate(gate: str) -> None:
    """A named pipe: until somebody writes."""
    with open(gate, "rb") as pipe:
        pipe.read(1)


def gated(of: Job, bundle: int = 0) -> WorkerSetup:
    """Of a run whose baseline waits, at row 0, until the gate in its folder is opened; its process is written there."""
    folder = Path(of.base)

    def score(positions: np.ndarray) -> np.ndarray:
        if 0.0 in positions:
            (folder / "pid").write_text(str(os.getpid()))
            opens_a_gate(str(folder / "gate"))
        return positions

    made = make_setup(of)
    return replace(made, scoring=replace(made.scoring, models=(FakeModel("base", score),)))


def slow_to_load(of: Job, bundle: int = 0) -> WorkerSetup:
    """Its worker is not ready before the gate is opened."""
    opens_a_gate(str(Path(of.base) / "gate"))
    return make_setup(of)
