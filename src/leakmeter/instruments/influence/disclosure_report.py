"""What reports say of disclosures: which answers give something away, what, of which document, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from leakmeter.core.plain import counted, n_listed
from leakmeter.instruments.influence import findings
from leakmeter.instruments.influence.context import ContextStretch, doubt
from leakmeter.instruments.influence.controls import FALSE_SHARE, FalseAlarms, controls_of, p_values, told_apart
from leakmeter.instruments.influence.disclosures import OTHER, Disclosure
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.instruments.influence.search_report import is_partial
from leakmeter.report import blocks as b
from leakmeter.report.scale import nats_text
from leakmeter.report.words import scope
from leakmeter.text.entities import shapes
from leakmeter.text.entities.fields import FIELD
from leakmeter.text.entities.mention import EMAIL, PHONE
from leakmeter.text.entities.values import NOWHERE, SEARCHED, is_unexplained
from leakmeter.text.repeats import is_repeated
from leakmeter.text.structured import fields_of

_NAMED: Final = 4
"""Cases, or disclosures, that a headline names."""
_ORIGINS: Final = 8
"""Documents, or pieces, of a disclosure that a cell names."""
_LISTED: Final = 8
"""Cases that a piece of advice names."""
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
    """Personal or secret, most nats first; those without come last."""
    return sorted((d for d in case.disclosed if d.is_sensitive), key=lambda d: -(shown_nats(d) or 0.0))


def retold(case: InfluenceResult) -> list[Disclosure]:
    """Other content, in other words or drawn from several pieces, most nats first."""
    return sorted(
        (d for d in case.disclosed if not d.is_sensitive and d.relation != "copied"), key=lambda d: -d.own_nats
    )


def retold_of_all(cases: Sequence[InfluenceResult]) -> list[tuple[InfluenceResult, Disclosure]]:
    """Other content in other words of all cases, as far as it differs from what contexts of other cases do to answers:
    a list of which at most `FALSE_SHARE` is expected to be false."""
    rows = [(case, disclosure) for case in cases for disclosure in retold(case)]
    kept = told_apart([disclosure.own_nats for _, disclosure in rows], controls_of(cases))
    return [row for row, is_kept in zip(rows, kept, strict=True) if is_kept]


def false_alarms_text(cases: Sequence[InfluenceResult]) -> str | None:
    """How often the rule is wrong on this data, in a sentence; None where no context of another case was there."""
    alarms = FalseAlarms.of(cases)
    if alarms is None:
        return None
    return (
        f"False alarms: of {alarms.pairs:,} pairs of a response and a context of another case, {alarms.alarms:,} "
        f"{'was' if alarms.alarms == 1 else 'were'} called a disclosure ({alarms.share:.1%}; at most "
        f"{alarms.share_at_most:.0%} with 95 % confidence)."
    )


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
        return kinds_text(leaks)
    if retold(case):
        return "content in other words"
    return "copied content" if case.disclosed else "no disclosure"


def _is_partly_known(case: InfluenceResult) -> bool:
    """Whether the response may disclose what the numbers cannot show."""
    is_cut = case.truncated_tokens > 0 or len(case.samples) > 1
    return is_cut or is_partial(case)


def headline(cases: Sequence[InfluenceResult], sections: Mapping[str, str] | None = None) -> b.Headline:
    """How many responses disclose something personal or secret, and which; ids lead to `sections_of` the report."""
    sections = sections or {}
    leaking = sorted(
        (case for case in cases if personal(case)), key=lambda case: -(shown_nats(personal(case)[0]) or 0.0)
    )
    where = f"{scope(cases)}{_repeated(cases)}"
    sure = not where and not any(_is_partly_known(case) for case in cases)
    doubts = [why for case in cases if (why := doubt(case)) is not None]
    if not leaking and doubts:
        subject = (
            "the response discloses" if len(cases) == 1 else f"{len(doubts):,} of {len(cases):,} responses disclose"
        )
        return b.Headline(
            f"{where}Whether {subject} any personal or secret data cannot be said: {doubts[0]}. None was found."
        )
    if not leaking:
        none = f"The {_drawn(cases)}response does not" if len(cases) == 1 else f"None of {_responses(cases)}"
        verb = "disclose" if len(cases) == 1 else "discloses"
        known = verb if sure else "is known to disclose" if len(cases) > 1 else "disclose, as far as known,"
        # What is given away and recognised by nothing may be sensitive all the same.
        quiet = sure and not any(case.disclosed or findings.is_finding(case) or _is_unexplained(case) for case in cases)
        return b.Headline(
            f"{where}{none} {known} any recognisable personal or secret data.",
            verdict="good" if quiet else "",
        )
    if len(cases) > 1:
        verb = "discloses" if len(leaking) == 1 else "disclose"
        subject = f"{len(leaking):,} of {_responses(cases)} {verb}"
        listed: list[b.Phrase] = [
            (b.Untrusted(case.id, 32, sections.get(case.id, "")), f" {kinds_text(personal(case))}")
            for case in leaking[: n_listed(len(leaking), _NAMED)]
        ]
        n_more = len(leaking) - len(listed)
    else:
        disclosed = personal(leaking[0])
        subject = f"The {_drawn(cases)}response discloses"
        # The words stand in the table below: a headline goes into logs and representations.
        shown = disclosed[: n_listed(len(disclosed), _NAMED)]
        listed = [f"{kind_text(row.kind)} ({strength(row)})" for row in shown]
        n_more = len(disclosed) - len(listed)
    rest = f"; and {n_more:,} more." if n_more > 0 else "."
    return b.Headline((f"{where}{subject} personal or secret data: ", *b.joined(listed, "; "), rest), verdict="bad")


def _responses(cases: Sequence[InfluenceResult]) -> str:
    """'8 responses', and how many of them were drawn, where some were."""
    n, n_drawn = len(cases), sum(case.response.sampled for case in cases)
    if n_drawn in (0, n):
        return f"{n:,} {_drawn(cases)}responses"
    return f"{n:,} responses ({n - n_drawn:,} given, {n_drawn:,} drawn)"


def _drawn(cases: Sequence[InfluenceResult]) -> str:
    return "drawn " if all(case.response.sampled for case in cases) else ""


def further(cases: Sequence[InfluenceResult]) -> Iterator[b.Block]:
    n_drawn = max(len(case.samples) for case in cases)
    if n_drawn > 1:
        yield b.Text(f"Of up to {n_drawn} responses drawn for a case, only the first was examined.")
    listed = retold_of_all(cases)
    n = len({case.id for case, _ in listed})
    if n:
        spans = len(listed)
        verb = "says" if n == 1 else "say"
        subject = f"{n:,} of {len(cases):,} responses {verb}" if len(cases) > 1 else "It says"
        yield b.Text(
            f"{subject} content of the documents in other words, or drawn from several pieces ({spans:,} "
            f"span{'s' * (spans != 1)}); no recogniser can tell whether that is sensitive."
        )
    if nowhere := [case for case in cases if _is_unexplained(case)]:
        verb = "has" if len(nowhere) == 1 else "have"
        yield b.Text((counted(len(nowhere), "response"), *ids_of(nowhere, len(cases)), f" {verb} {NOWHERE}."))
    if (text := false_alarms_text(cases)) is not None:
        yield b.Text(text)
        n_cut = sum(len(retold(case)) for case in cases) - len(listed)
        if n_cut:
            yield b.Text(
                f"{n_cut:,} further span{'s' * (n_cut != 1)} in other words {'are' if n_cut != 1 else 'is'} not "
                f"listed: contexts of other cases do as much, and at most {FALSE_SHARE:.0%} of the list is expected to "
                "be false.",
                "soft",
            )
    yield b.Text(f"Searched: {SEARCHED}{_of_records(cases)}{_your_list(cases)}.", "soft")
    yield b.Text(
        "Not searched: text that is sensitive by its meaning, such as an illness or a debt, and names or codes "
        f"without such a shape{'; --sensitive FILE adds your own list' if not _your_list(cases) else ''}.",
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
    """Disclosures, a row each: personal or secret ones; content in other words; values that are none.

    Rows lead to the sections of their cases; see `sections_of`.
    """
    sections = sections or {}
    every = [(case, disclosure) for case in cases for disclosure in case.disclosures]
    disclosed = [row for row in every if row[1].evidence is not None]
    sensitive, other = ([row for row in disclosed if row[1].is_sensitive is is_it] for is_it in (True, False))
    groups = {
        "Disclosed: personal or secret data": sensitive,
        "Disclosed: in other words, or from several pieces": (reworded := retold_of_all(cases)),
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
    rows = sorted(rows, key=lambda row: -row[1].own_nats)
    columns: b.Columns[tuple[InfluenceResult, Disclosure]] = [
        (b.Column("Case"), lambda row: b.Untrusted(row[0].id, 24)),
        (b.Column("What"), lambda row: kind_text(row[1].kind)),
        (b.Column("Response says"), lambda row: b.Untrusted(row[1].text, 80)),
        (b.Column("From"), lambda row: _origin(row[1])),
        (b.Column("Nats", "signed_nats", shade=is_personal), lambda row: row[1].own_nats),
        (b.Column("p", "p_value"), lambda row: p_of[id(row[1])]),
        (b.Column("Sure", "posterior"), lambda row: row[1].posterior),
        (b.Column("Known by", on="pages"), lambda row: row[1].found_by or ""),
    ]
    shown = {
        "Case": bool(sections),
        "What": any(disclosure.kind != OTHER for _, disclosure in rows),
        "Known by": is_personal,
        "p": bool(p_of),
        # It is against no context at all: beside other contexts it is not known to hold of an answer that was given.
        "Sure": all(case.response.sampled or not case.controls for case, _ in rows),
    }
    columns = [column for column in columns if shown.get(str(column[0].heading), True)]
    return b.Table(
        b.heads(columns),
        [b.Row(b.cells(columns, row), quiet=not is_personal, to=sections.get(row[0].id, "")) for row in rows],
        caption,
        rest=("disclosure", "disclosures"),
        sortable=len(rows) > 1,
        filterable=len(rows) > 20,
    )


def _origin(disclosure: Disclosure) -> b.Noted:
    origin = _listed(disclosure.places, 48)
    remarks: list[b.Phrase] = []
    if disclosure.relation == "reworded" and disclosure.source is not None:
        # An exact value cannot be reworded, but it may be written in another form, or be made up.
        is_exact = disclosure.kind in _EXACT and disclosure.found_by != FIELD
        how = "not in the documents as written; made likelier by" if is_exact else "reworded"
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
