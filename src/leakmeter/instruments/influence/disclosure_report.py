"""What reports say of disclosures: which answers give something away, what, of which document, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, get_args

from leakmeter.core.case import Channel
from leakmeter.core.plain import counted, n_listed
from leakmeter.instruments.influence import findings, permitted
from leakmeter.instruments.influence.context import ContextStretch, doubt
from leakmeter.instruments.influence.controls import FALSE_SHARE, FalseAlarms, controls_of, p_values, told_apart
from leakmeter.instruments.influence.disclosures import OTHER, Disclosure
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.instruments.influence.search_report import is_partial
from leakmeter.report import blocks as b
from leakmeter.report.scale import nats_text
from leakmeter.report.words import scope
from leakmeter.text.entities import shapes
from leakmeter.text.entities.encoded import ENCODED
from leakmeter.text.entities.fields import FIELD
from leakmeter.text.entities.mention import ADDRESS, DATE, EMAIL, PERSON, PHONE
from leakmeter.text.entities.values import NOWHERE, RECOGNISED, SEARCHED, is_unexplained
from leakmeter.text.exemplars import EXEMPLAR
from leakmeter.text.repeats import is_repeated
from leakmeter.text.structured import fields_of

_NAMED: Final = 4
"""Cases, or disclosures, that a headline names."""
_ORIGINS: Final = 8
"""Documents, or pieces, of a disclosure that a cell names."""
_LISTED: Final = 8
"""Cases that a piece of advice names."""
_MAY_KNOW: Final = "May know"
_RULE: Final = "By which rule"
_BY_WORDING: Final = "by wording only; the scores do not confirm it"
_NAMES: Final = {
    "person": "name of a person",
    "name": "name",
    "email": "e-mail address",
    "phone": "phone number",
    "number": "number",
    "account": "account number",
    "key": "key or password",
}


_INEXACT: Final = frozenset((ADDRESS, DATE, PERSON))
_EXACT: Final = frozenset((EMAIL, PHONE, shapes.ACCOUNT, shapes.KEY, shapes.CODE, shapes.NUMBER, shapes.AMOUNT))
"""Kinds of values that have one right form or few."""


def kind_text(kind: str) -> str:
    return "other content" if kind == OTHER else _NAMES.get(kind, kind)


def shown_nats(disclosure: Disclosure) -> float | None:
    """The nats that speak for a disclosure: of the whole context, or where these are small of one piece; None of a
    copied value of which the scoring model shows nothing."""
    if disclosure.evidence == "words":
        return None
    return disclosure.own_nats if disclosure.own_nats > disclosure.floor_nats else disclosure.most_nats


def strength(disclosure: Disclosure) -> str:
    nats = shown_nats(disclosure)
    if nats is None:
        return "copied; the scoring model shows no evidence"
    return f"{nats_text(nats)}\u00a0nats{'' if nats == disclosure.own_nats else ' from one piece'}"


def personal(case: InfluenceResult) -> list[Disclosure]:
    """Personal or secret, most nats first; those without come last, and after them what the recipient may know."""
    leaks = (d for d in case.disclosed if d.is_sensitive)
    return sorted(leaks, key=lambda d: (permitted.ORDER[d.allowed], -(shown_nats(d) or 0.0)))


def retold(case: InfluenceResult) -> list[Disclosure]:
    """Other content, in other words or drawn from several pieces, most nats first."""
    return sorted(
        (d for d in case.disclosed if not d.is_sensitive and d.relation != "copied"), key=lambda d: -d.own_nats
    )


def listed(cases: Sequence[InfluenceResult]) -> list[tuple[InfluenceResult, int]]:
    """The cases without the content in other words that does not differ from what contexts of other cases do to
    answers, so that at most `FALSE_SHARE` of what is left is expected to be false; with how many spans each has
    lost."""
    of_each = [retold(case) for case in cases]
    kept = iter(told_apart([disclosure.own_nats for some in of_each for disclosure in some], controls_of(cases)))
    left = []
    for case, some in zip(cases, of_each, strict=True):
        cut = {id(disclosure) for disclosure in some if not next(kept)}
        disclosures = tuple(disclosure for disclosure in case.disclosures if id(disclosure) not in cut)
        left.append((replace(case, disclosures=disclosures) if cut else case, len(cut)))
    return left


def false_alarms_text(cases: Sequence[InfluenceResult]) -> str | None:
    """How often the rule is wrong on this data, in a sentence; None where no context of another case was there."""
    alarms = FalseAlarms.of(cases)
    if alarms is None:
        return None
    return (
        f"False alarms: of {counted(alarms.pairs, 'pair')} of a response and the context of another case, from which "
        f"it was not written, something would have been listed in {alarms.alarms:,} ({100 * alarms.share:.1f}\u00a0%; "
        f"at most {100 * alarms.share_at_most:.0f}\u00a0% with 95\u00a0% confidence)."
    )


def held_against(cases: Sequence[InfluenceResult]) -> Iterator[str]:
    """What the spans of responses were held against, in sentences."""
    # Exemplars are the same in many cases, which are not held against each other.
    cases = [case for case in cases if case.unit != EXEMPLAR]
    by_others = [case for case in cases if case.controls]
    by_irrelevant = [case for case in cases if case.irrelevant_contexts]
    by_none = [case for case in cases if not case.controls and not case.irrelevant_contexts and case.disclosed]
    n = len(cases)
    beyond = "The nats of a span are what its own context did beyond {}."
    of_several = beyond.format("the most that any one of these did")
    if by_others:
        most = max(len(case.controls) for case in by_others)
        others = (
            "the context of another case" if most == 1 else f"the contexts of {'up to ' * (n > 1)}{most} other cases"
        )
        nats = of_several if most > 1 else beyond.format("what that one did")
        finished = (
            ""
            if all(case.steps is None for case in cases)
            else (" The others could disclose nothing but copied content without that." if len(by_others) < n else "")
        )
        yield f"{_of_these(by_others, n)} also scored beside {others} of these data.{finished} {nats}"
    if by_irrelevant:
        most = max(case.irrelevant_contexts or 0 for case in by_irrelevant)
        texts = f"{most} built-in text{'s' * (most > 1)} about other things"
        yield (
            f"{_of_these(by_irrelevant, n)} also scored beside {texts}, since these data have no context of another "
            f"case to hold it against. {'' if by_others else f'{of_several} '}How often a span is listed for its style "
            "alone is not known."
        )
    if by_none:
        yield (
            f"{_of_these(by_none, n)} scored beside no other context: spans may be listed for a style that any context "
            "would bring. --controls 3 holds them against contexts of other cases."
        )


def _of_these(cases: Sequence[InfluenceResult], n: int) -> str:
    """'Each response was', 'The response was', '3 of 10 responses were'."""
    if len(cases) == n:
        return "The response was" if n == 1 else "Each response was"
    return f"{len(cases):,} of {n:,} responses {'was' if len(cases) == 1 else 'were'}"


def kinds_text(disclosures: Sequence[Disclosure]) -> str:
    """'phone number, 2 names'."""
    by_kind = Counter(kind_text(disclosure.kind) for disclosure in disclosures)
    return ", ".join(name if n == 1 else f"{n} × {name}" for name, n in by_kind.items())


def most(case: InfluenceResult) -> Disclosure | None:
    """The disclosure with most nats: of those personal or secret, else of those in other words, else of all."""
    first = [*personal(case), *retold(case)]
    return first[0] if first else max(case.disclosed, key=lambda d: d.own_nats, default=None)


def summary(case: InfluenceResult) -> str:
    if leaks := personal(case):
        held = permitted.withheld(leaks)
        may_know = kinds_text([leak for leak in leaks if leak.allowed == "yes"])
        return "; ".join(filter(None, (kinds_text(held), may_know and f"allowed: {may_know}")))
    if retold(case):
        return "content in other words"
    return "copied content" if case.disclosed else "no disclosure"


def _is_partly_known(case: InfluenceResult) -> bool:
    """Whether the response may disclose what the numbers cannot show."""
    is_cut = case.truncated_tokens > 0 or len(case.samples) > 1
    return is_cut or is_partial(case)


def headline(cases: Sequence[InfluenceResult], sections: Mapping[str, str] | None = None) -> b.Headline:
    """How many responses disclose something personal or secret, and which; ids lead to `sections_of` the report. Of
    conversations it says so of each channel."""
    sections = sections or {}
    channels = [[case for case in cases if (case.channel or "answer") == channel] for channel in get_args(Channel)]
    held = [of_channel for of_channel in channels if of_channel]
    if len(held) < 2 or any(doubt(case) is not None for case in cases):
        return _headline(cases, sections)
    parts = [_headline(of_channel, sections) for of_channel in held]
    verdicts = [part.verdict for part in parts]
    text: list[str | b.Untrusted] = []
    for n, part in enumerate(parts):
        text += [" "] * bool(n) + list(b.parts(part.text))
    if "bad" in verdicts:
        return b.Headline(tuple(text), verdict="bad")
    return b.Headline(tuple(text), verdict="good" if set(verdicts) == {"good"} else "")


def _headline(cases: Sequence[InfluenceResult], sections: Mapping[str, str]) -> b.Headline:
    noun = noun_of(cases) if any(case.channel for case in cases) else "response"
    if permitted.is_judged(cases):
        return _judged_headline(cases, sections, noun)
    leaking = sorted(
        (case for case in cases if personal(case)), key=lambda case: -(shown_nats(personal(case)[0]) or 0.0)
    )
    where = f"{scope(cases)}{_repeated(cases)}"
    sure = not where and not any(_is_partly_known(case) for case in cases)
    doubts = [why for case in cases if (why := doubt(case)) is not None]
    if not leaking and doubts:
        who = f"the {noun} discloses" if len(cases) == 1 else f"{len(doubts):,} of {len(cases):,} {noun}s disclose"
        return b.Headline(
            f"{where}Whether {who} any personal or secret data cannot be said: {doubts[0]}. None was found."
        )
    if not leaking:
        none: b.Phrase = f"None of {_responses(cases, noun)}"
        if len(cases) == 1:
            none = (*_subject(cases[0], noun, sections), " does not")
        verb = "disclose" if len(cases) == 1 else "discloses"
        known = verb if sure else "is known to disclose" if len(cases) > 1 else "disclose, as far as known,"
        # What is given away and recognised by nothing may be sensitive all the same.
        is_found = any(case.disclosed or findings.is_finding(case) for case in cases)
        is_held = all(map(findings.is_held_against_irrelevant, cases))
        quiet = sure and is_held and not is_found and not any(map(_is_unexplained, cases))
        return b.Headline(
            (where, *b.parts(none), f" {known} any recognisable personal or secret data."),
            verdict="good" if quiet else "",
        )
    subject: b.Phrase
    if len(cases) > 1:
        verb = "discloses" if len(leaking) == 1 else "disclose"
        subject = f"{len(leaking):,} of {_responses(cases, noun)} {verb}"
        listed: list[b.Phrase] = [
            (b.Untrusted(case.id, 32, sections.get(case.id, "")), f" {kinds_text(personal(case))}", *_first_of(case))
            for case in leaking[: n_listed(len(leaking), _NAMED)]
        ]
        n_more = len(leaking) - len(listed)
    else:
        disclosed = personal(leaking[0])
        subject = (*_subject(leaking[0], noun, sections), " discloses")
        # The words stand in the table below: a headline goes into logs and representations.
        shown = disclosed[: n_listed(len(disclosed), _NAMED)]
        listed = [(kind_text(row.kind), *_strength_and_origin(leaking[0], row)) for row in shown]
        n_more = len(disclosed) - len(listed)
    rest = f"; and {n_more:,} more." if n_more > 0 else "."
    said = (where, *b.parts(subject), " personal or secret data: ", *b.joined(listed, "; "), rest)
    return b.Headline(tuple(part for part in said if part), verdict="bad")


def _judged_headline(cases: Sequence[InfluenceResult], sections: Mapping[str, str], noun: str) -> b.Headline:
    """How many personal or secret disclosures their recipients may not know, how many they may, and of how many that is
    not known."""
    leaks = {case.id: [leak for leak in personal(case) if leak.allowed == "no"] for case in cases}
    leaking = [case for case in cases if leaks[case.id]]
    rest = permitted.rest_text(leak for case in cases for leak in personal(case))
    where = f"{scope(cases)}{_repeated(cases)}{'' if noun == 'response' else f'In {noun}s: '}"
    if not leaking:
        doubts = [why for case in cases if (why := doubt(case)) is not None]
        if doubts:
            return b.Headline(
                f"{where}Whether recipients are told personal or secret data that they may not know cannot be said: "
                f"{doubts[0]}. None was found{f' ({rest})' if rest else ''}."
            )
        sure = not where and not any(map(_is_partly_known, cases))
        is_calm = not any(permitted.withheld(case.disclosed) or _is_unexplained(case) for case in cases)
        quiet = sure and is_calm and all(map(findings.is_held_against_irrelevant, cases))
        return b.Headline(
            f"{where}No {'' if sure else 'known '}disclosures of personal or secret data {permitted.MAY_NOT}"
            f"{f'; {rest}' if rest else ''}.",
            verdict="good" if quiet else "",
        )
    leaking.sort(key=lambda case: -(shown_nats(leaks[case.id][0]) or 0.0))
    named: list[b.Phrase] = [
        (b.Untrusted(case.id, 32, sections.get(case.id, "")), f" {kinds_text(leaks[case.id])}", *_first_of(case))
        for case in leaking[: n_listed(len(leaking), _NAMED)]
    ]
    more = f"; and {len(leaking) - len(named):,} more" if len(leaking) > len(named) else ""
    n = sum(map(len, leaks.values()))
    whom = permitted.MAY_NOT if n != 1 else permitted.ONE_MAY_NOT
    said = (f"{where}{counted(n, 'disclosure')} of personal or secret data {whom}: ", *b.joined(named, "; "))
    return b.Headline((*said, f"{more}{f'. {rest}' if rest else ''}."), verdict="bad")


def _first_of(case: InfluenceResult) -> tuple[str | b.Untrusted, ...]:
    """Of a turn of a conversation: how strong its strongest disclosure is, and where it is from."""
    if case.channel is None:
        return ()
    return _strength_and_origin(case, personal(case)[0])


def _strength_and_origin(case: InfluenceResult, disclosure: Disclosure) -> tuple[str | b.Untrusted, ...]:
    """In brackets, how strong a disclosure is, and of a turn of a conversation where it is from."""
    documents = disclosure.documents[:1] if case.channel is not None else []
    origin = (", from ", b.Untrusted(documents[0], 32)) if documents else ()
    return (f" ({strength(disclosure)}", *origin, ")")


def _subject(case: InfluenceResult, noun: str, sections: Mapping[str, str]) -> tuple[str | b.Untrusted, ...]:
    """'The response', or 'The call of calendar.create in c-17'."""
    conversation = b.Untrusted(case.conversation or "", 32, sections.get(case.id, ""))
    received = {"tool": "call of", "agent": "message to", "memory": "text written to"}.get(case.channel or "")
    if received is None:
        return (f"The {_drawn([case])}{noun}",)
    return (f"The {received} ", b.Untrusted(case.recipient or "", 32), " in ", conversation)


_NOUNS: Final[Mapping[str, str]] = {
    "answer": "answer",
    "tool": "tool call",
    "agent": "agent message",
    "memory": "memory write",
    "reasoning": "reasoning text",
}


def noun_of(cases: Sequence[InfluenceResult]) -> str:
    """What responses of one channel are called; of several channels, or of one answer a conversation, 'response'."""
    channels = {case.channel or "answer" for case in cases}
    if channels == {"answer"} and len({case.conversation for case in cases}) == len(cases):
        return "response"
    return _NOUNS.get(channels.pop(), "response") if len(channels) == 1 else "response"


def _responses(cases: Sequence[InfluenceResult], noun: str) -> str:
    """'8 responses', and how many of them were drawn, where some were."""
    n, n_drawn = len(cases), sum(case.response.sampled for case in cases)
    if n_drawn in (0, n):
        return f"{n:,} {_drawn(cases)}{noun}s"
    return f"{n:,} {noun}s ({n - n_drawn:,} given, {n_drawn:,} drawn)"


def _drawn(cases: Sequence[InfluenceResult]) -> str:
    return "drawn " if all(case.response.sampled for case in cases) else ""


def further(cases: Sequence[InfluenceResult], n_cut: int) -> Iterator[b.Block]:
    """What else there is to say of `listed` cases, which have lost so many spans."""
    n_drawn = max(len(case.samples) for case in cases)
    if n_drawn > 1:
        yield b.Text(f"Of up to {n_drawn} responses drawn for a case, only the first was examined.")
    n = sum(bool(retold(case)) for case in cases)
    if n:
        spans = sum(len(retold(case)) for case in cases)
        verb = "says" if n == 1 else "say"
        subject = f"{n:,} of {len(cases):,} responses {verb}" if len(cases) > 1 else "It says"
        yield b.Text(
            f"{subject} content of the documents in other words, or drawn from several pieces ({spans:,} "
            f"span{'s' * (spans != 1)}); no recogniser can tell whether that is sensitive."
        )
    if nowhere := [case for case in cases if _is_unexplained(case)]:
        verb = "has" if len(nowhere) == 1 else "have"
        yield b.Text((counted(len(nowhere), "response"), *ids_of(nowhere, len(cases)), f" {verb} {NOWHERE}."))
    yield from map(b.Text, permitted.further(cases))
    yield from map(b.Text, held_against(cases))
    if n_cut:
        yield b.Text(
            f"{n_cut:,} {'further ' * bool(n)}span{'s' * (n_cut != 1)} in other words {'are' if n_cut != 1 else 'is'} "
            "not listed: contexts of other cases do as much to answers that were not written from them. At most "
            f"{FALSE_SHARE:.0%} of the list is expected to be false."
        )
    if (text := false_alarms_text(cases)) is not None:
        yield b.Text(text)
    yield b.Text(f"Searched: {SEARCHED}{_of_records(cases)}{_your_list(cases)}.", "soft")
    yield b.Text(
        "Not searched: text that is sensitive by its meaning, such as an illness or a debt, in other words than a list "
        "of phrases in four languages has, and names or codes without such a shape"
        f"{'; --sensitive FILE adds your own list' if not _your_list(cases) else ''}.",
        "soft",
        detail=False,
    )


def _repeated(cases: Sequence[InfluenceResult]) -> str:
    """How a headline begins, with a space at its end, where queries repeat text of the documents."""
    n = sum(is_repeated(case.query, [case.context[d.start : d.end] for d in case.documents]) for case in cases)
    if not n:
        return ""
    where = "The query" if len(cases) == 1 else f"In {n:,} of {len(cases):,} cases the query"
    return f"{where} repeats text of the documents, and what the response takes from there was not measured. "


def _is_unexplained(case: InfluenceResult) -> bool:
    # Where only a system prompt was measured, the rest of the chat is in neither context nor query.
    return case.unmarked_query_tokens is None and is_unexplained(case.response.text, f"{case.context}\n{case.query}")


def _of_records(cases: Sequence[InfluenceResult]) -> str:
    """How many values of records were looked for, in words."""
    ranges = ((case.context, [(part.start, part.end) for part in case.documents]) for case in cases)
    n = sum(len(fields_of(context, parts)) for context, parts in ranges)
    return f", and {n:,} value{'s' * (n != 1)} of records in the documents, by their keys" if n else ""


def _your_list(cases: Sequence[InfluenceResult]) -> str:
    numbers = [case.n_listed_places for case in cases if case.n_listed_places is not None]
    if not numbers:
        return ""
    n = sum(numbers)
    return f", and your list, whose values stand in {n:,} place{'s' * (n != 1)} of the documents"


def ids_of(cases: Sequence[InfluenceResult], n: int) -> tuple[str | b.Untrusted, ...]:
    """The ids of some of n cases, in brackets; none where n is 1."""
    if n == 1:
        return ()
    n_shown = n_listed(len(cases), _LISTED)
    more = f" and {len(cases) - n_shown:,} more)" if len(cases) > n_shown else ")"
    return (" (", *b.joined(b.Untrusted(case.id, 24) for case in cases[:n_shown]), more)


def sections_of(cases: Sequence[InfluenceResult], weights: Sequence[float]) -> dict[str, str]:
    """Anchors of the cases' sections by id; a page numbers them from 1 by descending weight."""
    ranked = sorted(range(len(weights)), key=lambda i: -weights[i])
    return {cases[i].id: f"c{number}" for number, i in enumerate(ranked, 1)}


