"""Records of joins: what a key is made of, what is kept when, and what counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from assay.costs import Account, Amount
from assay.errors import RunError
from assay.pipeline.columns import Columns, OutputColumn
from assay.pipeline.cost import spent
from assay.pipeline.join import Held, Join, Joined, Piece
from assay.pipeline.joining import JoinBook, Keys, Listing
from assay.predicted import Key, Span
from assay.records import Fragment, Machine, PartFile, Plan, SinkSettings, Unit, Worked
from assay.sources.frame import FrameSource
from assay.spec.model import WorkersSpec
from assay.store.run import RunDirectory

MACHINE = Machine("big", "spot", "here", 0.5)
SETTINGS = SinkSettings("parquet", "/predictions", "run 1", ("country",), 100, 1000, "zstd")


class Sink:
    """A place where these files are."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths
        self.asked = 0

    def found(self) -> tuple[str, ...]:
        self.asked += 1
        return self._paths

    check = stored = begin = write = commit = None  # of a sink; nobody calls them


def listing(*paths: str, dead: tuple[str, ...] = ()) -> Listing:
    return Listing(Sink(*paths), Sink(*dead))  # type: ignore[arg-type]


def part(path: str) -> PartFile:
    return PartFile(path, 7, 100, "d" * 32, {"country": None, "page": "a"})


JOINED = Joined("u1", 14, (part("p1"), part("p2")), {"new": 2}, (part("d1"),))
EMPTY = Joined("u2", 0, (), {}, ())


def worked(*joined: Joined, seconds: float = 4.0) -> Worked:
    return Worked(0, joined, MACHINE, seconds)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(str(tmp_path / "run"))


# ---- keys ------------------------------------------------------------------------------------------------------------


def held(**changed: Any) -> Held:  # Any: fields
    return replace(Held("u1.0", ("new",), "o" * 32, Span("u1.0", 0, 1, 20), {"new": "it failed"}), **changed)


def piece(**changed: Any) -> Piece:
    return replace(Piece("00000-u1", Unit("u1.0", "a.parquet", 0, 20, 0), (held(),)), **changed)


def join(kind: str = "float64", where: str | None = "x > 0", carried: str = "wide") -> Join:
    columns = Columns(
        (pa.field(carried, pa.string()),),
        True,
        (OutputColumn(Key("new", "main"), "new", pa.type_for_alias(kind)),),
        None,
    )
    source = FrameSource(pa.table({"x": [1]}))
    return Join("", WorkersSpec(), "/run", source, where, columns, Sink(), Sink())  # type: ignore[arg-type]


def key(
    work: Join | None = None,
    settings: SinkSettings = SETTINGS,
    stretch: tuple[Piece, ...] = (piece(),),
    digest: str = "f" * 32,
    bundles: tuple[tuple[str, ...], ...] = (),
) -> str:
    class OnlyThese:
        fragments = (Fragment("a.parquet", 10, digest, (20,)), Fragment("b.parquet", 10, "b" * 32, (20,)))

    OnlyThese.bundles = bundles  # type: ignore[attr-defined]
    plan: Plan = OnlyThese()  # type: ignore[assignment]
    return Keys(work or join(), settings, plan).of(stretch)


def test_the_same_join_has_the_same_key() -> None:
    assert key() == key()
    assert len(key()) == 32


@pytest.mark.parametrize(
    "other",
    [
        lambda: key(join("float32")),
        lambda: key(join(carried="others")),
        lambda: key(join(where=None)),
        lambda: key(settings=replace(SETTINGS, compression="snappy")),
        lambda: key(settings=replace(SETTINGS, to="/elsewhere")),
        lambda: key(settings=replace(SETTINGS, run="run 2")),
        lambda: key(digest="e" * 32),
        lambda: key(bundles=(("new",), ("old",))),
        lambda: key(stretch=(piece(name="00001-u1"),)),
        lambda: key(stretch=(piece(), piece())),
        lambda: key(stretch=(piece(unit=Unit("u1.0", "b.parquet", 0, 20, 0)),)),
        lambda: key(stretch=(piece(unit=Unit("u1.0", "a.parquet", 0, None, 0)),)),
        lambda: key(stretch=(piece(held=(held(digest="p" * 32),)),)),
        lambda: key(stretch=(piece(held=(held(span=Span("u1.0", 1, 1, 20)),)),)),
        lambda: key(stretch=(piece(held=(held(reasons={"new": "it failed again"}),)),)),
        lambda: key(stretch=(piece(held=(held(digest="", span=None),)),)),
    ],
)
def test_whatever_it_is_a_function_of_changes_its_key(other: Callable[[], str]) -> None:
    assert other() != key()


# ---- records ---------------------------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def records(run: RunDirectory) -> list[dict[str, Any]]:  # Any: JSON
    return [json.loads(run.store.get(path))["joins"] for path in run.store.list("joins")]


