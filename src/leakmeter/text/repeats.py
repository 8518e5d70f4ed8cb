"""Values that a context says more than once, and documents that a query has too: leaving one mention out leaves the
others in.

Numbers and codes, e-mail addresses, web addresses and capitalised names are found by their form. It is a search for
redundancy, not a detector of personal data: what it misses is still flagged by measurement, when a piece moves the
response alone and not when it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from leakmeter.core.long_work import checkpoint
from leakmeter.text.entities.mention import is_free
from leakmeter.text.folding import unescaped
from leakmeter.text.matching import folded

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_URL = re.compile(r"https?://[^\s<>\"')\]]*[^\s<>\"')\].,;:!?]")
_PHONE = re.compile(r"(?<![\w.])\+?\(?\d{1,4}\)?(?:[ .\-/]?\(?\d{2,4}\)?){2,5}(?!\w)")
_CODE = re.compile(
    r"(?<![\w.])(?!(?:19|20)\d\d(?![\w/-]))(?=[\w/-]*\d[\w/-]*\d[\w/-]*\d)[A-Za-z0-9]+(?:[-/][A-Za-z0-9]+)*(?!\w)"
)
_NAME = re.compile(r"(?<!\w)[A-Z][\w’'-]+(?:[ \t]+(?:[A-Z]\.[ \t]+)?[A-Z][\w’'-]+)*")
_WORD = re.compile(r"[\w’'-]+")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n\"“(•*-])\s*$")
_TITLES = frozenset(
    {
        *("mr", "mrs", "ms", "miss", "dr", "prof", "the", "a", "an", "this", "that", "these", "those"),
        *("his", "her", "its", "our", "their", "dear", "sir", "madam", "she", "he", "they", "it", "we", "you"),
    }
)
_LEAST = 40
"""Characters below which a document may stand in a text by chance."""


@dataclass(frozen=True, slots=True)
class RepeatedValue:
    text: str
    """Its longest mention."""
    mentions: tuple[tuple[int, int], ...]
    """Characters [start, end), in order, none overlapping."""


@dataclass(eq=False, slots=True)
class _Group:
    """Names that share words, directly or by way of others."""

    words: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)


def find(text: str) -> list[RepeatedValue]:
    """Every value that the text says at least twice, in order of first mention."""
    read = unescaped(text)
    return [
        replace(value, mentions=tuple(read.place(*mention) for mention in value.mentions)) for value in _find(read.text)
    ]


def _find(text: str) -> list[RepeatedValue]:
    occupied: list[tuple[int, int]] = []
    groups: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for kind, pattern in (("email", _EMAIL), ("url", _URL), ("digits", _PHONE), ("code", _CODE)):
        # Matches of one pattern never overlap each other.
        new: list[tuple[int, int]] = []
        for match in pattern.finditer(text):
            checkpoint()
            key = re.sub(r"\D", "", match.group()) if kind == "digits" else match.group().casefold()
            if not is_free(occupied, *match.span()) or (kind == "digits" and len(key) < 7):
                continue
            new.append(match.span())
            groups.setdefault((kind, key[-9:] if kind == "digits" else key), []).append(match.span())
        occupied = sorted(occupied + new)
    values = [_value(text, spans) for spans in groups.values() if len(spans) > 1]
    values += [_value(text, spans) for spans in _names(text, occupied) if len(spans) > 1]
    return sorted(values, key=lambda value: value.mentions[0])


def _names(text: str, occupied: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Groups of capitalised names that share a word, such as a full name and its surname."""
    lowered = {word for word in _WORD.findall(text) if word[:1].islower()}
    spans: list[tuple[tuple[int, int], frozenset[str], frozenset[str]]] = []
    for match in _NAME.finditer(text):
        checkpoint()
        words = [
            word.casefold().removesuffix("'s").removesuffix("’s")
            if _may_name(word) and word.casefold() not in lowered
            else ""
            for word in _WORD.findall(match.group())
        ]
        opens = bool(_SENTENCE_START.search(text[max(0, match.start() - 4) : match.start()]))
        sure, unsure = frozenset(words[opens:]) - {""}, frozenset(words[:opens]) - {""}
        if (sure or unsure) and is_free(occupied, *match.span()):
            spans.append((match.span(), sure, unsure))
    # A word that only ever opens sentences is no evidence of a name; one seen as a name elsewhere counts there too.
    sure_words = frozenset(word for _, sure, _ in spans for word in sure)
    group_of: dict[str, _Group] = {}
    for span, sure, unsure in spans:
        its = sure | (unsure & sure_words)
        # The largest takes in the others, so that a name changes its group a few times at most.
        joined = {id(group): group for word in its if (group := group_of.get(word))}
        merged = max(joined.values(), key=lambda group: len(group.spans), default=_Group())
        for group in joined.values():
            if group is not merged:
                merged.words += group.words
                merged.spans += group.spans
                group_of.update(dict.fromkeys(group.words, merged))
        new = [word for word in its if word not in group_of]
        merged.words += new
        merged.spans.append(span)
        group_of.update(dict.fromkeys(new, merged))
    return [sorted(group.spans) for group in {id(group): group for group in group_of.values()}.values()]


def _may_name(word: str) -> bool:
    return len(word) > 2 and word.casefold() not in _TITLES


def _value(text: str, spans: list[tuple[int, int]]) -> RepeatedValue:
    longest = max(spans, key=lambda span: span[1] - span[0])
    return RepeatedValue(text[longest[0] : longest[1]], tuple(spans))


def is_repeated(text: str, documents: Iterable[str]) -> bool:
    """Whether the text has a whole document in it, however it is written; see `matching`."""
    if len(text) < _LEAST:
        return False
    letters = folded(text)
    # A document without letters and digits says nothing.
    return any(len(document) >= _LEAST and (said := folded(document)) and said in letters for document in documents)
