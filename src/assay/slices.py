"""Slicing dimensions: from what the spec says to values fixed in the plan, names, and each row's slice number.

Lives here: reading `data.slices` (`resolve`), fixing dictionaries, edges and crosses by a sample (`fit`), slice names,
and the encoder that a worker runs. Not here: drawing the sample, and metrics.

Axes: n rows, D listed dimensions (dimension 0 is overall). A cell is a slice counted within its dimension: the kept
values in order, then null, then other; a cross has no null cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assay.errors import DataError
from assay.expressions import Expressions
from assay.records import Dimension, SliceTable
from assay.spec.model import OVERALL, CutSpec, DataSpec
from assay.value_names import distinct, names_of, number_name

NULL = "null"
OTHER = "other"
WHERE = "data.where"

Cells = NDArray[np.int64]
_NO_CUT = CutSpec()
_WHOLE = Dimension(OVERALL, None, (OVERALL,), first_slice=0, num_slices=1)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One dimension as the spec asks for it, before any data is seen."""

    name: str
    expression: str | None  # None for a cross
    cut: CutSpec = _NO_CUT
    parts: tuple[str, ...] = ()  # of a cross: names of dimensions
    listed: bool = True

    @property
    def label(self) -> str:
        return f"data.slices ({self.name})"


# ---- what the spec asks for ------------------------------------------------------------------------------------------


def resolve(data: DataSpec) -> tuple[Wanted, ...]:
    """The dimensions of a checked spec, in its order; those that only a cross needs come first of all, unlisted."""
    wanted = [one for spec in data.slices for one in _wanted(spec)]
    plain = {one.name for one in wanted if not one.parts}
    parts = dict.fromkeys(part for one in wanted for part in one.parts if part not in plain)
    return (*(Wanted(part, part, listed=False) for part in parts), *wanted)


def expressions(wanted: Sequence[Wanted]) -> dict[str, str]:
    """{label: text} of all dimensions that are computed from columns, for `Expressions`."""
    return {one.label: one.expression for one in wanted if one.expression is not None}


