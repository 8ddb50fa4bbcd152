"""How parts are named, and the folders of partitions, as Hive writes them.

Not here: what is in a part.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from assay.errors import DataError

NULL = "__HIVE_DEFAULT_PARTITION__"
"""The folder's value where a partition column is null."""
MOST_BYTES = 255
"""Of a folder's name, on the disks that there are."""
_CLAIM = "_run-"
_ELSEWHERE = "or leave such rows out by data.where"
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_OWN = re.compile(r"([^/=]+=[^/]*/)*part-[^/]+-[0-9a-f]{32}\.(parquet|arrow|(csv|jsonl)(\.gz|\.zst)?)")


def part_name(part: str, number: int, digest: str, ending: str) -> str:
    """The name of a file of a part. number: 0 for its first file.

    >>> part_name("4f1c", 0, "ab12", ".parquet"), part_name("4f1c", 12, "ab12", ".parquet")
    ('part-4f1c-ab12.parquet', 'part-4f1c.0000012-ab12.parquet')
    """
    counted = f".{number:07d}" if number else ""
    return f"part-{part}{counted}-{digest}{ending}"


def claim_of(run: str) -> str:
    """The empty file that says whose predictions a folder holds. Readers pass over its underscore, or over empty files.

    >>> claim_of("4f1c"), owner_of(claim_of("night 1/2")), owner_of("part-0.parquet")
    ('_run-4f1c', 'night 1/2', None)
    """
    return _CLAIM + quote(run, safe="")


def owner_of(path: str) -> str | None:
    """The run that a claim names; None where it is no claim."""
    return unquote(path.removeprefix(_CLAIM)) if path.startswith(_CLAIM) else None


def is_own(path: str) -> bool:
    """Whether a sink may have written it: a part, at the top or in folders of partitions.

    >>> is_own("country=US/part-4f1c-" + 32 * "0" + ".parquet"), is_own("part-0.parquet"), is_own("dead-letter/x")
    (True, False, False)
    """
    return _OWN.fullmatch(path) is not None


def is_hidden(path: str) -> bool:
    """Whether readers of a folder pass over it.

    >>> is_hidden("_run-4f1c"), is_hidden("_variant=a/part-0.parquet"), is_hidden("k=1/part-0.parquet")
    (True, True, False)
    """
    return any(name.startswith(("_", ".")) for name in path.split("/"))


def folder_of(partition: Mapping[str, str | None], *, exact: bool = True) -> str:
    """The folder of a partition, with a slash at its end; "" where there is none.

    exact: readers take values from it. DataError for one that they would not find again. Else it only tells them apart.

    >>> folder_of({"country": "US", "page": "a/b=c"}), folder_of({"country": None}), folder_of({})
    ('country=US/page=a%2Fb%3Dc/', 'country=__HIVE_DEFAULT_PARTITION__/', '')
    """
    return "".join(f"{_folder(column, value, exact)}/" for column, value in partition.items())


def _folder(column: str, value: str | None, exact: bool) -> str:
    if exact and value in ("", NULL):
        raise DataError(
            f"The partition column {column!r} has the value {value!r}; of a folder of that name some readers make "
            f"null, and some an error. Take the column out of predictions.partition_by, {_ELSEWHERE}."
        )
    name = f"{_escaped(column)}={NULL if value is None else _escaped(value)}"
    if len(name.encode()) <= MOST_BYTES:
        return name
    if exact:
        raise DataError(
            f"The partition column {column!r} has a value of {len(value or '')} letters ({value!r:.40}...), and a "
            f"folder of that name would have {len(name.encode())} bytes, of which {MOST_BYTES} are the most. Take the "
            f"column out of predictions.partition_by, {_ELSEWHERE}."
        )
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