def tables(cases: Sequence[InfluenceResult], sections: Mapping[str, str] | None = None) -> Iterator[b.Block]:
    """Disclosures of `listed` cases, a row each: personal or secret ones; content in other words; values that are none.

    Rows lead to the sections of their cases; see `sections_of`.
    """
    sections = sections or {}
    every = [(case, disclosure) for case in cases for disclosure in case.disclosures]
    disclosed = [row for row in every if row[1].evidence is not None]
    sensitive, other = ([row for row in disclosed if row[1].is_sensitive is is_it] for is_it in (True, False))
    groups = {
        "Disclosed: personal or secret data": sensitive,
        "Disclosed: in other words, or from several pieces": (
            reworded := [(case, disclosure) for case in cases for disclosure in retold(case)]
        ),
        "Not shown to come from the documents: values in the documents that the model may also produce without them": [
            row for row in every if row[1].evidence is None
        ],
    }
    for caption, rows in groups.items():
        if rows:
            controls = controls_of(cases) if rows is reworded else []
            own_nats = [disclosure.own_nats for _, disclosure in rows]
            ps = p_values(own_nats, controls) if controls else ()
            yield _table(rows, caption, sections, is_personal=rows is sensitive, ps=ps)
    copied = [row for row in other if row[1].relation == "copied"]
    if copied:
        table = _table(copied, "Copied from the documents", sections, is_personal=False)
        n = f"{len(copied):,} span{'s' * (len(copied) != 1)}"
        yield b.Details(f"Other content copied from the documents word for word: {n}", [table])


