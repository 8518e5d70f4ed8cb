"""What reports list of disclosures: what each is, in which words, of which document; and their marks in texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, Literal

from leakmeter.core.plain import counted, n_listed, plural
from leakmeter.instruments.influence import permitted
from leakmeter.instruments.influence.context import ContextStretch
from leakmeter.instruments.influence.controls import ControlContext, ListCut, controls_of, p_values
from leakmeter.instruments.influence.disclosures import OTHER, Disclosure
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.report import blocks as b
from leakmeter.report.scale import nats_text, signed_cell
from leakmeter.text import permissions
from leakmeter.text.entities import shapes
from leakmeter.text.entities.encoded import ENCODED
from leakmeter.text.entities.fields import FIELD
from leakmeter.text.entities.mention import ADDRESS, DATE, EMAIL, PERSON, PHONE
from leakmeter.text.entities.values import RECOGNISED

_ORIGINS: Final = 8
"""Documents, or pieces, of a disclosure that a cell names."""
_IDS: Final = 3
"""Cases that a piece of advice names."""
_WORDS: Final = 160
"""Characters of the words of a disclosure that are shown whole."""
_AROUND: Final = 40
"""Characters before and behind them in the list of cases."""
_UNMARKED: Final = 120
"""Characters that the list shows of a response without such words."""
_SPANS: Final = 4
"""Disclosures that the list of cases shows of a response."""
_MAY_KNOW: Final = "May know"
_RULE: Final = "By which rule"
_BY_WORDING: Final = "by wording only; the scores do not confirm it"
_NO_EVIDENCE: Final = "copied; the scoring model shows no evidence"
_NAMES: Final = {
    "person": "name of a person",
    "name": "name",
    "email": "e-mail address",
    "phone": "phone number",
    "number": "number",
    "account": "account number",
    "key": "key or password",
    OTHER: "other content",
}
_ARTICLES: Final = {
    PERSON: "the",
    EMAIL: "an",
    PHONE: "a",
    ADDRESS: "an",
    DATE: "a",
    shapes.NAME_TYPE: "a",
    shapes.NUMBER: "a",
    shapes.ACCOUNT: "an",
    shapes.AMOUNT: "an",
    shapes.KEY: "a",
    shapes.CODE: "a",
}
"""Of kinds that a sentence says with an article."""
_INEXACT: Final = frozenset((ADDRESS, DATE, PERSON))
_EXACT: Final = frozenset((EMAIL, PHONE, shapes.ACCOUNT, shapes.KEY, shapes.CODE, shapes.NUMBER, shapes.AMOUNT))
"""Kinds of values that have one right form or few."""


# ---- what a case discloses ------------------------------------------------------------------------------------------
def kind_text(kind: str) -> str:
    return _NAMES.get(kind, kind)


def shown_nats(disclosure: Disclosure) -> float | None:
    """The nats that speak for a disclosure: of the whole context, or where these are small of one piece; None of a
    copied value of which the scoring model shows nothing."""
    if disclosure.evidence == "words":
        return None
    return disclosure.own_nats if disclosure.own_nats > disclosure.floor_nats else disclosure.most_nats


def strength(disclosure: Disclosure) -> str:
    nats = shown_nats(disclosure)
    if nats is None:
        return _NO_EVIDENCE
    return f"{nats_text(nats)}\u00a0nats{'' if nats == disclosure.own_nats else ' from one piece'}"


def found(case: InfluenceResult) -> list[Disclosure]:
    """What reports call disclosed, by `rank` and then by nats."""
    return sorted(marked(case), key=lambda d: (rank(d), -(shown_nats(d) or 0.0)))


def rank(disclosure: Disclosure) -> int:
    """What comes first in every list, from 0 to 4: personal or secret data that the recipient may not know; of which
    that is not known, or nobody says; content in other words, or from several pieces; copied content; what the
    recipient may know."""
    if disclosure.allowed == "yes":
        return 4
    if disclosure.is_sensitive:
        return 0 if disclosure.allowed == "no" else 1
    return 2 if disclosure.relation != "copied" else 3


def personal(case: InfluenceResult) -> list[Disclosure]:
    return [disclosure for disclosure in found(case) if disclosure.is_sensitive]


def retold(case: InfluenceResult) -> list[Disclosure]:
    """Other content, in other words or drawn from several pieces."""
    return [disclosure for disclosure in found(case) if not disclosure.is_sensitive and disclosure.relation != "copied"]


def listed(cases: Sequence[InfluenceResult]) -> tuple[list[tuple[InfluenceResult, int]], ListCut]:
    """The cases without the content in other words that does not differ from what contexts of other cases do to
    responses, with how many spans each has lost; and where the list was cut."""
    of_each = [retold(case) for case in cases]
    best = [max((disclosure.own_nats for disclosure in some), default=0.0) for some in of_each]
    cut = ListCut.of(best, controls_of(cases))
    left = []
    for case, some in zip(cases, of_each, strict=True):
        weak = {id(disclosure) for disclosure in some if disclosure.own_nats < cut.least_nats}
        disclosures = tuple(disclosure for disclosure in case.disclosures if id(disclosure) not in weak)
        left.append((replace(case, disclosures=disclosures) if weak else case, len(weak)))
    return left, cut


def kinds_text(disclosures: Sequence[Disclosure]) -> str:
    """'phone number, 2 names'."""
    by_kind = Counter(kind_text(disclosure.kind) for disclosure in disclosures)
    return ", ".join(name if n == 1 else f"{n} × {name}" for name, n in by_kind.items())


def kinds_in_sentence(disclosures: Sequence[Disclosure]) -> str:
    """'the name of a person, 2 × phone number'."""
    by_kind = Counter(disclosure.kind for disclosure in disclosures)
    return ", ".join(
        f"{n} × {kind_text(kind)}" if n > 1 else f"{_ARTICLES.get(kind, '')} {kind_text(kind)}".lstrip()
        for kind, n in by_kind.items()
    )


def summary(case: InfluenceResult) -> str:
    leaks, other = personal(case), retold(case)
    kinds = [kinds_text([leak for leak in leaks if leak.allowed is None])]
    kinds += [
        f"{words}: {kinds_text(some)}"
        for allowed, words in permitted.ALLOWED.items()
        if (some := [leak for leak in leaks if leak.allowed == allowed])
    ]
    kinds.append("content in other words" if other else "")
    return "; ".join(filter(None, kinds)) or ("copied content" if found(case) else "no disclosure")


def kinds(case: InfluenceResult) -> b.Values:
    """What readers of a page choose cases by: each kind of personal or secret data, and what else there is."""
    said = found(case)
    named = [kind_text(leak.kind) for leak in said if leak.is_sensitive]
    named += ["content in other words"] * bool(retold(case))
    return b.Values([*dict.fromkeys(named)] or ["copied content" if said else "no disclosure"])


def may_know(case: InfluenceResult) -> b.Values:
    """Whether the recipient may know what is disclosed."""
    return b.Values(
        [*dict.fromkeys(permissions.WORDS[leak.allowed] for leak in found(case) if leak.allowed is not None)]
    )


def documents(case: InfluenceResult) -> b.Values:
    """Whence personal or secret data, or content in other words, is."""
    names = dict.fromkeys(name for leak in (*personal(case), *retold(case)) for name in leak.documents)
    return b.Values([b.Untrusted(name, 40) for name in names])


def words_of(case: InfluenceResult) -> b.Phrase:
    """The words of a response that disclose something sensitive, or in other words, whole and marked, with what stands
    around them, in the order of the response; of a response without such words, or that may say them, its beginning."""
    text = case.response.text
    chosen = permitted.withheld([*personal(case), *retold(case)])
    if not chosen:
        return b.Untrusted(text, _UNMARKED)
    shown = sorted((d.start, d.end) for d in chosen[: n_listed(len(chosen), _SPANS)])
    windows: list[tuple[int, int, list[tuple[int, int]]]] = []
    for start, end in shown:
        first, last = _whole_words(text, start - _AROUND, end + _AROUND)
        if windows and first <= windows[-1][1] + _AROUND:
            first, _, places = windows.pop()
            windows.append((first, last, [*places, (start, end)]))
        else:
            windows.append((first, last, [(start, end)]))
    begins, ends = windows[0][0] > 0, windows[-1][1] < len(text)
    parts = b.joined((_marked_window(text, *window) for window in windows), " … ")
    n_more = len(chosen) - len(shown)
    more = f" and {n_more:,} more" if n_more else ""
    return ("… " if begins else "", *parts, f"{' …' if ends else ''}{more}")


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """A range of characters without the halves of words at its ends; a text without spaces is cut between letters."""
    start, end = max(0, start), min(len(text), end)
    before, behind = text.find(" ", start, start + _AROUND), text.rfind(" ", end - _AROUND, end)
    return (before + 1 if start > 0 and before >= 0 else start), (behind if end < len(text) and behind >= 0 else end)


def _marked_window(text: str, first: int, last: int, places: Sequence[tuple[int, int]]) -> b.Phrase:
    parts: list[str | b.Untrusted] = []
    at = first
    for start, end in places:
        parts += [b.Untrusted(text[at:start]), b.Untrusted(text[max(at, start) : end], _WORDS, marked=True)]
        at = max(at, end)
    return (*parts, b.Untrusted(text[at:last]))


def ids_of(cases: Sequence[InfluenceResult], n: int) -> tuple[str | b.Untrusted, ...]:
    """The ids of some of n cases, in brackets; none where n is 1."""
    if n == 1:
        return ()
    n_shown = n_listed(len(cases), _IDS)
    more = f" and {len(cases) - n_shown:,} more)" if len(cases) > n_shown else ")"
    return (" (", *b.joined(b.Untrusted(case.id, 24) for case in cases[:n_shown]), more)


def sections_of(cases: Sequence[InfluenceResult], weights: Sequence[float]) -> dict[str, str]:
    """Anchors of the cases' sections by id; a page numbers them from 1 by descending weight."""
    ranked = sorted(range(len(weights)), key=lambda i: -weights[i])
    return {cases[i].id: f"c{number}" for number, i in enumerate(ranked, 1)}