def test_what_a_driver_has_joined_the_next_one_knows(run: RunDirectory) -> None:
    book = JoinBook(run, "d1")
    assert book.wrote("k", listing()) is None
    book.add("k", worked(JOINED, EMPTY))
    book.keep(now=True)
    there = listing("p1", "p2", "p3", dead=("d1",))
    assert JoinBook(run, "d2").wrote("k", there) == (JOINED, EMPTY)
    assert JoinBook(run, "d2").wrote("l", there) is None


@pytest.mark.parametrize("there", [listing("p1", dead=("d1",)), listing("p1", "p2"), listing()])
def test_it_counts_only_where_all_of_its_files_are_still_there(run: RunDirectory, there: Listing) -> None:
    book = JoinBook(run, "d1")
    book.add("k", worked(JOINED))
    assert book.wrote("k", there) is None


def test_a_stretch_without_rows_needs_no_files_and_no_listing(run: RunDirectory) -> None:
    book, sink = JoinBook(run, "d1"), Sink()
    book.add("k", worked(EMPTY))
    assert book.wrote("k", Listing(sink, sink)) == (EMPTY,)  # type: ignore[arg-type]
    assert sink.asked == 0


def test_places_are_listed_once(run: RunDirectory) -> None:
    book, sink = JoinBook(run, "d1"), Sink("p1", "p2", "d1")
    there = Listing(sink, sink)  # type: ignore[arg-type]
    for name in ("k", "l"):
        book.add(name, worked(JOINED))
        assert book.wrote(name, there) == (JOINED,)
    assert sink.asked == 2  # of predictions, of dead letters


def test_many_stretches_are_one_object_and_one_is_written_every_few_seconds(run: RunDirectory) -> None:
    clock = Clock()
    book = JoinBook(run, "d1", clock)
    book.add("a", worked(EMPTY))
    book.keep()
    for name in "bcd":
        clock.now += 1.0
        book.add(name, worked(EMPTY))
        book.keep()
    assert [sorted(one) for one in records(run)] == [["a"]]
    clock.now = 5.0
    book.keep()
    assert sorted(sorted(one) for one in records(run)) == [["a"], ["b", "c", "d"]]
    clock.now = 100.0
    book.keep(now=True)
    assert len(records(run)) == 2  # nothing is new


def test_what_is_new_is_written_down_at_the_end_whatever_has_happened(run: RunDirectory) -> None:
    clock = Clock()
    book = JoinBook(run, "d1", clock)

    def fails() -> None:
        with book.kept():
            for name in ("a", "b"):
                book.add(name, worked(EMPTY))
                book.keep()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert sorted(sorted(one) for one in records(run)) == [["a"], ["b"]]
    with book.kept():
        book.add("c", worked(EMPTY))
    assert sorted(sorted(one) for one in records(run)) == [["a"], ["b"], ["c"]]


def test_two_drivers_that_joined_the_same_write_one_object(run: RunDirectory) -> None:
    for driver in ("d1", "d2"):
        book = JoinBook(run, driver)
        book.add("k", worked(JOINED))
        book.keep(now=True)
    assert len(records(run)) == 1


def test_once_they_are_forgotten_there_are_none(run: RunDirectory) -> None:
    book = JoinBook(run, "d1")
    for name in ("k", "l"):
        book.add(name, worked(EMPTY))
        book.keep(now=True)
    book.forget()
    assert run.store.list("joins") == ()


def test_an_object_that_is_no_record_is_named(run: RunDirectory) -> None:
    run.store.put("joins/odd.json", b"[]")
    with pytest.raises(RunError) as caught:
        JoinBook(run, "d1").wrote("k", listing())
    assert str(caught.value) == (
        f"joins/odd.json of the run at {run.place} is no record of joins (list indices must be integers or slices, not "
        "str). Remove it: what it told of is joined again."
    )


def test_a_record_that_was_altered_is_named(run: RunDirectory) -> None:
    book = JoinBook(run, "d1")
    book.add("k", worked(JOINED))
    book.keep(now=True)
    (path,) = run.store.list("joins")
    record = json.loads(run.store.get(path))
    record["joins"]["k"][0] |= {"parts": [], "dead_parts": []}
    run.store.put(path, json.dumps(record).encode())
    with pytest.raises(RunError) as caught:
        JoinBook(run, "d2").wrote("k", listing())
    assert str(caught.value) == (
        f"{path} of the run at {run.place} is no record of joins (it is not what its name says). Remove it: what it "
        "told of is joined again."
    )


def test_records_of_another_version_are_not_taken(run: RunDirectory) -> None:
    run.store.put("joins/old.json", json.dumps({"version": 0, "joins": {"k": "of another form"}}).encode())
    assert JoinBook(run, "d1").wrote("k", listing()) is None


# ---- what joins take -------------------------------------------------------------------------------------------------


def test_seconds_of_joins_add_up_over_drivers_and_repeated_ones_are_spent_too(run: RunDirectory) -> None:
    for driver, seconds in (("d1", 4.0), ("d2", 3.0)):
        book = JoinBook(run, driver)
        book.spend(worked(EMPTY, seconds=1.0))
        book.keep(now=True)
        book.add("k", worked(JOINED, seconds=seconds))
        book.keep(now=True)
    assert spent(run) == {Account("big", "spot", "joining"): Amount(9.0, 4.5)}
