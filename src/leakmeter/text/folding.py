"""Texts as recognisers read them: the separators, spaces and full-width signs that people and models write in values
become their plain forms, signs that nobody sees are left out, and escapes of JSON are what they mean."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, wraps
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec

import regex

from leakmeter.text.escapes import FILL, meant, past_fill

if TYPE_CHECKING:
    from leakmeter.text.entities.mention import Mention

P = ParamSpec("P")
CASED: Final = r"\p{Lu}\p{Ll}\p{Lt}"
"""Letters of scripts with capitals, for a character class of the `regex` library."""
WORD: Final = rf"{CASED}\p{{Nd}}_"
"""Signs that make a value longer when they stand beside it, for a character class of the `regex` library. Letters of
other scripts do not: Chinese, Japanese and Thai write no spaces, and particles are written to a value elsewhere."""

_SPACES: Final = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_HYPHENS: Final = "\u2010\u2011\u2012\u2043\ufe58\ufe63\uff0d"
# A dash or a point within the line also parts words and sentences, and a minus sign belongs to a number.
_DASHES: Final = "\u2013\u2014\u2015\u2212"
# Japanese keyboards have the mark of a long vowel where others have the hyphen: between digits it is one.
_LONG_VOWELS: Final = "\u30fc\uff70"
LONG_VOWEL: Final = regex.compile(rf"(?<=\d)[{_LONG_VOWELS}](?=\d)")
_POINTS: Final = "\u00b7\u2027\u2219\u22c5\u30fb"
# Punctuation of Chinese and Japanese sentences stays: what stands behind it begins anew.
_FULL_WIDTH: Final = tuple(code for code in range(0xFF01, 0xFF5F) if chr(code) not in "！（），．：；？")
_MATHEMATICAL: Final = range(0x1D400, 0x1D800)
_ODD = regex.compile(
    rf"[{_SPACES}{_HYPHENS}{_DASHES}{_LONG_VOWELS}{_POINTS}\uff01-\uff5e\U0001d400-\U0001d7ff\p{{Default_Ignorable_Code_Point}}]"
)
_IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")
# Behind a backslash that is meant one sign stays, so that nobody reads another escape there.
_SEEN = regex.compile(rf"(?:[^\p{{Default_Ignorable_Code_Point}}{FILL}]|(?<=\\){FILL})+")
_UNFILLED = regex.compile(rf"(?:[^{FILL}]|(?<=\\){FILL})+")
_JOINED = regex.compile(rf"(?<![{WORD}])[A-Za-z0-9]++(?:[{_DASHES}{_POINTS}][A-Za-z0-9]++)+(?![{WORD}])")
_BETWEEN = regex.compile(r"(?<=[A-Za-z0-9])．(?=[A-Za-z0-9])|(?<=[0-9])，(?=[0-9])")
_JOINT = regex.compile(rf"[{_DASHES}{_POINTS}]")
_INNER_JOINT = regex.compile(rf"(?<=[A-Za-z0-9])[{_DASHES}{_POINTS}](?=[A-Za-z0-9])")
_JOINTS: Final = str.maketrans({**dict.fromkeys(_DASHES, "-"), **dict.fromkeys(_POINTS, ".")})


_ALIKE: Final = {
    **{sign: sign.upper().lower() for sign in map(chr, range(0x80, 0x2000)) if len(sign.upper().lower()) == 1},
    **dict(zip("İ’\u1fd3\u1fe3ﬅ", "i'\u0390\u03b0ﬆ", strict=True)),
}
"""Small letters to those of the same capital, as 'ς' to 'σ', and apostrophes."""
_UNLIKE: Final = frozenset(sign for sign, other in _ALIKE.items() if other != sign)


@dataclass(frozen=True, slots=True)
class Plain:
    """A text as recognisers read it."""

    text: str
    places: Sequence[int] | None = None
    """Where each sign stood; None where it stands there still."""
    meant: str = ""
    """The text where they stood, as `escapes.meant` writes it."""

    def original(self, mention: Mention) -> Mention:
        """What was found in this text, where it stood."""
        if self.places is None:
            return mention
        start, end = self.place(mention.start, mention.end)
        return replace(mention, start=start, end=end)

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where characters [start, end) stood, of which there is one at least."""
        if self.places is None:
            return start, end
        return self.places[start], past_fill(self.meant, self.places[end - 1] + 1)


_Find = Callable[Concatenate[str, P], Iterator["Mention"]]


def in_plain_text(find: _Find[P]) -> _Find[P]:
    """A recogniser that reads every text in its plain form, and says where in the text as given a value stands."""
    return _reading(plain, find)


