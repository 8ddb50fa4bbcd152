"""Values in the types that a format keeps, and dictionaries such as Arrow can put together.

Arrow makes no one dictionary of several that have null among their words, or words that are nested; of 16-bit floats it
makes a wrong one. So what is written has no such dictionaries before rows of several batches meet.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from assay.errors import DataError
from assay.sinks.kinds import has_dictionaries, parts_of, retyped

_REFUSALS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


def by_value(kind: pa.DataType) -> pa.DataType | None:
    """A type whose dictionaries can be put together: others are written as their words. None where that cannot be.

    >>> by_value(pa.dictionary(pa.int8(), pa.float16())), by_value(pa.list_view(pa.dictionary(pa.int8(), pa.null())))
    (DataType(halffloat), None)
    """

    def leaf(kind: pa.DataType) -> pa.DataType:
        return kind if _can_be_one(kind) or not pa.types.is_dictionary(kind) else retyped(kind.value_type, leaf)

    found = retyped(kind, leaf)
    return found if _can_be_one(found) else None


def _can_be_one(kind: pa.DataType) -> bool:
    if not pa.types.is_dictionary(kind):
        return all(map(_can_be_one, parts_of(kind)))
    words = kind.value_type
    odd = pa.types.is_nested(words) or pa.types.is_dictionary(words) or isinstance(words, pa.BaseExtensionType)
    return not (odd or pa.types.is_null(words) or pa.types.is_float16(words))


def is_convertible(kind: pa.DataType, stored: pa.DataType) -> bool:
    """Whether Arrow knows a way from one type to the other; single values may still not fit."""
    try:
        _converted(pa.nulls(1, kind), stored)
    except _REFUSALS:
        return False
    return True


def as_stored(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in the types of a stored schema. DataError names the column with a value that does not fit."""
    columns = []
    for field in schema:
        column = table[field.name]
        try:
            columns.append(pa.chunked_array([_converted(one, field.type) for one in column.chunks], field.type))
        except _REFUSALS as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise DataError(
                f"The column {field.name!r} of type {column.type} cannot be written as {field.type}: {reason}."
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


def _converted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(values.type) and not pa.types.is_dictionary(kind):
        return _converted(values.dictionary, kind).take(values.indices)
    found = values if values.type == kind else values.cast(kind)
    return _without_null_words(found) if has_dictionaries(kind) else found


def _without_null_words(values: pa.Array) -> pa.Array:
    """The same values, whose dictionaries have no null in them."""
    kind = values.type
    if not _has_null_words(values):
        return values
    if pa.types.is_dictionary(kind):
        return _recoded(values)
    if pa.types.is_struct(kind):
        inside = [_without_null_words(one) for one in values.flatten()]
        return pa.StructArray.from_arrays(inside, fields=list(kind), mask=values.is_null())
    if pa.types.is_map(kind):
        pairs = [_without_null_words(values.keys), _without_null_words(values.items)]
        items = pa.StructArray.from_arrays(pairs, fields=[kind.key_field, kind.item_field])
    else:
        items = _without_null_words(values.values)
    own = values.buffers()[: _num_own_buffers(kind)]
    return pa.Array.from_buffers(kind, len(values), own, offset=values.offset, children=[items])


def _num_own_buffers(kind: pa.DataType) -> int:
    """Of lists and maps, without those of their items: which are null, where each begins, how long each is."""
    if pa.types.is_fixed_size_list(kind):
        return 1
    return 3 if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind) else 2


def _recoded(values: pa.DictionaryArray) -> pa.DictionaryArray:
    words, codes = values.dictionary, values.indices
    known = words.is_valid()
    numbers = pc.subtract(pc.cumulative_sum(known.cast(pa.int64())), 1)
    renamed = pc.if_else(known, numbers, pa.scalar(None, pa.int64())).take(codes)
    return pa.DictionaryArray.from_arrays(renamed.cast(codes.type), words.drop_null(), ordered=values.type.ordered)


def _has_null_words(values: pa.Array) -> bool:
    kind = values.type
    if pa.types.is_dictionary(kind):
        return bool(values.dictionary.null_count)
    if not has_dictionaries(kind):
        return False
    if pa.types.is_struct(kind):
        return any(map(_has_null_words, values.flatten()))
    if pa.types.is_map(kind):
        return _has_null_words(values.keys) or _has_null_words(values.items)
    return _has_null_words(values.values)