def sample_columns(data: DataSpec, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that `fit` needs; () when it needs none. DataError when a text is wrong."""
    if not data.slices:
        return ()
    return Expressions(schema, _sample_texts(data, resolve(data))).columns


def _sample_texts(data: DataSpec, wanted: Sequence[Wanted]) -> dict[str, str]:
    return expressions(wanted) | ({WHERE: data.where} if data.where is not None else {})


def _wanted(spec: str | tuple[str, ...] | dict[str, str | CutSpec]) -> Iterator[Wanted]:
    if isinstance(spec, str):
        yield Wanted(spec, spec)
    elif isinstance(spec, tuple):
        yield Wanted(",".join(spec), None, parts=spec)
    else:
        for name, rule in spec.items():
            cut = rule if isinstance(rule, CutSpec) else CutSpec(of=rule)
            yield Wanted(name, cut.of or name, cut)


# ---- fixing the values -----------------------------------------------------------------------------------------------


def fit(data: DataSpec, sample: pa.Table) -> SliceTable:
    """The slices of the run: values declared, or else chosen by a sample of rows that holds `sample_columns`.

    Without a rule, a dimension keeps the `data.slice_cap` most frequent values of the sample's rows that pass
    `data.where`, ties by name; sorted by value. A cross keeps the most frequent combinations of its parts' kept values
    (and nulls) in the same way. Quantiles are observed values, to six digits where that keeps
    them apart; equal ones are one edge.

    Raises DataError: wrong text, values that cannot be slices, edges over a column of no numbers, a column of real
    numbers with more than `data.slice_cap` of them.
    """
    if not data.slices:
        return SliceTable((_WHOLE,), (OVERALL,))
    wanted = resolve(data)
    columns = Expressions(sample.schema, _sample_texts(data, wanted)).evaluate(sample)
    if data.where is not None:
        columns = columns.filter(columns[WHERE].cast(pa.bool_()))
    arrays = {one.name: columns[one.label].combine_chunks() for one in wanted if not one.parts}
    plain = {one.name: _fixed(one, arrays[one.name], data.slice_cap) for one in wanted if not one.parts}
    cells = {name: _cells_of(one, arrays[name]) for name, one in plain.items()}
    order = [OVERALL, *(one.name for one in wanted)]
    crosses = {one.name: _crossed(one, plain, order, cells, data.slice_cap) for one in wanted if one.parts}
    fixed = {OVERALL: _WHOLE} | plain | crosses
    return _numbered([fixed[name] for name in order])


def _fixed(one: Wanted, column: pa.Array, cap: int) -> Dimension:
    cut = one.cut
    if cut.values is not None:
        declared = tuple(dict.fromkeys(_declared(value) for value in cut.values))
        return Dimension(one.name, one.expression, declared, listed=one.listed)
    if cut.edges is not None or cut.quantiles is not None:
        numbers = _numbers(column, one.label)
        edges = cut.edges if cut.edges is not None else _quantile_edges(numbers, cut.quantiles or 2)
        return Dimension(one.name, one.expression, _cell_names(edges), edges, listed=one.listed)
    return Dimension(one.name, one.expression, _most_frequent(column, one.label, cap), listed=one.listed)


def _declared(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quantile_edges(numbers: NDArray[np.float64], quantiles: int) -> tuple[float, ...]:
    known = numbers[np.isfinite(numbers)]
    if not known.size:
        return ()
    edges = np.unique(np.quantile(known, np.arange(1, quantiles) / quantiles, method="inverted_cdf"))
    short = np.unique([float(f"{edge:.6g}") for edge in edges])  # for names that can be read
    kept = short if len(short) == len(edges) else edges
    return tuple(float(edge) for edge in kept if edge > known.min())


def _cell_names(edges: Sequence[float]) -> tuple[str, ...]:
    bounds = ["", *map(number_name, edges), ""]
    return tuple(f"{low}..{high}" for low, high in pairwise(bounds))


def _most_frequent(column: pa.Array, label: str, cap: int) -> tuple[str, ...]:
    """Sorted as numbers where they are numbers, or else as text."""
    encoded = distinct(column, label)
    names = names_of(encoded.dictionary, label)
    counts: Counter[str] = Counter()
    for name, count in zip(names.to_pylist(), _counts(encoded), strict=True):
        if name is not None and count:
            counts[name] += int(count)
    numeric = _is_number(encoded.dictionary.type)
    if pa.types.is_floating(encoded.dictionary.type):
        _refuse_real_numbers(counts, label, cap)
    kept = sorted(counts, key=lambda name: (-counts[name], name))[:cap]
    return tuple(sorted(kept, key=float if numeric else None))


def _refuse_real_numbers(counts: Mapping[str, int], label: str, cap: int) -> None:
    fractional = sum(not float(name).is_integer() for name in counts)
    if fractional > cap:
        raise DataError(
            f"{label}: the sample has {fractional} different real numbers, more than data.slice_cap ({cap}). "
            "Cut it into cells with edges or quantiles."
        )


def _counts(encoded: pa.DictionaryArray) -> NDArray[np.int64]:
    indices = encoded.indices.drop_null().to_numpy(zero_copy_only=False)
    return np.bincount(indices, minlength=len(encoded.dictionary)).astype(np.int64)


def _crossed(
    one: Wanted, fixed: Mapping[str, Dimension], order: Sequence[str], cells: Mapping[str, Cells], cap: int
) -> Dimension:
    parts = [fixed[name] for name in one.parts]
    codes = _combined(parts, [cells[name] for name in one.parts])
    known, counts = np.unique(codes[codes >= 0], return_counts=True)
    names = {int(code): _combination_name(parts, int(code)) for code in known}
    frequency = dict(zip(names, counts.tolist(), strict=True))
    kept = sorted(sorted(names, key=lambda code: (-frequency[code], names[code]))[:cap])
    positions = tuple(order.index(name) for name in one.parts)
    return Dimension(one.name, None, tuple(names[code] for code in kept), crosses=positions)


def _numbered(dimensions: Sequence[Dimension]) -> SliceTable:
    numbered, names = [], list[str]()
    for one in dimensions:
        own = _slice_names(one, dimensions) if one.listed else ()
        numbered.append(replace(one, first_slice=len(names) if own else -1, num_slices=len(own)))
        names.extend(own)
    return SliceTable(tuple(numbered), tuple(names))


# ---- names -----------------------------------------------------------------------------------------------------------


def escape(text: str) -> str:
    r"""A name or value as it stands in a slice name.

    >>> escape("a,b=c"), escape("null")
    ('a\\,b\\=c', '\\null')
    """
    if text in (NULL, OTHER):
        return "\\" + text
    return "".join("\\" + sign if sign in ",=\\" else sign for sign in text)


def _slice_names(one: Dimension, dimensions: Sequence[Dimension]) -> tuple[str, ...]:
    if one is _WHOLE:
        return one.values
    if one.crosses:
        parts = ",".join(_escaped(dimensions[position].name) for position in one.crosses)
        return (*one.values, f"{parts}={OTHER}")
    return tuple(f"{_escaped(one.name)}={cell}" for cell in _cell_labels(one))


def _escaped(name: str) -> str:
    """A dimension's name before the `=`: nothing there is taken for null or other."""
    return "".join("\\" + sign if sign in ",=\\" else sign for sign in name)


def _cell_labels(one: Dimension) -> tuple[str, ...]:
    """The cells of a dimension that is no cross, escaped; null and other last."""
    return (*(escape(value) for value in one.values), NULL, OTHER)


def _combination_name(parts: Sequence[Dimension], code: int) -> str:
    named = []
    for part in reversed(parts):
        code, cell = divmod(code, len(part.values) + 2)
        named.append(f"{_escaped(part.name)}={_cell_labels(part)[cell]}")
    return ",".join(reversed(named))


# ---- values ----------------------------------------------------------------------------------------------------------


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _numbers(column: pa.Array, label: str) -> NDArray[np.float64]:
    """NaN where null."""
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if not (_is_number(plain.type) or pa.types.is_boolean(plain.type) or pa.types.is_null(plain.type)):
        raise DataError(f"{label}: edges and quantiles cut numbers, but the values are of type {plain.type}.")
    if pa.types.is_boolean(plain.type):
        plain = plain.cast(pa.int8())
    numbers: NDArray[np.float64] = plain.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    return numbers


# ---- each row's slice ------------------------------------------------------------------------------------------------


class SliceEncoder:
    """Finds the slice number of rows in each listed dimension of a table of slices.

    `expressions` is what to compute: {dimension: text}; give the result, one column for each, named so. A value that
    the plan doesn't know is in `other`.
    """

    def __init__(self, table: SliceTable) -> None:
        self._dimensions = table.dimensions
        self.expressions: Mapping[str, str] = {
            one.name: one.expression for one in table.dimensions if one.expression is not None
        }
        self._codes = {one.name: _kept_codes(one, table.dimensions) for one in table.dimensions if one.crosses}

    def __call__(self, columns: pa.Table) -> NDArray[np.int32]:
        """[D, n] int32; row 0, overall, is all zeros."""
        cells = {name: _cells_of(one, columns[name].combine_chunks()) for name, one in self._plain()}
        listed = [one for one in self._dimensions if one.listed]
        numbers = np.zeros((len(listed), columns.num_rows), np.int32)
        for row, one in enumerate(listed[1:], start=1):
            numbers[row] = one.first_slice + (self._cross(one, cells) if one.crosses else cells[one.name])
        return numbers

    def _plain(self) -> Iterator[tuple[str, Dimension]]:
        return ((one.name, one) for one in self._dimensions if one.expression is not None)

    def _cross(self, one: Dimension, cells: Mapping[str, Cells]) -> Cells:
        parts = [self._dimensions[position] for position in one.crosses]
        kept = self._codes[one.name]
        if not kept.size:
            return np.zeros(len(cells[parts[0].name]), np.int64)
        codes = _combined(parts, [cells[part.name] for part in parts])
        place = np.minimum(np.searchsorted(kept, codes), kept.size - 1)
        return np.where(kept[place] == codes, place, kept.size)


def _cells_of(one: Dimension, column: pa.Array) -> Cells:
    """[n] the cell of each value."""
    null = len(one.values)
    label = f"data.slices ({one.name})"
    if one.edges is not None:
        numbers = _numbers(column, label)
        return np.where(np.isnan(numbers), null, np.searchsorted(one.edges, numbers, side="right"))
    encoded = distinct(column, label)
    names = names_of(encoded.dictionary, label)
    found = pc.index_in(names, value_set=pa.array(one.values, pa.string())).fill_null(null + 1)
    by_value = np.append(found.to_numpy(zero_copy_only=False).astype(np.int64), null)
    by_value[:-1][names.is_null().to_numpy(zero_copy_only=False)] = null  # a NaN, or a null in the dictionary
    indices = encoded.indices.cast(pa.int64()).fill_null(len(names)).to_numpy(zero_copy_only=False)
    cells: Cells = by_value[indices]
    return cells


def _combined(parts: Sequence[Dimension], cells: Sequence[Cells]) -> Cells:
    """[n] one number for each combination of cells, in the parts' order; -1 where a part is `other`."""
    codes = np.zeros_like(cells[0])
    is_other = np.zeros(len(codes), np.bool_)
    for part, own in zip(parts, cells, strict=True):
        codes = codes * (len(part.values) + 2) + own
        is_other |= own == len(part.values) + 1
    return np.where(is_other, -1, codes)


def _kept_codes(cross: Dimension, dimensions: Sequence[Dimension]) -> Cells:
    """The combinations of a cross, increasing, read back from their names."""
    parts = [dimensions[position] for position in cross.crosses]
    cell_of = [{f"{_escaped(p.name)}={label}": cell for cell, label in enumerate(_cell_labels(p))} for p in parts]
    codes = []
    for name in cross.values:
        code = 0
        for part, known, piece in zip(parts, cell_of, _split(name), strict=True):
            code = code * (len(part.values) + 2) + known[piece]
        codes.append(code)
    return np.array(codes, np.int64)


def _split(name: str) -> list[str]:
    """A slice name cut at the commas that are not escaped."""
    pieces, escaped = [""], False
    for sign in name:
        if sign == "," and not escaped:
            pieces.append("")
        else:
            pieces[-1] += sign
        escaped = sign == "\\" and not escaped
    return pieces
