"""What a user may say of the files, checked: one that would have no effect is refused."""

from __future__ import annotations

from collections.abc import Sequence

from assay.errors import DataError
from assay.records import SinkSettings
from assay.spec.names import offer


def chosen_compression(settings: SinkSettings, known: Sequence[str]) -> str:
    """The first of the known ones where the user chose none. DataError: one that the format does not have."""
    wanted = settings.compression or known[0]
    if wanted not in known:
        raise DataError(
            f"predictions.compression: {settings.format} has no compression {wanted!r}{offer(wanted, known)}"
        )
    return wanted


def refuse_row_groups(settings: SinkSettings) -> None:
    """For formats without any."""
    if settings.row_group_rows is not None:
        raise DataError(
            f"predictions.row_group_rows: got {settings.row_group_rows}, but {settings.format} has no row groups. "
            "Leave it out, or write parquet."
        )
