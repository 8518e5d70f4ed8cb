"""Forgetting: every row, run and name behind a document, a person, a recipient or a trace goes from a ledger."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from leakmeter.errors import UsageError
from leakmeter.ledger.keys import RECIPIENT
from leakmeter.ledger.measuring import sweep
from leakmeter.ledger.store import Ledger, Tombstone
from leakmeter.ledger.subjects import write_edits
from leakmeter.ledger.totals import DOCUMENT, SUBJECT, Book

TRACE: Final = "trace"
_LEAST_DIGITS: Final = 8
_SCORES: Final = ("by_document", "by_entity")
_LEAST_SAID: Final = 12
"""Characters of an answer from which it is looked for in the texts of others."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was removed, and what is left."""

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
    """Remove everything of one document, subject, recipient or trace.

    A document's answers stay as answers, without its numbers; those of a recipient or a trace go as a whole. What kept
    texts say of it goes with each answer whose prompt had it.

    Args:
        ledger: where.
        id_: a document's or a trace's id, or a subject's or recipient's pseudonym, its first eight or more digits, or
            their name.
        kind: 'document', 'subject', 'recipient' or 'trace', where an id is of several.

    Raises:
        UsageError: nothing has the id, or several have.
        StoreError: the ledger cannot be read or written.
    """
    with ledger.measuring():
        book = Book(ledger)
        kind, found = _named(book, id_, kind)
        gone = _Gone(book, kind, found)
        gone.unread |= _texts_of_others(ledger, gone)
        day = datetime.now(UTC).date().isoformat()
        # Texts go first: killed here, the same command finds the rows and goes on.
        n_texts = ledger.texts.remove_all_but(book.kept - gone.unread)
        write_edits(ledger, gone.names)
        n_rows = ledger.rewrite(gone.keeps, lambda n: Tombstone(kind, day, n))
        sweep(ledger)
    return Forgotten(kind, n_rows, len(gone.events), n_texts, _left(gone, kind))


def find(book: Book, id_: str, kind: str | None = None) -> tuple[str, str]:
    """What an id or a name is of, and its full id.

    Args:
        book: the ledger.
        id_, kind: see `forget`.

    Raises:
        UsageError: nothing has it, or several have.
    """
    kind, found = _named(book, id_, kind)
    if len(found) > 1:
        raise UsageError(f"{len(found)} of the ledger are called so; give a pseudonym")
    return kind, next(iter(found))


def _named(book: Book, id_: str, kind: str | None) -> tuple[str, set[str]]:
    known = {
        DOCUMENT: {document for document, _ in book.documents},
        SUBJECT: set(book.kinds),
        RECIPIENT: {one for one in book.recipients if one is not None},
        TRACE: {event["trace"] for event in book.events},
    }
    if kind is not None and kind not in known:
        raise UsageError(f"kind is '{kind}'; it has to be {', '.join(known)}")
    hits: dict[str, set[str]] = {}
    for of, ids in known.items():
        if kind not in (None, of):
            continue
        exact = {id_} & ids
        if of in (SUBJECT, RECIPIENT):
            exact |= {one for one in ids if len(id_) >= _LEAST_DIGITS and one.startswith(id_)}
            exact |= _in_clear(book, id_, of) & ids
        if exact:
            hits[of] = exact
    if not hits:
        raise UsageError("the ledger has no document, subject, recipient or trace of that id")
    if len(hits) > 1 or ((of := next(iter(hits))) in (SUBJECT, RECIPIENT) and len(hits[of]) > 1):
        raise UsageError(f"several of the ledger have that id ({', '.join(hits)}); give --kind, or more digits")
    return next(iter(hits.items()))


def _in_clear(book: Book, name: str, kind: str) -> set[str]:
    """Pseudonyms of a name as people write it."""
    from leakmeter.text.entities import person

    keys = book.ledger.keys
    if kind == RECIPIENT:
        return {keys.recipient(name) or ""}
    values = {("person", person.normal(name)), *((of, name) for of in set(book.kinds.values()))}
    values |= {(of, name.casefold()) for of in set(book.kinds.values())}
    return {book.subject_of.get(keys.entity(of, value), "") for of, value in values}


