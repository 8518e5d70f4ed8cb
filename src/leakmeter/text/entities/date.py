"""Dates in the forms that people write: 1984-05-03, 5/3/1984, 3.5.1984, 3 May 1984, May 3rd, 14 March, 1984年5月3日.

The normal form is 'YYYY-MM-DD' with 'x' for what is not said. Month names are known in seven languages. What is no day
of the calendar is no date.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Final

from leakmeter.text.entities.mention import DATE, Mention

MONTHS: Final = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
}
_SHORT: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"
# The month comes before the day when a date is all numbers.
_MONTH_FIRST: Final = frozenset({"US", "PH", "PR", "GU", "VI"})

_NUMBER_OF: Final = {
    name.casefold(): number for names in (*MONTHS.values(), _SHORT) for number, name in enumerate(names.split(), 1)
} | {"sept": 9, "okt": 10, "dez": 12, "mär": 3, "janv": 1, "févr": 2, "juil": 7, "déc": 12}
_NAME = "(?P<name>" + "|".join(sorted(_NUMBER_OF, key=lambda name: (-len(name), name))) + r")(?!\w)\.?"
_BEFORE, _AFTER = r"(?<![\w./-])", r"(?![\w/]|[.-]\d)"
_FORMS: Final = (
    re.compile(r"(?<!\d)(?P<y>\d{4})年(?P<m>\d{1,2})月(?P<d>\d{1,2})日"),
    *(
        re.compile(_BEFORE + form + _AFTER, re.IGNORECASE)
        for form in (
            r"(?P<y>\d{4})(?P<s>[-/.])(?P<m>\d{1,2})(?P=s)(?P<d>\d{1,2})",
            r"(?P<first>\d{1,2})(?P<s>[-/])(?P<second>\d{1,2})(?P=s)(?P<y>\d{4}|\d{2})",
            r"(?P<first>\d{1,2})\.[ ]?(?P<second>\d{1,2})\.[ ]?(?P<y>\d{4})",
            # Two-digit years after points only where nothing is left out: 1.2.10 is a version.
            r"(?P<first>\d{2})\.(?P<second>\d{2})\.(?P<y>\d{2})",
            rf"(?P<d>\d{{1,2}})(?P<th>st|nd|rd|th|er|º|\.)?[ ](?:(?:of|de)[ ])?"
            rf"{_NAME}(?:,?[ ](?:de[ ])?(?P<y>\d{{4}}))?",
            rf"{_NAME}[ ](?P<d>\d{{1,2}})(?P<th>st|nd|rd|th)?(?:,?[ ](?P<y>\d{{4}}))?",
            rf"{_NAME},?[ ](?:de[ ])?(?P<y>\d{{4}})",
        )
    ),
)


def find(text: str, region: str) -> Iterator[Mention]:
    """Dates of a text; in the US 5/3/1984 is a day in May."""
    for form in _FORMS:
        for match in form.finditer(text):
            value = _value(match, region)
            if value is not None:
                # The point behind 'Mar.' may as well end the sentence.
                yield Mention(DATE, match.start(), match.start() + len(match.group().rstrip(".")), value)


def parse(text: str, region: str) -> tuple[re.Match[str], str] | None:
    """A text that is one date as a whole: the match, whose groups are its parts, and the normal form."""
    for form in _FORMS:
        match = form.fullmatch(text)
        value = match and _value(match, region)
        if match and value:
            return match, value
    return None


def is_value(text: str) -> bool:
    """Whether a text is a normal form, and not what a recogniser called a date."""
    return re.fullmatch(r"(?:\d{4}|x{4})-\d\d-(?:\d\d|xx)", text) is not None


def agree(first: str, other: str) -> bool:
    """Whether two normal forms contradict each other in nothing that both say."""
    pairs = zip(first.split("-"), other.split("-"), strict=True)
    return all(a == b or "x" in a or "x" in b for a, b in pairs)


def is_part(some: str, more: str) -> bool:
    """Whether one normal form says nothing that another does not say too."""
    return all(a == b or set(a) == {"x"} for a, b in zip(some.split("-"), more.split("-"), strict=True))


def is_month_first(match: re.Match[str], region: str) -> bool:
    first, second = int(match["first"]), int(match["second"])
    if first > 12 or second > 12:
        return second > 12
    # With points the day always comes first.
    return "s" in match.groupdict() and region in _MONTH_FIRST


def month_like(name: str, number: int) -> str:
    """The name of another month, in the language, length and case of this one."""
    months = (names for names in MONTHS.values() if name.casefold() in names.casefold().split())
    new = next(months, _SHORT).split()[number - 1]
    if name.isupper():
        return new.upper()
    return new.lower() if name.islower() else new.capitalize()


def _value(match: re.Match[str], region: str) -> str | None:
    parts = match.groupdict()
    year = parts.get("y")
    day = parts.get("d")
    if "first" in parts:
        first, second = parts["first"], parts["second"]
        month, day = (first, second) if is_month_first(match, region) else (second, first)
    elif "name" in parts:
        # 'may 3' is a verb, and 'mars 2' a planet: a month without capital needs the whole date.
        if parts["name"].islower() and (day is None or year is None):
            return None
        # Case is ignored in more ways than one: 'İ' matches 'i' and is none.
        month = str(_NUMBER_OF.get(parts["name"].casefold(), 0))
    else:
        month = parts["m"]
    number = None if year is None else int(year)
    if year is not None and len(year) == 2 and number is not None:
        number += 2000 if number < 69 else 1900
    try:
        # Year 2000 had a 29 February.
        datetime.date(2000 if number is None else number, int(month), 1 if day is None else int(day))
    except ValueError:
        return None
    return f"{'xxxx' if number is None else f'{number:04}'}-{int(month):02}-{'xx' if day is None else f'{int(day):02}'}"
