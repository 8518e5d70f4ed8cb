"""Days and years in words of German, French and Spanish, as dates of birth are spelled out: 'dritter Mai
neunzehnhundertvierundachtzig', 'le trois mai mille neuf cent quatre-vingt-quatre', 'tres de mayo de mil novecientos
ochenta y cuatro'. Those of English are in `date`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from leakmeter.text.folding import unaccented

FIRST_YEAR, LAST_YEAR = 1800, 2099
"""Of those that are known in words."""


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_GERMAN: Final = _listed(
    "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
)
_GERMAN_TENS: Final = _listed("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
_FRENCH: Final = _listed(
    "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf"
)
_FRENCH_TENS: Final = _listed("vingt trente quarante cinquante soixante")
_SPANISH: Final = _listed(
    "uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
    "dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete "
    "veintiocho veintinueve"
)
_SPANISH_TENS: Final = _listed("treinta cuarenta cincuenta sesenta setenta ochenta noventa")
_ENDINGS: Final = ("n", "r", "", "s", "m")
"""Of German ordinals; that behind 'am' is first."""
_LAST_DAY: Final = 31


@dataclass(frozen=True, slots=True)
class DateWords:
    """A language's words; of several for one number the first is the usual one."""

    days: Sequence[tuple[str, ...]]
    """From the first."""
    years: Sequence[tuple[str, ...]]
    """From `FIRST_YEAR`."""


def spoken(words: str) -> str:
    """Words as they are looked up: without case, hyphens and the English 'and'."""
    return " ".join(word for word in words.casefold().replace("-", " ").split() if word != "and")


def _german(number: int) -> str:
    """A number below 100; nothing of 0."""
    tens, unit = divmod(number, 10)
    if number < 20:
        return _GERMAN[number - 1] if number else ""
    return (f"{'ein' if unit == 1 else _GERMAN[unit - 1]}und" if unit else "") + _GERMAN_TENS[tens - 2]


def _german_day(day: int) -> tuple[str, ...]:
    stems = {1: ("erste",), 3: ("dritte",), 7: ("siebte", "siebente"), 8: ("achte",)}.get(day)
    stems = stems or (f"{_german(day)}{'te' if day < 20 else 'ste'}",)
    return tuple(f"{stem}{ending}" for stem, ending in product(stems, _ENDINGS))


def _german_year(year: int) -> tuple[str, ...]:
    century, rest = divmod(year, 100)
    before = "zweitausend" if century == 20 else f"{_german(century)}hundert"
    behind = _german(rest)
    return (f"{before}{behind}", *((f"{before}und{behind}", f"{before} {behind}") if behind else ()))


def _french(number: int) -> tuple[str, ...]:
    """A number below 100; nothing of 0. From 70 on Belgium and Switzerland have words of their own."""
    if number < 20:
        return (_FRENCH[number - 1],) if number else ("",)
    tens, unit = divmod(number, 10)
    if tens < 7:
        return (_joined(_FRENCH_TENS[tens - 2], unit),)
    if tens == 7:
        return ("soixante et onze" if unit == 1 else f"soixante-{_FRENCH[unit + 9]}", _joined("septante", unit))
    own = ("huitante", "octante") if tens == 8 else ("nonante",)
    usual = f"quatre-vingt-{_FRENCH[number - 81]}" if number > 80 else "quatre-vingts"
    return (usual, *(_joined(word, unit) for word in own))


def _joined(tens: str, unit: int) -> str:
    if unit == 0:
        return tens
    return f"{tens} et un" if unit == 1 else f"{tens}-{_FRENCH[unit - 1]}"


def _french_day(day: int) -> tuple[str, ...]:
    return ("premier",) if day == 1 else _french(day)


def _french_year(year: int) -> tuple[str, ...]:
    century, rest = divmod(year, 100)
    hundreds = _FRENCH[century - 11] if century < 20 else ""
    before = (f"mille {hundreds} cent", f"mil {hundreds} cent", f"{_FRENCH[century - 1]} cent") if hundreds else ()
    befores = before or ("deux mille",)
    return tuple(f"{start} {behind}".rstrip() for behind, start in product(_french(rest), befores))


def _spanish(number: int) -> str:
    """A number below 100; nothing of 0."""
    if number < 30:
        return _SPANISH[number - 1] if number else ""
    tens, unit = divmod(number, 10)
    return _SPANISH_TENS[tens - 3] + (f" y {_SPANISH[unit - 1]}" if unit else "")


