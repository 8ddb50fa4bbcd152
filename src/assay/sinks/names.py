"""How parts are named, and the folders of partitions, as Hive writes them.

Not here: what is in a part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from assay.errors import DataError

NULL = "__HIVE_DEFAULT_PARTITION__"
"""The folder's value where a partition column is null."""
CLAIM = "_run.json"
"""Says whose predictions a folder holds. Readers of a folder skip names that begin with an underscore."""
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_OWN = re.compile(r"([^/=]+=[^/]*/)*part-[^/]+-[0-9a-f]{32}\.(parquet|arrow|(csv|jsonl)(\.gz|\.zst)?)")


def part_name(part: str, number: int, digest: str, ending: str) -> str:
    """The name of a file of a part. number: 0 for its first file.

    >>> part_name("4f1c", 0, "ab12", ".parquet"), part_name("4f1c", 12, "ab12", ".parquet")
    ('part-4f1c-ab12.parquet', 'part-4f1c.0012-ab12.parquet')
    """
    counted = f".{number:04d}" if number else ""
    return f"part-{part}{counted}-{digest}{ending}"


def is_own(path: str) -> bool:
    """Whether a sink may have written it: a part, at the top or in folders of partitions.

    >>> is_own("country=US/part-4f1c-" + 32 * "0" + ".parquet"), is_own("part-0.parquet"), is_own("dead-letter/x")
    (True, False, False)
    """
    return _OWN.fullmatch(path) is not None


def is_hidden(path: str) -> bool:
    """Whether readers of a folder pass over it.

    >>> is_hidden("_run.json"), is_hidden("_variant=a/part-0.parquet"), is_hidden("k=1/part-0.parquet")
    (True, True, False)
    """
    return any(name.startswith(("_", ".")) for name in path.split("/"))


def folder_of(partition: Mapping[str, str | None]) -> str:
    """The folder of a partition, with a slash at its end; "" where there is none.

    >>> folder_of({"country": "US", "page": "a/b=c"}), folder_of({"country": None}), folder_of({})
    ('country=US/page=a%2Fb%3Dc/', 'country=__HIVE_DEFAULT_PARTITION__/', '')
    """
    return "".join(f"{_escaped(key)}={_value(key, value)}/" for key, value in partition.items())


def _value(column: str, value: str | None) -> str:
    if value is None:
        return NULL
    if value in ("", NULL):
        raise DataError(
            f"The partition column {column!r} has the value {value!r}, and a folder of that name would read as null. "
            "Take the column out of partition_by, or write another value."
        )
    return _escaped(value)


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
