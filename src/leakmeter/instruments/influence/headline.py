"""The headline of influence: which responses disclose something personal or secret, and what.

Terminal, page, Markdown, notebook and the end of a command all say it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, get_args

from leakmeter.core.case import Channel
from leakmeter.core.plain import counted, n_listed, plural
from leakmeter.instruments.influence import findings, permitted
from leakmeter.instruments.influence.context import doubt
from leakmeter.instruments.influence.disclosure_report import (
    found,
    kind_text,
    kinds_text,
    personal,
    shown_nats,
    strength,
)
from leakmeter.instruments.influence.disclosures import Disclosure
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.instruments.influence.search_report import is_partial
from leakmeter.report import blocks as b
from leakmeter.report.words import scope
from leakmeter.text.entities.values import is_unexplained
from leakmeter.text.repeats import is_repeated

_NAMED: Final = 4
"""Cases, or disclosures, that it names."""
_State: TypeAlias = Literal["disclosed", "doubtful", "none", "none known"]
"""What is known of personal or secret data: it is disclosed; nobody can say, since numbers are too uncertain; it is
not; it is not as far as was measured."""
_OF_ONE: Final[Mapping[_State, str]] = {
    "disclosed": "The {subject} discloses personal or secret data: {what}.",
    "doubtful": "Whether the {subject} discloses any personal or secret data cannot be said: {why}. None was found.",
    "none": "The {subject} does not disclose any recognisable personal or secret data.",
    "none known": "The {subject} does not disclose, as far as known, any recognisable personal or secret data.",
}
_OF_SEVERAL: Final[Mapping[_State, str]] = {
    "disclosed": "{n} of {subject} {disclose} personal or secret data: {what}.",
    "doubtful": "Whether {n} of {subject} disclose any personal or secret data cannot be said: {why}. None was found.",
    "none": "None of {subject} discloses any recognisable personal or secret data.",
    "none known": "None of {subject} is known to disclose any recognisable personal or secret data.",
}
_BY_RECIPIENT: Final[Mapping[_State, str]] = {
    "disclosed": "{disclosures} of personal or secret data {whom}: {what}{rest}.",
    "doubtful": "Whether recipients are told personal or secret data that they may not know cannot be said: {why}. "
    "None was found{rest}.",
    "none": "No disclosures of personal or secret data to recipients who are not allowed to know them{rest}.",
    "none known": "No known disclosures of personal or secret data to recipients who are not allowed to know "
    "them{rest}.",
}
"""Where a policy, or the log, says who may know what."""
_REST: Final[Mapping[_State, str]] = {
    "disclosed": ". {rest}",
    "doubtful": " ({rest})",
    "none": "; {rest}",
    "none known": "; {rest}",
}
_NOBODY_SAYS: Final = " of which nobody says who may know what"
_NOUNS: Final[Mapping[str, str]] = {
    "answer": "answer",
    "tool": "tool call",
    "agent": "agent message",
    "memory": "memory write",
    "reasoning": "reasoning text",
}
_EMISSION: Final = "emission"
"""What responses of several channels are called together."""
_OF_CHANNEL: Final[Mapping[str, str]] = {
    "tool": "call of {recipient} in {conversation}",
    "agent": "message to {recipient} in {conversation}",
    "memory": "text written to {recipient} in {conversation}",
}


def headline(cases: Sequence[InfluenceResult], sections: Mapping[str, str] | None = None) -> b.Headline:
    """How many responses disclose something personal or secret, and which; ids lead to `sections_of` the report. Of
    conversations it says so of each channel, or of all emissions at once where those of more than one disclose; and of
    those apart of which nobody says who may know what, where somebody does of others."""
    channels = [[case for case in cases if case.channel == channel] for channel in get_args(Channel)]
    of_each = [of_channel for of_channel in channels if of_channel]
    n_leaking = sum(any(map(_leaks, of_channel)) for of_channel in of_each)
    if n_leaking > 1 or any(doubt(case) is not None for case in cases):
        of_each = [list(cases)]
    is_judged = permitted.is_judged(cases)
    parts = [
        _headline(some, sections or {}, whose=_NOBODY_SAYS * (is_judged and not permitted.is_judged(some)))
        for of_channel in of_each
        for some in permitted.apart(of_channel)
    ]
    verdicts = {part.verdict for part in parts}
    text = b.joined((part.text for part in parts), " ")
    return b.Headline(text, "bad" if "bad" in verdicts else "good" if verdicts == {"good"} else "")


def _headline(cases: Sequence[InfluenceResult], sections: Mapping[str, str], *, whose: str) -> b.Headline:
    """Of cases of which somebody says who may know what, or nobody does; `whose` says that, where somebody does of
    others."""
    is_judged = permitted.is_judged(cases)
    leaks = [*map(_leaks, cases)]
    leaking = [(case, some) for case, some in zip(cases, leaks, strict=True) if some]
    leaking.sort(key=lambda row: -(shown_nats(row[1][0]) or 0.0))
    doubts = [why for case in cases if (why := doubt(case)) is not None]
    noun = noun_of(cases)
    where = f"{scope(cases)}{_repeated(cases)}"
    state: _State = "disclosed" if leaking else "doubtful" if doubts else "none"
    if state == "none" and (where or any(map(_is_partly_known, cases))):
        state = "none known"
    rest = permitted.rest_text(leak for case in cases for leak in personal(case)) if is_judged else ""
    n_leaks, n_cases = sum(map(len, leaks)), len(leaking) or len(doubts)
    is_alone = len(cases) == 1 and not is_judged and not whose
    said = b.sentence(
        (_BY_RECIPIENT if is_judged else _OF_ONE if is_alone else _OF_SEVERAL)[state],
        subject=_subject(cases[0], noun, sections) if is_alone else f"{_responses(cases, noun)}{whose}",
        n=n_cases,
        disclose=plural(n_cases, "discloses", "disclose"),
        disclosures=counted(n_leaks, "disclosure"),
        whom=plural(n_leaks, permitted.ONE_MAY_NOT, permitted.MAY_NOT),
        what=_of_case(cases[0]) if is_alone else (_of_emissions if noun == _EMISSION else _of_cases)(leaking, sections),
        why=doubts[0] if doubts else "",
        rest=_REST[state].format(rest=rest) if rest else "",
    )
    of_channel = f"In {noun}s: " if is_judged and noun in _NOUNS.values() else ""
    verdict: Literal["bad", "good", ""] = "bad" if leaking else "good" if _is_calm(cases, state) else ""
    return b.Headline((*b.parts(f"{where}{of_channel}"), *said), verdict)


def _leaks(case: InfluenceResult) -> list[Disclosure]:
    """What is personal or secret; where somebody says who may know what, only what its recipient may not know."""
    return [leak for leak in personal(case) if leak.allowed == "no" or case.policy is None]


def _is_calm(cases: Sequence[InfluenceResult], state: _State) -> bool:
    """Whether nothing was found that may be sensitive, though nothing recognises it, and all was measured."""
    is_judged = permitted.is_judged(cases)
    return state == "none" and not any(
        permitted.withheld(found(case))
        or (findings.is_finding(case) and not is_judged)
        or not findings.is_held_against_irrelevant(case)
        or has_unexplained(case)
        for case in cases
    )


def _subject(case: InfluenceResult, noun: str, sections: Mapping[str, str]) -> b.Phrase:
    """'drawn response', or 'call of calendar.create in c-17'."""
    if (of_channel := _OF_CHANNEL.get(case.channel)) is None:
        return f"{_drawn([case])}{noun}"
    conversation = b.Untrusted(case.conversation or "", 32, sections.get(case.id, ""))
    return b.sentence(of_channel, recipient=b.Untrusted(case.recipient or "", 32), conversation=conversation)


def _of_case(case: InfluenceResult) -> b.Phrase:
    """The first disclosures of a case. Their words stand in the list: a headline goes into logs and representations."""
    disclosed = personal(case)
    shown = disclosed[: n_listed(len(disclosed), _NAMED)]
    listed = b.joined(((kind_text(row.kind), *_strength_and_origin(case, row)) for row in shown), "; ")
    return (*listed, *_and_more(len(disclosed) - len(shown)))


def _of_cases(leaking: Sequence[tuple[InfluenceResult, Sequence[Disclosure]]], sections: Mapping[str, str]) -> b.Phrase:
    """The first cases, and what each discloses."""
    # A bare number would be read as a count.
    named = [
        (
            "case " if case.id.isdecimal() else "",
            b.Untrusted(case.id, 32, sections.get(case.id, "")),
            f" {kinds_text(leaks)}",
            *_first_of(case, leaks),
        )
        for case, leaks in leaking[: n_listed(len(leaking), _NAMED)]
    ]
    return (*b.joined(named, "; "), *_and_more(len(leaking) - len(named)))


def _of_emissions(
    leaking: Sequence[tuple[InfluenceResult, Sequence[Disclosure]]], sections: Mapping[str, str]
) -> b.Phrase:
    """The first emissions, each by its channel, and what it discloses."""
    named = [
        ("the ", *b.parts(_emission(case, sections)), f" {kinds_text(leaks)}", *_first_of(case, leaks))
        for case, leaks in leaking[:_NAMED]
    ]
    return (*b.joined(named, "; "), *_and_more(len(leaking) - len(named)))


def _emission(case: InfluenceResult, sections: Mapping[str, str]) -> b.Phrase:
    """'answer c-11.2', or 'call of calendar.create in c-17'."""
    if case.channel in _OF_CHANNEL:
        return _subject(case, "", sections)
    return (f"{_NOUNS[case.channel]} ", b.Untrusted(case.id, 32, sections.get(case.id, "")))


def _and_more(n: int) -> Sequence[str]:
    return [f"; and {n:,} more"] if n > 0 else []


def _first_of(case: InfluenceResult, leaks: Sequence[Disclosure]) -> tuple[str | b.Untrusted, ...]:
    """Of a turn of a conversation: how strong the strongest of these disclosures is, and where it is from."""
    return () if case.conversation is None else _strength_and_origin(case, leaks[0])


def _strength_and_origin(case: InfluenceResult, disclosure: Disclosure) -> tuple[str | b.Untrusted, ...]:
    """In brackets, how strong a disclosure is, and of a turn of a conversation where it is from."""
    documents = disclosure.documents[:1] if case.conversation is not None else []
    origin = (", from ", b.Untrusted(documents[0], 32)) if documents else ()
    return (f" ({strength(disclosure)}", *origin, ")")


def noun_of(cases: Sequence[InfluenceResult]) -> str:
    """What responses of one channel are called; 'response' without channels, or of one answer a conversation,
    'emission' of several channels."""
    channels = {case.channel for case in cases}
    is_one_each = channels == {"answer"} and len({case.conversation for case in cases}) == len(cases)
    if is_one_each or not any(case.conversation for case in cases):
        return "response"
    return _NOUNS.get(channels.pop(), "response") if len(channels) == 1 else _EMISSION


def _responses(cases: Sequence[InfluenceResult], noun: str) -> str:
    """'8 responses', and how many of them were drawn, where some were."""
    n, n_drawn = len(cases), sum(case.response.sampled for case in cases)
    if n_drawn in (0, n):
        return counted(n, f"{_drawn(cases)}{noun}")
    return f"{n:,} {noun}s ({n - n_drawn:,} given, {n_drawn:,} drawn)"


def _drawn(cases: Sequence[InfluenceResult]) -> str:
    return "drawn " if all(case.response.sampled for case in cases) else ""


def _is_partly_known(case: InfluenceResult) -> bool:
    """Whether the response may disclose what the numbers cannot show."""
    is_cut = case.truncated_tokens > 0 or len(case.samples) > 1
    return is_cut or is_partial(case)


def has_unexplained(case: InfluenceResult) -> bool:
    """Whether the response has values that stand in nothing it was given."""
    # Where only a system prompt was measured, the rest of the chat is in neither context nor query.
    return case.unmarked_query_tokens is None and is_unexplained(case.response.text, f"{case.context}\n{case.query}")


def _repeated(cases: Sequence[InfluenceResult]) -> str:
    """How a headline begins, with a space at its end, where queries repeat text of the documents."""
    n = sum(is_repeated(case.query, [case.context[d.start : d.end] for d in case.documents]) for case in cases)
    where = "The query" if len(cases) == 1 else f"In {n:,} of {len(cases):,} cases the query"
    sentence = f"{where} repeats text of the documents, and what the response takes from there was not measured. "
    return sentence if n else ""