# ---- tables ---------------------------------------------------------------------------------------------------------
def tables(cases: Sequence[InfluenceResult], sections: Mapping[str, str] | None = None) -> Iterator[b.Block]:
    """What `listed` cases disclose, a row each; one click away, what is copied and looks harmless, and values that are
    no disclosures.

    Rows lead to the sections of their cases; see `sections_of`.
    """
    sections = sections or {}
    told = [(case, disclosure) for case in cases for disclosure in (*personal(case), *retold(case))]
    if told:
        yield _table(told, "Disclosed", sections, controls_of(cases))
    shown = {id(disclosure) for _, disclosure in told}
    copied = [(case, d) for case in cases for d in found(case) if id(d) not in shown]
    if copied:
        n = counted(len(copied), "span")
        table = _table(copied, "Copied from the documents", sections)
        yield b.Details(f"Other content copied from the documents word for word: {n}", [table])
    unshown = [(case, d) for case in cases for d in case.disclosures if d.evidence is None]
    if unshown:
        n = counted(len(unshown), "value")
        table = _table(unshown, "Not shown to come from the documents", sections)
        yield b.Details(f"In the documents too, but the model may also say them without: {n}", [table])
    empty = sum(not d.says_something for case in cases for d in case.disclosed)
    if empty:
        yield b.Text(
            plural(
                empty,
                "1 span of words that say nothing by themselves, such as “does”, is not listed.",
                f"{empty:,} spans of words that say nothing by themselves, such as “does”, are not listed.",
            ),
            "soft",
        )