def in_unescaped_text(find: _Find[P]) -> _Find[P]:
    """The same of texts in which nothing but the escapes of JSON is read."""
    return _reading(unescaped, find)


def _reading(read_text: Callable[[str], Plain], find: _Find[P]) -> _Find[P]:
    @wraps(find)
    def find_in_read(text: str, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Mention]:
        read = read_text(text)
        return map(read.original, find(read.text, *args, **kwargs))

    return find_in_read


@lru_cache(maxsize=50_000)
def unaccented(name: str) -> str:
    """A name in small letters and without accents, as it is looked up in tables of names: people leave them out."""
    if name.isascii():
        return name.lower()
    letters = unicodedata.normalize("NFKD", name.casefold().replace("ı", "i"))
    return "".join(sign for sign in letters if not unicodedata.combining(sign))


@lru_cache(maxsize=8)
def plain(text: str) -> Plain:
    """A text with plain hyphens, spaces, letters and digits. Dashes and middle dots are hyphens and points where what
    they join is a value; soft hyphens and other signs of no width are left out."""
    read = _left(meant(text), _SEEN)
    text = read.text
    if text.isascii() or not _ODD.search(text):
        return read
    text = LONG_VOWEL.sub("-", text)
    text = _BETWEEN.sub(lambda sign: "." if sign.group() == "．" else ",", text.translate(_plain_signs()))
    # Few texts have a joint, and every word may begin what it joins.
    return replace(read, text=_JOINED.sub(_joined, text) if _INNER_JOINT.search(text) else text)


def unescaped(text: str) -> Plain:
    """A text with nothing but the escapes of JSON read."""
    return _unescaped(text) if "\\" in text or FILL in text else Plain(text)


@lru_cache(maxsize=8)
def _unescaped(text: str) -> Plain:
    return _left(meant(text), _UNFILLED)


def _left(text: str, kept: regex.Pattern[str]) -> Plain:
    """A text of `escapes.meant` with the signs that a pattern keeps."""
    if FILL not in text and (text.isascii() or kept is _UNFILLED or not _IGNORABLE.search(text)):
        return Plain(text)
    seen = [match.span() for match in kept.finditer(text)]
    places = [i for start, end in seen for i in range(start, end)]
    return Plain("".join(text[start:end] for start, end in seen), places, text)


def _joined(match: regex.Match[str]) -> str:
    run = match.group()
    parts = _JOINT.split(run)
    has_digits = [any(map(str.isdigit, part)) for part in parts]
    is_value = any(has_digits) and all(
        has_digit or part.isupper() or (part.islower() and len(part) <= 4)
        for part, has_digit in zip(parts, has_digits, strict=True)
    )
    # 'NASA—2019' is no code: of dashes that part sentences one is not enough.
    if len(parts) == 2 and any(dash in run for dash in "\u2014\u2015"):
        is_value = all(has_digits)
    return str(run.translate(_JOINTS) if is_value else run)


@cache
def _plain_signs() -> dict[int, str]:
    widths = (code for codes in (_FULL_WIDTH, _MATHEMATICAL) for code in codes)
    # One sign stays one sign, so that places do.
    narrow = {code: unicodedata.normalize("NFKC", chr(code)) for code in widths}
    return {
        **{code: sign for code, sign in narrow.items() if len(sign) == 1},
        **dict.fromkeys(map(ord, _HYPHENS), "-"),
        **dict.fromkeys(map(ord, _SPACES), " "),
    }


@lru_cache(maxsize=8)
def alike(text: str) -> str:
    """A text as long, in which signs are the same that a pattern takes for the same in any case, and apostrophes."""
    lowered = lower(text)
    if not lowered.isascii():
        for sign in _UNLIKE & set(lowered):
            lowered = lowered.replace(sign, _ALIKE[sign])
    return lowered


@lru_cache(maxsize=8)
def lower(text: str) -> str:
    """A text in small letters, sign by sign: one becomes one."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = "".join(small if len(small := sign.lower()) == 1 else sign for sign in text)
    return lowered


def any_of(texts: Iterable[str]) -> str:
    """A pattern of the `re` library for the longest of some texts: what several begin with is asked once."""
    by_sign: dict[str, list[str]] = {}
    for text in texts:
        by_sign.setdefault(text[:1], []).append(text[1:])
    ways = [re.escape(sign) + any_of(rest) for sign, rest in sorted(by_sign.items()) if sign]
    if not ways:
        return ""
    is_end = "" in by_sign
    return f"(?:{'|'.join(ways)}){'?' if is_end else ''}" if is_end or len(ways) > 1 else ways[0]
