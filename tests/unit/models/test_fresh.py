"""What runs is the source that is there now, whatever was imported before."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from assay.build import import_from
from assay.models.function import digest_source, find_function


@pytest.fixture(autouse=True)
def _imports_are_undone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a source of equal size and second would be taken from it
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(file: Path, source: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source)


def called(base: Path, reference: str) -> object:
    import_from(str(base))
    return find_function("v", reference, base)()


def test_an_edited_module_is_imported_anew(tmp_path: Path) -> None:
    write(tmp_path / "fresh_one.py", "def f(): return 1")
    assert called(tmp_path, "fresh_one:f") == 1
    first = find_function("v", "fresh_one:f", tmp_path)
    assert find_function("v", "fresh_one:f", tmp_path) is first, "unchanged, it is imported once"
    write(tmp_path / "fresh_one.py", "def f(): return 2")
    assert called(tmp_path, "fresh_one:f") == 2


def test_so_is_one_whose_import_was_edited(tmp_path: Path) -> None:
    write(tmp_path / "fresh_two.py", "import fresh_three\ndef f(): return fresh_three.N")
    write(tmp_path / "fresh_three.py", "N = 1")
    assert called(tmp_path, "fresh_two:f") == 1
    write(tmp_path / "fresh_three.py", "N = 2")
    assert called(tmp_path, "fresh_two:f") == 2


@pytest.mark.parametrize("package", [None, "__init__.py", "no_init.txt"])
def test_a_module_of_the_same_name_in_another_folder(tmp_path: Path, package: str | None) -> None:
    reference, place = ("fresh_four:f", Path()) if package is None else ("fresh_five.model:f", Path("fresh_five"))
    digests = []
    for number in (1, 2, 1):
        base = tmp_path / str(number)
        file = "fresh_four.py" if package is None else "model.py"
        write(base / place / file, f"def f(): return {number}")
        if package is not None:
            write(base / place / package, "")
        import_from(str(base))
        digests.append(digest_source("v", reference, base))
        assert called(base, reference) == number
    assert digests[0] == digests[2] != digests[1]


def test_two_modules_that_share_an_import_both_see_it_edited(tmp_path: Path) -> None:
    for name in ("fresh_six", "fresh_seven"):
        write(tmp_path / f"{name}.py", "from fresh_eight import N\ndef f(): return N")
    for number in (1, 2):
        write(tmp_path / "fresh_eight.py", f"N = {number}")
        assert called(tmp_path, "fresh_six:f") == number
        assert called(tmp_path, "fresh_seven:f") == number


def test_an_import_of_the_same_name_in_another_folder(tmp_path: Path) -> None:
    for number, name in enumerate(("fresh_nine", "fresh_ten")):
        write(tmp_path / name / f"{name}.py", "from fresh_eleven import N\ndef f(): return N")
        write(tmp_path / name / "fresh_eleven.py", f"N = {number}")
        assert called(tmp_path / name, f"{name}:f") == number


def test_a_module_that_the_user_imported_and_edited_before(tmp_path: Path) -> None:
    write(tmp_path / "fresh_twelve.py", "def f(): return 1")
    import_from(str(tmp_path))
    import_module("fresh_twelve")
    write(tmp_path / "fresh_twelve.py", "def f(): return 2")
    assert called(tmp_path, "fresh_twelve:f") == 2


def test_a_package_is_imported_once(tmp_path: Path) -> None:
    write(tmp_path / "fresh_pkg" / "__init__.py", "import sys\nsys.fresh_times = getattr(sys, 'fresh_times', 0) + 1")
    write(tmp_path / "fresh_pkg" / "model.py", "import sys\ndef f(): return sys.fresh_times")
    import_from(str(tmp_path))
    digest_source("v", "fresh_pkg.model:f", tmp_path)
    assert called(tmp_path, "fresh_pkg.model:f") == called(tmp_path, "fresh_pkg.model:f") == 1


def test_a_pickle_finds_the_classes_of_its_own_folder(tmp_path: Path) -> None:
    for number in (1, 2, 1):
        write(tmp_path / str(number) / "fresh_classes.py", f"class C:\n    N = {number}")
        import_from(str(tmp_path / str(number)))
        importlib.invalidate_caches()
        assert number == pickle.loads(b"cfresh_classes\nC\n.").N
