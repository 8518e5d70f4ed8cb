"""Dates in the forms that people write: 1984-05-03, 5/3/1984, 3.5.1984, 3 May 1984, May 3rd, 14 March, 1984年5月3日,
1984년 5월 3일, 昭和59年5月3日, 一九八四年五月三日, third of May nineteen eighty-four.

The normal form is 'YYYY-MM-DD' with 'x' for what is not said. Month names are known in nine languages, whole dates in
words in English, German, French and Spanish (`date_words`). What is no day of the calendar is no date.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

import regex

from leakmeter.text.entities import date_words
from leakmeter.text.entities.mention import DATE, Mention
from leakmeter.text.folding import WORD, alike, any_of, in_plain_text, plain

MONTHS: Final = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "tr": "Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık",
}
_POLISH: Final = (
    "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
    "styczeń luty marzec kwiecień maj czerwiec lipiec sierpień wrzesień październik listopad grudzień",
)
"""As they stand behind a day, and alone. They are no `MONTHS`, whose words are no names of people, as Maja is."""
_SHORT: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"
# The month comes before the day when a date is all numbers.
_MONTH_FIRST: Final = frozenset({"US", "PH", "PR", "GU", "VI"})


def _folded(name: str) -> str:
    """A name of a month as it is looked up: without case, and without the dots that case makes of a Turkish i."""
    return unicodedata.normalize("NFC", name).casefold().replace("\u0307", "").replace("ı", "i")


_NUMBER_OF: Final = {
    _folded(name): number
    for names in (*MONTHS.values(), *_POLISH, _SHORT)
    for number, name in enumerate(names.split(), 1)
} | {"sept": 9, "okt": 10, "dez": 12, "mär": 3, "janv": 1, "févr": 2, "juil": 7, "déc": 12}
_NAMES: Final = date_words.any_of(_NUMBER_OF).replace("i", "[iı]")
_NAME: Final = rf"(?P<name>{_NAMES})(?![{WORD}])\.?"
_BEFORE, _AFTER = rf"(?<![{WORD}./-])", rf"(?![{WORD}/]|[.-]\d)"

UNITS: Final = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TEENS: Final = [
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
"""Of these three, the numbers from 1 to 99 in English words."""
_BELOW_100: Final = (
    *("", *UNITS, *TEENS),
    *(f"{tens} {unit}".rstrip() for tens in TENS for unit in ("", *UNITS)),
)
_ORDINALS: Final = (
    *[
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
        "eleventh",
        "twelfth",
        "thirteenth",
        "fourteenth",
    ],
    *["fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth", "twentieth"],
)
DAYS: Final = (*_ORDINALS, *(f"twenty-{unit}" for unit in _ORDINALS[:9]), "thirtieth", "thirty-first")
"""The days of a month in English words."""


def _years(year: int) -> tuple[str, ...]:
    """A year from 1800 to 2099 in English words, as it is mostly said first."""
    century, rest = divmod(year, 100)
    words, number = _BELOW_100[century], _BELOW_100[rest]
    whole = f"two thousand {number}" if century == 20 else f"{words} hundred {number}"
    return (f"{words} {number}" if rest > 9 else f"{words} oh {number}" if rest else whole, whole.rstrip())


_DAY_OF: Final = {day.replace("-", " "): number for number, day in enumerate(DAYS, 1)} | date_words.DAY_OF
_YEAR_OF: Final = date_words.YEAR_OF | {words.rstrip(): year for year in range(1800, 2100) for words in _years(year)}
_DAY_WORDS: Final = (*DAYS, *date_words.DAYS)
_DAY = rf"(?P<day_words>{date_words.any_of(_DAY_WORDS)})"
_YEAR = (
    rf"(?P<year_words>{date_words.YEARS}|(?:eighteen|nineteen|twenty|two)(?:[ -](?:and|oh|hundred|thousand|"
    rf"{'|'.join((*UNITS, *TEENS, *TENS))}))+)"
)
_HAN_DIGITS: Final = "〇一二三四五六七八九"
_ERAS: Final = {
    "明治": (1868, 45),
    "大正": (1912, 15),
    "昭和": (1926, 64),
    "平成": (1989, 31),
    "令和": (2019, 99),
    "民國": (1912, 199),
    "民国": (1912, 199),
    "中華民國": (1912, 199),
}
"""Eras in which Japan and Taiwan count years: the first year of each, and how many it has at most."""
_HAN_PARTS = (
    rf"(?P<m>\d{{1,2}}|[{_HAN_DIGITS}十]{{1,3}})[ ]?月[ ]?"
    rf"(?P<d>\d{{1,2}}|[{_HAN_DIGITS}十廿卅]{{1,3}})[ ]?[日号號]"
)
# Where each of the forms may begin, see `_places`.
_DIGITS, _DAY_AND_NAME, _WORDS, _MONTH = range(4)
_EAST_ASIAN: Final = (
    regex.compile(rf"(?<![\d{_HAN_DIGITS}零])(?P<y>\d{{4}}|[{_HAN_DIGITS}零]{{4}})[ ]?年[ ]?{_HAN_PARTS}"),
    regex.compile(
        rf"(?P<era>{'|'.join(sorted(_ERAS, key=len, reverse=True))})[ ]?"
        rf"(?P<n>\d{{1,3}}|[{_HAN_DIGITS}十]{{1,3}}|元)[ ]?年[ ]?{_HAN_PARTS}"
    ),
    regex.compile(r"(?<!\d)(?P<y>\d{4})[ ]?년[ ]?(?P<m>\d{1,2})[ ]?월[ ]?(?P<d>\d{1,2})[ ]?일"),
)
_FORMS: Final = (
    (_DIGITS, r"(?P<y>\d{4})(?P<s>[-/.])(?P<m>\d{1,2})(?P=s)(?P<d>\d{1,2})"),
    (_DIGITS, r"(?P<first>\d{1,2})(?P<s>[-/])(?P<second>\d{1,2})(?P=s)(?P<y>\d{4}|\d{2})"),
    (_DIGITS, r"(?P<first>\d{1,2})\.[ ]?(?P<second>\d{1,2})\.[ ]?(?P<y>\d{4})"),
    # Two-digit years after points only where nothing is left out: 1.2.10 is a version.
    (_DIGITS, r"(?P<first>\d{2})\.(?P<second>\d{2})\.(?P<y>\d{2})"),
    (
        _DAY_AND_NAME,
        rf"(?P<d>\d{{1,2}})(?P<th>st|nd|rd|th|er|º|\.)?[ ](?:(?:of|de)[ ])?"
        rf"{_NAME}(?:,?[ ](?:del?[ ])?(?:(?P<y>\d{{4}})|{_YEAR}))?",
    ),
    (_WORDS, rf"{_DAY}[ ](?:day[ ])?(?:(?:of|de)[ ])?{_NAME},?[ ](?:in[ ]|del?[ ])?(?:{_YEAR}|(?P<y>\d{{4}}))"),
    (
        _MONTH,
        rf"{_NAME}(?:[ ](?P<d>\d{{1,2}})(?P<th>st|nd|rd|th)?(?:,?[ ](?:(?P<y>\d{{4}})|{_YEAR}))?"
        rf"|,?[ ](?:de[ ])?(?P<y>\d{{4}})"
        rf"|[ ](?:the[ ])?{_DAY},?[ ](?:in[ ])?(?:{_YEAR}|(?P<y>\d{{4}})))",
    ),
)
"""Where each may begin, and its pattern."""
_YEAR_SIGN = re.compile("[年년]")
_JOINED_DIGITS = re.compile(r"(?<!\d)\d{1,4}(?=[-/.])")
_ONE_DAY = re.compile(r"(?<!\d)\d{1,2}(?!\d)")
_YEARS_BEHIND_MONTHS: Final = range(1800, 2200)
"""Of dates in figures alone, with the day or the month first."""
_BEFORE_MONTH: Final = 8
_WORDS_BEFORE_MONTH: Final = max(map(len, _DAY_WORDS)) + 8
"""Characters that may stand before the month: '31st of ', and a day in words with ' day of '."""


@cache
def _compiled(form: str) -> regex.Pattern[str]:
    """Of all forms this takes a third of a second: each is compiled when a text first needs it."""
    return regex.compile(_BEFORE + form + _AFTER, regex.IGNORECASE)


def _patterns() -> Iterator[regex.Pattern[str]]:
    """Of all forms."""
    yield from _EAST_ASIAN
    yield from (_compiled(form) for _, form in _FORMS)


@cache
def _month_at() -> re.Pattern[str]:
    return _first_of(map(alike, _NUMBER_OF))


@cache
def _day_in_words_at() -> re.Pattern[str]:
    return _first_of({re.split("[ -]", alike(day))[0] for day in _DAY_WORDS})


def _first_of(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z0-9_])(?={any_of(words)})")


def _places(text: str) -> dict[int, list[int]]:
    """Where a date may begin, by what it begins with. Few words are months, and days are looked for before them."""
    read = alike(text)
    months = [match.start() for match in _month_at().finditer(read)]

    def before(what: re.Pattern[str], distance: int) -> list[int]:
        found = (match.start() for at in months for match in what.finditer(read, max(0, at - distance), at))
        return sorted(set(found))

    return {
        _DIGITS: [match.start() for match in _JOINED_DIGITS.finditer(read)],
        _DAY_AND_NAME: before(_ONE_DAY, _BEFORE_MONTH),
        _WORDS: before(_day_in_words_at(), _WORDS_BEFORE_MONTH),
        _MONTH: months,
    }


def _matches(text: str) -> Iterator[regex.Match[str]]:
    if _YEAR_SIGN.search(text):
        for form in _EAST_ASIAN:
            yield from form.finditer(text)
    places = _places(text)
    for begins, form in _FORMS:
        done = 0
        for at in places[begins]:
            if at >= done and (match := _compiled(form).match(text, at)):
                done = match.end()
                yield match


@in_plain_text
def find(text: str, region: str) -> Iterator[Mention]:
    """Dates of a text; in the US 5/3/1984 is a day in May."""
    for match in _matches(text):
        value = _value(match, region)
        if value is not None:
            # The point behind 'Mar.' may as well end the sentence.
            yield Mention(DATE, match.start(), match.start() + len(match.group().rstrip(".")), value)


def parse(text: str, region: str) -> tuple[regex.Match[str], str] | None:
    """A text that is one date as a whole: the match in its plain form, whose groups are its parts, and the normal
    form."""
    text = plain(text).text
    for form in _patterns():
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


def day_like(words: str, day: int) -> str:
    """Another day of a month in words, in the language of these."""
    return date_words.day_like(words, day) or DAYS[day - 1]


def year_like(words: str, year: int) -> str:
    """Another year in words, in the language of these; digits of one that is not from 1800 to 2099."""
    if (new := date_words.year_like(words, year)) is not None:
        return new
    return _years(year)[0].rstrip() if 1800 <= year < 2100 else str(year)


def is_month_first(match: regex.Match[str], region: str) -> bool:
    first, second = int(match["first"]), int(match["second"])
    if first > 12 or second > 12:
        return second > 12
    # With points the day always comes first.
    return "s" in match.groupdict() and region in _MONTH_FIRST


def month_like(name: str, number: int) -> str:
    """The name of another month, in the language, length and case of this one."""
    months = (names for names in (*MONTHS.values(), *_POLISH) if name.casefold() in names.casefold().split())
    new = next(months, _SHORT).split()[number - 1]
    if name.isupper():
        return new.upper()
    return new.lower() if name.islower() else new.capitalize()


def number_like(number: int, like: str) -> str | None:
    """A number in Chinese signs, where `like` has it in these; None where it has digits."""
    if like.isdecimal():
        return None
    tens, ones = divmod(number, 10)
    if len(like) == 4:
        # A year is read sign by sign.
        return "".join(_HAN_DIGITS[int(digit)] for digit in f"{number:04}")
    return f"{_HAN_DIGITS[tens] if tens > 1 else ''}{'十' if tens else ''}{_HAN_DIGITS[ones] if ones else ''}"


def year_of_era(era: str, year: int) -> int:
    """The number of a year in an era, or of the nearest one that it has."""
    first, most = _ERAS[era]
    return max(1, min(year - first + 1, most))


def _han_number(text: str) -> int:
    """A number in digits or Chinese signs, of years sign by sign: '十二' and '一二' are 12, '元' is 1."""
    if text.isdecimal():
        return int(text)
    if text == "元":
        return 1
    signs = text.replace("零", "〇").replace("廿", "二十").replace("卅", "三十")
    tens, has_tens, ones = signs.partition("十")
    if not has_tens:
        return int("".join(str(_HAN_DIGITS.index(sign)) for sign in signs))
    if "十" in ones or len(tens) > 1 or len(ones) > 1:
        return 0  # no number of a calendar
    return 10 * (_HAN_DIGITS.index(tens) if tens else 1) + (_HAN_DIGITS.index(ones) if ones else 0)


def _western(parts: dict[str, str]) -> dict[str, str]:
    """Parts of a date in digits and years of the common era; without year where its era has no such year."""
    numbers = {name: str(_han_number(parts[name])) for name in ("m", "d")}
    if parts.get("era") is None:
        return {**numbers, "y": f"{_han_number(parts['y']):04}"}
    (first, most), number = _ERAS[parts["era"]], _han_number(parts["n"])
    return {**numbers, "y": f"{first + number - 1:04}"} if 1 <= number <= most else numbers


def _value(match: regex.Match[str], region: str) -> str | None:
    parts = match.groupdict()
    if "m" in parts and "s" not in parts:
        parts = _western(parts)
        if "y" not in parts:
            return None
    year = parts.get("y")
    day = parts.get("d")
    if parts.get("day_words"):
        day = str(_DAY_OF[date_words.spoken(parts["day_words"])])
    if parts.get("year_words"):
        year = str(_YEAR_OF.get(date_words.spoken(parts["year_words"]), ""))
        if not year:
            return None
    if "first" in parts:
        first, second = parts["first"], parts["second"]
        month, day = (first, second) if is_month_first(match, region) else (second, first)
    elif "name" in parts:
        # 'may 3' is a verb, and 'mars 2' a planet: a month without capital needs the whole date.
        if parts["name"].islower() and (day is None or year is None):
            return None
        month = str(_NUMBER_OF.get(_folded(parts["name"]), 0))
    else:
        month = parts["m"]
    number = None if year is None else int(year)
    if year is not None and len(year) == 2 and number is not None:
        number += 2000 if number < 69 else 1900
    # '12.4.1203' is a section.
    if "first" in parts and number not in _YEARS_BEHIND_MONTHS:
        return None
    try:
        # Year 2000 had a 29 February.
        datetime.date(2000 if number is None else number, int(month), 1 if day is None else int(day))
    except ValueError:
        return None
    return f"{'xxxx' if number is None else f'{number:04}'}-{int(month):02}-{'xx' if day is None else f'{int(day):02}'}"
