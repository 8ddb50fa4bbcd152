"""Which processes are asked for, and what Arrow finds in them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import ray
from ray.runtime_env import RuntimeEnv

from assay.cluster.environment import environment_of

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

WATCHED = """
import os, sys
from importlib import import_module

class Watch:
    def find_spec(self, name, path, target=None):
        if name == "pyarrow":
            print(os.environ.get("MIMALLOC_PURGE_DELAY"))

sys.meta_path.insert(0, Watch())
import_module(sys.argv[1])
"""


@pytest.fixture(autouse=True)
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[RuntimeEnv], None]:
    """To a job of the user's with this environment; none before it is called."""

    def connected(environment: RuntimeEnv) -> None:
        monkeypatch.setattr(ray, "is_initialized", lambda: True)
        monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(runtime_env=environment))

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    return connected


def test_modules_of_the_users_are_found_beside_the_spec_and_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert environment_of("/spec") == {"runtime_env": {"env_vars": {"PYTHONPATH": "/spec", **ONE_THREAD}}}
    monkeypatch.setenv("PYTHONPATH", f"/a{os.pathsep}/b")
    both = os.pathsep.join(["/spec", "/a", "/b"])
    assert environment_of("/spec") == {"runtime_env": {"env_vars": {"PYTHONPATH": both, **ONE_THREAD}}}


def test_what_needs_none_of_them_asks_for_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert environment_of(None) == {}
    monkeypatch.setenv("PYTHONPATH", "")
    assert environment_of(None) == {}


def test_it_is_found_where_this_process_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/a")
    assert environment_of(None) == {"runtime_env": {"env_vars": {"PYTHONPATH": "/a", **ONE_THREAD}}}


def test_what_the_job_asks_for_is_found_after_the_spec(
    monkeypatch: pytest.MonkeyPatch, connect: Callable[[RuntimeEnv], None]
) -> None:
    """Ray puts what a task asks for in the place of the job's."""
    monkeypatch.setenv("PYTHONPATH", "/mine")
    connect(RuntimeEnv(env_vars={"PYTHONPATH": "/job", "OTHER": "1"}))
    path = os.pathsep.join(["/spec", "/job", "/mine"])
    assert environment_of("/spec") == {"runtime_env": {"env_vars": {"PYTHONPATH": path, **ONE_THREAD}}}
    connect(RuntimeEnv())
    monkeypatch.delenv("PYTHONPATH")
    assert environment_of("/spec") == {"runtime_env": {"env_vars": {"PYTHONPATH": "/spec", **ONE_THREAD}}}


def test_in_a_job_of_the_users_no_process_is_shared_with_its_tasks(
    monkeypatch: pytest.MonkeyPatch, connect: Callable[[RuntimeEnv], None]
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    connect(RuntimeEnv())
    assert environment_of(None) == {"runtime_env": {"env_vars": ONE_THREAD}}
    connect(RuntimeEnv(env_vars={"PYTHONPATH": "/job"}))
    assert environment_of(None) == {"runtime_env": {"env_vars": {"PYTHONPATH": "/job", **ONE_THREAD}}}
    monkeypatch.setattr("assay.cluster.environment.is_the_users", lambda: False)  # we have connected
    assert environment_of(None) == {}


@pytest.mark.parametrize("module", ["assay.cluster.actor", "assay.cluster.items", "assay.cluster.reduce"])
def test_arrow_is_loaded_after_it_was_told_to_keep_memory(module: str) -> None:
    """In the modules whose actors and tasks Ray's processes run."""
    assert told(module) == "10000"


def test_what_the_user_says_of_it_stays() -> None:
    assert told("assay.cluster.items", MIMALLOC_PURGE_DELAY="7") == "7"


def told(module: str, **variables: str) -> str:
    """What Arrow finds when a fresh interpreter that imports a module looks for it."""
    known = {name: value for name, value in os.environ.items() if name != "MIMALLOC_PURGE_DELAY"} | variables
    command = [sys.executable, "-c", WATCHED, module]
    done = subprocess.run(command, env=known, capture_output=True, text=True, check=True)
    return done.stdout.strip()
