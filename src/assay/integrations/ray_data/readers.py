"""What a spec names as `data.reader`: a reader of Ray Data's, or a function of the user's that returns a dataset.

Lives here: from the name, the path and the settings to a dataset, with sentences where that fails. Not here: what
becomes of a dataset (`dataset.py`).
"""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, NamedTuple

import ray.data
from ray.data import DataContext, Dataset
from ray.data.datasource import Partitioning

from assay.cluster.connect import connected
from assay.cluster.driver import cpus_of
from assay.errors import DataError, Fault, SpecError
from assay.integrations.ray_data.dataset import DatasetSource, told
from assay.spec.model import DataSpec, Spec
from assay.spec.names import nearest, offer

Settings = dict[str, Any]  # Any: whatever a reader takes
HUGGINGFACE = "datasets:load_dataset"
HUGGINGFACE_SAVED = "datasets:load_from_disk"
SAVED = ("state.json", "dataset_dict.json")
"""Either is in a folder that the Hugging Face library's `save_to_disk` has written."""


class Reader(NamedTuple):
    """A function of `ray.data`."""

    function: str
    path: str | None  # its argument that says what to read; None: settings say it
    is_file: bool = True  # files or folders, relative to the spec; else a name
    check: str | None = None  # "module:function" of the place and the settings, that raises before anything is read


READERS: Mapping[str, Reader] = {
    "images": Reader("read_images", "paths"),
    "webdataset": Reader("read_webdataset", "paths"),
    "tfrecords": Reader("read_tfrecords", "paths"),
    "lance": Reader("read_lance", "uri"),
    "delta": Reader("read_delta", "path", check="assay.sources.delta:check_place"),
    "iceberg": Reader("read_iceberg", "table_identifier", is_file=False),
    "sql": Reader("read_sql", None),
}


def read(data: DataSpec, base: Path) -> DatasetSource:
    """The rows that a reader gives, read. SpecError for settings that it does not take, DataError for all else."""
    with _quiet():
        return DatasetSource(_dataset(data, base))


def connection(spec: Spec, workers: int | None, address: str | None) -> AbstractContextManager[str]:
    """Being connected to the Ray cluster that the rows are read on, as `RayExecutor` would be."""
    num_cpus = None if workers is None else cpus_of(spec, workers)
    return connected(address or os.environ.get("RAY_ADDRESS"), num_cpus)


def _dataset(data: DataSpec, base: Path) -> Dataset:
    name = data.reader or ""
    settings: Settings = dict(data.settings)
    if ":" in name:
        return _called(name, _function("data.reader", name), _files(data, base), settings)
    if name == "huggingface":
        return _hugging_face(data, base, settings)
    reader = READERS[name]
    if reader.path is not None:
        settings[reader.path] = _files(data, base) if reader.is_file else data.path
    if isinstance(settings.get("partitioning"), dict):
        settings["partitioning"] = _partitioning(settings["partitioning"], settings.get("paths"))
    if isinstance(settings.get("connection_factory"), str):
        settings["connection_factory"] = _function("data.settings.connection_factory", settings["connection_factory"])
    function = getattr(ray.data, reader.function)
    _check_settings(name, function, settings, reader.path)
    if reader.check is not None:
        module, _, check = reader.check.partition(":")
        with _missing_told(name):
            getattr(import_module(module), check)(settings[reader.path or ""], settings)
    return _called(name, function, None, settings)


def _hugging_face(data: DataSpec, base: Path, settings: Settings) -> Dataset:
    """A dataset of the Hugging Face library, of which one split is meant: a folder beside the spec, or a name."""
    load, load_saved = _function("data.reader", HUGGINGFACE), _function("data.reader", HUGGINGFACE_SAVED)
    place = base / str(data.path)
    path = str(place) if place.exists() else data.path
    is_saved = any((place / name).exists() for name in SAVED)
    split = settings.pop("split", None) if is_saved else None
    with told(f"The data set {data.path!r} cannot be loaded by the reader 'huggingface'"):
        loaded = (load_saved if is_saved else load)(path, **settings)
    if isinstance(loaded, Mapping) and split in loaded:
        loaded = loaded[split]
    elif isinstance(loaded, Mapping):
        which = "several splits" if split is None else f"no split {split!r}"
        raise DataError(
            f"The data set {data.path!r} has {which}{offer(split or '', loaded)} Say settings: {{split: ...}}."
        )
    return _called("huggingface", ray.data.from_huggingface, None, {"dataset": loaded})


