"""Thrift's compact protocol: what the specification's own words give as bytes, and back, whatever is in a struct."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from assay.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Field,
    Items,
    Struct,
    read_struct,
    write_struct,
)

SPECIFIED = {
    "a number is in zigzag": ({1: Field(I32, -1)}, "15 01 00"),
    "a large one has seven bits a byte": ({1: Field(I64, 150)}, "16 ac 02 00"),
    "a boolean is its kind": ({2: Field(TRUE, True), 3: Field(FALSE, False)}, "21 12 00"),
    "an id far from the one before is said": ({20: Field(I16, 1)}, "04 28 02 00"),
    "a list says kind and number in a byte": ({1: Field(LIST, Items(I32, [1, 2]))}, "19 25 02 04 00"),
    "a long one says its number apart": ({1: Field(LIST, Items(BYTE, [7] * 16))}, "19 f3 10" + " 07" * 16 + " 00"),
    "booleans in lists are bytes": ({1: Field(LIST, Items(TRUE, [True, False]))}, "19 21 01 02 00"),
    "a struct in a struct ends too": ({1: Field(STRUCT, {1: Field(BINARY, b"a")})}, "1c 18 01 61 00 00"),
    "a double is eight bytes": ({1: Field(DOUBLE, b"\0" * 8)}, "17" + " 00" * 8 + " 00"),
}


@pytest.mark.parametrize("case", SPECIFIED)
def test_bytes_are_those_of_the_specification(case: str) -> None:
    struct, said = SPECIFIED[case]
    assert write_struct(struct).hex(" ") == said
    assert read_struct(bytes.fromhex(said)) == (struct, len(bytes.fromhex(said)))


def values(kind: int, deeper: some.SearchStrategy[Struct]) -> some.SearchStrategy[object]:
    integers = {I16: 16, I32: 32, I64: 64}
    if kind in integers:
        half = 1 << (integers[kind] - 1)
        return some.integers(-half, half - 1)
    if kind == LIST:
        kinds = some.sampled_from([TRUE, BYTE, I32, I64, BINARY, STRUCT])
        return kinds.flatmap(lambda one: some.lists(values(one, deeper), max_size=20).map(lambda all: Items(one, all)))
    return {
        TRUE: some.booleans(),
        BYTE: some.integers(0, 255),
        DOUBLE: some.binary(min_size=8, max_size=8),
        BINARY: some.binary(max_size=200),
        STRUCT: deeper,
    }[kind]


def fields(deeper: some.SearchStrategy[Struct]) -> some.SearchStrategy[Struct]:
    def field(kind: int) -> some.SearchStrategy[Field]:
        return values(kind, deeper).map(lambda value: Field(FALSE if value is False else kind, value))

    kinds = some.sampled_from([TRUE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT])
    found = some.dictionaries(some.integers(1, 2000), kinds.flatmap(field), max_size=6)
    return found.map(lambda struct: dict(sorted(struct.items())))


@given(some.recursive(some.just({}), fields, max_leaves=6))
def test_what_is_written_is_read_again(struct: Struct) -> None:
    data = write_struct(struct)
    assert read_struct(b"before" + data + b"behind", 6) == (struct, 6 + len(data))


@given(some.recursive(some.just({}), fields, max_leaves=6), some.data())
def test_a_struct_that_is_cut_off_is_refused(struct: Struct, chance: some.DataObject) -> None:
    data = write_struct(struct)
    with pytest.raises(ValueError, match="a Thrift struct is cut off"):
        read_struct(data[: chance.draw(some.integers(0, len(data) - 1))])


def test_a_kind_that_parquet_does_not_use_is_refused() -> None:
    with pytest.raises(ValueError, match="a Thrift struct has a field of kind 11, which Parquet does not use"):
        read_struct(bytes.fromhex("1b 00 00"))