def _table(
    rows: Sequence[tuple[InfluenceResult, Disclosure]],
    caption: str,
    sections: Mapping[str, str],
    controls: Sequence[ControlContext] = (),
) -> b.Table:
    reworded = [d for _, d in rows if not d.is_sensitive and d.relation != "copied"]
    ps = p_values([d.own_nats for d in reworded], controls) if controls else ()
    p_of = dict(zip(map(id, reworded), ps, strict=bool(ps)))
    rows = sorted(rows, key=lambda row: (rank(row[1]), -(shown_nats(row[1]) or 0.0)))
    is_judged = any(disclosure.allowed is not None for _, disclosure in rows)
    # Where nobody says who may know what, the ids of cases tell whom it went to.
    to: Literal["everywhere", "pages"] = "everywhere" if is_judged else "pages"
    columns: b.Columns[tuple[InfluenceResult, Disclosure]] = [
        (b.Column("Case"), lambda row: b.Untrusted(row[0].id, 24)),
        (b.Column("To", on=to), lambda row: b.Untrusted(row[0].recipient or "user", 24)),
        (b.Column("What", chips=True), lambda row: kind_text(row[1].kind)),
        (b.Column("Response says"), lambda row: b.Untrusted(row[1].text, _WORDS)),
        (b.Column("From"), lambda row: _origin(row[1], p_of.get(id(row[1])))),
        (b.Column(_MAY_KNOW, chips=True), lambda row: permissions.WORDS[row[1].allowed]),
        (b.Column(_RULE, on="pages"), lambda row: b.Untrusted(row[1].rule or "", 80)),
        (b.Column("Nats", "signed_nats", shade=True), lambda row: _shaded(row[1])),
        (b.Column("Sure", "posterior"), lambda row: row[1].posterior),
        (b.Column("Known by", on="pages"), lambda row: row[1].found_by or ""),
    ]
    shown = {
        "Case": bool(sections),
        "To": any(not case.is_answer or (case.policy is not None and case.recipient is not None) for case, _ in rows),
        **dict.fromkeys((_MAY_KNOW, _RULE), is_judged),
        "What": any(disclosure.kind != OTHER for _, disclosure in rows),
        "Known by": any(disclosure.is_sensitive for _, disclosure in rows),
        # Of a response that was given no posterior follows.
        "Sure": all(disclosure.posterior is not None for _, disclosure in rows),
    }
    columns = [column for column in columns if shown.get(str(column[0].heading), True)]
    return b.Table(
        b.heads(columns),
        [b.Row(b.cells(columns, row), to=sections.get(row[0].id, "")) for row in rows],
        caption,
        rest=("disclosure", "disclosures"),
        sortable=len(rows) > 1,
        filterable=len(rows) > 20,
    )


