"""Which columns of a Parquet file get a dictionary: those whose values repeat.

Lives here: a look at the first values. A dictionary of values of which hardly two are equal costs more than all else in
writing, and makes the file larger. What is chosen follows from the rows alone, so that equal rows stay equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

LOOKED_AT = 16_384
"""So many values of a column are looked at, the first ones."""
MOST_DISTINCT = 0.9
"""Of them; with more, the dictionary would be about as long as the column, or too long for Parquet."""


def repeating(table: pa.Table) -> list[str] | bool:
    """The paths, in a Parquet file, of the columns that get a dictionary; True: all of them. table: of one row or more.

    >>> texts = pa.table({"country": ["at", "de"] * 50, "id": list(map(str, range(100))), "tags": [["a"], ["b"]] * 50})
    >>> repeating(texts)
    ['country', 'tags.list.element']
    """
    paths = _paths(table.schema)
    leaves = [leaf for column in table.slice(0, LOOKED_AT).columns for leaf in _leaves(column)]
    if len(paths) != len(leaves):  # a type that Parquet stores in a way of its own
        return True
    found = [path for path, leaf in zip(paths, leaves, strict=True) if _repeats(leaf)]
    return found if len(found) < len(paths) else True


def _paths(schema: pa.Schema) -> list[str]:
    """Of all leaves, in their order."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema).close()
    stored = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return [stored.column(number).path for number in range(len(stored.names))]


def _leaves(values: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    kind = values.type
    if pa.types.is_map(kind):
        yield from _leaves(_first(map(_keys, values.chunks), kind.key_type))
        yield from _leaves(_first(map(_items, values.chunks), kind.item_type))
    elif pa.types.is_struct(kind):
        for part in values.flatten():
            yield from _leaves(part)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(_first((chunk.flatten() for chunk in values.chunks), kind.value_type))
    else:
        yield values


def _first(chunks: Iterable[pa.Array], kind: pa.DataType) -> pa.ChunkedArray:
    """The first values of lists, however these are split."""
    found, missing = list[pa.Array](), LOOKED_AT
    for chunk in chunks:
        found.append(chunk[:missing])
        missing -= len(found[-1])
        if not missing:
            break
    return pa.chunked_array(found, kind)


def _keys(values: pa.MapArray) -> pa.Array:
    return values.keys[values.offsets[0].as_py() : values.offsets[-1].as_py()]  # they know of no slices


def _items(values: pa.MapArray) -> pa.Array:
    return values.items[values.offsets[0].as_py() : values.offsets[-1].as_py()]


def _repeats(leaf: pa.ChunkedArray) -> bool:
    """Unknown is yes, as Parquet does it."""
    filled = len(leaf) - leaf.null_count
    try:
        distinct = pc.count_distinct(leaf).as_py()
    except pa.ArrowNotImplementedError:
        return True
    return not filled or bool(distinct <= MOST_DISTINCT * filled)