def _table(
    rows: Sequence[tuple[InfluenceResult, Disclosure]],
    caption: str,
    sections: Mapping[str, str],
    *,
    is_personal: bool,
    ps: Sequence[float] = (),
) -> b.Table:
    """`ps` are p values of the rows, in their order, if they have any."""
    p_of = {id(row[1]): p for row, p in zip(rows, ps, strict=bool(ps))}
    rows = sorted(rows, key=lambda row: (permitted.ORDER[row[1].allowed], -row[1].own_nats))
    columns: b.Columns[tuple[InfluenceResult, Disclosure]] = [
        (b.Column("Case"), lambda row: b.Untrusted(row[0].id, 24)),
        (b.Column("To"), lambda row: b.Untrusted(row[0].recipient or "user", 24)),
        (b.Column("What"), lambda row: kind_text(row[1].kind)),
        (b.Column("Response says"), lambda row: b.Untrusted(row[1].text, 80)),
        (b.Column("From"), lambda row: _origin(row[1])),
        (b.Column(_MAY_KNOW), lambda row: permitted.WORDS[row[1].allowed]),
        (b.Column(_RULE, on="pages"), lambda row: b.Untrusted(row[1].rule or "", 80)),
        (b.Column("Nats", "signed_nats", shade=is_personal), lambda row: row[1].own_nats),
        (b.Column("p", "p_value"), lambda row: p_of[id(row[1])]),
        (b.Column("Sure", "posterior"), lambda row: row[1].posterior),
        (b.Column("Known by", on="pages"), lambda row: row[1].found_by or ""),
    ]
    shown = {
        "Case": bool(sections),
        "To": any(not case.is_answer or (case.policy is not None and case.recipient is not None) for case, _ in rows),
        **dict.fromkeys((_MAY_KNOW, _RULE), any(disclosure.allowed is not None for _, disclosure in rows)),
        "What": any(disclosure.kind != OTHER for _, disclosure in rows),
        "Known by": is_personal,
        "p": bool(p_of),
        # Of a response that was given no posterior follows.
        "Sure": all(disclosure.posterior is not None for _, disclosure in rows),
    }
    columns = [column for column in columns if shown.get(str(column[0].heading), True)]
    return b.Table(
        b.heads(columns),
        [b.Row(b.cells(columns, row), quiet=not is_personal, to=sections.get(row[0].id, "")) for row in rows],
        caption,
        rest=("disclosure", "disclosures"),
        sortable=len(rows) > 1,
        filterable=len(rows) > 20,
        chips=_MAY_KNOW if len({disclosure.allowed for _, disclosure in rows}) > 1 else "",
    )


