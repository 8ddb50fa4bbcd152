"""What is asked again of a store, and what is said of its errors."""

from __future__ import annotations

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

from assay.errors import RunError
from assay.store import bucket
from assay.store.bucket import connect, lacks_bucket, persist, reason
from assay.store.place import Bucket

RESET = "Generic S3 error: Error performing PUT http://host/a in 5ms - HTTP error: error sending request"
REFUSED = (
    "Generic S3 error: Error performing GET http://host/a in 5ms - Server returned non-2xx status code: 400 Bad Request"
)


class Store:
    """Fails so many times with an error, then answers."""

    def __init__(self, error: Exception, times: int) -> None:
        self._error = error
        self._times = times
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self._times:
            raise self._error
        return "answer"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nothing waits; how long it would have, by a clock that only waiting moves."""
    found: list[float] = []
    monkeypatch.setattr(bucket.time, "sleep", found.append)
    monkeypatch.setattr(bucket.time, "monotonic", lambda: sum(found))
    return found


def test_what_passes_is_asked_again_with_growing_waits(waits: list[float]) -> None:
    store = Store(GenericError(RESET), 8)
    assert persist(store) == "answer"
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


def test_a_store_that_is_away_is_asked_again_for_as_long_as_is_said(waits: list[float]) -> None:
    store = Store(GenericError(RESET), 1000)
    with pytest.raises(GenericError, match="error sending request"):
        persist(store)
    assert bucket.STORE_SECONDS - bucket.LONGEST_PAUSE_SECONDS < sum(waits) <= bucket.STORE_SECONDS == 180


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_a_status_that_passes(status: int) -> None:
    assert persist(Store(GenericError(REFUSED.replace("400", str(status))), 1)) == "answer"


@pytest.mark.parametrize(
    "error", [GenericError(REFUSED), FileNotFoundError("gone"), PermissionDeniedError("no"), ValueError("wrong")]
)
def test_what_stays_is_not_asked_again(error: Exception) -> None:
    store = Store(error, 1)
    with pytest.raises(type(error)):
        persist(store)
    assert store.calls == 1


def test_no_try_begins_once_the_store_was_away_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 100.0, 181.0])  # the tries themselves take time
    monkeypatch.setattr(bucket.time, "monotonic", lambda: next(times))
    store = Store(GenericError(RESET), 100)
    with pytest.raises(GenericError):
        persist(store)
    assert store.calls == 2


def test_the_reason_is_a_line_without_signatures_and_markup() -> None:
    text = (
        "Generic S3 error: Error performing GET http://host/a?sig=secret in 5ms - Server returned non-2xx status code: "
        '403 Forbidden: <?xml version="1.0"?>\n<Error><Code>Denied</Code><Message>Not for you.</Message></Error>\n\n'
        "Debug source:\nGeneric {"
    )
    assert reason(GenericError(text)) == (
        "Generic S3 error: Error performing GET http://host/a in 5ms - Server returned non-2xx status code: 403 "
        "Forbidden (Not for you)"
    )


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("<Code>NoSuchBucket</Code>", True),
        ("The specified bucket does not exist.", True),
        ("<Code>ContainerNotFound</Code>", True),
        ("<Code>NoSuchKey</Code>", False),
    ],
)
def test_a_missing_bucket_is_told_from_a_missing_object(text: str, lacks: bool) -> None:
    assert lacks_bucket(FileNotFoundError(text)) is lacks


def test_what_a_store_needs_and_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(RunError) as caught:
        connect(Bucket("az", "container", "run"))
    assert str(caught.value) == (
        "az://container/run cannot be reached from this machine: Generic MicrosoftAzure error: Account must be "
        "specified. Check the keys and the region in the environment (AZURE_...) or the machine's role, the endpoint, "
        "and the network."
    )
