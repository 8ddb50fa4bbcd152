"""A run whose variant `new` can be made to stop at a row of the data, and drivers of it in processes of their own.

Not here: the data, what the spec asks for, and what must come out, which are those of a test.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE

TESTS = Path(__file__).parent.parent
PATH = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
SECONDS = 300.0
"""How long a test waits for what must happen; its own limit is longer."""


class GatedRun:
    """A folder with a spec, the run there, and a gate before a row."""

    def __init__(self, folder: Path, verb: str, tree: Mapping[str, object]) -> None:
        """verb: run or predict. tree: of a spec, but for its variants: the column `p`, and `new`, which reads `row`."""
        self.folder, self._verb = folder, verb
        self.spec, self.run = folder / f"{verb}.yaml", folder / "run"
        self.spec.write_text(json.dumps({**tree, "variants": _variants(folder)}))
        for pipe in ("arrived", "go"):
            os.mkfifo(folder / pipe)
        self._arrived = os.open(folder / "arrived", os.O_RDWR | os.O_NONBLOCK)  # for both: neither blocks nor ends
        self._held = [self._arrived]

    def stop_at(self, row: int) -> None:
        (self.folder / "stop_at").write_text(str(row))

    def wait_for_arrival(self) -> int:
        """Until a worker stands at the row; its process."""
        ready, _, _ = select.select([self._arrived], [], [], SECONDS)
        assert ready, f"no worker came to the row within {SECONDS} seconds"
        return int(os.read(self._arrived, 100))

    def go_past(self) -> None:
        """Nobody stops there again; who stands there stays."""
        (self.folder / "stop_at").unlink()

    def open(self) -> None:
        """Whoever stands at the row goes on."""
        self.hold_open("go")

    def hold_open(self, pipe: str) -> None:
        """Whoever waits for somebody to open this pipe goes on, also those who come late."""
        self._held.append(os.open(self.folder / pipe, os.O_RDWR))

    def close_gate(self) -> None:
        """Whoever comes to the row from now on stands there again."""
        os.close(self._held.pop())

    def close(self) -> None:
        for pipe in self._held:
            os.close(pipe)

    @contextmanager
    def driver(self, *words: str, program: str = "") -> Iterator[subprocess.Popen[str]]:
        """`assay` in a process of its own, which does not outlive the context. program: Python to run in its place."""
        begin = ["-c", program] if program else ["-m", "assay"]
        command = [sys.executable, *begin, self._verb, str(self.spec), "--out", str(self.run), *words]
        environment = {**os.environ, "PYTHONPATH": PATH}
        with subprocess.Popen(command, stdout=DEVNULL, stderr=PIPE, text=True, env=environment) as process:
            try:
                yield process
            finally:
                process.kill()


def words_of(executor: str, ray_address: str) -> list[str]:
    """Two workers of an executor."""
    return ["--executor", executor, "--workers", "2", *(["--address", ray_address] if executor == "ray" else [])]


def wait_until(process: subprocess.Popen[str], happened: Callable[[], bool], what: str) -> None:
    """Until it has, while the process lives."""
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline, f"not within {SECONDS} seconds: {what}"
        assert process.poll() is None, f"the driver ended by itself: {process.communicate()[1]}"
        time.sleep(0.05)


def _variants(folder: Path) -> list[dict[str, object]]:
    function = {"function": "fakes.scorers:stops_at_a_gate", "settings": {"folder": str(folder)}}
    return [
        {"name": "old", "column": "p"},
        {"name": "new", "callable": function, "inputs": ["row"], "receive": "dict"},
    ]
