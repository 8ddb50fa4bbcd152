"""What a GPU says, through a library of the same function names: without a GPU, but with the real reading code."""

from __future__ import annotations

import pynvml
import pytest
from fakes.gpus import Card, Library, Memory, NVMLError, Usage

from assay.nvml import REASONS, Gpu
from assay.records import Reading


def reading(card: Card, given: str | None = "0", pid: int = 7) -> Reading:
    return gpu({"GPU-a": card}, given, pid).read()


def gpu(cards: dict[str, Card], given: str | None = "0", pid: int = 7) -> Gpu:
    return Gpu(Library(cards), {} if given is None else {"CUDA_VISIBLE_DEVICES": given}, pid)


def test_all_that_a_gpu_says() -> None:
    card = Card(
        "NVIDIA A10", 88, 90, 900, 1695, 97, 0x20 | 4, Memory(20, 24), (7, 8), (Usage(8, 1, 40), Usage(7, 1, 57))
    )
    assert reading(card) == Reading(
        device="NVIDIA A10",
        temperature=88.0,
        slowdown_temperature=90.0,
        throttle=("power cap", "thermal slowdown by the driver"),
        clock=900.0,
        max_clock=1695.0,
        busy_fraction=0.97,
        memory_used=20.0,
        memory=24.0,
        num_others=1,
        others_fraction=0.4,
    )


def test_what_a_gpu_does_not_say_is_unknown() -> None:
    card = Card(b"Tesla K80", None, None, None, None, None)
    assert reading(card) == Reading(device="Tesla K80")


def test_the_names_of_reasons_are_those_of_the_library() -> None:
    assert all(getattr(pynvml, f"nvmlClocksEventReason{name}") for name in REASONS)


def test_the_functions_are_those_of_the_library() -> None:
    called = [name for name in vars(Library) if name.startswith(("nvml", "NVML"))]
    assert [name for name in called if not hasattr(pynvml, name)] == []


# ---- which one -------------------------------------------------------------------------------------------------------

CARDS = {"GPU-a": Card("first"), "GPU-b": Card("second", pids=(7,))}


@pytest.mark.parametrize(
    ("given", "name"),
    [("1", "second"), ("1,0", "second"), ("GPU-b", "second"), ("GPU-b,GPU-a", "second"), ("0", "first")],
)
def test_the_first_that_a_process_is_given(given: str, name: str) -> None:
    assert gpu(CARDS, given).read().device == name


def test_the_one_that_it_computes_on_where_all_are_given() -> None:
    assert gpu(CARDS, None).read().device == "second"


@pytest.mark.parametrize("given", ["", "-1", "5", "GPU-z"])
def test_none(given: str) -> None:
    assert gpu(CARDS, given).read() == Reading()


def test_a_worker_that_computes_on_none_says_nothing_of_those_of_its_machine() -> None:
    assert gpu(CARDS, None, pid=99).read() == Reading()


def test_without_a_driver_there_is_no_gpu() -> None:
    with pytest.raises(NVMLError):
        Gpu(Library({}, driver=False), {}, 7)


# ---- who else is on it -----------------------------------------------------------------------------------------------


def test_the_last_sample_of_each_process_counts_and_none_twice() -> None:
    card = Card(pids=(7, 8, 9), usage=(Usage(8, 5, 10), Usage(8, 6, 30), Usage(9, 6, 20), Usage(7, 6, 50)))
    library = Library({"GPU-a": card})
    one = Gpu(library, {"CUDA_VISIBLE_DEVICES": "0"}, 7)
    assert (one.read().num_others, one.read().others_fraction) == (2, None)  # nothing is new the second time
    assert library.asked == [0, 6]
    card.usage = (*card.usage, Usage(9, 8, 60))
    assert one.read().others_fraction == 0.6


def test_alone_on_it() -> None:
    found = reading(Card(pids=(7,)))
    assert (found.num_others, found.others_fraction) == (0, 0.0)


def test_who_others_are_is_unknown_where_the_processs_own_number_is_not_listed() -> None:
    """As in a container, where the library counts processes as the host does."""
    found = reading(Card(pids=(41_007,), usage=(Usage(41_007, 1, 100),)))
    assert (found.num_others, found.others_fraction) == (None, None)
