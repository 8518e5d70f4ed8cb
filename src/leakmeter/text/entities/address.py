"""Postal addresses: whole ones by the `pyap` library for the US, Canada and Britain, streets with a number by form.

The library is slow and superlinear in what has many numbers, so it only sees stretches that begin as an address does.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterator
from typing import Any

from leakmeter.text.entities.mention import ADDRESS, Mention
from leakmeter.text.folding import in_plain_text

_HEAD = re.compile(r"(?<![\w.,-])(?:\d{1,6}[A-Za-z]?[ ,]{1,2}\w|[Pp]\.?[ ]?[Oo]\.?[ ]?[Bb]ox\b)")
# What an address of the country cannot do without: a state or province, or a postcode.
_STATE = re.compile(
    r"\b(?:(?-i:[A-Z]{2})\b|(?-i:[A-Z]\.[ ]?[A-Z])\b|Ala|Ariz|Ark|Calif|Colo|Conn|Dela|Flor|Fla|Georg|Hawai|Ida|Illi|"
    r"India|Iowa|Kans|Kentu|Louisi|Maine|Maryl|Massa|Michi|Minne|Missi|Misso|Monta|Nebra|Neva|New[ ]|North[ ]|Ohio|"
    r"Okla|Oreg|Penns|Rhode|South[ ]|Tenn|Tex|Utah|Verm|Virg|Wash|West[ ]|Wisc|Wyom|District|Puerto|"
    r"Alberta|British[ ]|Manit|Nova|Nunav|Ontar|Prince|Qu[eé]b|Saska|Yukon)",
    re.IGNORECASE,
)
_POSTCODE = re.compile(r"\b[A-Z]{1,2}\d[A-Z\d]?[ ]?\d[A-Z]{2}\b", re.IGNORECASE)
# What the library does to a text before it looks; done here, so that places in the text are known.
_FOLDED = re.compile(r"[ \t]*(?:,[ \t]*)+| +|[‐‑‒–—―]")

_CAPITAL = r"[^\W\d_a-zà-öø-ÿ][\w.'’-]*"
_STREET = (
    r"(?:Street|St|Road|Rd|Avenue|Ave|Lane|Ln|Drive|Dr|Row|Way|Court|Ct|Place|Pl|Square|Sq|Terrace|Close|Crescent|"
    r"Boulevard|Blvd|Highway|Hwy|Parkway|Pkwy|Circle|Mews|Gardens|Grove|Walk|Quay|Alley|Hill|Wharf)"
)
_PLAIN = r"[^\W\d_a-zà-öø-ÿ][\w'’-]*"
_TOWN = rf"(?:St\.[ ])?{_PLAIN}(?:[ -]{_PLAIN}){{0,2}}"
_STREETS = tuple(
    re.compile(form)
    for form in (
        # 'In 2019 The Way …' is no address.
        rf"(?<![\w.,/-])(?!(?:19|20)\d\d[ ]The[ ])\d{{1,5}}[A-Za-z]?,?[ ](?:{_CAPITAL}[ ]){{1,3}}{_STREET}\b\.?"
        rf"(?:,[ ]{_TOWN}(?:,?[ ]\d{{4,5}})?)?",
        r"(?<!\w)\w+(?:[Ss]tra(?:ß|ss)e|[Ss]tr\.|weg|platz|gasse|allee|straat|laan)[ ]\d{1,4}[a-z]?\b"
        rf"(?:,[ ](?:\d{{4,5}}[ ])?{_TOWN})?",
        r"(?<![\w.,/-])\d{1,4}(?:[ ](?:bis|ter))?,?[ ](?:rue|avenue|boulevard|place|chemin|impasse|allée|quai)"
        rf"(?:[ ](?:de|du|des|la|le|les)|[ ][dl]['’])*[ ]?{_PLAIN}(?:[ -]{_PLAIN}){{0,2}}"
        rf"(?:,[ ](?:\d{{5}}[ ])?{_TOWN})?",
    )
)
_WORD = re.compile(r"\w+")


@in_plain_text
def find(text: str, region: str) -> Iterator[Mention]:
    """Addresses of a text, whole ones of the region's; the normal form is its words in lower case."""
    for form in _STREETS:
        for match in form.finditer(text):
            yield _mention(text, match.start(), match.start() + len(match.group().rstrip(".-'’")))
    if region in ("US", "CA", "GB"):
        for first, end in _stretches(text, _POSTCODE if region == "GB" else _STATE):
            yield from _whole(text, first, end, region)


def _stretches(text: str, needed: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    start = end = -1
    for match in _HEAD.finditer(text):
        if match.start() >= end:
            if start >= 0 and needed.search(text, start, end):
                yield start, end
            start = match.start()
        end = min(len(text), match.start() + 160)  # an address is no longer
    if start >= 0 and needed.search(text, start, end):
        yield start, end


def _whole(text: str, first: int, end: int, region: str) -> Iterator[Mention]:
    folded, places = _fold(text[first:end])
    for address in _parser(region).parse(folded):
        low, high = address.match_start, address.match_end
        inner = folded[low:high]
        low += len(inner) - len(inner.lstrip(" ,;:\n"))
        high -= len(inner) - len(inner.rstrip(" ,;:\n"))
        if low < high:
            yield _mention(text, first + places[low], first + places[high - 1] + 1)


def _fold(text: str) -> tuple[str, list[int]]:
    out: list[str] = []
    places: list[int] = []
    cursor = 0
    for match in _FOLDED.finditer(text):
        out.append(text[cursor : match.start()])
        places.extend(range(cursor, match.start()))
        new = ", " if "," in match.group() else "-" if match.group().strip() else " "
        out.append(new)
        places.extend([match.start()] * (len(new) - 1) + [match.end() - 1])
        cursor = match.end()
    out.append(text[cursor:])
    places.extend(range(cursor, len(text)))
    return "".join(out), places


@functools.cache
def _parser(region: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library's own source, where Python compiles it now
        from pyap.parser import AddressParser

        return AddressParser(region)  # type: ignore[arg-type]


def _mention(text: str, start: int, end: int) -> Mention:
    return Mention(ADDRESS, start, end, " ".join(_WORD.findall(text[start:end].casefold())))
