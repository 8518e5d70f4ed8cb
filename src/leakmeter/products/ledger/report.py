"""What a ledger shows: tables by document, subject, recipient and day, and a page; people by pseudonym by default."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

from leakmeter import InfluenceResult
from leakmeter.core.plain import counted, distinct, plural
from leakmeter.core.record import JsonObject
from leakmeter.errors import UsageError
from leakmeter.products.ledger.flags import SENTENCES
from leakmeter.products.ledger.keys import ANSWER as PERSON
from leakmeter.products.ledger.keys import RECIPIENT, channel_of, shown
from leakmeter.products.ledger.totals import (
    DOCUMENT,
    SUBJECT,
    Book,
    LedgerDisclosure,
    LedgerEvent,
    Look,
    Pair,
    shared_draws,
)
from leakmeter.report import blocks as b
from leakmeter.report import scale
from leakmeter.report.scale import nats_text, percent
from leakmeter.text import permissions

ANSWER: Final = "answer"
BY: Final = (DOCUMENT, SUBJECT, RECIPIENT, "day")
_ID: Final = 60
_MOST_ANSWERS: Final = 20
_MOST_HEAT_MAPS: Final = 10
_MOST_LINES: Final = 4
_WHAT: Final = {
    DOCUMENT: "What the answers reveal of each document to each recipient; nats",
    SUBJECT: "What the answers reveal of each person, or other personal data, to each recipient; nats",
    "recipient": "For each recipient, the document with the largest leakage",
    "day": "For each day, the document with the largest leakage",
}
_FOUND: Final = {
    "no document": "The ledger has no document in any prompt: {counts}.",
    "disclosed": "Personal or secret data is disclosed in {n:,} of {answers}, to {recipients}.",
    "allowed": "Personal or secret data is disclosed in {n:,} of {answers}, only to recipients who may know it.",
    "nothing": "No personal or secret data was recognised in {answers}.",
}
_ADVICE: Final = {
    "disclosed": (
        "Personal or secret data in answers",
        "check that each recipient may know it; if not, restrict who may ask, or redact the document "
        "(`leakmeter redact`)",
    ),
    "allowed": (
        "Only to recipients who may know it",
        "check that readers and owners of documents are right, and look at the documents of which most is revealed",
    ),
    "nothing": (
        "Nothing recognised",
        "look at the documents of which most is revealed, and set a budget (`leakmeter ledger check --budget`)",
    ),
}
_WHO_GOT_WHAT: Final = "Who got what: nats of each document"
_SHOWN_DOCUMENTS: Final = 20
_SHOWN_RECIPIENTS: Final = 12
_WORST_ANSWERS: Final = "Answers, largest leakage first, with the document that they reveal most of"
_MOST_TIME: Final = timedelta(hours=72)
"""Of a timeline in hours; longer ones are in days."""


@dataclass(frozen=True, slots=True)
class LedgerNames:
    """How people are called, and where their pages are: `in_clear` by the names that are kept, those of `named` in any
    case. `address` maps kind and id of a document, a subject, a recipient, a day or an answer to a page, or to ""."""

    book: Book
    in_clear: bool = False
    named: Collection[str | None] = ()
    address: Callable[[str, str], str] = lambda kind, id_: ""

    def __post_init__(self) -> None:
        if self.in_clear and not self.book.names:
            raise UsageError("the ledger holds no names; only `leakmeter ledger add --keep-texts` keeps them")

    def phrase(self, pseudonym: str | None) -> b.Phrase:
        if channel_of(pseudonym) != PERSON:
            return b.Untrusted(str(pseudonym), _ID)
        name = self.book.names.get(pseudonym or "") if self.in_clear or pseudonym in self.named else None
        return shown(pseudonym) if name is None else b.Untrusted(name, _ID)

    def document(self, id_: str) -> b.Phrase:
        return b.Untrusted(self.book.shortly(self.book.called(id_)), _ID)

    def answer(self, event: LedgerEvent) -> b.Untrusted:
        return b.Untrusted(self.book.shortly(event["trace"]), _ID)

    def of_item(self, pair: Pair | Look) -> b.Phrase:
        """A document by what it is called, a subject as a person."""
        return self.phrase(pair.item.id) if pair.item.kind == SUBJECT else self.document(pair.item.id)


def record(pair: Pair, book: Book) -> JsonObject:
    posterior = pair.posterior
    about = {} if pair.item.kind == DOCUMENT else {"type": book.kinds.get(pair.item.id)}
    days = [str(look.event["day"]) for look in pair.looks if look.event["day"] is not None]
    return {
        pair.item.kind: pair.item.id,
        **about,
        "recipient": pair.recipient,
        "n_recipients": len(pair.recipients),
        **asdict(pair.total),
        "posterior": posterior.probability,
        "posterior_note": posterior.note,
        "flags": dict(pair.flags),
        "n_unscored": pair.n_unscored,
        "n_separate": pair.n_separate,
        "first_day": min(days, default=None),
        "last_day": max(days, default=None),
    }


def records(book: Book, by: str) -> list[JsonObject]:
    if by in (DOCUMENT, SUBJECT):
        return [record(pair, book) for pair in book.pairs(by, by_recipient=True)]
    rows = []
    for key, n_answers, n_documents, pair in _worst(book, by):
        first = {"day": None if key is None else str(key)} if by == "day" else {"recipient": key}
        counts = {"n_answers_in_all": n_answers, "n_documents": n_documents}
        rows.append({**first, **counts, **({} if pair is None else record(pair, book))})
    return rows


def summary(book: Book, by: str, *, show_names: bool = False) -> b.Report:
    names = LedgerNames(book, show_names, frozenset(book.recipients))
    table = rows_table(book, by, names)
    pairs = book.pairs(SUBJECT if by == SUBJECT else DOCUMENT, by_recipient=True)
    return b.Report(
        "Ledger",
        "ledger",
        [
            *_finding(book, names),
            *_disclosed(book, names),
            table,
            *_limits(pairs, names),
            *_notes(book),
        ],
    )


def _pseudonyms(names: LedgerNames) -> Iterator[b.Text]:
    """Why people are called by pseudonyms, and how one finds out who they are."""
    if not names.book.names:
        yield b.Text(
            b.sentence(
                "Recipients and people are shown as hashes, since this ledger keeps no names (`leakmeter ledger add "
                "--keep-texts`). If you know a name, `leakmeter ledger show --recipient NAME` (or `--subject NAME`) "
                "shows what belongs to it."
            )
        )
    elif names.book.kinds and not names.in_clear:
        yield b.Text(b.sentence("People of the documents are shown as hashes; `--show-names` shows their names."))


def _limits(pairs: Sequence[Pair], names: LedgerNames) -> Iterator[b.Block]:
    """Which sums are no finding, or not what an observer knows."""
    if n := names.book.n_shared_draws:
        yield b.Warning(shared_draws(n))
    n_sums = counted(len(pairs), "sum")
    if n := sum(map(_is_quiet, pairs)):
        yield b.Warning(f"No finding: {n:,} of {n_sums}, no larger than noise or an irrelevant text.")
    if n := sum(pair.posterior.probability is None and not pair.is_exact for pair in pairs):
        yield b.Warning(
            f"{n:,} of {n_sums} without a posterior, because a condition is not met or not asserted: scores by M, the "
            "scoring model, not an observer's odds."
        )


def _is_quiet(pair: Pair) -> bool:
    total = pair.total
    return total.largest_running_nats <= max(total.noise_nats, total.placebo_running_nats or 0.0)


def _is_leak(pair: Pair) -> bool:
    """Whether its sum has a colour: one below 0 says that answers were less likely with the thing."""
    signed = pair.total.signed_nats
    return not _is_quiet(pair) and (signed is None or signed > 0)


def rows_table(book: Book, by: str, names: LedgerNames) -> b.Table:
    if by in (DOCUMENT, SUBJECT):
        return _pairs_table(book, by, book.pairs(by, by_recipient=True), names)
    return _worst_table(book, by, names)


def overview(book: Book, names: LedgerNames) -> list[b.Block]:
    answers = _worst_answers(book)[:_MOST_ANSWERS]
    tables = [_answers(answers, names, _WORST_ANSWERS)] if answers else []
    return [*_lead(book, names), *tables, *_notes(book)]


def of_subject(book: Book, subject: str, *, show_names: bool = False) -> b.Report:
    names = LedgerNames(book, show_names, frozenset(book.recipients))
    pairs = [pair for pair in book.pairs(SUBJECT, by_recipient=True) if pair.item.id == subject]
    blocks = [*subject_blocks(book, subject, names), *_limits(pairs, names), *_pseudonyms(names)]
    return b.Report("Subject of the ledger", "ledger", blocks)


def pairs_of(book: Book, recipient: str, kind: str) -> list[Pair]:
    """What one recipient was told of each thing of a kind."""
    return [pair for pair in book.pairs(kind, by_recipient=True) if pair.recipient == recipient]


def of_recipient(book: Book, recipient: str, *, show_names: bool = False) -> b.Report:
    names = LedgerNames(book, show_names, frozenset(book.recipients))
    events = [event for event in book.events if event["recipient"] == recipient]
    pairs = [pair for kind in (DOCUMENT, SUBJECT) for pair in pairs_of(book, recipient, kind)]
    told = events_blocks(book, names.phrase(recipient), events, names)
    blocks = [*told, *_limits(pairs, names), *_pseudonyms(names)]
    return b.Report("Recipient of the ledger", "ledger", blocks)


def subject_blocks(book: Book, subject: str, names: LedgerNames) -> list[b.Block]:
    pairs = [pair for pair in book.pairs(SUBJECT, by_recipient=True) if pair.item.id == subject]
    contents: Counter[str] = Counter()
    contents_of: dict[str, set[str]] = defaultdict(set)
    for row in book.mentions:
        if book.subject_of[row["entity"]] == subject:
            contents[row["content"]] += row["n_mentions"]
            contents_of[row["entity"]].add(row["content"])
    mentioned = Counter({doc: contents[content] for doc, content in book.documents if content in contents})
    documents = b.Table(
        (b.Column("Document"), b.Column("Mentions", "count")),
        [b.Row((names.document(doc), n), to=names.address(DOCUMENT, doc)) for doc, n in mentioned.most_common()],
        "Documents that mention this subject",
        rest=("document", "documents"),
    )
    looks = [look for pair in pairs for look in pair.looks]

    def documents_of(look: Look) -> b.Phrase:
        having = set().union(*(contents_of[entity] for entity in look.entities))
        rows = [row for row in book.looks_by_event[look.event["event"]] if row["present"] and row["content"] in having]
        return b.Untrusted(", ".join(book.called(row["document"]) for row in rows), _ID)

    return [
        _revealed(pairs, names.phrase(subject), "No answer had ", names),
        _pairs_table(book, "", pairs, names, "By recipient"),
        _answers(_in_time(looks), names, "Answers, in order of time", documents_of),
        documents,
        *_notes(book),
    ]


def _revealed(pairs: Sequence[Pair], name: b.Phrase, none_had: str, names: LedgerNames) -> b.Headline:
    """What the answers reveal of one thing, or that no prompt had it."""
    if not pairs:
        return b.Headline((none_had, *b.parts(name), " in its prompt."))
    nats = nats_text(pairs[0].total.largest_running_nats)
    recipient = b.parts(names.phrase(pairs[0].recipient))
    return b.Headline(("The answers to ", *recipient, f" reveal {nats} nats of ", *b.parts(name), "."))


def document_blocks(book: Book, document: str, names: LedgerNames) -> list[b.Block]:
    pairs = [pair for pair in book.pairs(DOCUMENT, by_recipient=True) if pair.item.id == document]
    contents = {content for id_, content in book.documents if id_ == document}
    versions = b.Text(f"The ledger has {len(contents)} versions of it, each with its own rows.", "soft")
    mentioned: Counter[str] = Counter()
    for row in book.mentions:
        if row["content"] in contents and (subject := book.subject_of.get(row["entity"])) is not None:
            mentioned[subject] += row["n_mentions"]
    subjects = b.Table(
        (b.Column("Subject"), b.Column("Type"), b.Column("Mentions", "count")),
        [
            b.Row(
                (names.phrase(subject), b.Untrusted(book.kinds.get(subject, "")), n), to=names.address(SUBJECT, subject)
            )
            for subject, n in mentioned.most_common()
        ],
        "People, and other personal data, that it mentions",
        rest=("subject", "subjects"),
    )
    return [
        _revealed(pairs, names.document(document), "No measured answer had ", names),
        *_disclosed(book, names, is_meant=lambda disclosed: disclosed.document == document),
        *([versions] if len(contents) > 1 else []),
        _pairs_table(book, "", pairs, names, "By recipient"),
        *_timelines(pairs, names),
        _answers(_in_time(look for pair in pairs for look in pair.looks), names, "Answers, in order of time"),
        *([subjects] if mentioned else []),
        *_notes(book),
    ]


def events_blocks(book: Book, called: b.Phrase, events: Sequence[LedgerEvent], names: LedgerNames) -> list[b.Block]:
    """What some answers told of documents and of people."""
    headline = (*b.parts(called), f": {counted(len(events), 'answer')}")
    tables: list[b.Block] = []
    looks = {kind: [look for event in events for look in book.looks_of(event, kind)] for kind in (DOCUMENT, SUBJECT)}
    for kind, kind_looks in looks.items():
        pairs = book.totals(kind_looks, by_recipient=True)
        if pairs and not tables:
            nats = nats_text(pairs[0].total.largest_running_nats)
            headline = (
                *headline,
                plural(len(events), ". It reveals most of ", ". They reveal most of "),
                *b.parts(names.of_item(pairs[0])),
                f": {nats} nats",
            )
        tables += [_pairs_table(book, kind, pairs, names)] if pairs else []
    tables.append(_answers(_in_time(looks[DOCUMENT]), names, "Answers and documents"))
    return [b.Headline((*headline, ".")), *_disclosed(book, names, events), *tables, *_notes(book)]


def answer_blocks(book: Book, event: LedgerEvent, names: LedgerNames) -> list[b.Block]:
    looks = [*book.looks_of(event, DOCUMENT), *book.looks_of(event, SUBJECT)]
    worst = max(looks, key=lambda look: look.told_nats, default=None)
    headline: tuple[str | b.Untrusted, ...] = (
        "Answer ",
        names.answer(event),
        " to ",
        *b.parts(names.phrase(event["recipient"])),
    )
    if worst is not None and worst.signed_nats is not None:
        headline = (*headline, f" reveals {nats_text(worst.signed_nats)} nats of ", *b.parts(names.of_item(worst)))
    else:
        headline = (*headline, ": no number of a document")
    when = "not logged" if event["time"] is None else f"{event['time']:%Y-%m-%d %H:%M:%S} UTC"
    flags = {flag: SENTENCES.get(flag, "") for flag in event["flags"]}
    return [
        b.Headline((*headline, ".")),
        *_disclosed(book, names, [event]),
        _pieces_table(book, event, names),
        b.Facts([("When", when), ("Recipient", names.phrase(event["recipient"]))], "The answer"),
        *([b.Facts(list(flags.items()), "Why no posterior is shown")] if flags else []),
    ]


def over_blocks(
    book: Book, over: Sequence[Pair], unknown: Sequence[Pair], names: LedgerNames, *, by_recipient: bool
) -> list[b.Block]:
    blocks: list[b.Block] = []
    for groups, caption in ((over, "Over the budget"), (unknown, "Not known whether within the budget")):
        if groups:
            kind = groups[0].item.kind
            blocks.append(_pairs_table(book, kind, groups, names, caption, by_recipient=by_recipient))
    return blocks


def page(book: Book, *, show_names: bool = False) -> b.Report:
    """Who got what, then when, then by which answers; all sums are folded."""
    names = LedgerNames(book, show_names)
    answers = _worst_answers(book)[:_MOST_ANSWERS]
    kept = [look for look in answers if look.event["by_document"] in book.kept][:_MOST_HEAT_MAPS]
    anchors = {look.event["event"]: f"answer{number}" for number, look in enumerate(kept, 1)}
    table = _answers(answers, names, _WORST_ANSWERS, to=lambda look: anchors.get(look.event["event"], ""))
    pieces = [
        b.HeadedBlocks(("Answer ", names.answer(look.event)), [_pieces_table(book, look.event, names)])
        for look in answers
    ]
    heat_maps = [
        b.Embedded(
            ("Answer ", names.answer(look.event)),
            heat_map(book, look.event["by_document"]),
            anchors[look.event["event"]],
        )
        for look in kept
    ]
    by_answer: list[b.Block] = [table, b.Details("Every piece of these answers", pieces)] if answers else []
    by_answer += [b.Details("Heat maps of these answers", heat_maps)] if heat_maps else []
    return b.Report(
        "Ledger of answers",
        "ledger",
        [
            *_lead(book, names),
            *by_answer,
            b.Details("All sums: documents, people, recipients, days", [rows_table(book, by, names) for by in BY]),
        ],
        lead="Leakage of each document to each recipient through logged answers: nats by the scoring model, added up "
        "over answers.",
        held_by="the ledger holds all",
        notes=_notes(book),
        provenance=b.Provenance(model=b.Untrusted(str((book.state.model or {}).get("name", "")), _ID)),
    )


def _lead(book: Book, names: LedgerNames) -> Iterator[b.Block]:
    """The finding, who was told what, and charts of it."""
    pairs = book.pairs(DOCUMENT, by_recipient=True)
    yield from _finding(book, names)
    if n_separate := sum(pair.n_separate for pair in pairs):
        yield b.Warning(f"Several values of one subject, each scored separately: {counted(n_separate, 'answer')}.")
    if pairs:
        yield _who_got_what(pairs, names)
    yield from _disclosed(book, names)
    if pairs:
        yield from _timelines(pairs, names)


def _finding(book: Book, names: LedgerNames) -> Iterator[b.Block]:
    """What was disclosed, what to do about it, and what was revealed most of."""
    pairs = book.pairs(DOCUMENT, by_recipient=True)
    answers = counted(len(book.events), "answer")
    counts = ", ".join((answers, counted(len(book.documents), DOCUMENT), counted(len(book.recipients), RECIPIENT)))
    if not pairs:
        yield b.Headline(_FOUND["no document"].format(counts=counts))
        return
    disclosed = [each for each in book.disclosed(book.events) if each.is_sensitive]
    told = [each.event for each in disclosed if each.is_told]
    found = "disclosed" if told else "allowed" if disclosed else "nothing"
    n = len({event["event"] for event in told or (each.event for each in disclosed)})
    recipients = counted(len({event["recipient"] for event in told}), RECIPIENT)
    yield b.Headline(_FOUND[found].format(n=n, answers=answers, recipients=recipients), "bad" if told else "")
    worst = pairs[0]
    sure = worst.posterior.probability
    observer = "" if sure is None else f" An observer of these answers would be {percent(sure)} sure that it was there."
    nats = nats_text(worst.total.largest_running_nats)
    yield b.Text(
        (f"{counts}. Most nats: ", *b.parts(names.of_item(worst)), " to ", *b.parts(names.phrase(worst.recipient)),
         f", {nats} nats in {counted(worst.total.n_answers, 'answer')}.{observer}")
    )  # fmt: skip
    yield b.Advice.from_table(_ADVICE.values(), [_ADVICE[found]])
    yield from _pseudonyms(names)


def _disclosed(
    book: Book,
    names: LedgerNames,
    events: Sequence[LedgerEvent] | None = None,
    is_meant: Callable[[LedgerDisclosure], bool] = lambda disclosed: True,
) -> list[b.Table]:
    """Who was told what in some answers, personal and secret things first; no table where nothing was disclosed."""
    groups: dict[tuple[str | None, str, str], list[LedgerDisclosure]] = defaultdict(list)
    for disclosed in filter(is_meant, book.disclosed(book.events if events is None else events)):
        groups[disclosed.event["recipient"], disclosed.kind, disclosed.document].append(disclosed)
    if not groups:
        return []
    # Each group by the disclosure of most nats.
    rows = [sorted(of_group, key=lambda disclosed: -disclosed.nats) for of_group in groups.values()]
    rows.sort(key=lambda of: (not of[0].is_sensitive, -of[0].nats, str(of[0].event["recipient"]), of[0].document))
    # Where all of it is of one recipient, rows lead to the documents.
    by_recipient = len({recipient for recipient, _, _ in groups}) > 1
    columns: b.Columns[list[LedgerDisclosure]] = [
        (b.Column("Kind"), lambda of: b.Untrusted(of[0].kind, _ID)),
        (b.Column("Document"), lambda of: names.document(of[0].document)),
        (b.Column("Answers", "count"), lambda of: len({disclosed.event["draw"] for disclosed in of})),
        (b.Column("Most", "signed_nats", "nats", shade=True), lambda of: of[0].nats),
    ]
    if any(disclosed.allowed is not None for of in rows for disclosed in of):
        columns.insert(2, (b.Column("May know"), _may_know))
    if by_recipient:
        columns.insert(0, (b.Column("Recipient"), lambda of: names.phrase(of[0].event["recipient"])))

    def to(of: list[LedgerDisclosure]) -> str:
        recipient = of[0].event["recipient"] or ""
        return names.address(RECIPIENT, recipient) if by_recipient else names.address(DOCUMENT, of[0].document)

    caption = "Disclosed personal data and other content, by recipient"
    return [b.table_of(rows, columns, caption, quiet=lambda of: not of[0].is_told, to=to, first=20, sortable=True)]


def _may_know(rows: Sequence[LedgerDisclosure]) -> str:
    """Whether the recipient may know it, in words; of answers that differ in it, the worst."""
    worst = min((disclosed.allowed for disclosed in rows), key=lambda allowed: permissions.ORDER[allowed])
    return permissions.WORDS[worst]


def _pairs_table(
    book: Book, kind: str, pairs: Sequence[Pair], names: LedgerNames, caption: str = "", *, by_recipient: bool = True
) -> b.Table:
    """A row for each pair: what it is of, if a kind is given, and to whom. What no pair has, has no column."""
    heads: b.Columns[Pair] = []
    if kind:
        heads.append((b.Column("Document" if kind == DOCUMENT else "Subject"), names.of_item))
    if kind == SUBJECT:
        heads.append((b.Column("Type"), lambda pair: b.Untrusted(book.kinds.get(pair.item.id, ""))))
    if by_recipient:
        heads.append((b.Column("Recipient"), lambda pair: names.phrase(pair.recipient)))
    columns: b.Columns[Pair] = [
        *heads,
        (b.Column("Largest so far", "nats", shade=True), lambda pair: pair.total.largest_running_nats),
        (b.Column("Interval", "interval", on="pages"), _interval),
        (b.Column("Sum", "signed_nats"), lambda pair: pair.total.signed_nats),
        (b.Column("Largest answer", "nats", detail=True), lambda pair: pair.total.largest_answer_nats),
        (b.Column("Answers", "count"), lambda pair: pair.total.n_answers),
        (
            b.Column("Placebo", "nats", on="wide" if len(heads) == 2 else "pages"),
            lambda pair: pair.total.placebo_running_nats,
        ),
    ]
    caption = caption or _WHAT.get(kind, "")
    if all(pair.posterior.probability is None and not pair.is_exact for pair in pairs):
        caption = f"{caption}; scored by M, no posterior"
    else:
        columns.append((b.Column("Posterior", "posterior"), _posterior))
    columns = [(column, cell) for column, cell in columns if any(cell(pair) is not None for pair in pairs)]
    return b.table_of(
        pairs,
        columns,
        caption,
        quiet=lambda pair: not _is_leak(pair),
        to=lambda pair: names.address(kind, pair.item.id) if kind else names.address(RECIPIENT, pair.recipient or ""),
        rest=("pair", "pairs") if kind else ("recipient", "recipients"),
        first=20,
        sortable=bool(kind),
        filterable=bool(kind),
    )


def _interval(pair: Pair) -> b.Interval | None:
    """None where its ends are the number itself, to all digits that are shown."""
    low, high = pair.total.interval_nats
    return None if nats_text(low) == nats_text(high) else b.Interval(low, high)


def _posterior(pair: Pair) -> b.Cell:
    sure = pair.posterior.probability
    return "scored by M" if sure is None and not pair.is_exact else sure


class _Worst(NamedTuple):
    """Of a recipient or a day: answers, documents in their prompts, and what was told most of."""

    key: Any
    n_answers: int
    n_documents: int
    pair: Pair | None


def _worst(book: Book, by: str) -> Iterator[_Worst]:
    def group(event: LedgerEvent) -> Any:
        return event["day"] if by == "day" else event["recipient"]

    counts: Counter[Any] = Counter(map(group, book.events))
    looks: dict[Any, list[Look]] = defaultdict(list)
    for look in book.looks(DOCUMENT):
        looks[group(look.event)].append(look)
    worst: dict[Any, Pair]
    if by == "day":
        worst = {
            day: book.totals(day_looks, by_recipient=True)[0] for day, day_looks in looks.items() if day is not None
        }
        keys = sorted(counts, key=lambda day: (day is None, day or date.min))
    else:
        worst = {pair.recipient: pair for pair in reversed(book.pairs(DOCUMENT, by_recipient=True))}
        keys = sorted(counts, key=lambda name: -worst[name].total.largest_running_nats if name in worst else 0.0)
    for key in keys:
        yield _Worst(key, counts[key], len({look.item for look in looks[key]}), worst.get(key))


def _worst_table(book: Book, by: str, names: LedgerNames) -> b.Table:
    def of_worst(show: Callable[[Pair], b.Cell], nothing: b.Cell = None) -> Callable[[_Worst], b.Cell]:
        return lambda at: nothing if at.pair is None else show(at.pair)

    columns: b.Columns[_Worst] = [
        (b.Column("Day"), lambda at: str(at.key or "not logged"))
        if by == "day"
        else (b.Column("Recipient"), lambda at: names.phrase(at.key)),
        (b.Column("Answers", "count"), lambda at: at.n_answers),
        (b.Column("Documents", "count"), lambda at: at.n_documents),
        (b.Column("Most of"), of_worst(names.of_item, "")),
        (
            b.Column("Largest so far", "nats", "nats", shade=True),
            of_worst(lambda pair: pair.total.largest_running_nats),
        ),
        (b.Column("Largest answer", "nats", "nats"), of_worst(lambda pair: pair.total.largest_answer_nats)),
    ]
    if by == "day":
        columns.insert(4, (b.Column("Recipient"), of_worst(lambda pair: names.phrase(pair.recipient), "")))
    return b.table_of(
        _worst(book, by),
        columns,
        _WHAT[by],
        quiet=lambda at: at.pair is not None and not _is_leak(at.pair),
        to=lambda at: names.address(by, "" if at.key is None else str(at.key)),
        rest=(by, f"{by}s"),
        first=20,
        sortable=True,
    )


def _who_got_what(pairs: Sequence[Pair], names: LedgerNames) -> b.Table:
    """A row a document and a column a recipient, those with most nats first."""
    documents = list(dict.fromkeys(pair.item for pair in pairs))
    recipients = list(dict.fromkeys(pair.recipient for pair in pairs))
    by_place = {(pair.item, pair.recipient): pair for pair in pairs}
    shown = recipients[:_SHOWN_RECIPIENTS]
    # Hashes would make columns wider than their numbers.
    called = [b.plain(names.phrase(recipient)) for recipient in shown]
    short = distinct(called, least=6, most=10)
    columns = (b.Column("Document"), *(b.Column(b.Untrusted(short[name], 16), "signed_nats") for name in called))
    rows = [
        b.Row(
            (names.document(document.id), *(_revealed_cell(by_place.get((document, one))) for one in shown)),
            to=names.address(DOCUMENT, document.id),
        )
        for document in documents[:_SHOWN_DOCUMENTS]
    ]
    left_out = len(documents) - len(rows), len(recipients) - len(shown)
    further = [counted(n, noun) for n, noun in zip(left_out, (DOCUMENT, RECIPIENT), strict=True) if n > 0]
    caption = f"{_WHO_GOT_WHAT}; {' and '.join(further)} with fewer are left out" if further else _WHO_GOT_WHAT
    return b.Table(columns, rows, caption, rest=("document", "documents"), open_on_pages=_SHOWN_DOCUMENTS)


def _revealed_cell(pair: Pair | None) -> b.Cell:
    if pair is None:
        return ""
    signed, total = pair.total.signed_nats, pair.total
    floor = max(total.noise_nats, total.placebo_running_nats or 0.0)
    nats: float | b.Phrase = "not defined" if signed is None else signed
    return b.Shaded(nats, scale.heat(math.inf if signed is None else signed, floor))


def _timelines(pairs: Sequence[Pair], names: LedgerNames) -> list[b.Chart]:
    """Sums so far of those of which most was told; no chart without times."""
    times = [time for pair in pairs for look in pair.looks if (time := look.event["time"]) is not None]
    if not times:
        return []
    first, last = min(times), max(times)
    unit, length = ("Days", timedelta(days=1)) if last - first > _MOST_TIME else ("Hours", timedelta(hours=1))
    series = []
    for pair in pairs[:_MOST_LINES]:
        looks = [
            (look, time)
            for look in pair.looks
            if (time := look.event["time"]) is not None and look.signed_nats is not None
        ]
        draws: set[str] = set()
        sums, places, total = [0.0], [0.0], 0.0
        for look, time in looks:
            place = (time - first) / length
            # The sum is what it was until the answer is given.
            places += [place, place]
            sums.append(total)
            if look.event["draw"] not in draws:
                draws.add(look.event["draw"])
                total += look.signed_nats or 0.0
            sums.append(total)
        places.append((last - first) / length)
        sums.append(total)
        name = (*b.parts(names.of_item(pair)), " to ", *b.parts(names.phrase(pair.recipient)))
        series.append(b.ChartSeries("line", sums, places, name=name))
    panel = b.Panel(b.Axis(f"{unit} since {first:%Y-%m-%d %H:%M} UTC"), b.Axis("Sum so far", "nats"), series)
    return [b.Chart("timeline", "What the answers reveal, over time", [panel], columns=1, panel_inches=(4.0, 3.2))]


def _worst_answers(book: Book) -> list[Look]:
    """Each answer with the document that it told most of, those that leaked most first."""
    worst: dict[str, Look] = {}
    for look in book.looks(DOCUMENT):
        held = worst.get(look.event["event"])
        if held is None or look.told_nats > held.told_nats:
            worst[look.event["event"]] = look
    return sorted(worst.values(), key=lambda look: (-look.told_nats, look.event["order"]))


def _answers(
    looks: Sequence[Look],
    names: LedgerNames,
    caption: str,
    documents_of: Callable[[Look], b.Phrase] | None = None,
    to: Callable[[Look], str] | None = None,
) -> b.Table:
    """Answers, each with a document that its prompt had; a column of days only where some are logged."""
    columns: b.Columns[Look] = [
        (b.Column("Answer"), lambda look: names.answer(look.event)),
        (b.Column("Recipient"), lambda look: names.phrase(look.event["recipient"])),
        (b.Column("Documents" if documents_of else "Document"), documents_of or names.of_item),
        (b.Column("Revealed", "signed_nats", "nats", shade=True), lambda look: look.signed_nats),
    ]
    if any(look.event["day"] is not None for look in looks):
        columns.insert(1, (b.Column("Day"), lambda look: str(look.event["day"] or "not logged")))
    to = to or (lambda look: names.address(ANSWER, look.event["event"]))
    return b.table_of(looks, columns, caption, to=to, rest=("answer", "answers"), first=_MOST_ANSWERS)


def _pieces_table(book: Book, event: LedgerEvent, names: LedgerNames) -> b.Table:
    columns: b.Columns[Look] = [
        (b.Column("Which"), names.of_item),
        (b.Column("Kind"), lambda piece: piece.item.kind),
        (b.Column("Revealed", "signed_nats", "nats"), lambda piece: piece.signed_nats),
        (b.Column("Without signs", "nats", "nats", shade=True, bar=True), lambda piece: piece.size_nats),
        (b.Column("Placebo", "signed_nats", "nats"), lambda piece: piece.placebo_nats),
    ]
    return b.table_of(
        [*book.looks_of(event, DOCUMENT), *book.looks_of(event, SUBJECT)],
        columns,
        "What the answer reveals of each piece of its prompt",
        quiet=lambda piece: (piece.size_nats or 0.0) <= max(piece.noise_nats, abs(piece.placebo_nats or 0.0)),
        to=lambda piece: names.address(piece.item.kind, piece.item.id),
    )


def heat_map(book: Book, score: str) -> b.Report:
    part, params = book.ledger.part(score)
    report: b.Report = InfluenceResult.report(list(InfluenceResult.from_run([part], params)))
    return report


def _in_time(looks: Iterable[Look]) -> list[Look]:
    return sorted(looks, key=lambda look: look.event["order"])


def _notes(book: Book) -> list[b.Block]:
    counts: Counter[str] = Counter(flag for event in book.events for flag in event["flags"])
    blocks: list[b.Block] = [
        b.Text(
            "Each number compares the logged prompt with the same prompt without the document. "
            "A sum is the log-odds of an observer if three conditions hold: the answers were drawn from the scoring "
            "model, at the scored temperature and without truncation; later queries depend on the document only "
            "through what the recipient saw; the recipient knows all other documents. Otherwise, the sum is a score by "
            "M, the scoring model. The token that ends an answer is not scored, since the observer does not see that "
            "the answer ends there.",
            "soft",
        ),
        b.Text(
            "A sum adds, with signs, the loss of each answer’s log-probability without the document or the person; a "
            "budget limits the largest magnitude that the sum has had so far. A sum below 0 has no colour: the answers "
            "are less likely with it. Sums of different documents do not add up.",
            "soft",
        ),
    ]
    if counts:
        facts: Mapping[str, str] = {
            f"{flag}, {counted(n, 'answer')}": SENTENCES.get(flag, "") for flag, n in counts.most_common()
        }
        blocks.append(b.Facts(list(facts.items()), "Why no posterior is shown"))
    if book.state.tombstones:
        stones = Counter(stone.kind for stone in book.state.tombstones)
        forgotten = ", ".join(counted(n, kind) for kind, n in sorted(stones.items()))
        blocks.append(b.Text(f"Forgotten on request: {forgotten}. Sums exclude them.", "soft"))
    return blocks