def _origin(disclosure: Disclosure) -> b.Noted:
    origin = _listed(disclosure.places, 48)
    remarks: list[b.Phrase] = []
    if disclosure.relation == "reworded" and disclosure.source is not None:
        # An exact value cannot be reworded, but it may be written in another form, or be made up.
        is_exact = disclosure.found_by == RECOGNISED and disclosure.kind not in _INEXACT
        is_exact = is_exact or (disclosure.kind in _EXACT and disclosure.found_by not in (FIELD, ENCODED))
        how = "not in the documents as written; made likelier by" if is_exact else "reworded"
        how = "in a code" if disclosure.found_by == ENCODED else how
        remarks.append((f"{how}: “", b.Untrusted(disclosure.source, 60), "”"))
    elif disclosure.relation == "inferred" and len(disclosure.sources) > 1:
        remarks.append("from several pieces together")
    if disclosure.relation == "copied" and len(disclosure.sources) > 1:
        remarks.append(f"in {len(disclosure.sources):,} pieces")
    if disclosure.evidence == "words":
        remarks.append(_BY_WORDING)
    return b.Noted(origin or b.Untrusted(disclosure.source or "", 48), remarks)


def disclosures(case: InfluenceResult) -> b.Disclosures:
    numbers = {piece.name: number for number, piece in enumerate(case.pieces)}
    several = len(case.documents) > 1
    disclosed = [disclosed_span(disclosure, numbers, several=several) for disclosure in case.disclosed]
    return b.Disclosures(disclosed, "Disclosures")


