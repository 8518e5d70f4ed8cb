"""Values of documents that an answer says in a code: base64, hexadecimal digits, percent signs, backwards, letter by
letter, spelled as on the telephone, in characters that show nothing, by their last digits, or cut off at its end.

Only what stands in the documents is found: a text that looks like a code and decodes to nothing of theirs is none. Each
way is read once for the whole answer, so that work is linear in it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, islice, pairwise
from typing import Final

import regex

from leakmeter.text.entities.mention import ADDRESS, PERSON
from leakmeter.text.entities.shapes import NAME_TYPE, digits_of
from leakmeter.text.folding import WORD, unescaped
from leakmeter.text.matching import Folded, folded
from leakmeter.text.structured import TextRange

ENCODED: Final = "encoded"
"""How a value is known that the documents have, and the answer says in a code."""
ENCODED_TEXT: Final = "encoded text"
"""Kind of a text of the documents in a code that is no value by itself."""
_LEAST_LETTERS: Final = 4
"""Of a value in a code."""
_LEAST_BACKWARDS: Final = 6
"""The same, where chance is more likely to have it."""
_LEAST_TEXT: Final = 16
"""Of a text in a code that is no value."""
_MOST_TEXTS: Final = 200
"""Texts in a code that are looked for as they are."""
_BASE64 = regex.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{8,65536}+={0,2}")
_LEAST_BASE64: Final = 8
_SIGN = regex.compile(r"[+/_-]")
"""Of base64; also what parts it from what stands before or behind it, as in the path of an address."""
_MOST_BEHIND: Final = 8
"""Signs of a run behind each of which all that is left of it may be one code, which has such signs itself."""
_TAG = regex.compile(r"[\U000e0020-\U000e007e]")
"""What shows nothing, and stands for a character of ASCII each."""
_SELECTORS = regex.compile(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,65536}")
"""Variation selectors, which show nothing, and of which there are as many as bytes."""
_HEX = regex.compile(
    rf"(?<![{WORD}])(?:0x)?[\dA-Fa-f]{{2}}(?:[ :,-]?(?:0x|\\x)?[\dA-Fa-f]{{2}}){{3,32768}}+(?![{WORD}])"
)
_HEX_PAIR = regex.compile(r"(?:0x|\\x)?([\dA-Fa-f]{2})")
_PERCENT = regex.compile(r"(?:%[\dA-Fa-f]{2})+|.", regex.DOTALL)
_LETTERS = regex.compile(
    rf"(?<![{WORD}])[\p{{L}}\p{{N}}](?:[ \t._*|·-]{{1,3}}[\p{{L}}\p{{N}}](?![\p{{L}}\p{{N}}])){{3,4096}}+"
)
_SPELLING: Final = {
    word: word[0]
    for words in (
        "alfa bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november oscar papa quebec",
        "romeo sierra tango uniform victor whiskey xray yankee zulu alpha juliet whisky",
    )
    for word in words.split()
}
_WORD = regex.compile(r"[\p{L}\p{N}]++")
_ESCAPE = regex.compile(r"%[\dA-Fa-f]{2}")
_LEAST_SPELLED: Final = 4
_DASH: Final = "dash"
"""What is said between letters and stands for none."""
_ENDING = regex.compile(
    r"(?:(?i:\b(?:ending|ends|end)[ ](?:in|with|on)"
    r"|\blast[ ](?:four|five|six|[4-6])[ ]digits(?:[ ](?:are|is|of[ ]it))?"
    r"|\bendet?[ ](?:auf|mit)|\bendend[ ]auf"
    r"|\bletzten[ ](?:vier|fünf|sechs|[4-6])[ ](?:ziffern|stellen)(?:[ ](?:sind|lauten))?"
    r"|\b(?:se[ ]terminant|finissant|se[ ]termine|finit)[ ]par"
    r"|\btermina(?:d[oa]|ndo)?[ ]en)[ :]{0,2}|[*•xX.…]{2,16}[ -]?)"
    r"(?P<digits>\d{4,6})(?!\d)"
)
"""The last digits of a number, which are said to be so, or stand behind signs that hide the others."""
_LEAST_DIGITS: Final = 8
"""Of a number that is known by its last four."""


_LEAST_CUT: Final = 6
"""Letters and digits of a value that an answer was cut off in; a third of it, or as many as tell much:"""
_MUCH_CUT: Final = 12
_MOST_WORDS_CUT: Final = 8
"""Of a value: longer ones are sentences."""
_MARKS: Final = " \t\r\n*_`'\")]}»”’"
"""What may stand behind the last word of an answer that was cut off."""


@dataclass(frozen=True, slots=True)
class EncodedCopy:
    """Characters of an answer that say a value of the documents in a code."""

    start: int
    end: int
    kind: str
    places: tuple[TextRange, ...]
    """Characters of the context with the value."""


@dataclass(frozen=True, slots=True)
class _Backwards:
    """Which characters say each of a text that is read backwards."""

    n: int

    def __getitem__(self, i: int) -> TextRange:
        return self.n - 1 - i, self.n - i


@dataclass(frozen=True, slots=True)
class _Decoded:
    """What an answer says in a code, and which of its characters say each character of that."""

    text: str
    places: Sequence[TextRange] | _Backwards
    least: int = _LEAST_LETTERS
    """Letters of a value that is looked for."""
    in_tokens: bool = False
    """Whether a code is said as a whole, and no part of it says a part of its text."""


def find(answer: str, context: str, query: str, known: Sequence[tuple[str, str]]) -> Iterator[EncodedCopy]:
    """Where an answer says values of a context in a code, each place once. `known` are kinds and texts of these values,
    those that tell most first; what the query says too is none, nor what the answer says as it is."""
    if not context and not known:
        return
    read = unescaped(answer)
    for copy in _copies(read.text, context, query, known):
        start, end = read.place(copy.start, copy.end)
        yield replace(copy, start=start, end=end)


def _copies(answer: str, context: str, query: str, known: Sequence[tuple[str, str]]) -> Iterator[EncodedCopy]:
    tokens = [
        *_tokens(answer, _runs_of_base64(answer), _from_base64),
        *_tokens(answer, (match.span() for match in _HEX.finditer(answer)), _from_hex),
        *_tokens(answer, (match.span() for match in _SELECTORS.finditer(answer)), _from_selectors),
    ]
    ways = [*([_joined(tokens)] if tokens else []), *_letter_by_letter(answer)]
    tagged = ((way.text, _place(way, 0, len(way.text))) for way in _tagged(answer))
    tokens = [*((text, place) for text, place in tagged if place is not None), *tokens]
    documents, asked, plainly = Folded(context), Folded(query), Folded(answer)
    kinds: dict[TextRange, str] = {}
    where: dict[TextRange, list[TextRange]] = {}
    for way in ways:
        said = Folded(way.text)
        for kind, text in known:
            letters = folded(text)
            if len(letters) < way.least or letters not in said.letters:
                continue
            if way.least == _LEAST_BACKWARDS and letters in (letters[::-1], plainly.letters):
                continue
            found = [place for place in (_place(way, *place) for place in said.places(text)) if place is not None]
            as_it_is = list(plainly.places(text, in_words=True)) if found else []
            copies = [(a, b) for a, b in found if not any(start < b and a < end for start, end in as_it_is)]
            if copies and asked.where(text) is None and (places := list(documents.places(text))):
                for place in copies:
                    kinds.setdefault(place, kind)
                    where.setdefault(place, []).extend(places)
    for text, place in tokens[:_MOST_TEXTS]:
        is_asked = place not in kinds and len(folded(text)) >= _LEAST_TEXT and asked.where(text) is None
        if is_asked and (places := list(documents.places(text))):
            kinds[place], where[place] = ENCODED_TEXT, places
    for match in islice(_ENDING.finditer(answer), _MOST_TEXTS):
        place = match.span("digits")
        for kind, text in known:
            digits = "".join(filter(str.isdecimal, text))
            if len(digits) >= _LEAST_DIGITS and digits.endswith(match["digits"]) and asked.where(text) is None:
                kinds.setdefault(place, kind)
                where.setdefault(place, []).extend(documents.places(text))
    for kind, text in known:
        cut = _cut_off(plainly, answer, text, is_name=kind in (PERSON, NAME_TYPE, ADDRESS))
        # An answer that ends with a whole value cuts none off.
        if cut is None or any(plainly.letters.endswith(folded(other)) for _, other in known):
            continue
        if asked.where(text) is None and asked.where(answer[slice(*cut)]) is None:
            kinds.setdefault(cut, kind)
            where.setdefault(cut, []).extend(documents.places(text))
    for place, kind in kinds.items():
        yield EncodedCopy(*place, kind, tuple(dict.fromkeys(where[place])))


def _cut_off(said: Folded, answer: str, value: str, *, is_name: bool) -> TextRange | None:
    """Where an answer, or a stream of it, ends within a value; None where what it has of the value tells little. Of a
    name it has a word and some of the next, as the value writes them; of others a digit or an @ too."""
    letters, most = folded(value), len(said.letters)
    if len(value.split()) > _MOST_WORDS_CUT:
        return None
    lengths = range(min(len(letters) - 1, most), _LEAST_CUT - 1, -1)
    n = next((n for n in lengths if said.letters.endswith(letters[:n])), 0)
    if not n or (3 * n < len(letters) and n < _MUCH_CUT):
        return None
    start, end = said.place(most - n, most)
    words, behind = answer[start:end], answer[end:].strip(_MARKS)
    goes_on = value[Folded(value).place(0, n)[1] :]
    if not (behind in ("", "…", "...") or goes_on.startswith(behind)) or (start and answer[start - 1].isalnum()):
        return None
    has_form = "@" in words or any(map(str.isdecimal, words))
    tells = (" " in words and value.startswith(words)) if is_name else has_form
    return (start, end) if tells else None


def _place(way: _Decoded, first: int, last: int) -> TextRange | None:
    """Characters of the answer that say [first, last) of what it says in a code; None of parts of two codes."""
    ends = way.places[first], way.places[last - 1]
    if way.in_tokens and ends[0] != ends[1]:
        return None
    return min(start for start, _ in ends), max(end for _, end in ends)


def _joined(tokens: Sequence[tuple[str, TextRange]]) -> _Decoded:
    """Texts of several codes as one, so that a value is looked for once."""
    text = "\n\n".join(text for text, _ in tokens)
    places = [place for text, place in tokens for place in (*[place] * len(text), (0, 0), (0, 0))]
    return _Decoded(text, places, in_tokens=True)


def _letter_by_letter(answer: str) -> Iterator[_Decoded]:
    yield from _tagged(answer)
    if _ESCAPE.search(answer):
        yield _percent(answer)
    yield _Decoded(answer[::-1], _Backwards(len(answer)), _LEAST_BACKWARDS)
    yield from _apart(answer)
    yield from _spelled(answer)


def _apart(answer: str) -> Iterator[_Decoded]:
    """Letters with spaces between them."""
    text: list[str] = []
    places: list[TextRange] = []
    for match in _LETTERS.finditer(answer):
        at = [i for i in range(*match.span()) if answer[i].isalnum()]
        text += [*(answer[i] for i in at), "\n"]
        places += [*((i, i + 1) for i in at), (match.end(), match.end())]
    if text:
        yield _Decoded("".join(text), places)


def _tagged(answer: str) -> Iterator[_Decoded]:
    places = [match.span() for match in _TAG.finditer(answer)]
    if places:
        yield _Decoded("".join(chr(ord(answer[start]) - 0xE0000) for start, _ in places), places)


def _runs_of_base64(answer: str) -> Iterator[TextRange]:
    """What may be one code: runs of its characters, and their parts between signs."""
    for match in _BASE64.finditer(answer):
        first, last = match.span()
        edges = [sign.start() for sign in _SIGN.finditer(answer, first, last)]
        starts = [first, *(at + 1 for at in edges)]
        slashes = [first - 1, *(at for at in edges if answer[at] == "/"), last]
        found = [
            *((start, last) for start in starts[: _MOST_BEHIND + 1]),
            *((before + 1, end) for before, end in pairwise(slashes)),
            *zip(starts, [*edges, last], strict=True),
        ]
        yield from dict.fromkeys((start, end) for start, end in found if end - start >= _LEAST_BASE64)


def _tokens(
    answer: str, runs: Iterable[TextRange], decode: Callable[[str], bytes | None]
) -> Iterator[tuple[str, TextRange]]:
    for run in runs:
        content = decode(answer[slice(*run)])
        try:
            text = content.decode("utf-8") if content else ""
        except UnicodeDecodeError:
            continue
        if text and sum(map(str.isprintable, text)) + text.count("\n") + text.count("\t") == len(text):
            yield text, run


def _from_selectors(text: str) -> bytes | None:
    return bytes(code - 0xFE00 if (code := ord(sign)) < 0xFE10 else code - 0xE0100 + 16 for sign in text)


def _from_base64(text: str) -> bytes | None:
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return None


def _from_hex(text: str) -> bytes | None:
    return bytes(int(pair, 16) for pair in _HEX_PAIR.findall(text))


def _percent(answer: str) -> _Decoded:
    text: list[str] = []
    places: list[TextRange] = []
    for match in _PERCENT.finditer(answer):
        if len(match.group()) < 3:
            text.append(match.group())
            places.append(match.span())
            continue
        read = bytes.fromhex(match.group().replace("%", "")).decode("utf-8", "replace")
        ends = [match.start() + 3 * n for n in accumulate(len(sign.encode("utf-8")) for sign in read)]
        starts = [match.start(), *ends[:-1]]
        if ends[-1] != match.end():  # bytes that are no text
            starts, ends = [match.start()] * len(read), [match.end()] * len(read)
        text += read
        places += zip(starts, ends, strict=True)
    return _Decoded("".join(text), places)


def _spelled(answer: str) -> Iterator[_Decoded]:
    """Words that stand for letters and digits, one behind the other."""
    words = list(map(str.casefold, _WORD.findall(answer)))
    runs = "".join("" if word == _DASH else "x" if _said_by(word) else " " for word in words)
    if "x" * _LEAST_SPELLED not in runs:
        return
    text: list[str] = []
    places: list[TextRange] = []
    n_run, begun = 0, 0
    for match in _WORD.finditer(answer):
        word = match.group().casefold()
        signs = _said_by(word)
        if signs:
            n_run += 1
            text += signs
            places += [match.span()] * len(signs)
        elif word != _DASH:
            if n_run < _LEAST_SPELLED:
                del text[begun:], places[begun:]
            text.append("\n")
            places.append((match.start(), match.start()))
            n_run, begun = 0, len(text)
    if n_run < _LEAST_SPELLED:
        del text[begun:], places[begun:]
    if any(sign != "\n" for sign in text):
        yield _Decoded("".join(text), places)


@lru_cache(maxsize=50_000)
def _said_by(word: str) -> str:
    """Letters or digits that a word stands for; none of most."""
    return word if len(word) == 1 or word.isdecimal() else _SPELLING.get(word) or digits_of(word)[0]
