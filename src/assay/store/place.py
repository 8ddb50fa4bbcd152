"""Where a run lies: a folder that this machine sees, or a place in a bucket. Texts only, nothing is looked up.

runs/today   /mnt/shared/run   file:///mnt/shared/run      a folder
s3://BUCKET/PATH   gs://BUCKET/PATH   az://CONTAINER/PATH  a bucket; % and blanks are taken as they stand
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from assay.errors import RunError
from assay.spec.names import offer

SCHEMES = {
    "s3": "AWS",
    "s3a": "AWS",
    "gs": "GOOGLE",
    "az": "AZURE",
    "abfs": "AZURE",
    "abfss": "AZURE",
}
"""Of buckets, with what the environment variables of their settings begin with."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_PATH_OF_URL = re.compile(rf"({'|'.join(SCHEMES)}|file):/(?!/)")
"""What pathlib makes of a URL."""


class Bucket(NamedTuple):
    """A place in a bucket."""

    scheme: str
    name: str
    prefix: str  # without a slash at either end; may be empty

    @property
    def url(self) -> str:
        """As it is shown, and given to other processes."""
        return f"{self.scheme}://{self.name}/{self.prefix}".rstrip("/")

    @property
    def encoded(self) -> str:
        """As a library reads it that takes % for the start of a code."""
        return f"{self.scheme}://{self.name}/{quote(self.prefix)}".rstrip("/")

    def under(self, folder: str) -> Bucket:
        return self._replace(prefix=f"{self.prefix}/{folder}".strip("/"))


def locate(text: str | Path) -> Path | Bucket:
    """The place that a user names. RunError when it is none where a run can be.

    >>> locate("s3://bucket/runs/today/")
    Bucket(scheme='s3', name='bucket', prefix='runs/today')
    >>> locate("runs/today/").as_posix()
    'runs/today'
    """
    url = _URL.fullmatch(_PATH_OF_URL.sub(r"\1://", str(text)))
    if url is None:
        return Path(text)
    scheme, rest = url[1].lower(), url[2]
    if scheme == "file":
        return _folder(str(text), rest)
    if scheme not in SCHEMES:
        raise RunError(f"A run cannot be at {text}: no store has the scheme {scheme!r}{offer(scheme, SCHEMES)}")
    return _bucket(str(text), scheme, rest)


def _folder(text: str, rest: str) -> Path:
    if not rest.startswith("/"):
        raise RunError(f"A run cannot be at {text}: a URL of a folder has three slashes, file:///FOLDER.")
    return Path(unquote(rest))


def _bucket(text: str, scheme: str, rest: str) -> Bucket:
    name, _, path = rest.partition("/")
    prefix = path.strip("/")
    if not name:
        raise RunError(f"A run cannot be at {text}: it names no bucket. Write {scheme}://BUCKET/PATH.")
    if ("@" in name and not scheme.startswith("abfs")) or re.search("[?#:]", name) or re.search("[?#]", prefix):
        raise RunError(
            f"A run cannot be at {scheme}://...: a bucket and a path are all that may be in it. Keys and settings "
            f"come from environment variables ({SCHEMES[scheme]}_...) or from the machine's own role."
        )
    if any(part in ("", ".", "..") for part in prefix.split("/")) and prefix:
        raise RunError(f"A run cannot be at {text}: a part of its path is empty, '.' or '..'.")
    return Bucket(scheme, name, prefix)


def absolute(text: str | Path) -> str:
    """The same place for a process that started in another folder."""
    place = locate(text)
    return place.url if isinstance(place, Bucket) else str(place.absolute())


def shown(text: str | Path) -> Path | str:
    """The place for a user: a Path where it is a folder."""
    place = locate(text)
    return place.url if isinstance(place, Bucket) else place
