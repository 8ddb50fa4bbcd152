"""Parquet files of which a dataset has some columns and each row's number; the others are read where they are written.

Lives here: finding the files, their footers, and reading row groups. Not here: the stage that appends (`late.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from pyarrow.fs import FileSelector, FileSystem, FileType
from ray.data import Dataset
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from assay.errors import DataError
from assay.integrations.ray_data.late import ROW_NUMBER, Numbers
from assay.sources.files import ENDINGS, find_files
from assay.spec.names import offer
from assay.spec.words import listing

FOOTER_THREADS = 16
MOST_TASKS = 1000


class File(NamedTuple):
    """What is known of a file before its rows are read."""

    path: str  # on the file system
    row_groups: tuple[int, ...]  # rows of each
    digest: str  # of size and footer


@dataclass(frozen=True)
class ParquetRows:
    """The rows of Parquet files, numbered through in the order of the files' paths.

    `paths`: a file, a folder, a glob, a list of them, or one address of a bucket ("s3://bucket/requests/"), all of one
    schema. Footers are read here, rows are not. DataError when there are no files, or their schemas differ.

    `dataset` gives a Ray dataset of a few columns and the row's number; filter, map, join or shuffle it as you like,
    but keep that column. `map_batches(ds, ..., late=rows)` reads the other columns after the model, in the process
    that appends them. Rows far out of their order make it read row groups again: a full shuffle is no case for it.
    """

    paths: str | Sequence[str]
    row_column: str = ROW_NUMBER
    filesystem: FileSystem = field(init=False, repr=False)
    files: tuple[File, ...] = field(init=False, repr=False)
    schema: pa.Schema = field(init=False, repr=False)
    starts: Numbers = field(init=False, repr=False)  # of row groups

    def __post_init__(self) -> None:
        filesystem, paths = _find(self.paths)
        with ThreadPoolExecutor(FOOTER_THREADS) as pool:
            footers = list(pool.map(lambda path: _footer(filesystem, path), paths))
        for path, footer in zip(paths[1:], footers[1:], strict=True):
            _check_same(paths[0], footers[0].schema, path, footer.schema)
        schema = footers[0].schema
        if self.row_column in schema.names:
            raise DataError(
                f"The files have a column {self.row_column!r} of their own. Say row_column= for another name of the "
                "column of row numbers."
            )
        files = tuple(File(path, one.row_groups, one.digest) for path, one in zip(paths, footers, strict=True))
        rows = [rows for file in files for rows in file.row_groups]
        values = {"filesystem": filesystem, "files": files, "schema": schema, "starts": np.cumsum([0, *rows])}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def num_rows(self) -> int:
        return int(self.starts[-1])

    def dataset(self, columns: Sequence[str], override_num_blocks: int | None = None) -> Dataset:
        """A Ray dataset of these columns and the row's number; a read task has whole row groups.

        override_num_blocks: read tasks, at most one for each row group, which is the default up to a thousand of them.
        DataError for a column that the files do not have.
        """
        if isinstance(columns, str):
            raise DataError(f"columns is {columns!r}; expected a list of names.")
        unknown = [name for name in columns if name not in self.schema.names]
        if unknown:
            hint = offer(unknown[0], self.schema.names) if len(unknown) == 1 else "."
            raise DataError(f"The files have no column {listing(unknown)}{hint}")
        source = NumberedParquet(self, tuple(columns))
        # More tasks than row groups would have Ray Data cut blocks, and what is late would be read once for each cut.
        tasks = max(1, min(override_num_blocks or MOST_TASKS, len(self.starts) - 1))
        dataset: Dataset = ray.data.read_datasource(source, override_num_blocks=tasks)
        return dataset

    def read_piece(self, piece: int, columns: Sequence[str]) -> pa.Table:
        """The columns of one row group. DataError when the file has changed since its footer was read."""
        file, group = self._place(piece)
        footer = _read_once(_version(self.filesystem, file.path))
        if footer.digest != file.digest:
            raise DataError(f"The file {file.path!r} has changed since ParquetRows read its footer. Start again.")
        try:
            with self.filesystem.open_input_file(file.path) as opened:
                table = pq.ParquetFile(opened, metadata=footer.metadata).read_row_group(
                    group, columns=list(columns), use_threads=False
                )
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"Row group {group} of {file.path!r} cannot be read: {_line(error)}.") from None
        return table.select(list(columns))

    def _place(self, piece: int) -> tuple[File, int]:
        ends = np.cumsum([len(file.row_groups) for file in self.files])
        number = int(np.searchsorted(ends, piece, side="right"))
        return self.files[number], piece - int(ends[number - 1] if number else 0)


class NumberedParquet(Datasource):
    """Some columns of the files, and the number of each row."""

    def __init__(self, rows: ParquetRows, columns: tuple[str, ...]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Ray's own
        self._rows, self._columns = rows, columns

    def estimate_inmemory_data_size(self) -> int | None:
        """None: footers tell the size of encoded values, which may be far smaller."""
        return None

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,  # Any: Ray's own
    ) -> list[ReadTask]:
        """Each reads row groups that follow one another, about as many rows as the others."""
        starts = self._rows.starts
        targets = np.linspace(0, starts[-1], max(1, min(parallelism, len(starts) - 1)) + 1)
        cuts = np.unique(np.searchsorted(starts, targets))
        return [self._task(int(first), int(last), per_task_row_limit) for first, last in pairwise(cuts)]

    def _task(self, first: int, last: int, row_limit: int | None) -> ReadTask:
        rows, columns = self._rows, self._columns
        metadata = BlockMetadata(
            num_rows=int(rows.starts[last] - rows.starts[first]), size_bytes=None, exec_stats=None, input_files=None
        )

        def read() -> Iterator[pa.Table]:
            for piece in range(first, last):
                yield _numbered(rows, piece, columns)

        fields = [*(rows.schema.field(name) for name in columns), pa.field(rows.row_column, pa.int64())]
        return ReadTask(read, metadata, pa.schema(fields), per_task_row_limit=row_limit)


@dataclass(frozen=True)
class _Version:
    """A file as it is now."""

    path: str
    size: int | None
    changed: int | None  # nanoseconds
    kind: str  # of file system
    filesystem: FileSystem = field(compare=False)


class _Footer(NamedTuple):
    metadata: pq.FileMetaData
    schema: pa.Schema
    row_groups: tuple[int, ...]
    digest: str


def _numbered(rows: ParquetRows, piece: int, columns: Sequence[str]) -> pa.Table:
    numbers = pa.array(np.arange(rows.starts[piece], rows.starts[piece + 1]))
    if not columns:
        return pa.table({rows.row_column: numbers})
    return rows.read_piece(piece, columns).append_column(rows.row_column, numbers)


def _find(paths: str | Sequence[str]) -> tuple[FileSystem, list[str]]:
    if isinstance(paths, str) and "://" in paths:
        filesystem, root = FileSystem.from_uri(paths)
        if filesystem.get_file_info(root).type == FileType.File:
            return filesystem, [root]
        found = filesystem.get_file_info(FileSelector(root, recursive=True))
        files = sorted(one.path for one in found if one.is_file and one.path.endswith(ENDINGS["parquet"]))
        if not files:
            raise DataError(f"There are no Parquet files ({', '.join(ENDINGS['parquet'])}) under {paths!r}.")
        return filesystem, files
    local = find_files(paths, "parquet")
    filesystem, _ = FileSystem.from_uri(local.root.as_uri())
    return filesystem, [(local.root / path).as_posix() for path in local.paths]


def _version(filesystem: FileSystem, path: str) -> _Version:
    info = filesystem.get_file_info(path)
    return _Version(path, info.size, info.mtime_ns, filesystem.type_name, filesystem)


@lru_cache(maxsize=8)  # a footer of many row groups takes longer to read than one of them
def _read_once(version: _Version) -> _Footer:
    return _footer(version.filesystem, version.path)


def _footer(filesystem: FileSystem, path: str) -> _Footer:
    try:
        with filesystem.open_input_file(path) as opened:
            metadata, size = pq.read_metadata(opened), opened.size()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"The file {path!r} cannot be read as Parquet: {_line(error)}.") from None
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    digest = blake2b(sink.getvalue(), digest_size=16, salt=size.to_bytes(8, "little")).hexdigest()
    groups = tuple(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    return _Footer(metadata, metadata.schema.to_arrow_schema(), groups, digest)


def _check_same(first: str, expected: pa.Schema, path: str, schema: pa.Schema) -> None:
    if schema.equals(expected):
        return
    differing = sorted(
        {*expected.names, *schema.names}
        - {one.name for one in expected if one.name in schema.names and schema.field(one.name).equals(one)}
    )
    what = f"in {listing(differing)}" if differing else "in the order of its columns"
    raise DataError(f"The file {path!r} differs from {first!r} {what}. Write the files with one schema.")


def _line(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(".")
