"""Which answers a run is about: a gate over answers that nobody gave, or over the last of many, has to say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from leakmeter.core.case import unmeasured_text
from leakmeter.core.plain import counted
from leakmeter.core.quantity import Check, Number
from leakmeter.results.results import MeasuredCases

_CLAIM: Final = "responses were given"
_ABOUT: Final = "Whether the responses were logged or given, rather than drawn from the scoring model for the run."


def given_checks(runs: Sequence[MeasuredCases]) -> list[Check]:
    """A broken check for each run with responses that were drawn, where its measure is about those that were given."""
    checks = []
    for number, run in enumerate(runs, 1):
        if n := _n_drawn(run):
            sentence = f"{_drawn_text(n, run)}; to let them count, give --allow-drawn (allow_drawn=True in Python)."
            found = Number(float(n), None, "cases with drawn responses", len(run.cases))
            checks.append(Check(_CLAIM, number, "responses", _ABOUT, False, found, 0, sentence))
    return checks


def notes(runs: Sequence[MeasuredCases], *, allow_drawn: bool) -> Iterator[str]:
    """What bounds on runs are not about, and no check says, a line each."""
    for number, run in enumerate(runs, 1):
        which = f"run {number}: " if len(runs) > 1 else ""
        if allow_drawn and (n := _n_drawn(run)):
            yield f"{which}{_drawn_text(n, run)}"
        if n := sum(case.unmeasured_answers or 0 for case in run.cases):
            yield f"{which}{unmeasured_text(n)}"
        if n := len(run.spec.get("problems") or ()):
            yield f"{which}{counted(n, 'case')} could not be used and {'is' if n == 1 else 'are'} left out"


def _n_drawn(run: MeasuredCases) -> int:
    return sum(type(case).is_of_given and case.response.sampled for case in run.cases)


def _drawn_text(n: int, run: MeasuredCases) -> str:
    return f"the responses of {n:,} of {counted(len(run.cases), 'case')} were drawn from the scoring model, not given"
