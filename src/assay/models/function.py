"""A user's function, named "module:function" in a spec: found, and its source digested.

Python's path is as `build.import_from` leaves it: the spec's folder, called `base` here, comes first.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sysconfig
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any

from assay.errors import AssayError, ModelError
from assay.models.defined import defined
from assay.models.fingerprint import digest_path
from assay.models.fresh import forget_changed, forget_others
from assay.models.imports import file_under, source_files
from assay.spec.names import offer

Settings = dict[str, str | int | float | bool | None]

_LIBRARIES = tuple(
    f"{folder}/"
    for folder in (Path(__file__).parents[1], sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
)
_INSTALLED = ("site-packages", "dist-packages")


def find_function(variant: str, reference: str, base: Path) -> Callable[..., Any]:  # Any: it is the user's
    """Imports the module and gives the function. ModelError when there is none, or the import fails."""
    module_name, function_name = _split(variant, reference)
    _find_spec(variant, reference, base)
    module = calling(variant, f"importing module {module_name!r}", importlib.import_module, module_name)
    function = getattr(module, function_name, None)
    if function is None:
        known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise ModelError(
            variant, f"module {module_name!r} has no function {function_name!r}{offer(function_name, known)}"
        )
    if not callable(function):
        raise ModelError(variant, f"{reference!r} is of type {type(function).__name__}; expected a function.")
    found: Callable[..., Any] = function
    return found


def check_function(variant: str, reference: str, base: Path) -> None:
    """ModelError when there is no such module, or its source says that it has no such function. Imports nothing but the
    packages that the module lies in."""
    origin = _find_spec(variant, reference, base).origin
    found = defined(Path(origin)) if origin is not None and origin.endswith(".py") else None
    module_name, function_name = _split(variant, reference)
    if found is not None and function_name not in found.names:
        known = [name for name in found.functions if not name.startswith("_")]
        raise ModelError(
            variant, f"module {module_name!r} has no function {function_name!r}{offer(function_name, known)}"
        )


def digest_source(variant: str, reference: str, base: Path) -> str:
    """The digest of the module's source file and of the modules under `base` that it imports, and these in turn.

    ModelError without a source file.
    """
    origin = _find_spec(variant, reference, base).origin
    if origin is None or not Path(origin).is_file():
        raise ModelError(
            variant, f"the module of {reference!r} has no source file, so its code cannot be fingerprinted."
        )
    sources = source_files(_split(variant, reference)[0], Path(origin), base)
    lines = [f"{name}\0{digest_path(variant, sources[name])}\n" for name in sorted(sources)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def calling(variant: str, doing: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Calls what is not ours (Any, therefore): what it raises becomes a ModelError that says what was done, and where
    in the user's own code it was raised.

    Not KeyboardInterrupt: models are read in the main thread too, where it is the user's.
    """
    try:
        return function(*args, **kwargs)
    except AssayError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic in compiled code is no Exception
        said = f": {str(error).rstrip('.')}" if str(error) else ""
        raise ModelError(variant, f"{doing} failed with {type(error).__name__}{said}{_place(error)}.") from error


def _place(error: BaseException) -> str:
    """The innermost line that is of no library, as " (model.py, line 12)"; "" without one, and where the error says it
    itself. Folders are left out but for those of the package, so that the same failure is told alike on every machine.
    """
    if isinstance(error, SyntaxError):
        return ""
    own = [(frame, line) for frame, line in walk_tb(error.__traceback__) if not _is_library(frame)]
    if not own:
        return ""
    frame, line = own[-1]
    package = frame.f_globals.get("__package__")
    folders = package.split(".") if isinstance(package, str) and package else []
    return f" ({'/'.join([*folders, Path(frame.f_code.co_filename).name])}, line {line})"


def _is_library(frame: FrameType) -> bool:
    """Code that is in no file ("<string>") counts as a library's."""
    file = Path(frame.f_code.co_filename)
    return str(file).startswith(("<", *_LIBRARIES)) or any(part in _INSTALLED for part in file.parts)


def _split(variant: str, reference: str) -> tuple[str, str]:
    module, colon, function = reference.partition(":")
    if not (module and colon and function):
        raise ModelError(variant, f'{reference!r} does not name a function; write "module:function".')
    if module.endswith(".py"):
        named = f"{module.removesuffix('.py').replace('/', '.').lstrip('.')}:{function}"
        raise ModelError(variant, f'{reference!r} names a file; write "{named}", with the name of the module.')
    return module, function


def _find_spec(variant: str, reference: str, base: Path) -> ModuleSpec:
    """Where the module is. Finding a module in a package imports the package."""
    name, _ = _split(variant, reference)
    importlib.invalidate_caches()
    forget_others(name)
    own = file_under(base, name)
    if own is not None:
        forget_changed(name, source_files(name, own, base))
    try:
        spec = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):
        spec = None
    if spec is None:
        raise ModelError(
            variant,
            f"there is no module {name!r} in {str(base)!r} or among the installed ones; put it in that folder.",
        )
    if own is None and spec.origin is not None and Path(spec.origin).is_file():
        forget_changed(name, {name: Path(spec.origin)}, installed=True)
    if own is not None and not (spec.origin and own.samefile(spec.origin)):
        raise ModelError(
            variant,
            f"the module {name!r} of {str(base)!r} cannot be imported, since this process has one of that name from "
            f"{spec.origin!r}; give it another name, or start a new process.",
        )
    return spec
