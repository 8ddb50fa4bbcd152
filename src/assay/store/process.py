"""Which process is this, and does another one still live: asked only of processes of the same system."""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A process that cannot be mistaken for a later one with the same number, nor for one of another machine or
    container that has the same name."""

    host: str
    pid: int
    started: str  # says when it started, in words of its host; "" where the host does not tell
    system: str = ""  # the boot of the machine and the space of process numbers; "" where the host does not tell


def this_process() -> Process:
    return Process(socket.gethostname(), os.getpid(), started(os.getpid()) or "", system())


def lives(process: Process) -> bool | None:
    """None: it is on another host, nobody here can know."""
    if (process.host, process.system) != (socket.gethostname(), system()):
        return None
    now = started(process.pid)
    return now is not None and process.started in ("", now)


def system() -> str:
    """What processes have in common that see one another."""
    boot, space = PROC / "sys" / "kernel" / "random" / "boot_id", PROC / "self" / "ns" / "pid"
    try:
        return f"{boot.read_text().strip()} {space.readlink()}"
    except OSError:
        return ""


def started(pid: int) -> str | None:
    """When a process of this host started; None when there is none of that number (a zombie is none)."""
    if (PROC / "self" / "stat").exists():
        return _started_by_proc(pid)
    answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, when = answer.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else when.strip()


def _started_by_proc(pid: int) -> str | None:
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]
