"""Forgetting: every row, run and name behind a document, a person, a recipient or a trace goes from a ledger."""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from leakmeter.core.plain import counted, excerpt
from leakmeter.data.conversation import text_within
from leakmeter.data.traces.places import hash_of, normalised
from leakmeter.errors import UsageError
from leakmeter.products.ledger.keys import RECIPIENT
from leakmeter.products.ledger.measuring import Measuring
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.ledger.subjects import LEAST_DIGITS, write_edits
from leakmeter.products.ledger.totals import DOCUMENT, SUBJECT, Book
from leakmeter.text.entities import person
from leakmeter.text.entities.mention import PERSON
from leakmeter.text.matching import Folded

TRACE: Final = "trace"
_LEAST_SAID: Final = 12
"""Characters of an answer from which it is looked for in the texts of others."""
_LEAST_NAME: Final = 4
"""The same of a recipient's name, which may be a number."""
_LEAST_SURE: Final = 4
"""Letters of a name's word from which it goes in lower case too: 'al' and 'may' are words of their own."""
_LEAST_USUAL: Final = 3
"""Kept texts that have a word in lower case alone from which it may be usual, if fewer have it in capitals."""
_MOST_TRACES: Final = 5
"""Traces that a sentence lists."""
_LEAST_NUMBER: Final = 7
"""Digits of a number from which it is looked for however it is divided."""
_SCORED: Final = "(SELECT by_document FROM events UNION SELECT by_entity FROM events)"
_NEEDED_NO_MORE: Final = (
    "looks WHERE event NOT IN (SELECT event FROM events)",
    "prompts WHERE event NOT IN (SELECT event FROM events)",
    "turns WHERE event NOT IN (SELECT event FROM events)",
    "turns WHERE content NOT IN (SELECT content FROM looks)",
    "permissions WHERE event NOT IN (SELECT event FROM events)",
    "mentions WHERE content NOT IN (SELECT content FROM looks)",
    f"measured WHERE score NOT IN {_SCORED}",
    f"scores WHERE score NOT IN {_SCORED}",
    f"disclosures WHERE score NOT IN {_SCORED}",
    "disclosures WHERE content NOT IN (SELECT content FROM looks)",
    "scores WHERE target NOT IN (SELECT content FROM looks UNION SELECT entity FROM mentions)",
    "names WHERE pseudonym NOT IN (SELECT entity FROM mentions UNION SELECT coalesce(recipient, '') FROM events "
    "UNION SELECT document FROM looks)",
)
"""Rows that nothing leads to any more, in the order in which they are deleted."""
_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Forgotten:
    kind: str
    n_rows: int
    """Rows of tables that were removed."""
    n_events: int
    """Answers that the ledger has no more."""
    n_texts: int
    """Measurements whose kept texts were removed."""
    left: tuple[str, ...]
    """Sentences about what is left, and where else to look."""


def forget(ledger: Ledger, id_: str, kind: str | None = None) -> Forgotten:
    """Remove everything of one document, subject, recipient or trace. A document's answers stay as answers, without its
    numbers; those of a recipient or a trace go as a whole. What kept texts say of it goes with each answer whose prompt
    had it. The id is a document's or a trace's, or a subject's or recipient's pseudonym, its first eight or more
    digits, or their name, or a document's; with `kind` where it is of several."""
    with ledger.measuring():
        # First of all, since it may hold what the ledger does not know of.
        left_over = _tidied(ledger)
        # Nobody adds anything between what is looked for and what is deleted.
        with ledger.writing() as database:
            book = Book(ledger)
            try:
                kind, ids = _named(book, id_, kind)
            except UsageError as error:
                removed_too = "leftovers of a killed command, which may have contained it, were removed"
                raise UsageError(f"{error}; {removed_too}") if left_over else error from None
            removed = _Gone(book, kind, ids)
            wanted = _Wanted.of(book, id_, kind, ids)
            repeating, unsure = _texts_of_others(book, removed, wanted)
            removed.unread |= repeating
            n_rows, n_texts = _deleted(database, removed)
        _tidied(ledger)
    left = _left(book, removed, wanted, unsure - removed.unread)
    return Forgotten(kind, n_rows, len(removed.events), n_texts, left)


