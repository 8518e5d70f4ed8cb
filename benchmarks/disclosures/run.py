"""`python -m benchmarks disclosures`: every method on one part of the cases, a row a method and kind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import leakmeter
from benchmarks.base import UnavailableError
from benchmarks.disclosures import methods
from benchmarks.disclosures.corpus import Example, examples, halves, is_late
from benchmarks.disclosures.scoring import Score, best, score

NAME: Final = "disclosures"
SPLIT_SEED: Final = 1
"""Of the halves: the cases of one were looked at while the rules were made, those of the other were not."""
PARTS: Final = ("tuning", "held-out", "late")
TINY: Final = 2
"""Cases of each half, to see that it runs."""


def rows(
    backend: Any, *, seed: int, part: str, run: Path | None = None, n_cited: int = 40, tiny: bool = False
) -> Iterator[dict[str, Any]]:
    """Recall by kind and precision of each method, and of ours also the share of sources that are right.

    Args:
        backend: of the model that scores the answers.
        seed: of the values in the cases.
        part: 'tuning', the half that was looked at; 'held-out', the other; 'late', what was written after both.
        run: a complete run of `influence` on these cases, so that they need not be measured again.
        n_cited: cases that context-cite is asked of, which takes many passes a case; the first of each kind in turn.
        tiny: two cases.
    """
    every = examples(seed)
    tuning, held_out = halves(every, SPLIT_SEED)
    cases = {"tuning": tuning, "held-out": held_out, "late": list(filter(is_late, every))}[part]
    if tiny:
        cases = cases[:TINY]
    records = [case.record for case in cases]
    results: Any = leakmeter.influence(backend, records, controls=0) if run is None else leakmeter.load_run(run)
    by_case = {result.id: result for result in results}
    ours = methods.ours(by_case)
    yield from _row("leakmeter", cases, score(cases, {case.id: ours(case) for case in cases}, 0.0))
    yield _sources(cases, by_case)
    compared = {
        "string overlap": lambda: (methods.string_overlap, cases),
        "recognisers and shapes alone": lambda: (methods.shapes_alone, cases),
        "presidio": lambda: (methods.presidio(), cases),
        "context-cite": lambda: (methods.context_cite(backend), _in_turn(cases, n_cited)),
    }
    for name, make in compared.items():
        try:
            method, asked = make()
        except UnavailableError as error:
            sys.stderr.write(f"{NAME}: {name}: left out: {error}\n")
            continue
        yield from _row(name, asked, best(asked, {case.id: method(case) for case in asked}))
        if asked is not cases:
            yield from _row("leakmeter, same cases", asked, score(asked, {case.id: ours(case) for case in asked}, 0.0))


def _row(name: str, cases: list[Example], made: Score) -> Iterator[dict[str, Any]]:
    right, predicted = made.precision
    silent, clean = made.clean
    row: dict[str, Any] = {"method": name, "cases": len(cases), "threshold": made.threshold, "f1": made.f1}
    row |= {kind: f"{found}/{planted}" for kind, (found, planted) in made.recall.items()}
    yield {**row, "named right": f"{right}/{predicted}", "clean and silent": f"{silent}/{clean}"}


def _sources(cases: list[Example], by_case: dict[str, Any]) -> dict[str, Any]:
    """Of leaks that were found, those of which a source is a document that says it."""
    right = found = 0
    for case in cases:
        result = by_case[case.id]
        names = [document.name for document in result.documents]
        shift = len(result.response.text) - len(case.answer)
        for leak in (planted for planted in case.planted if planted.is_leak):
            over = [d for d in result.disclosed if d.start - shift < leak.end and leak.start < d.end - shift]
            if over:
                found += 1
                documents = {source.document for disclosure in over for source in disclosure.sources}
                right += bool(documents & {names[i] for i in leak.documents})
    return {"method": "leakmeter", "source is a document that says it": f"{right}/{found}"}


def _in_turn(cases: list[Example], n: int) -> list[Example]:
    """The first case of each kind and language, then the second, and so on: n of them."""
    numbered: dict[tuple[str, str], int] = {}
    ranked = []
    for case in cases:
        at = numbered[case.kind, case.language] = numbered.get((case.kind, case.language), -1) + 1
        ranked.append((at, case))
    return [case for _, case in sorted(ranked, key=lambda pair: pair[0])][:n]
