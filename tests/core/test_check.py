"""What a gate says of a claim."""

from __future__ import annotations

from dataclasses import replace

from leakmeter.core.check import Check, Number

CLAIM = Check("leak.mean <= 2", 1, "leak", "What leaks.", True, Number(1.0, None, "nats", 4), 0, "It is 1.")


def test_a_claim_that_does_not_hold_is_broken_unless_too_little_is_known() -> None:
    assert CLAIM.verdict == "holds"
    assert replace(CLAIM, holds=False).verdict == "broken"
    assert replace(CLAIM, holds=False, undecided=True).verdict == "undecided"
