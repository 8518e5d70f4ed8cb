"""What a gate found as SARIF 2.1.0, for code scanning: rules are quantities, results are claims that do not hold.

OASIS Standard "Static Analysis Results Interchange Format (SARIF) Version 2.1.0"; section numbers below are its.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any, Final
from urllib.parse import quote

from leakmeter.core.check import Check, Item
from leakmeter.report.scale import nats_text

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(checks: Sequence[Check], *, about: str) -> bytes:
    """SARIF in UTF-8; the same checks give the same bytes.

    A broken claim is an error, and each of the cases that speak most against it a warning, by its number. An undecided
    one is a result of kind 'open' (3.27.9): what is known is not enough to say whether there is a problem.

    Args:
        checks: what was found.
        about: path, from the root of the repository, of the file that results are shown at: code scanning shows none
            without one.
    """
    rules = {check.quantity: check for check in checks}
    names = list(rules)
    told = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "leakmeter",
                        "version": metadata.version("leakmeter"),
                        "rules": [_rule(rules[name]) for name in names],
                    }
                },
                "results": [
                    result for check in checks if not check.holds for result in _results(check, names, _location(about))
                ],
            }
        ],
    }
    return json.dumps(told, ensure_ascii=False, indent=1).encode() + b"\n"


def _rule(check: Check) -> dict[str, Any]:
    """A reporting descriptor (3.49)."""
    return {
        "id": check.quantity,
        "shortDescription": {"text": f"{check.quantity}, {check.found.unit}"},
        "fullDescription": {"text": check.about},
        "help": {"text": f"{check.about} Unit: {check.found.unit}."},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["privacy"], "unit": check.found.unit},
    }


def _results(check: Check, rules: Sequence[str], location: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The result (3.27) of a claim that does not hold, and those of its worst cases."""
    # What is of another kind than 'fail' has no level (3.27.10).
    of_claim = {"kind": "open", "level": "none"} if check.undecided else {"level": "error"}
    told = [(of_claim, f"Run {check.run}: {check.explained}", "")]
    told += [({"level": "warning"}, _said(check, item), f"case {item.number}") for item in check.worst]
    for level, text, which in told:
        yield {
            "ruleId": check.quantity,
            "ruleIndex": rules.index(check.quantity),
            **level,
            "message": {"text": text},
            "locations": [location],
            # The same finding of the next run is the same alert, whatever its number has come to be. By this name code
            # scanning finds it; without, it would take the line of the file instead, which all results share.
            "partialFingerprints": {"primaryLocationLineHash": _digest(check.claim, str(check.run), which)},
        }


def _said(check: Check, item: Item) -> str:
    return f"Run {check.run}, case {item.number}: {nats_text(item.value)} {check.found.unit}; asked: {check.claim}."


def _location(about: str) -> dict[str, Any]:
    """A location (3.28) by a path: as a URI, whatever characters are in it."""
    return {"physicalLocation": {"artifactLocation": {"uri": quote(about)}, "region": {"startLine": 1}}}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