def _called(name: str, function: Callable[..., Any], path: object, settings: Settings) -> Dataset:
    positional = () if path is None else (path,)
    with told(f"The reader {name!r} failed"), _missing_told(name):
        made = function(*positional, **settings)
    if not isinstance(made, Dataset):
        raise DataError(f"The reader {name!r} returned a {type(made).__name__}; expected a Ray dataset.")
    return made


@contextmanager
def _missing_told(name: str) -> Iterator[None]:
    """Ray Data asks for the packages of a format as it reads."""
    try:
        yield
    except ImportError as error:
        said = str(error).split("\n")[0].rstrip(".")
        raise DataError(f"The reader {name!r} needs a package that is not installed: {said}.") from error


def _function(path: str, reference: str) -> Callable[..., Any]:  # Any: it is the user's
    """What "module:function" names. SpecError at `path` where there is none; DataError where its module fails."""
    module_name, _, function_name = reference.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0] and error.name != module_name:
            raise DataError(f"Importing {module_name!r} failed: the module {error.name!r} is not installed.") from error
        if module_name == "datasets":
            raise DataError(
                "The reader 'huggingface' needs the package 'datasets', which is not installed; pip install datasets."
            ) from error
        raise SpecError([Fault(path, f"there is no module {module_name!r} beside the spec or installed.")]) from error
    except Exception as error:
        raise DataError(f"Importing {module_name!r} failed with {type(error).__name__}: {error}.") from error
    found: Callable[..., Any] | None = getattr(module, function_name, None)
    if not callable(found):
        known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        message = f"the module {module_name!r} has no function {function_name!r}{offer(function_name, known)}"
        raise SpecError([Fault(path, message)])
    return found


def _check_settings(name: str, function: Callable[..., Any], settings: Settings, path: str | None) -> None:
    taken = signature(function).parameters
    if any(one.kind == Parameter.VAR_KEYWORD for one in taken.values()):
        return
    known = [one for one in taken if one != path]
    faults = [
        Fault(f"data.settings.{key}", f"the reader {name!r} takes no {key!r}{_hint(key, known)}")
        for key in settings
        if key not in taken
    ]
    needed = [one.name for one in taken.values() if one.default is one.empty and one.name not in settings]
    faults += [Fault("data.settings", f"the reader {name!r} needs {one!r}; give it.") for one in needed]
    if faults:
        raise SpecError(faults)


def _hint(key: str, known: list[str]) -> str:
    near = nearest(key, known)
    return f"; did you mean {near!r}?" if near else "; Ray Data's own pages say what it takes."


def _partitioning(said: Settings, paths: object) -> Partitioning:
    """Columns out of folders' names: `style: dir` with `field_names`, or `style: hive`."""
    base = {} if isinstance(paths, list) else {"base_dir": paths}
    with told("data.settings.partitioning cannot be used"):
        made = Partitioning(**{"style": "dir", **base, **said})
        made.normalized_base_dir  # noqa: B018 - kept; else threads of a task import one module at once, which may fail
        return made


def _files(data: DataSpec, base: Path) -> str | list[str] | None:
    """What `data.path` names, from the folder of the spec; an address of a bucket as it is."""
    if data.path is None:
        return None
    if isinstance(data.path, str):
        found = _expanded(data.path, base)
        return found[0] if len(found) == 1 else found
    return [one for path in data.path for one in _expanded(path, base)]


def _expanded(path: str, base: Path) -> list[str]:
    if "://" in path:
        return [path]
    place = os.path.join(base, os.path.expanduser(path))
    if os.path.exists(place):
        return [place]
    found = sorted(glob.glob(place, recursive=True)) if glob.has_magic(place) else []
    if not found:
        what = "The pattern" if glob.has_magic(place) else "There is no file or folder"
        raise DataError(f"{what} {place!r}{' matches no file' if glob.has_magic(place) else ''}.")
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the lines and bars of Ray Data, whose place is a pipeline of one's own."""
    context, logger = DataContext.get_current(), logging.getLogger("ray.data")
    before = context.enable_progress_bars, logger.level
    context.enable_progress_bars = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars = before[0]
        logger.setLevel(before[1])