def _deleted(database: sqlite3.Connection, removed: _Gone) -> tuple[int, int]:
    before = database.total_changes
    for where, ids in (
        ("events WHERE event", removed.events),
        ("looks WHERE document", removed.documents),
        ("turns WHERE document", removed.documents),
        ("permissions WHERE document", removed.documents),
        ("mentions WHERE entity", removed.entities),
        # With a number gone it is measured no more: another answer of the same text is measured anew.
        ("measured WHERE score", removed.unread),
    ):
        database.executemany(f"DELETE FROM {where} = ?", [(id_,) for id_ in ids])
    database.executemany("DELETE FROM disclosures WHERE instr(entities, ?)", [(id_,) for id_ in removed.entities])
    for where in _NEEDED_NO_MORE:
        database.execute(f"DELETE FROM {where}")
    n_rows = database.total_changes - before
    database.execute("DELETE FROM texts WHERE score NOT IN (SELECT score FROM measured)")
    n_texts = database.total_changes - before - n_rows
    stone = (removed.kind, datetime.now(UTC).date().isoformat(), n_rows)
    database.execute("INSERT INTO tombstones VALUES (?, ?, ?)", stone)
    database.execute("UPDATE ledger SET mark = hex(randomblob(8))")
    return n_rows, n_texts


def _tidied(ledger: Ledger) -> bool:
    """Remove what is deleted from the disk, and what killed commands left; whether there was some."""
    ledger.vacuum()
    _, rows = ledger.read("events", "mentions")
    write_edits(ledger, {row["recipient"] for row in rows["events"]} | {row["entity"] for row in rows["mentions"]})
    return ledger.remove_runs()


def find(book: Book, id_: str, kind: str | None = None) -> tuple[str, str]:
    """What an id or a name is of, and its full id; see `forget`."""
    kind, ids = _named(book, id_, kind)
    if len(ids) > 1:
        raise UsageError(f"{len(ids)} of the ledger have this name; give a pseudonym")
    return kind, next(iter(ids))


def _named(book: Book, id_: str, kind: str | None) -> tuple[str, set[str]]:
    by_kind = {
        DOCUMENT: {document for document, _ in book.documents},
        SUBJECT: set(book.kinds),
        RECIPIENT: {pseudonym for pseudonym in book.recipients if pseudonym is not None},
        TRACE: {event["trace"] for event in book.events},
    }
    if kind is not None and kind not in by_kind:
        raise UsageError(f"kind is '{kind}'; it has to be {', '.join(by_kind)}")
    hits: dict[str, set[str]] = {}
    for id_kind, ids in by_kind.items():
        if kind not in (None, id_kind):
            continue
        exact = {id_} & ids
        if id_kind == DOCUMENT:
            exact |= {document for document in ids if id_ in (book.called(document), book.document_names.get(document))}
        if id_kind in (SUBJECT, RECIPIENT):
            exact |= {pseudonym for pseudonym in ids if len(id_) >= LEAST_DIGITS and pseudonym.startswith(id_)}
            if len(exact) > 1:
                raise UsageError(f"several {id_kind}s of the ledger begin with these digits; give more of them")
            exact |= _in_clear(book, id_, id_kind) & ids
        if exact:
            hits[id_kind] = exact
    if not hits:
        known = kind or "document, subject, recipient or trace"
        raise UsageError(f"the ledger has no {known} of that id or name")
    if len(hits) > 1:
        raise UsageError(f"several of the ledger have that id ({', '.join(hits)}); give --kind")
    return next(iter(hits.items()))


