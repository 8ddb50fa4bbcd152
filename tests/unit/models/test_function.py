from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.errors import DataError, ModelError
from assay.models.function import calling, check_function, digest_source, find_function

WriteModule = Callable[[str, str], Path]


def test_a_function_is_found_in_the_specs_folder(write_module: WriteModule, tmp_path: Path) -> None:
    write_module("in_base", "def double(x):\n    return 2 * x\n")
    assert find_function("v", "in_base:double", tmp_path)(3) == 6


def test_a_function_of_an_installed_module_is_found() -> None:
    assert find_function("v", "posixpath:basename", Path())("a/b") == "b"


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("errors_here", """'errors_here' does not name a function; write "module:function"."""),
        ("errors_here:", """'errors_here:' does not name a function; write "module:function"."""),
        (
            "errors_here.py:score",
            """'errors_here.py:score' names a file; write "errors_here:score", with the name of the module.""",
        ),
        ("errors_here:scroe", "module 'errors_here' has no function 'scroe'; did you mean 'score'?"),
        ("errors_here:LIMIT", "'errors_here:LIMIT' is of type int; expected a function."),
    ],
)
def test_a_wrong_reference_is_refused(write_module: WriteModule, tmp_path: Path, reference: str, sentence: str) -> None:
    write_module("errors_here", "LIMIT = 3\ndef score(x):\n    return x\ndef _hidden(): pass\n")
    with pytest.raises(ModelError) as caught:
        find_function("v", reference, tmp_path)
    assert str(caught.value) == f"Variant 'v': {sentence}"


def test_a_function_is_looked_for_without_an_import(write_module: WriteModule, tmp_path: Path) -> None:
    write_module("never_imported", "raise RuntimeError\ndef score(x): return x\ndef _hidden(): pass\n")
    check_function("v", "never_imported:score", tmp_path)
    check_function("v", "posixpath:basename", tmp_path)
    check_function("v", "math:sqrt", tmp_path)  # of no source
    with pytest.raises(ModelError) as caught:
        check_function("v", "never_imported:scroe", tmp_path)
    assert str(caught.value) == ("Variant 'v': module 'never_imported' has no function 'scroe'; did you mean 'score'?")
    assert "never_imported" not in sys.modules


def test_names_made_at_run_time_may_be_there(write_module: WriteModule, tmp_path: Path) -> None:
    write_module("made_later", "globals()['score'] = len\n")
    check_function("v", "made_later:score", tmp_path)


@pytest.mark.parametrize("name", ["no_such_module", "no_such_package.module"])
def test_a_missing_module_says_where_it_should_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError) as caught:
        find_function("v", f"{name}:f", tmp_path)
    assert str(caught.value) == (
        f"Variant 'v': there is no module {name!r} in '{tmp_path}' or among the installed ones; put it in that folder."
    )


def test_another_module_of_the_same_name_is_not_taken_for_it(write_module: WriteModule, tmp_path: Path) -> None:
    first = write_module("rules_of_two", "f = print")
    find_function("v", "rules_of_two:f", tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "rules_of_two.py").write_text("f = len")
    with pytest.raises(ModelError) as caught:
        find_function("v", "rules_of_two:f", tmp_path / "other")
    assert str(caught.value) == (
        f"Variant 'v': the module 'rules_of_two' of '{tmp_path}/other' cannot be imported, since this process has one "
        f"of that name from '{first}'; give it another name, or start a new process."
    )


def test_pythons_path_is_left_alone(write_module: WriteModule, tmp_path: Path) -> None:
    write_module("any_module", "f = print")
    before = list(sys.path)
    find_function("v", "any_module:f", tmp_path / "elsewhere")
    assert sys.path == before


def test_an_import_that_fails_says_why(write_module: WriteModule, tmp_path: Path) -> None:
    write_module("broken", "import no_such_library\n")
    with pytest.raises(ModelError) as caught:
        find_function("v", "broken:f", tmp_path)
    assert str(caught.value) == (
        "Variant 'v': importing module 'broken' failed with ModuleNotFoundError: No module named 'no_such_library' "
        "(broken.py, line 1)."
    )


def test_the_digest_is_of_the_source_and_does_not_import_it(write_module: WriteModule, tmp_path: Path) -> None:
    write_module("never_run", "raise RuntimeError\n")
    before = digest_source("v", "never_run:f", tmp_path)
    assert digest_source("v", "never_run:g", tmp_path) == before
    write_module("never_run", "raise ValueError\n")
    assert digest_source("v", "never_run:f", tmp_path) != before
    assert "never_run" not in sys.modules


def test_the_digest_covers_what_the_module_imports_from_the_same_folder(
    write_module: WriteModule, tmp_path: Path
) -> None:
    write_module("never_run", "import first\n")
    write_module("first", "import json\n")
    before = digest_source("v", "never_run:f", tmp_path)
    write_module("beside", "")
    assert digest_source("v", "never_run:f", tmp_path) == before
    write_module("first", "import json, os\n")
    assert digest_source("v", "never_run:f", tmp_path) != before


def test_a_module_without_source_has_no_digest() -> None:
    with pytest.raises(ModelError) as caught:
        digest_source("v", "sys:exit", Path())
    assert str(caught.value) == (
        "Variant 'v': the module of 'sys:exit' has no source file, so its code cannot be fingerprinted."
    )


def test_what_a_call_raises_is_told_and_our_own_errors_pass() -> None:
    def fail(error: Exception) -> None:
        raise error

    with pytest.raises(ModelError) as caught:
        calling("v", "forward", fail, ValueError("no"))
    assert str(caught.value).startswith("Variant 'v': forward failed with ValueError: no (")
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(DataError, match=r"^as it was$"):
        calling("v", "forward", fail, DataError("as it was"))


FEATURES = """
import json

def mean(values):
    return json.loads(values)
"""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("lambda: [][0]", "IndexError: list index out of range (scoring_lines.py, line 3)"),
        (
            "lambda: features.mean(1)",
            "TypeError: the JSON object must be str, bytes or bytearray, not int (shop/features.py, line 5)",
        ),
        ("lambda: numpy.stack([])", "ValueError: need at least one array to stack (scoring_lines.py, line 3)"),
        ("lambda x: x", "TypeError: <lambda>() missing 1 required positional argument: 'x'"),
    ],
)
def test_where_a_call_failed_is_the_innermost_line_of_the_users_own(
    write_module: WriteModule, tmp_path: Path, call: str, said: str
) -> None:
    """Without the folder, which is another one on each machine, but with the package."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "features.py").write_text(FEATURES)
    write_module("scoring_lines", f"import numpy\nfrom shop import features\nscore = {call}\n")
    function = find_function("v", "scoring_lines:score", tmp_path)
    with pytest.raises(ModelError) as caught:
        calling("v", "score", function)
    assert caught.value.message == f"score failed with {said}."


def test_an_argument_may_have_any_name() -> None:
    assert calling("v", "forward", dict, variant=1, doing=2, function=3) == {"variant": 1, "doing": 2, "function": 3}
