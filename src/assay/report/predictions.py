"""What a run has written: where, which columns, how it is read, and what is missing in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from assay.records import Predictions
from assay.report.jsonable import Json
from assay.report.numbers import every
from assay.spec.words import count

MOST_COLUMNS = 12
LINE = 80
"""Characters of a line that holds all columns; where they need more, each has a line on a terminal."""
MOST_VARIANTS = 20
RANK = "_rank"
"""A column that is there where the best rows of groups are written."""
READERS = {
    "parquet": "pyarrow.parquet.read_table({place!r})",
    "arrow": "pyarrow.dataset.dataset({place!r}, format='arrow'{hive}).to_table()",
    "csv": "pyarrow.dataset.dataset({place!r}, format='csv'{hive}).to_table()",
    "jsonl": "duckdb.read_json({files!r}, sample_size=-1, hive_partitioning={is_hive}).to_arrow_table()",
    "delta": "deltalake.DeltaTable({place!r}).to_pyarrow_table()",
    "iceberg": "pyiceberg.catalog.load_catalog({catalog!r}).load_table({table!r}).scan().to_arrow()",
}
PARTED_READERS = {**READERS, "parquet": "pyarrow.dataset.dataset({place!r}{hive}).to_table()"}
"""How the rows are had in Python, by format, and in partitions. Arrow's own data sets of JSON may wait for ever where
CPUs are few. DuckDB looks at all rows for their types, since the first texts may all look like days, and later ones
not."""

Reasons = Mapping[str, Sequence[str]]
"""Variant -> some of the reasons why it lacks outputs."""


def reading(found: Predictions) -> str:
    """The expression in Python that gives the rows."""
    partitions = _partition_by(found)
    is_hive, hive = bool(partitions), _partitioning(found, partitions) if partitions else ""
    catalog, _, table = found.place.partition(".")
    readers = PARTED_READERS if partitions else READERS
    return readers[found.format].format(
        place=found.place, files=f"{found.place}/**/part-*", hive=hive, is_hive=is_hive, catalog=catalog, table=table
    )


def _partition_by(found: Predictions) -> list[str]:
    """The columns of the partitions that were written."""
    return list(dict.fromkeys(name for part in found.parts for name in part.file.partition))


def _partitioning(found: Predictions, names: Iterable[str]) -> str:
    """With their types: a reader that is not told takes the text 01069 for a number. A coded text is a text."""
    types = dict(found.columns)
    kinds = {name: types.get(name, "string") for name in names}
    known = [(name, "string" if kind.startswith("dictionary") else kind) for name, kind in kinds.items()]
    return f", partitioning=pyarrow.dataset.partitioning(pyarrow.schema({known!r}), flavor='hive')"


def columns_words(found: Predictions) -> str:
    """Names and types; of many the first and the last, which are the outputs.

    >>> columns_words(Predictions("r", "p", "csv", 1, (("id", "int64"), ("a", "double")), (), {}, "d", ()))
    'id (int64), a (double)'
    """
    listed, by = ", ".join(_shown_columns(found)), ", ".join(_partition_by(found))
    return f"{listed}; partitioned by {by}" if by else listed


def _shown_columns(found: Predictions) -> list[str]:
    shown = [f"{name} ({kind})" for name, kind in found.columns]
    left_out, half = len(shown) - MOST_COLUMNS, MOST_COLUMNS // 2
    return shown if left_out <= 0 else [*shown[:half], f"... {left_out:,} more ...", *shown[-half:]]


def _column_lines(found: Predictions) -> list[str]:
    """For a terminal: a line for each column where one is too short for all."""
    line = f"Columns: {columns_words(found)}"
    if len(line) <= LINE:
        return [line]
    by = _partition_by(found)
    return [
        "Columns:",
        *(f"  {one}" for one in _shown_columns(found)),
        *([f"  partitioned by {', '.join(by)}"] * bool(by)),
    ]


def render_predictions(found: Predictions, reasons: Reasons) -> RenderableType:
    """For a terminal."""
    notes = [f"Note: {note}" for note in found.notes]
    lines = [*prediction_lines(found, _column_lines(found)), *_dead_lines(found, reasons), *notes]
    return Group(*(Text(line, "bold") for line in lacking_lines(found, reasons)), *map(Text, lines))


def lacking_lines(found: Predictions, reasons: Reasons) -> list[str]:
    """A line for each variant that lacks outputs in all rows, with the first reason: above all else that is said."""
    return [
        " ".join(_lines_of(found, variant, reasons.get(variant, ())[:1])) for variant in lacking(found)[:MOST_VARIANTS]
    ]


def lacking(found: Predictions) -> list[str]:
    """Variants that lack outputs in all rows. None where not all rows are written, but the best of groups."""
    if RANK in dict(found.columns):
        return []
    return [variant for variant, rows in found.dead.items() if rows == found.rows]


def prediction_lines(found: Predictions, columns: Sequence[str] = ()) -> list[str]:
    """How many rows, where, which columns, and how they are read. columns: lines in the place of one for all."""
    files = count(len(found.parts), "file")
    return [
        f"Predictions: {count(found.rows, 'row')} in {files} ({found.format}) in {found.place}"
        if found.parts
        else f"Predictions: no rows, so that there is no file ({found.format}) in {found.place}",
        *(columns or [f"Columns: {columns_words(found)}"]),
        *([f"Read them with: {reading(found)}"] if found.parts else []),
    ]


def predictions_json(found: Predictions, reasons: Reasons) -> dict[str, Json]:
    """Without the list of files, which the manifest has."""
    return {
        "place": found.place,
        "format": found.format,
        "rows": found.rows,
        "files": len(found.parts),
        "columns": [{"name": name, "type": kind} for name, kind in found.columns],
        "dead_letters": {
            "place": found.dead_place,
            "rows": dict(found.dead),
            "files": len(found.dead_parts),
            "in_all_rows": lacking(found),
            "first_reasons": {variant: list(several) for variant, several in reasons.items()},
        },
        "notes": list(found.notes),
    }


def dead_rows(found: Predictions, reasons: Reasons) -> list[tuple[str, int, Sequence[str]]]:
    """Of variants that lack outputs, those that lack most: name, rows, and the first reasons."""
    most = sorted(found.dead.items(), key=lambda item: -item[1])[:MOST_VARIANTS]
    return [(variant, rows, reasons.get(variant, ())) for variant, rows in most]


def dead_lines_of(found: Predictions, reasons: Reasons, variant: str) -> list[str]:
    """Of one variant: how many rows it lacks outputs for, why, and where they are told; none where it lacks none."""
    return _lines_of(found, variant, reasons.get(variant, ())) if found.dead.get(variant) else []


def _lines_of(found: Predictions, variant: str, why: Sequence[str]) -> list[str]:
    head = f"Variant {variant!r} lacks outputs in {_rows_words(found, found.dead[variant])}"
    return [*(_reason_lines(head, why, "") if why else [f"{head}."]), f"These are dead letters, in {found.dead_place}"]


def _rows_words(found: Predictions, rows: int) -> str:
    """Of how many, where all rows are written, and not the best of groups."""
    if RANK in dict(found.columns):
        return count(rows, "row")
    return every(rows, "row") if rows == found.rows else f"{rows:,} of {count(found.rows, 'row')}"


def dead_title(found: Predictions) -> str:
    """Above `dead_rows`; "" where no variant lacks any."""
    if not found.dead:
        return ""
    left_out = len(found.dead) - MOST_VARIANTS
    shown = f" (of {count(len(found.dead), 'variant')} the {MOST_VARIANTS} that lack most)" if left_out > 0 else ""
    return f"Dead letters: rows that a variant has no output for, with the reason, in {found.dead_place}{shown}"


def _dead_lines(found: Predictions, reasons: Reasons) -> Iterator[str]:
    if found.dead:
        yield f"{dead_title(found)}:"
    for variant, rows, why in dead_rows(found, reasons):
        yield from _reason_lines(f"  {variant}: {count(rows, 'row')}", why, "    ")


def _reason_lines(head: str, why: Sequence[str], indent: str) -> list[str]:
    """One reason ends the line of the head; several have a line each."""
    if len(why) < 2:
        return [": ".join([head, *why])]
    return [f"{head}. The first reasons:", *(f"{indent}- {reason}" for reason in why)]
