"""Documents of earlier turns: a prompt that repeats a message has its documents, retrieved again or not.

A message is known by its keyed hash, so that no text is held. Those of answers that are added stay in the ledger; of a
log's other messages, those with documents that were read last are held while it is added.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from leakmeter.core.record import JsonObject
from leakmeter.data.traces import DocumentPlace, LoggedAnswer, LoggedDocument
from leakmeter.data.traces.answer import Whose
from leakmeter.data.traces.places import hash_of, normalised
from leakmeter.products.ledger.keys import DOCUMENT, Keys
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.ledger.tables import LISTED

_EACH_PLACE: Final = (
    f"number IN (SELECT min(number) FROM turns WHERE message IN {LISTED} "
    "GROUP BY message, document, content, first_character, last_character)"
)
"""Of turns: answers that repeat a message have rows of the same."""
_MAY_KNOW: Final = (
    "number IN (SELECT min(permissions.number) FROM events JOIN permissions USING (event) WHERE events.recipient IS ? "
    f"AND permissions.allowed = 'yes' AND permissions.document IN {LISTED} "
    "GROUP BY permissions.document, permissions.content)"
)
"""Of permissions: what a recipient may know."""
MOST: Final = 100_000
"""Messages that are held."""
MOST_PLACES: Final = 1_000_000
"""Of documents in these."""


class Turns:
    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._held: OrderedDict[str, dict[tuple[str, int], tuple[LoggedDocument, int]]] = OrderedDict()
        """Of a message, where documents begin in it: which, and where they end."""
        self._n_places = 0
        self._stored: dict[str, list[JsonObject]] = {}
        self._bare: set[str] = set()
        self._called: dict[str, str] = {}
        self._may_know: set[tuple[str | None, str, str]] = set()

    def take_up(self, ledger: Ledger, answers: Sequence[LoggedAnswer]) -> None:
        """Know what a ledger has of the messages of some answers."""
        messages = {name for answer in answers for name in self._names(answer)}
        recipients = {self._keys.recipient(answer.recipient, answer.channel) for answer in answers}
        with ledger.reading() as view:
            turns = view.rows("turns", _EACH_PLACE, messages)
            documents = {row["document"] for row in turns if row["document"] is not None}
            names = view.rows("names", f"pseudonym IN {LISTED} AND kind = ?", documents, DOCUMENT)
            known = {
                recipient: view.rows("permissions", _MAY_KNOW, recipient, documents)
                for recipient in (recipients if documents else ())
            }
        self._stored, self._bare = {}, set()
        for row in turns:
            if row["document"] is None:
                self._bare.add(row["message"])
            else:
                self._stored.setdefault(row["message"], []).append(row)
        self._called = {row["pseudonym"]: row["name"] for row in names}
        self._may_know = {
            (recipient, row["document"], row["content"]) for recipient, rows in known.items() for row in rows
        }

    def look(self, answer: LoggedAnswer) -> None:
        """Hold where documents stand in the messages of a prompt."""
        names = self._names(answer)
        for document in answer.documents:
            # Of its text nothing is held.
            bare = replace(document, text="", places=(), other_ids=())
            for place in document.places:
                held = self._held.setdefault(names[place.message], {})
                self._n_places += (document.content_hash, place.start) not in held
                held[document.content_hash, place.start] = bare, place.end
                self._held.move_to_end(names[place.message])
        while len(self._held) > MOST or self._n_places > MOST_PLACES:
            self._n_places -= len(self._held.popitem(last=False)[1])

    def is_late(self, answer: LoggedAnswer) -> bool:
        """Whether the ledger has an answer whose prompt repeats this one's documents, and was measured without them."""
        names = self._names(answer)
        return any(names[place.message] in self._bare for document in answer.documents for place in document.places)

    def whole(self, answer: LoggedAnswer) -> LoggedAnswer:
        """The answer with the documents that its prompt has from earlier turns."""
        hashes = {document.content_hash for document in answer.documents}
        places_in: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for document in answer.documents:
            for place in document.places:
                places_in[place.message].append((place.start, place.end))
        for places in places_in.values():
            places.sort()
        more: dict[str, tuple[LoggedDocument, list[DocumentPlace]]] = {}
        for number, name in enumerate(self._names(answer)):
            # The longest first, whatever was read first.
            for document, start, end in sorted(
                self._documents_in(name, answer, number), key=lambda found: found[1] - found[2]
            ):
                if document.content_hash in hashes or _meets(start, end, places_in[number]):
                    continue
                insort(places_in[number], (start, end))
                more.setdefault(document.content_hash, (document, []))[1].append(DocumentPlace(number, start, end))
        earlier = (
            replace(
                document,
                text=answer.messages[places[0].message].content[places[0].start : places[0].end],
                places=tuple(sorted(places, key=lambda place: (place.message, place.start))),
            )
            for document, places in more.values()
        )
        return replace(answer, documents=(*answer.documents, *earlier)) if more else answer

    def _documents_in(self, name: str, answer: LoggedAnswer, number: int) -> Iterator[tuple[LoggedDocument, int, int]]:
        for (_, start), (document, end) in self._held.get(name, {}).items():
            yield document, start, end
        for row in self._stored.get(name, ()):
            start, end = row["first_character"], row["last_character"] + 1
            hashed = hash_of(normalised(answer.messages[number].content[start:end]))
            unnamed = f"sha256:{hashed[:32]}"
            id_ = unnamed if self._keys.document(unnamed) == row["document"] else row["document"]
            name_of = self._called.get(row["document"], "")
            # Whose a document is no ledger keeps: only that the recipient may know it.
            recipient = self._keys.recipient(answer.recipient, answer.channel)
            may_know = (recipient, row["document"], row["content"]) in self._may_know
            readers = (answer.known.id,) if may_know and answer.known is not None and answer.known.id else ()
            whose = (Whose(readers=readers),) if readers else ()
            yield LoggedDocument(id_, hashed, "", (), name=name_of, whose=whose), start, end

    def _names(self, answer: LoggedAnswer) -> list[str]:
        return [self._keys.message(message.content) for message in answer.messages]


def turn_rows(keys: Keys, answer: LoggedAnswer, event: str, bare: set[str]) -> Iterator[JsonObject]:
    """Rows of an answer's messages; those without documents go to `bare`, and have a row once."""
    names = [keys.message(message.content) for message in answer.messages]
    for document in answer.documents:
        for place in document.places:
            yield {
                "event": event,
                "message": names[place.message],
                "document": keys.document(document.id),
                "content": keys.content(document.content_hash),
                "first_character": place.start,
                "last_character": place.end - 1,
            }
    having = {names[place.message] for document in answer.documents for place in document.places}
    for number in answer.earlier:
        if answer.messages[number].role != "assistant" and names[number] not in having | bare:
            bare.add(names[number])
            nothing = dict.fromkeys(("document", "content", "first_character", "last_character"))
            yield {"event": event, "message": names[number], **nothing}


def _meets(start: int, end: int, places: Sequence[tuple[int, int]]) -> bool:
    """Whether a place shares characters with one of others, which are sorted and apart."""
    number = bisect_left(places, (end, end))
    return number > 0 and places[number - 1][1] > start