def _without_accents(words: Iterable[str]) -> tuple[str, ...]:
    given = tuple(words)
    return tuple(dict.fromkeys((*given, *map(unaccented, given))))


def _spanish_day(day: int) -> tuple[str, ...]:
    return _without_accents((*(("primero",) if day == 1 else ()), _spanish(day)))


def _spanish_year(year: int) -> tuple[str, ...]:
    century, rest = divmod(year, 100)
    before = {18: "mil ochocientos", 19: "mil novecientos", 20: "dos mil"}[century]
    return _without_accents([f"{before} {_spanish(rest)}".rstrip()])


_DAYS: Final = range(1, _LAST_DAY + 1)
_YEARS: Final = range(FIRST_YEAR, LAST_YEAR + 1)
LANGUAGES: Final = (
    DateWords(tuple(map(_german_day, _DAYS)), tuple(map(_german_year, _YEARS))),
    DateWords(tuple(map(_french_day, _DAYS)), tuple(map(_french_year, _YEARS))),
    DateWords(tuple(map(_spanish_day, _DAYS)), tuple(map(_spanish_year, _YEARS))),
)
DAY_OF: Final = {spoken(word): n for words in LANGUAGES for n, forms in enumerate(words.days, 1) for word in forms}
YEAR_OF: Final = {
    spoken(word): year for words in LANGUAGES for year, forms in enumerate(words.years, FIRST_YEAR) for word in forms
}


def any_of(words: Iterable[str]) -> str:
    """One of some words, the longest that fits, with a hyphen or a space where they have one; for the `regex` library.
    Words that begin alike are told apart where they differ: a long list of them would be tried one by one."""
    by_letter: dict[str, list[str]] = {}
    is_end = False
    for word in words:
        if word:
            by_letter.setdefault("[ -]" if word[0] in " -" else word[0], []).append(word[1:])
        else:
            is_end = True
    if not by_letter:
        return ""
    branches = "|".join(f"{letter}{any_of(rest)}" for letter, rest in sorted(by_letter.items()))
    return f"(?:{branches}){'?' if is_end else ''}"


_PARTS_OF_YEARS: Final = {word for n in range(1, 100) for said in _french(n) for word in spoken(said).split()}
_GERMAN_PARTS: Final = {said for n in range(1, 100) for said in (_german(n), _german(n).replace("ß", "ss"))}
_SPANISH_PARTS: Final = _without_accents(word for n in range(1, 100) for word in _spanish(n).split())
DAYS: Final = tuple(
    written
    for language in LANGUAGES
    for forms in language.days
    for word in forms
    for written in (word, word.replace("ß", "ss"))
)
YEARS: Final = (
    rf"(?:(?:acht|neun)zehnhundert|zweitausend)(?:[ ]?(?:und)?{any_of(_GERMAN_PARTS)})?"
    rf"|(?:mil(?:le)?[ ](?:huit|neuf)[ ]cent|dix[ -](?:huit|neuf)[ ]cent|deux[ ]mille)"
    rf"(?:[ -]{any_of(_PARTS_OF_YEARS)}){{0,4}}"
    rf"|(?:mil[ ](?:ocho|nove)cientos|dos[ ]mil)(?:[ ]{any_of(_SPANISH_PARTS)}){{0,3}}"
)
"""What looks like a year in words, for the `regex` library."""


def day_like(words: str, day: int) -> str | None:
    """Another day in the language and the form of this one; None where it is of none of these languages."""
    for language in LANGUAGES:
        for forms in language.days:
            if spoken(words) in map(spoken, forms):
                new = language.days[day - 1]
                # A German ending goes with what stands before it.
                same = (form for form in new if len(forms) == len(_ENDINGS) and spoken(form)[-2:] == spoken(words)[-2:])
                return next(same, new[0])
    return None


def year_like(words: str, year: int) -> str | None:
    """Another year in the language of this one; None where it is of none of these, or not known in words."""
    if not FIRST_YEAR <= year <= LAST_YEAR:
        return None
    known = (language.years for language in LANGUAGES if any(spoken(words) in map(spoken, f) for f in language.years))
    return next((years[year - FIRST_YEAR][0] for years in known), None)