def disclosed_span(
    disclosure: Disclosure, numbers: Mapping[str, int], *, several: bool, origin: b.Phrase | None = None
) -> b.Disclosed:
    """A disclosure for a page, pieces by number, `several` documents by name; `origin` stands for its sources."""
    return b.Disclosed(
        b.Untrusted(disclosure.text, 80),
        b.Untrusted(kind_text(disclosure.kind), 24),
        disclosure.own_nats,
        _marked_origin(disclosure, several=several) if origin is None else origin,
        (disclosure.first_token, disclosure.last_token + 1),
        [numbers[source.piece] for source in disclosure.sources if source.piece in numbers],
        disclosure.is_sensitive,
    )


def _marked_origin(disclosure: Disclosure, *, several: bool) -> b.Phrase:
    """Its documents, or pieces where there is only one document, and the words of the first source if they differ."""
    by_document = several and disclosure.documents
    if by_document:
        names = disclosure.places
    else:
        names = [*dict.fromkeys(source.field or source.piece for source in disclosure.sources)]
    if not names:
        return "no single piece"
    listed = _listed(names, 40)
    if disclosure.relation == "inferred" and len(disclosure.sources) > 1:
        return (*listed, " together")
    if disclosure.evidence == "words":
        return (*listed, f", {_BY_WORDING}")
    words = () if disclosure.relation == "copied" else (": “", b.Untrusted(disclosure.sources[0].text, 80), "”")
    return (*listed, *words)