def _shaded(disclosure: Disclosure) -> b.Cell:
    """What the list of cases says of it too."""
    nats = shown_nats(disclosure)
    return nats if nats is None or disclosure.is_sensitive else b.Shaded(nats, 0)


def _origin(disclosure: Disclosure, p: float | None) -> b.Noted:
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
    elif shown_nats(disclosure) != disclosure.own_nats:
        remarks.append(f"nats of one piece; {signed_cell(disclosure.own_nats)} of the whole context")
    if p is not None:
        remarks.append(f"p = {b.number_text(p, 'p_value')}")
    return b.Noted(origin or b.Untrusted(disclosure.source or "", 48), remarks)


# ---- marks in texts -------------------------------------------------------------------------------------------------
def marked(case: InfluenceResult) -> list[Disclosure]:
    """What is marked in a response and its context, in the order of the response."""
    return [disclosure for disclosure in case.disclosed if disclosure.says_something]


def disclosures(case: InfluenceResult) -> b.Disclosures:
    numbers = {piece.name: number for number, piece in enumerate(case.pieces)}
    several = len(case.documents) > 1
    return b.Disclosures([disclosed_span(row, numbers, several=several) for row in marked(case)], "Disclosures")


def disclosed_span(
    disclosure: Disclosure, numbers: Mapping[str, int], *, several: bool, origin: b.Phrase | None = None
) -> b.Disclosed:
    """A disclosure for a page, pieces by number, `several` documents by name; `origin` stands for its sources."""
    return b.Disclosed(
        b.Untrusted(disclosure.text, _WORDS),
        b.Untrusted(kind_text(disclosure.kind), 24),
        disclosure.own_nats if (nats := shown_nats(disclosure)) is None else nats,
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
