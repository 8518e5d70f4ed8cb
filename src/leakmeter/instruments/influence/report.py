"""What influence says of one response or of many, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from leakmeter.core.plain import plural
from leakmeter.instruments.influence import (
    attribution,
    charts,
    context,
    conversations,
    disclosure_report,
    findings,
    permitted,
    search_report,
    sentences,
)
from leakmeter.instruments.influence.attribution import FINDING, POSTERIOR, SURROGATE
from leakmeter.instruments.influence.controls import ListCut
from leakmeter.instruments.influence.disclosures import LEAST_NATS
from leakmeter.instruments.influence.headline import headline, noun_of
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.report import blocks as b
from leakmeter.report import scale
from leakmeter.report.words import NO_GUARANTEE
from leakmeter.text.exemplars import EXEMPLAR

_CLASS: Final = 1e9
"""Above any number of nats: what is disclosed ranks before how much."""
_ADVICE: Final[Mapping[str, tuple[str, str]]] = {
    "personal": (
        "Personal or secret data disclosed",
        "do not show these responses to anyone who may not read the documents; `leakmeter redact --disclosures` "
        "chooses what to cut",
    ),
    "permitted": (
        "All that is disclosed, the recipients may know",
        "ship; measure again when the policy, the model, the prompt or the retriever changes",
    ),
    "retold": (
        "Content of the documents in other words, or put together from several pieces",
        "read these spans yourself; no recogniser can tell whether they are sensitive",
    ),
    "whole": (
        "The context as a whole moved the answer by more than placebo and noise, but nothing is disclosed",
        "many words moved a little; measure with `--unit document` or `--unit whole` before you ship",
    ),
    "nothing": (
        "No personal or secret data recognised, and nothing reworded",
        "read the copied spans, then ship; measure again when the model, the prompt or the retriever changes",
    ),
    "doubtful": (
        "Numbers too uncertain to show that nothing is disclosed",
        "give `--dtype float32`, or another model, and measure again; `leakmeter doctor` says what moves the numbers",
    ),
    "unseen": (
        "Cases that nobody can review beforehand",
        "bound the leakage of each token with `leakmeter decode --epsilon`; `leakmeter decode frontier` shows the cost",
    ),
}
_CALM: Final = ("nothing", "permitted")
_ADVICE_OF_EXEMPLARS: Final[Mapping[str, tuple[str, str]]] = {
    "nothing": (
        "No exemplar above placebo and noise",
        "ship the prompt, and measure again when the model or the exemplars change",
    ),
    "doubtful": _ADVICE["doubtful"],
    "spare": (
        "Exemplars above the placebo",
        "replace or drop exemplars that must stay secret, or ship generated ones with `leakmeter generate`",
    ),
}
_TITLES: Final = {
    False: "Influence of the {context} on this response",
    True: "Influence of the {contexts} on these responses",
}
"""By whether there are several."""
_LEAD: Final[Mapping[str, str]] = {
    "steps": "A language model gave {responses} after reading a {context}. It was taken away, where a disclosure was "
    "possible also replaced by contexts of other cases and cut piece by piece, and the same response was scored again.",
    "search": "A language model gave {responses} after reading a {context}. It was searched: each {piece} was "
    "screened, those that mattered most were ablated in turn, and the same response was scored again.",
    "documents": "A language model gave {responses} after reading a {context}. Each of the documents was ablated in "
    "turn, then each sentence of those that matter, and the same response was scored again.",
    "pieces": "A language model gave {responses} after reading a {context}. Each {piece} of it was ablated in turn, "
    "and the same response was scored again.",
}
"""By how it was measured."""
_INFLUENCE: Final = (
    "The change of its log-probability, added up over its tokens, is the influence of that {piece} on the response, in "
    "nats."
)
_NOTES: Final[tuple[tuple[str, str], ...]] = (
    (
        "Without it",
        "Σ|τ|, the context influence of Flemings et al. (Definition 3.2): how far each token moves, added up "
        "without signs. It says how much changed. No posterior can be computed from it.",
    ),
    (
        POSTERIOR,
        "1 / (1 + exp(−signed)), by Bayes’ rule from even odds. It is shown only if both sums, signed and unsigned, "
        "are above those of the noise and the placebo. Single tokens and responses that were given have none.",
    ),
    (
        FINDING,
        "of a response that was given: whether both sums, signed and unsigned, are above those of the noise and the "
        "placebo. It has no posterior, since another model may have written it.",
    ),
    ("Alone", "a fact stated twice reads low when either mention is removed, and high when it is the only one left."),
    (SURROGATE, "what is lost then came from the context, not from the model’s own knowledge."),
    (
        "p",
        "of content in other words: the share of pairs of a response and the context of another case that have a span "
        "with as many nats.",
    ),
    (
        "False alarms",
        "pairs of a response and the context of another case, from which it was not written; the rule of disclosures "
        "would have listed something in so many of them, at most so many with 95\u00a0% confidence.",
    ),
    ("Colours", "begin at the placebo, or at the noise floor where that is higher; they and the bars share one scale, "
                f"log(1 + nats / {scale.KNEE_NATS:g}), the same in every case. While one token is chosen, they are "
                "shares of what moved it most."),
)  # fmt: skip


def report(cases: Sequence[InfluenceResult]) -> b.Report:
    of_list, cut = disclosure_report.listed(cases)
    cases, n_cut_of_all = [case for case, _ in of_list], sum(n_cut for _, n_cut in of_list)
    first, *others = map(context.settings, cases)
    shared = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    several = len(cases) > 1
    weights = [_weight(case) for case in cases]
    sections = disclosure_report.sections_of(cases, weights) if several else {}
    shown = _columns(cases)
    title = _TITLES[several].format(context=sentences.whole(cases), contexts=sentences.whole(cases, "s"))
    return b.Report(
        title=title,
        measure="influence",
        blocks=[*(_overview(cases, sections, n_cut_of_all, cut) if several else ()), *charts.charts(cases)],
        lead=_lead(cases),
        caveat=NO_GUARANTEE,
        sections=[
            b.Section(
                b.Untrusted(case.id, 80),
                b.Later(partial(_blocks, case, shared if several else None, n_cut)),
                b.cells(shown, case),
                weight=weight,
            )
            for (case, n_cut), weight in zip(of_list, weights, strict=True)
        ],
        index=b.heads(shown),
        index_caption=f"{noun_of(cases).capitalize()}s by what they disclose, then by nats" if several else "",
        sections_left_out="that disclose less",
        notes=_notes(cases, shared if several else {}),
        guide_to="piece",
        has_posteriors=any(case.response.sampled for case in cases),
    )


def _lead(cases: Sequence[InfluenceResult]) -> str:
    how = "pieces"
    if any(case.steps is not None for case in cases):
        how = "steps"
    elif any(case.search is not None for case in cases):
        how = "search"
    elif any(findings.has_documents(case.pieces) for case in cases):
        how = "documents"
    return f"{_LEAD[how]} {_INFLUENCE}".format(
        responses=plural(len(cases), "a response", f"{len(cases):,} responses"),
        context=sentences.whole(cases),
        piece=sentences.unit_noun(cases[0]),
    )


def _notes(cases: Sequence[InfluenceResult], shared: dict[str, str]) -> list[b.Block]:
    is_drawn = [case.response.sampled for case in cases]
    shown = {
        SURROGATE: any(piece.swapped_nats is not None for case in cases for piece in case.pieces),
        POSTERIOR: any(is_drawn),
        FINDING: not all(is_drawn),
        **dict.fromkeys(("p", "False alarms"), any(case.controls for case in cases)),
    }
    of_search = search_report.NOTES if any(case.search is not None for case in cases) else ()
    notes = b.Facts([*(note for note in _NOTES if shown.get(note[0], True)), *of_search])
    return [b.HeadedBlocks("How it was measured", b.facts_of(shared)), notes] if shared else [notes]


def _overview(
    cases: Sequence[InfluenceResult], sections: Mapping[str, str], n_cut: int, cut: ListCut
) -> Iterator[b.Block]:
    yield headline(cases, sections)
    yield from b.front(sentences.behind_headline_of_all(cases, n_cut, cut))
    yield from sentences.warnings(cases)
    yield from map(b.Warning, permitted.unmatched(cases))
    yield from search_report.warnings_of_all(cases)
    yield from _advice(cases)
    yield from disclosure_report.tables(cases, sections)
    yield from conversations.blocks(cases, sections)
    yield from sentences.explained(cases)


def _blocks(case: InfluenceResult, shared: Mapping[str, str] | None, n_cut: int) -> Iterator[b.Block]:
    """Of one of several cases, with the settings that these share; None where it is the only one."""
    is_alone = shared is None
    yield headline([case])
    yield from b.front(sentences.behind_headline(case, n_cut, is_alone=is_alone))
    yield from sentences.warnings([case])
    yield from map(b.Warning, permitted.unmatched([case]) if is_alone else ())
    yield from search_report.warnings(case)
    yield from _advice([case]) if is_alone else ()
    yield from b.warnings_of(context.warnings(case))
    yield from disclosure_report.tables([case])
    yield attribution.attribution(case)
    searched: list[b.Block] = [*search_report.tables(case), *search_report.facts(case)]
    if searched:
        yield b.Details("The search: documents, and pieces without an exact value", searched, told=True)
    yield from attribution.samples(case)
    yield from sentences.explained([case]) if is_alone else ()
    own = {name: value for name, value in context.settings(case).items() if (shared or {}).get(name) != value}
    if own:
        yield b.Details("Settings and cost", b.facts_of(own))


def _advice(cases: Sequence[InfluenceResult]) -> Iterator[b.Advice]:
    table = _ADVICE_OF_EXEMPLARS if cases[0].unit == EXEMPLAR else _ADVICE
    if not permitted.is_judged(cases):
        table = {name: row for name, row in table.items() if name != "permitted"}
    met = _met(cases)
    partial_table = search_report.ADVICE if any(map(search_report.is_partial, cases)) else {}
    rows: list[tuple[b.Phrase, b.Phrase]] = []
    for name in table:
        if meeting := met.get(name):
            condition, action = partial_table.get(name, table[name])
            ids = () if name in _CALM else disclosure_report.ids_of(meeting, len(cases))
            rows.append(((condition, *ids), b.sentence(action)))
    if not rows and any(map(_is_in_part, cases)):
        return
    yield b.Advice(rows, [(row[0], b.sentence(row[1])) for name, row in table.items() if not met.get(name)])


def _is_in_part(case: InfluenceResult) -> bool:
    """Whether the system prompt alone was measured: what the rest of the prompt did to the answer is not known."""
    return case.unmarked_query_tokens is not None


def _met(cases: Sequence[InfluenceResult]) -> dict[str, Sequence[InfluenceResult]]:
    if cases[0].unit == EXEMPLAR:
        above = [case for case in cases if context.leader(case) is not None]
        met: dict[str, Sequence[InfluenceResult]] = {"spare": above} if above else {"nothing": cases}
    else:
        told = {id(case): disclosure_report.found(case) for case in cases}
        met = {
            # Those come first whose recipient may not know it.
            "personal": sorted(
                (case for case in cases if permitted.withheld(disclosure_report.personal(case))),
                key=lambda case: not permitted.n_unauthorised(case),
            ),
            "retold": [case for case in cases if permitted.withheld(disclosure_report.retold(case))],
            "whole": [
                case for case in cases if findings.is_finding(case) and not told[id(case)] and not _is_in_part(case)
            ],
        }
        if not any(met.values()):
            judged = [leak for case in cases if case.policy is not None for leak in told[id(case)]]
            met["permitted" if judged and not permitted.withheld(judged) else "nothing"] = cases
    met["doubtful"] = [case for case in cases if context.doubt(case) is not None]
    # That nothing was found says nothing where numbers are too uncertain, or answers were not measured.
    is_known = not met["doubtful"] and not any(case.unmeasured_answers or _is_in_part(case) for case in cases)
    return {name: meeting for name, meeting in met.items() if name not in _CALM or is_known}


# ---- the list of cases ----------------------------------------------------------------------------------------------
def _weight(case: InfluenceResult) -> float:
    """Ranks by the first of what is disclosed, then by its nats, which the list shows; what discloses nothing last, and
    of that first what the context moved."""
    first = next(iter(disclosure_report.found(case)), None)
    if first is None:
        return int(findings.is_finding(case)) * _CLASS + min(case.whole_nats, _CLASS / 4)
    nats = disclosure_report.shown_nats(first) or 0.0
    return (6 - disclosure_report.rank(first)) * _CLASS + max(-_CLASS / 4, min(nats, _CLASS / 4))


def _disclosed_nats(case: InfluenceResult) -> b.Cell:
    """Of the first of what is disclosed, the most sensitive."""
    most = next(iter(disclosure_report.found(case)), None)
    nats = None if most is None else disclosure_report.shown_nats(most)
    if most is None or nats is None:
        return None
    return b.Shaded(nats, scale.heat(nats, LEAST_NATS) if most.is_sensitive else 0)


_INDEX: Final[b.Columns[InfluenceResult]] = [
    (b.Column("Nats", "signed_nats", shade=True), _disclosed_nats),
    (b.Column("Discloses"), disclosure_report.summary),
    (b.Column("Response", on="pages"), disclosure_report.words_of),
    (b.Column("Whole context", "nats", "nats"), lambda case: case.whole_nats),
    (b.Column("Missed by the search"), search_report.cell),
    (b.Column("Kind", on="chips"), disclosure_report.kinds),
    (b.Column("Channel", on="chips"), lambda case: case.channel),
    (b.Column("May know", on="chips"), disclosure_report.may_know),
    (b.Column("To", on="chips"), lambda case: b.Untrusted(case.recipient or "user", 40)),
    (b.Column("From", on="chips"), disclosure_report.documents),
]


def _columns(cases: Sequence[InfluenceResult]) -> b.Columns[InfluenceResult]:
    """What the list says of each case."""
    is_conversation = any(case.conversation is not None for case in cases)
    is_judged = permitted.is_judged(cases)
    shown = {
        "Missed by the search": any(case.search is not None for case in cases),
        "Channel": is_conversation,
        "May know": is_judged,
        "To": is_conversation or is_judged,
    }
    return [(column, cell) for column, cell in _INDEX if shown.get(b.plain(column.heading), True)]
