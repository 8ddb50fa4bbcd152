"""What a build server reads: what does not pass is never green."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from assay.records import GateResult, Results, Verdict
from assay.report.junit import junit


def suites_of(results: Results, *verdicts: Verdict) -> list[ElementTree.Element]:
    text = junit(replace(results, verdicts=verdicts))
    assert text.startswith("<?xml version='1.0' encoding='utf-8'?>\n<testsuites ")
    return ElementTree.fromstring(text).findall("testsuite")


def case(results: Results, outcome: str, position: int = 0, slice_: str = "overall", task: str = "main") -> GateResult:
    return replace(
        results.verdicts[0].gates[0],
        gate=f"gate {position}",
        outcome=outcome,
        position=position,
        slice=slice_,
        task=task,
        reason=f"{outcome} in {slice_}.",
    )


def counts(suite: ElementTree.Element) -> dict[str, str]:
    return {name: suite.get(name, "") for name in ("tests", "failures", "errors", "skipped")}


def test_a_test_per_gate_and_slice(results: Results) -> None:
    gates = (
        case(results, "pass"),
        case(results, "fail", 1, "country=DE"),
        case(results, "undecided", 1, "country=US"),
        case(results, "not judged", 1, "country=null", "click"),
    )

    (suite,) = suites_of(results, Verdict("new", "fail", "1 of 2 gates failed.", gates))

    assert (suite.get("name"), counts(suite)) == (
        "new",
        {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"},
    )
    said = [
        (test.get("name"), test.get("classname"), [(one.tag, one.get("message")) for one in test]) for test in suite
    ]
    assert said == [
        ("gate 0 [overall]", "new", []),
        ("gate 1 [country=DE]", "new", [("failure", "fail in country=DE.")]),
        ("gate 1 [country=US]", "new", [("error", "undecided in country=US.")]),
        ("gate 1 [click: country=null]", "new", [("skipped", "not judged in country=null.")]),
    ]


def test_a_gate_that_is_judged_nowhere_is_an_error(results: Results) -> None:
    gates = (case(results, "pass"), case(results, "not judged", 1, "country=DE"))

    (suite,) = suites_of(results, Verdict("new", "undecided", "1 of 2 gates undecided.", gates))

    assert counts(suite) == {"tests": "2", "failures": "0", "errors": "1", "skipped": "0"}


@pytest.mark.parametrize("outcome", ["not selected", "not gated"])
def test_what_was_not_judged_is_skipped(results: Results, outcome: str) -> None:
    (suite,) = suites_of(results, Verdict("new", outcome, "For a reason.", ()))

    assert [(test.get("name"), test[0].tag, test[0].get("message")) for test in suite] == [
        (outcome, "skipped", "For a reason.")
    ]


def test_the_whole_is_counted_and_says_what_came_out(results: Results) -> None:
    root = ElementTree.fromstring(junit(results))

    assert (root.get("name"), counts(root)) == ("assay", {"tests": "2", "failures": "0", "errors": "1", "skipped": "0"})
    properties = {one.get("name"): one.get("value") for one in root.iter("property")}
    assert properties == {"outcome": "undecided", "baseline": "prod"}


def test_what_xml_cannot_hold_is_replaced(results: Results) -> None:
    (suite,) = suites_of(results, Verdict("a\x00<b>é\ud800", "not gated", "\x1b[1m", ()))

    assert suite.get("name") == "a\ufffd<b>é\ufffd"