def _in_clear(book: Book, name: str, kind: str) -> set[str]:
    from leakmeter.text.entities import find as entities

    keys = book.ledger.keys
    spellings = {name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD"))}
    if kind == RECIPIENT:
        return {keys.recipient(spelling) or "" for spelling in spellings}
    values = {("person", person.normal(spelling)) for spelling in spellings}
    values |= {
        (entity_type, variant)
        for entity_type in set(book.kinds.values())
        for spelling in spellings
        for variant in (spelling, spelling.casefold())
    }
    # A telephone number has one normal form, however it is divided.
    values |= {
        (entity.type, entity.value) for entity in entities.find(name, [(0, len(name))], region=Measuring().region)
    }
    return {book.subject_of.get(keys.entity(entity_type, value), "") for entity_type, value in values}


def _is_cased(word: str) -> bool:
    return word.upper() != word.lower()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What kept texts are searched for, in clear."""

    names: frozenset[str] = frozenset()
    """Texts with one of these go."""
    words: frozenset[str] = frozenset()
    """Of people's names, each word that points to them; texts with one go, unless it is short or usual there."""
    hints: frozenset[str] = frozenset()
    """Short names, and words of a recipient's, which may be a team's: texts with one are told of, and stay."""

    @classmethod
    def of(cls, book: Book, id_: str, kind: str, matches: Collection[str]) -> _Wanted:
        if kind not in (SUBJECT, RECIPIENT):
            return cls()
        pseudonyms = (
            {name for name, subject in book.subject_of.items() if subject in matches} if kind == SUBJECT else matches
        )
        named = {row["name"]: row["pseudonym"] for row in book.ledger.rows("names") if row["pseudonym"] in pseudonyms}
        is_name = not any(pseudonym.startswith(id_) for pseudonym in pseudonyms)
        names = {*named, *([id_] if is_name else [])}
        if kind == RECIPIENT:
            short = {name for name in names if len(name) < _LEAST_NAME}
            return cls(
                frozenset(names - short), hints=frozenset(short | {word for name in names for word in _of(name)})
            )
        people = {row["entity"] for row in book.mentions if row["kind"] == PERSON}
        of_people = {name for name, pseudonym in named.items() if pseudonym in people}
        if is_name and book.ledger.keys.entity(PERSON, person.normal(id_)) in people:
            of_people.add(id_)
        return cls(frozenset(names), frozenset(word for name in of_people for word in _of(person.normal(name))))

    def is_in(self, text: str) -> bool:
        """Whether a text has a name or a word, as an id may."""
        return _names_any(text, self.names) or any(_said(Folded(text), word) for word in self.words | self.hints)


def _of(name: str) -> Iterator[str]:
    """Words of a name that point to a person, and parts of those with a hyphen."""
    for word in person.words(name):
        yield from (part for part in {word, *_WORD.findall(word)} if person.is_telling(part))


def _said(text: Folded, word: str) -> list[tuple[int, int]]:
    """Where a text says a word of a name, in any case; in scripts without capitals nothing parts it from the next."""
    if _is_cased(word):
        return list(text.places(word))
    return [(0, 0)] if Folded(word).letters in text.letters else []


class _Gone:
    """What is forgotten, by its kind and ids, and what goes with it."""

    def __init__(self, book: Book, kind: str, ids: Collection[str]) -> None:
        self.kind = kind
        self.events = {
            event["event"]
            for event in book.events
            if (kind == RECIPIENT and event["recipient"] in ids) or (kind == TRACE and event["trace"] in ids)
        }
        self.documents = set(ids) if kind == DOCUMENT else set[str]()
        self.entities = {name for name, subject in book.subject_of.items() if kind == SUBJECT and subject in ids}
        contents = {
            row["content"]
            for row in book.retrievals
            if row["event"] not in self.events and row["document"] not in self.documents
        }
        self.contents = {row["content"] for row in book.retrievals} - contents
        """Of documents that are retrieved for no answer that stays."""
        mentioned = {row["entity"] for row in book.mentions if row["content"] in contents} - self.entities
        removed = self.contents | ({row["entity"] for row in book.mentions} - mentioned)
        retrieved = {row["event"] for row in book.retrievals if row["content"] in removed}
        self.told_of = {
            event["event"]
            for event in book.events
            if event["event"] in self.events | retrieved
            or any(row["target"] in removed for row in book.scores_of(event))
        }
        """Events whose prompts had what is forgotten."""
        self.unread = {
            event[name]
            for event in book.events
            if event["event"] in self.told_of
            for name in ("by_document", "by_entity")
        }
        """Names of scores whose texts go."""


def _texts_of_others(book: Book, removed: _Gone, wanted: _Wanted) -> tuple[set[str], set[str]]:
    """Scores whose kept texts repeat what is forgotten: an answer or a document, as later turns do, or a name; and
    those of which that is not sure."""
    keys, texts = book.ledger.keys, book.ledger.texts()
    # Nobody knows what is in those that cannot be read.
    scores = {score for score, kept_text in texts.items() if kept_text is None}
    readable = {score: kept_text for score, kept_text in texts.items() if kept_text is not None}
    passages = set[str]()
    for score, kept_text in readable.items():
        if score in removed.unread:
            passages |= {
                text for response in kept_text["responses"] if len(text := normalised(response["text"])) >= _LEAST_SAID
            }
        pieces: dict[str, list[str]] = {}
        for part in kept_text["documents"]:
            pieces.setdefault(part["name"], []).append(kept_text["context"][part["start"] : part["end"]])
        for written in pieces.values():
            # A record is known by the text that it has, and what stands around documents by its pieces together.
            texts_of = {*written, *filter(None, map(text_within, written)), "".join(written)}
            if any(keys.content(hash_of(normalised(text))) in removed.contents for text in texts_of):
                is_one = len(set(map(normalised, written))) == 1
                passages |= {text for text in map(normalised, texts_of) if is_one or len(text) >= _LEAST_SAID}
    # Of each word the texts that have it, and whether in capitals somewhere.
    having: dict[str, dict[str, bool]] = {word: {} for word in wanted.words}
    unsure = set[str]()
    for score, kept_text in readable.items():
        text = " ".join(_strings(kept_text))
        plain = normalised(text)
        if any(passage in plain for passage in passages) or _names_any(text, wanted.names):
            scores.add(score)
        folded = Folded(text)
        for word, found in having.items():
            if places := _said(folded, word):
                found[score] = not _is_cased(word) or any(not text[start].islower() for start, _ in places)
        if any(_said(folded, hint) for hint in wanted.hints):
            unsure.add(score)
    for word, found in having.items():
        n_lower = len(found) - sum(found.values())
        is_usual = n_lower >= max(_LEAST_USUAL, sum(found.values()) + 1)
        is_sure = len(word) >= _LEAST_SURE and not is_usual
        sure = {score for score, has_capital in found.items() if has_capital or is_sure}
        scores |= sure
        unsure |= found.keys() - sure
    return scores, unsure


def _strings(content: Any) -> Iterator[str]:
    """All texts of a kept text, but for its tokens, which say the same in pieces."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for value in content:
            yield from _strings(value)
    elif isinstance(content, dict):
        for name, value in content.items():
            if name != "tokens":
                yield from _strings(value)


def _names_any(text: str, names: Collection[str]) -> bool:
    """Whether a text has one of some names, however its words are divided and written."""
    words, digits = _words(text), "".join(filter(str.isdecimal, text))
    for name in names:
        number = "".join(filter(str.isdecimal, name))
        if ((name_words := _words(name)).strip() and name_words in words) or (
            len(number) >= _LEAST_NUMBER and number in digits
        ):
            return True
    return False


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(unicodedata.normalize('NFKC', text).casefold()))} "


def _left(book: Book, removed: _Gone, wanted: _Wanted, unsure: Set[str]) -> tuple[str, ...]:
    sentences = []
    if n := len(removed.told_of - removed.events):
        sentences.append(
            f"{counted(n, 'answer')} had it in the prompt: the numbers of the rest of each prompt remain, and were "
            "measured with it present."
        )
    remaining = [event for event in book.events if event["event"] not in removed.events]
    ids = {id_ for id_, content in book.documents if content not in removed.contents and id_ not in removed.documents}
    ids |= {event[name] for event in remaining for name in ("trace", "span")}
    ids |= {book.document_names[id_] for id_ in ids if id_ in book.document_names}
    if n_ids := sum(_names_any(id_, wanted.names) for id_ in ids):
        where = f"{counted(n_ids, 'remaining id')} of documents, traces or spans"
        sentences.append(f"The name is in {where}; forget those too.")
    if n_ids := sum(wanted.is_in(id_) and not _names_any(id_, wanted.names) for id_ in ids):
        where = f"{counted(n_ids, 'remaining id')} of documents, traces or spans"
        sentences.append(f"A word of the name is in {where}; forget those too if they are about the same.")
    traces = sorted({event["trace"] for event in remaining if {event["by_document"], event["by_entity"]} & unsure})
    if traces:
        # An id that has the name is told of above, without it.
        listed = [excerpt(trace, 40) for trace in traces if not wanted.is_in(trace)][:_MOST_TRACES]
        names = f": {', '.join(listed)}" if listed else ""
        sentences.append(
            f"Kept texts of {counted(len(traces), 'trace')} contain a short or common word of the name, which may mean "
            f"something else{names}. Read them on the ledger's page, and forget each trace that is about the same."
        )
    if n_names := sum(wanted.is_in(row["name"]) for row in book.ledger.rows("names") if row["kind"] != DOCUMENT):
        verb = "contains" if n_names == 1 else "contain"
        sentences.append(f"{counted(n_names, 'kept name')} of other people or recipients {verb} a word of the name.")
    if strangers := book.ledger.strangers():
        sentences.append(f"{len(strangers)} files in its directory are not the ledger's: {', '.join(strangers[:5])}.")
    if removed.kind == SUBJECT:
        sentences.append(
            "Telephone numbers, addresses and the like are separate subjects, unless subjects.toml joins them."
        )
    if removed.kind in (DOCUMENT, SUBJECT):
        sentences.append(
            "Answers that disclosed it were already given; the ledger no longer knows what they disclosed."
        )
    if removed.contents:
        sentences.append(
            "Later turns that repeat a document of which nothing is left count it only if the log of the turn that "
            "retrieved it is added with them."
        )
    sentences += [
        "The added logs are unchanged; further answers with it add it again.",
        "Earlier pages, exports and copies of the ledger are unchanged.",
        "Other commands may have kept scores of the same texts: `leakmeter models cache clear` removes those.",
    ]
    return tuple(sentences)
