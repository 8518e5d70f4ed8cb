"""Documents of earlier turns: a prompt that repeats a message has its documents, retrieved again or not.

A message is known by its hash, so that no text is held; of many conversations the latest are.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from leakmeter.data.traces import DocumentPlace, LoggedAnswer, LoggedDocument

MOST: Final = 100_000
"""Messages that are held."""
MOST_PLACES: Final = 1_000_000
"""Of documents in these."""


class Turns:
    def __init__(self) -> None:
        self._held: OrderedDict[bytes, Sequence[tuple[LoggedDocument, int, int]]] = OrderedDict()
        self._n_places = 0

    def whole(self, answer: LoggedAnswer) -> LoggedAnswer:
        """The answer with the documents that its prompt has from earlier turns, which are held from now on."""
        names = [hashlib.sha256(message.content.encode(errors="surrogatepass")).digest() for message in answer.messages]
        hashes = {document.content_hash for document in answer.documents}
        places_in: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for document in answer.documents:
            for place in document.places:
                places_in[place.message].append((place.start, place.end))
        for places in places_in.values():
            places.sort()
        more: dict[str, tuple[LoggedDocument, list[DocumentPlace]]] = {}
        for number, name in enumerate(names):
            for document, start, end in self._held.get(name, ()):
                if document.content_hash in hashes or _meets(start, end, places_in.get(number, ())):
                    continue
                more.setdefault(document.content_hash, (document, []))[1].append(DocumentPlace(number, start, end))
        earlier = (replace(document, places=tuple(places), other_ids=()) for document, places in more.values())
        whole = replace(answer, documents=(*answer.documents, *earlier)) if more else answer
        self._hold(names, whole)
        return whole

    def _hold(self, names: list[bytes], answer: LoggedAnswer) -> None:
        by_message: defaultdict[int, list[tuple[LoggedDocument, int, int]]] = defaultdict(list)
        for document in answer.documents:
            # Of its text nothing is held.
            bare = replace(document, text="", places=())
            for place in document.places:
                by_message[place.message].append((bare, place.start, place.end))
        for number in sorted(by_message):
            self._n_places += len(by_message[number]) - len(self._held.get(names[number], ()))
            self._held[names[number]] = by_message[number]
            self._held.move_to_end(names[number])
        while len(self._held) > MOST or self._n_places > MOST_PLACES:
            self._n_places -= len(self._held.popitem(last=False)[1])


def _meets(start: int, end: int, places: Sequence[tuple[int, int]]) -> bool:
    """Whether a place shares characters with one of others, which are sorted and apart."""
    number = bisect_left(places, (end, end))
    return number > 0 and places[number - 1][1] > start
