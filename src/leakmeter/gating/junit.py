"""What a gate found as JUnit XML: one test case a claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree

from leakmeter.core.check import Check

_SUITE: Final = "leakmeter gate"


def to_junit(checks: Sequence[Check]) -> bytes:
    """JUnit XML in UTF-8; the same checks give the same bytes.

    Each test case has its number as properties: value, or 'value at least', the ends of its interval where it has one,
    unit, and cases. A broken claim is a failure, one that is undecided an error.
    """
    verdicts = Counter(check.verdict for check in checks)
    failures, errors = str(verdicts["broken"]), str(verdicts["undecided"])
    counts = {"tests": str(len(checks)), "failures": failures, "errors": errors}
    root = ElementTree.Element("testsuites", {"name": _SUITE, **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _SUITE, **counts, "skipped": "0", "time": "0"})
    for check in checks:
        about = {"name": check.claim, "classname": f"leakmeter.run-{check.run}", "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", about)
        properties = ElementTree.SubElement(case, "properties")
        for name, value in _properties(check).items():
            ElementTree.SubElement(properties, "property", {"name": name, "value": value})
        if not check.holds:
            tag, type_ = ("error", "undecided") if check.undecided else ("failure", "bound")
            failure = ElementTree.SubElement(case, tag, {"type": type_, "message": check.explained})
            failure.text = f"{check.explained} {check.about}"
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'.encode()


def _properties(check: Check) -> dict[str, str]:
    number = check.found
    low, high = number.interval or (None, None)
    ends = {} if low is None or high is None else {"low": repr(low), "high": repr(high)}
    counts = {"cases": str(number.n), "cases without": str(check.n_missing)}
    value = "value at least" if number.is_lower_bound else "value"
    return {value: repr(number.value), **ends, "unit": number.unit, **counts}
