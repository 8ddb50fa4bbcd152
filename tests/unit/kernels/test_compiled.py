"""What numba compiles is saved by one process at a time."""

from __future__ import annotations

import fcntl
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

from assay.kernels.compiled import LOCK, locked

SOURCE = """
from assay.kernels.compiled import kernel

@kernel
def doubled(values):
    return values * 2
"""


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """One whose kernels nobody has compiled."""
    path = tmp_path / "doubling.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("doubling", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["doubling"] = found
    spec.loader.exec_module(found)
    return found


def is_locked(folder: Path) -> bool:
    with (folder / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_the_lock_is_held_while_compiled_code_is_saved_and_free_afterwards(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []
    folder = Path(module.doubled._cache.cache_path)
    save = IndexDataCacheFile.save

    def watched(self: IndexDataCacheFile, key: Any, data: Any) -> None:
        found.append(is_locked(folder))
        save(self, key, data)

    monkeypatch.setattr(IndexDataCacheFile, "save", watched)
    assert module.doubled(np.float32(1.5)) == 3.0
    assert module.doubled(3) == 6
    assert found == [True, True]
    assert not is_locked(folder)
    assert len(list(folder.glob("doubling.doubled-*.nbc"))) == 2  # a file for each form


def test_what_was_saved_is_loaded_and_not_compiled_again(module: ModuleType) -> None:
    module.doubled(2.0)
    again = type(module.doubled._cache)(module.doubled.py_func)
    ours = module.doubled
    ours._cache = again
    ours._reset_overloads()
    assert ours(2.0) == 4.0
    assert (sum(ours.stats.cache_hits.values()), sum(ours.stats.cache_misses.values())) == (1, 1)


def test_a_folder_that_takes_no_lock_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with locked(tmp_path / "file" / "inside"):
        pass
