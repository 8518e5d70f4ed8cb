"""Documents of earlier turns: a prompt that repeats a message has its documents, retrieved again or not.

A message is known by its hash, so that no text is held; of many conversations the latest are.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import replace
from typing import Final

from leakmeter.traces import LoggedAnswer, LoggedDocument, LoggedMessage, Place

MOST: Final = 100_000
"""Messages that are held."""


class Turns:
    """Messages of answers so far that have documents, and where."""

    def __init__(self) -> None:
        self._held: OrderedDict[bytes, tuple[tuple[str, str, int, int], ...]] = OrderedDict()

    def whole(self, answer: LoggedAnswer) -> LoggedAnswer:
        """The answer with the documents that its prompt has from earlier turns, which are held from now on."""
        names = [_name(message) for message in answer.messages]
        found = {document.content_hash for document in answer.documents}
        taken = [place for document in answer.documents for place in document.places]
        more: dict[str, LoggedDocument] = {}
        for number, name in enumerate(names):
            for id_, content, start, end in self._held.get(name, ()):
                place = Place(number, start, end)
                if content in found or any(_meet(place, other) for other in taken):
                    continue
                text = answer.messages[number].content[start:end]
                held = more.setdefault(content, LoggedDocument(id_, content, text, ()))
                more[content] = replace(held, places=(*held.places, place))
        whole = replace(answer, documents=(*answer.documents, *more.values())) if more else answer
        self._hold(names, whole)
        return whole

    def _hold(self, names: list[bytes], answer: LoggedAnswer) -> None:
        for number, name in enumerate(names):
            places = tuple(
                (document.id, document.content_hash, place.start, place.end)
                for document in answer.documents
                for place in document.places
                if place.message == number
            )
            if places:
                self._held[name] = places
                self._held.move_to_end(name)
        while len(self._held) > MOST:
            self._held.popitem(last=False)


def _name(message: LoggedMessage) -> bytes:
    return hashlib.sha256(message.content.encode(errors="surrogatepass")).digest()


def _meet(place: Place, other: Place) -> bool:
    return place.message == other.message and place.start < other.end and other.start < place.end