class _Gone:
    """Which rows go.

    Args:
        book: the ledger as it is.
        kind: of what is forgotten.
        ids: its ids.
    """

    def __init__(self, book: Book, kind: str, ids: Collection[str]) -> None:
        self.kind = kind
        self.documents = set(ids) if kind == DOCUMENT else set()
        events = [e for e in book.events if (kind, e["recipient"]) in {(RECIPIENT, i) for i in ids}]
        events += [e for e in book.events if kind == TRACE and e["trace"] in ids]
        self.events = {event["event"] for event in events}
        looks = [row for row in book.ledger.rows("looks", book.state) if not self._of_look(row)]
        left = [event for event in book.events if event["event"] not in self.events]
        self.scores = {event[name] for event in left for name in _SCORES}
        """Names of scores that are still needed."""
        contents = {row["content"] for row in looks}
        subjects = {name for name, subject in book.subject_of.items() if kind == SUBJECT and subject in ids}
        self.mentions = {
            (row["content"], row["entity"])
            for row in book.mentions
            if row["content"] in contents and row["entity"] not in subjects
        }
        """Contents and entities that are still mentioned."""
        present = {event["event"]: set[str]() for event in book.events}
        for row in book.ledger.rows("looks", book.state):
            present[row["event"]].add(row["content"])
        self.contents = {content for _, content in book.documents} - contents
        entities = {entity for _, entity in self.mentions}
        self.targets = contents | entities
        """Contents and entities that scores may be of."""
        self.names = entities | {event["recipient"] for event in left}
        all_entities = {row["entity"] for row in book.mentions}
        lost = self.contents | (all_entities - entities)
        self.told_of = {
            event["event"]
            for event in book.events
            if event["event"] in self.events
            or present[event["event"]] & lost
            or any(row["target"] in lost for row in book.scores_of(event))
        }
        """Events whose prompts had what is forgotten."""
        self.unread = {event[name] for event in book.events if event["event"] in self.told_of for name in _SCORES}
        """Names of scores whose texts go."""

    def _of_look(self, row: Mapping[str, Any]) -> bool:
        return row["event"] in self.events or row["document"] in self.documents

    def keeps(self, table: str, row: Mapping[str, Any]) -> bool:
        """Whether a row stays."""
        return {
            "events": lambda: row["event"] not in self.events,
            "looks": lambda: not self._of_look(row),
            "scores": lambda: row["score"] in self.scores and row["target"] in self.targets,
            # With a number gone it is measured no more: another answer of the same text is measured anew.
            "measured": lambda: row["score"] in self.scores - self.unread,
            "mentions": lambda: (row["content"], row["entity"]) in self.mentions,
            "names": lambda: row["pseudonym"] in self.names,
        }[table]()


def _texts_of_others(ledger: Ledger, gone: _Gone) -> set[str]:
    """Scores whose kept texts repeat an answer that is forgotten, as later turns of a conversation do."""
    texts = dict(ledger.texts.all_texts())
    said = {one["text"].strip() for score, told in texts.items() if score in gone.unread for one in told["responses"]}
    said = {text for text in said if len(text) >= _LEAST_SAID}
    return {score for score, told in texts.items() if any(text in _all_text(told) for text in said)}


def _all_text(told: Mapping[str, Any]) -> str:
    return "\n".join((told["context"], told["query"], *(one["text"] for one in told["responses"])))


def _left(gone: _Gone, kind: str) -> tuple[str, ...]:
    """What is left, in sentences."""
    n = len(gone.told_of - gone.events)
    sentences = []
    if n:
        sentences.append(
            f"{n} answers whose prompts had it stay as answers, with the numbers of what else was in those prompts; "
            "these were measured with it there."
        )
    if kind == SUBJECT:
        sentences.append(
            "Telephone numbers, addresses and the like are subjects of their own, unless subjects.toml joins them."
        )
    if kind in (DOCUMENT, SUBJECT):
        sentences.append("Answers that had it stay told: the ledger does not know any more what they said of it.")
    sentences += [
        "The logs that were added are as they were: further answers with it bring it back.",
        "Pages, exports and copies that were made of the ledger before are as they were.",
        "Other commands may have kept scores of the same texts: `leakmeter cache clear` removes those.",
    ]
    return tuple(sentences)
