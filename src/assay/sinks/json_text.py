"""Values as JSON texts, computed in columns.

Integers have all their digits, beyond 2^53 too. Floats have the fewest digits that make them the same number again,
with `.0` where they are whole; NaN and infinities, for which JSON has no number, are "NaN", "Infinity", "-Infinity".
Decimals are texts, as readers take numbers for doubles. Days, times of day and moments are ISO 8601 texts, moments with
a zone in UTC with a `Z`; durations are whole numbers in their unit. A map is a list of {"key": ..., "value": ...}.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from assay.sinks.kinds import is_any_list, is_text, nested
from assay.value_names import items_of

TEXT = pa.large_string()
_SPECIAL = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
_CONTROL = "[\\x00-\\x1f]"


def json_type(kind: pa.DataType) -> pa.DataType | None:
    """The type whose text a value has; None where there is none, as of bytes."""
    return nested(kind, _leaf)


def _leaf(kind: pa.DataType) -> pa.DataType | None:
    types = pa.types
    if is_text(kind):
        return pa.string() if types.is_string_view(kind) else kind
    if types.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC") if kind.tz else kind
    if types.is_duration(kind):
        return pa.int64()
    if types.is_float16(kind):
        return pa.float32()
    plain = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return kind if plain or types.is_date(kind) or types.is_time(kind) or types.is_null(kind) else None


def json_texts(values: pa.Array) -> pa.Array:
    """The JSON of each value, of a type that `json_type` gives; `null` where it is null.

    >>> json_texts(pa.array([1.0, 0.1, float("nan"), None])).to_pylist()
    ['1.0', '0.1', '"NaN"', 'null']
    >>> json_texts(pa.array([[1, None], None, []])).to_pylist()
    ['[1,null]', 'null', '[]']
    """
    return _texts(values).fill_null("null")


def _texts(values: pa.Array) -> pa.Array:
    """Null where the value is, but in structs and lists, which hold the word."""
    kind = values.type
    if is_text(kind):
        return _quoted(values.cast(TEXT))
    if pa.types.is_floating(kind):
        return _floats(values.cast(TEXT))
    if pa.types.is_map(kind):
        return _texts(values.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))))
    if is_any_list(kind):
        return _lists(values)
    if pa.types.is_struct(kind):
        return _structs(values)
    texts = values.cast(pa.string()).cast(TEXT)
    if pa.types.is_timestamp(kind):
        texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    whole = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)
    return texts if whole else _joined('"', texts, '"')


def _quoted(values: pa.Array) -> pa.Array:
    escaped = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"')
    texts = _joined('"', escaped, '"')
    odd = pc.match_substring_regex(values, _CONTROL).fill_null(False)
    if not pc.any(odd).as_py():
        return texts
    replaced = [json.dumps(text, ensure_ascii=False) for text in values.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(replaced, TEXT))


def _floats(texts: pa.Array) -> pa.Array:
    texts = pc.replace_substring_regex(texts, "^(-?[0-9]+)$", "\\1.0")
    for word, text in _SPECIAL.items():
        texts = pc.if_else(pc.equal(texts, word), pa.scalar(text, TEXT), texts)
    return texts


def _lists(values: pa.Array) -> pa.Array:
    items = items_of(values)
    offsets = pa.array([0, *items.lengths.cumsum()], pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, json_texts(items.values))
    texts = _joined("[", pc.binary_join(lists, pa.scalar(",", TEXT)), "]")
    return pc.if_else(pa.array(items.missing), pa.scalar(None, TEXT), texts)


def _structs(values: pa.Array) -> pa.Array:
    pieces: list[pa.Array | str] = []
    for position, (field, inside) in enumerate(zip(values.type, values.flatten(), strict=True)):
        pieces += [f"{',' if position else '{'}{json.dumps(field.name, ensure_ascii=False)}:", json_texts(inside)]
    return pc.if_else(values.is_null(), pa.scalar(None, TEXT), _joined(*pieces, "}"))


def _joined(*pieces: pa.Array | str) -> pa.Array:
    """Null where one of them is."""
    columns = [pa.scalar(piece, TEXT) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*columns, pa.scalar("", TEXT))
