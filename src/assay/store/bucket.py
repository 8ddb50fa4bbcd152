"""A store in a bucket: how it is reached, how long it is asked again, and what went wrong in words of a user.

Not here: what lies in it (`objects.py`). Keys come from the environment or the machine's role, as the library finds
them; no file of a run holds any.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
from obstore.exceptions import BaseError, GenericError
from obstore.store import ObjectStore, from_url

from assay.errors import RunError
from assay.store.place import SCHEMES, Bucket

if TYPE_CHECKING:  # the library has them for type checkers alone
    from obstore.store import ClientConfig, RetryConfig

REQUEST_SECONDS = 120
"""The longest that one request may take, a large state's too."""
STORE_SECONDS = 180
"""How long a store that was there may be away before a run stops."""
LONGEST_PAUSE_SECONDS = 5.0
"""Between two tries of ours: those of the library may be over after two seconds."""
FIRST_REQUEST_SECONDS = 10
FIRST_SECONDS = 20
"""The first request of a process is not so patient: a mistyped endpoint should be told soon."""

CLIENT_OPTIONS = (
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "http1_only",
    "http2_only",
    "pool_idle_timeout",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "timeout",
    "user_agent",
)
"""That the environment may set (AWS_ALLOW_HTTP): the library heeds it only where a program sets none of them."""
Made = TypeVar("Made")


def connect(place: Bucket, *, patient: bool = False) -> ObjectStore:
    """The store at a place that was reached. RunError when it cannot be, or there is no such bucket.

    patient: another process has reached it, so that what fails may pass.
    """
    store = _store(place, REQUEST_SECONDS, STORE_SECONDS, max_retries=10)
    if patient:
        _reach(store, place, persist)
    else:
        _reach(_store(place, FIRST_REQUEST_SECONDS, FIRST_SECONDS, max_retries=5), place, lambda call: call())
    return store


def knock(place: Bucket, seconds: int) -> None:
    """One request, of so many seconds at most and not tried again. RunError where it fails."""
    _reach(_store(place, seconds, seconds, max_retries=0), place, lambda call: call())


def persist(call: Callable[[], Made]) -> Made:
    """What a call to a store gives, tried again for STORE_SECONDS where its error is one that passes."""
    started, pause = time.monotonic(), 0.1
    while True:
        try:
            return call()
        except GenericError as error:
            if not _passes(error) or time.monotonic() + pause - started > STORE_SECONDS:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def reason(error: Exception) -> str:
    """The error in a line: without queries, which may hold signatures, and without markup."""
    text = str(error)
    line = re.sub(r"\?[^\s\"]*", "", text.partition("\n")[0].partition(": <?xml")[0])
    answer = re.search(r"<Message>(.*?)</Message>", text)
    return f"{line} ({answer[1].rstrip('.')})" if answer else line.rstrip(".")


def lacks_bucket(error: Exception) -> bool:
    """The bucket itself is not there, as S3, Google and Azure say it."""
    return re.search("NoSuchBucket|bucket does not exist|ContainerNotFound", str(error)) is not None


def _store(place: Bucket, request_seconds: int, seconds: int, max_retries: int) -> ObjectStore:
    client: ClientConfig = {"timeout": timedelta(seconds=request_seconds)}
    retry: RetryConfig = {"max_retries": max_retries, "retry_timeout": timedelta(seconds=seconds)}
    options: Any = {**client, **_client_options(SCHEMES[place.scheme])}  # Any: texts, as the environment has them
    try:
        return from_url(place.encoded, client_options=options, retry_config=retry)
    except (BaseError, ValueError) as error:
        raise RunError(_unreachable(place, error)) from error


def _client_options(prefix: str) -> dict[str, str]:
    named = {option: os.environ.get(f"{prefix}_{option.upper()}") for option in CLIENT_OPTIONS}
    return {option: value for option, value in named.items() if value is not None}


def _reach(store: ObjectStore, place: Bucket, tried: Callable[[Callable[[], object]], object]) -> None:
    """tried: makes the call, and makes it again where it should."""
    try:
        tried(lambda: obstore.get(store, "spec.yaml").bytes())
    except FileNotFoundError as error:
        if lacks_bucket(error):
            raise RunError(
                f"There is no bucket {place.name!r} for {place.url}. Make it, or correct the name."
            ) from error
    except (BaseError, OSError) as error:
        raise RunError(_unreachable(place, error)) from error


def _unreachable(place: Bucket, error: Exception) -> str:
    prefix = SCHEMES[place.scheme]
    return (
        f"{place.url} cannot be reached from this machine: {reason(error)}. Check the keys and the region in the "
        f"environment ({prefix}_...) or the machine's role, the endpoint, and the network."
    )


def _passes(error: GenericError) -> bool:
    """Not where the store has refused for good."""
    return re.search(r"status code: 4(?!08|09|29)\d\d", str(error)) is None
