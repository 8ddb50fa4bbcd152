"""Verdicts as JUnit XML, which build servers show: a test suite per variant, a test per gate and slice.

A gate that fails is a failure, an undecided one an error (it does not pass, and nothing was shown), a slice in which
there was nothing to judge is skipped; where that is so in all slices of a gate, the gate is undecided, so the tests are
errors. A suite without failure and error is a variant that passes. A variant that was not selected, or not gated, has
one skipped test.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from assay.records import GateResult, Results, Verdict
from assay.report.board import baseline_of
from assay.spec.model import MAIN_TASK

ELEMENTS = {"fail": "failure", "undecided": "error", "not judged": "skipped"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(results: Results) -> str:
    """The document, with an XML declaration."""
    root = ElementTree.Element("testsuites", name="assay")
    properties = ElementTree.SubElement(root, "properties")
    ElementTree.SubElement(properties, "property", name="outcome", value=results.outcome)
    ElementTree.SubElement(properties, "property", name="baseline", value=_plain(baseline_of(results) or ""))
    suites = [_suite(verdict) for verdict in results.verdicts]
    root.extend(suites)
    _count(root, [test for suite in suites for test in suite])
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document.decode() + "\n"


def _suite(verdict: Verdict) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=_plain(verdict.variant))
    judged = {gate.position for gate in verdict.gates if gate.outcome != "not judged"}
    for gate in verdict.gates:
        test = _test(suite, f"{gate.gate} [{_place(gate)}]", verdict.variant)
        nowhere = gate.position not in judged
        element = "error" if nowhere else ELEMENTS.get(gate.outcome)
        if element is not None:
            _say(test, element, gate.reason)
    if not verdict.gates:
        _say(_test(suite, verdict.outcome, verdict.variant), "skipped", verdict.reason)
    _count(suite, list(suite))
    return suite


def _test(suite: ElementTree.Element, name: str, variant: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", name=_plain(name), classname=_plain(variant))


def _say(test: ElementTree.Element, element: str, reason: str) -> None:
    ElementTree.SubElement(test, element, message=_plain(reason))


def _place(gate: GateResult) -> str:
    return gate.slice if gate.task == MAIN_TASK else f"{gate.task}: {gate.slice}"


def _count(element: ElementTree.Element, tests: Sequence[ElementTree.Element]) -> None:
    counts = Counter(child.tag for test in tests for child in test)
    element.set("tests", str(len(tests)))
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        element.set(name, str(counts[tag]))


def _plain(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
