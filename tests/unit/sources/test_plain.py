"""Types without views."""

from __future__ import annotations

import pyarrow as pa
import pytest

from assay.sources.plain import plain_type


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (pa.string_view(), pa.large_string()),
        (pa.binary_view(), pa.large_binary()),
        (pa.large_list(pa.string_view()), pa.large_list(pa.large_string())),
        (pa.list_(pa.list_(pa.binary_view())), pa.list_(pa.list_(pa.large_binary()))),
        (pa.list_(pa.string_view(), 2), pa.list_(pa.large_string(), 2)),
        (pa.map_(pa.string_view(), pa.string_view()), pa.map_(pa.large_string(), pa.large_string())),
        (
            pa.struct([("a", pa.struct([("b", pa.string_view())])), ("c", pa.null())]),
            pa.struct([("a", pa.struct([("b", pa.large_string())])), ("c", pa.null())]),
        ),
        (pa.string(), pa.string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int8(), pa.string())),
    ],
    ids=str,
)
def test_views_become_plain_and_others_stay(kind: pa.DataType, plain: pa.DataType) -> None:
    assert plain_type(kind) == plain