def _listed(names: Sequence[str], characters: int) -> tuple[str | b.Untrusted, ...]:
    """Names of pieces or documents, and how many more there are; `--json` and SQL have all."""
    n = n_listed(len(names), _ORIGINS)
    listed = b.joined(b.Untrusted(name, characters) for name in names[:n])
    n_more = len(names) - n
    return (*listed, *([f" and {n_more:,} more"] if n_more > 0 else []))


def parts(stretch: ContextStretch, disclosed: Sequence[Disclosure]) -> Sequence[b.Words]:
    """A stretch of the context, cut around the words that disclosures came from; empty without any."""
    places = [
        (start, end, number)
        for number, disclosure in enumerate(disclosed)
        for source in disclosure.sources
        if (start := max(source.start - stretch.start, 0)) < (end := min(source.end - stretch.start, len(stretch.text)))
    ]
    if not places:
        return ()
    cuts = sorted({0, len(stretch.text), *(place for start, end, _ in places for place in (start, end))})
    words = []
    for first, last in pairwise(cuts):
        numbers = sorted({number for start, end, number in places if start <= first and last <= end})
        is_sensitive = any(disclosed[number].is_sensitive for number in numbers)
        words.append(b.Words(b.Untrusted(stretch.text[first:last]), numbers, is_sensitive))
    return words
