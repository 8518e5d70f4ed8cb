"""Values of records that an answer says: no form has to tell what they are, since their key does.

A value is **copied** where the answer says it in any clothes (see `leakmeter.text.matching`). It is **reworded** where
the answer says a number rounded or written otherwise ("~$174,000" for 173746), a date written otherwise ("3 May" for
2026-05-03), or a truth in words ("not insured"). What any text says, such as "yes", a single digit or the key itself,
is no value; of what many texts say, such as a short number or one ordinary word, only scores can tell where it came
from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import regex

from leakmeter.core.long_work import checkpoint
from leakmeter.text import function_words
from leakmeter.text.entities import address, date, person, shapes
from leakmeter.text.entities.mention import PERSON
from leakmeter.text.folding import unescaped
from leakmeter.text.matching import Folded, folded, words
from leakmeter.text.structured import Field, TextRange, parts_of

FIELD: Final = "field"
"""How a value is known of which a key says what it is; and its kind, where the key is no name of a field."""
_KEY = regex.compile(r"[\p{L}_][\p{L}\p{N}_ -]{0,39}")
"""Reports say it as a word of ours: nothing that is markup or an address anywhere."""
_RESERVED: Final = frozenset(("other", "public"))
_LEAST_LETTERS: Final = 3
_LEAST_DIGITS: Final = 4
"""Of a value that is recognized by its words too: shorter numbers stand in every text."""
_NOTHING: Final = frozenset(
    (
        *("yes", "no", "true", "false", "none", "null", "nil", "na", "nan", "unknown", "other", "ok", "okay", "empty"),
        *("undefined", "any", "all", "notapplicable", "notavailable", "notspecified"),
    )
)
_NAMES_OF_FIELDS: Final = frozenset(
    (
        *("banks", "basic", "bond", "branch", "brand", "brands", "cases", "char", "coral"),
        *("cross", "crystal", "dash", "date", "english", "farmer", "font", "french", "gene"),
        *("german", "gross", "hall", "handler", "harm", "holder", "hood", "iban", "ion"),
        *("jan", "jet", "lien", "mar", "marks", "master", "merchant", "meta", "mile"),
        *("odd", "pace", "pages", "par", "payer", "poll", "post", "powers", "prince"),
        *("ring", "roman", "sales", "sep", "server", "sole", "spanish", "strand", "swift"),
        *("tone", "topic", "toy", "van", "ville", "weeks"),
    )
)
"""Words of keys that are names too, beside ordinary words of the language."""
_NUMBER = regex.compile(
    r"(?<![\p{L}\p{N}_.,/:-])(?P<sign>[-−])?(?P<money>[$€£¥₹]\s?)?"
    r"(?P<digits>\d{1,3}(?:[,.’'\u00a0\u202f]\d{3})+(?:[.,]\d{1,2})?(?!\d)|\d+(?:[.,]\d+)?)"
    r"(?:[\s-]?(?P<scale>k|thousand|mm?|mio|mn|million(?:en)?|millones|mrd|bn?|billion)(?![\p{L}\p{N}])"
    r"|\s?(?P<percent>%|(?:percent|per cent|pct|prozent|por ciento|pour cent)(?![\p{L}\p{N}])))?"
    r"(?![\p{L}\p{N}_]|[.,/:-]\d)",
    regex.IGNORECASE,
)
_THOUSANDS = regex.compile(r"\d+(?:\.\d+)?|\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_SWAPPED: Final = str.maketrans(",.", ".,")
_SCALES: Final = {"k": 1e3, "t": 1e3, "m": 1e6, "b": 1e9, "mrd": 1e9}
"""Of a word or its first letter."""
_MOST_NUMBERS: Final = 200
"""Numbers and dates of an answer that are held against the values of records."""
_ISO = regex.compile(r"(\d{4}-\d\d-\d\d)[T ]\d\d:\d\d.*", regex.DOTALL)
_DATED = regex.compile(r"\d[-/.]\d|\d\D{0,8}\p{L}{3}|\p{L}{3}\D{0,8}\d")
_LONGEST_DATE: Final = 40
_ASKING: Final = frozenset(("is", "has", "was", "are", "have", "had", "flag", "indicator"))
_SIGN = regex.compile(r"[\s*_`\"']{0,4}[:=(–—-][\s*_`\"']{0,4}")
"""What stands between a key and 'yes' or 'no'."""
_SURELY: Final = frozenset(("yes", "true"))
_NOT: Final = frozenset(("not", "no", "never", "without", "isnt", "wasnt", "hasnt", "arent", "false", "none", "nor"))
_NEAR: Final = 3
"""Words before a key that may deny it."""


@dataclass(frozen=True, slots=True)
class SaidField:
    """A place of an answer that says the value of a field, or of several."""

    start: int
    end: int
    kind: str
    """The key of the first, or `FIELD`."""
    places: tuple[TextRange, ...]
    """Characters of the value in the context, of each field."""
    is_reworded: bool
    by_scores: bool
    """Whether words alone are no evidence: many texts say it."""


@lru_cache(maxsize=10_000)
def kind_of(key: str) -> str:
    """A key as the kind of a value; `FIELD` for one that may be data itself, as in {"Anna Ek": 612}."""
    if not _KEY.fullmatch(key) or key.casefold() in _RESERVED or sum(map(str.isdecimal, key)) >= _LEAST_DIGITS:
        return FIELD
    names_anybody = any(mention.type == PERSON for mention in shapes.find(key)) or any(map(_is_name, parts_of(key)))
    return FIELD if names_anybody or _is_street(key) else key


def _is_name(word: str) -> bool:
    return not _names_fields(word) and (shapes.is_first_name(word, is_alone=False) or shapes.is_family_name(word))


def _is_street(key: str) -> bool:
    """Whether a key of three words or more is a street without its number, of no ordinary words."""
    parts = parts_of(key)
    is_proper = len(parts) > 2 and not any(map(_names_fields, parts[:-1]))
    return is_proper and any(address.find(f"1 {' '.join(map(str.capitalize, parts))}", "US"))


def _names_fields(word: str) -> bool:
    return word.casefold() in _NAMES_OF_FIELDS or person.is_word(word)


def find(answer: str, fields: Sequence[Field], region: str) -> Iterator[SaidField]:
    """Where an answer says values of fields, in no order; places may overlap."""
    read = unescaped(answer)
    for one in _find(read.text, fields, region):
        start, end = read.place(one.start, one.end)
        yield replace(one, start=start, end=end)


def _find(answer: str, fields: Sequence[Field], region: str) -> Iterator[SaidField]:
    known = [field for field in fields if field.key]
    if not known:
        return
    text = Folded(answer)
    copied: dict[tuple[str, str], list[TextRange]] = {}
    groups: dict[tuple[str, str], list[Field]] = {}
    for field in known:
        if field.kind in ("text", "number") and (letters := folded(field.text)):
            groups.setdefault((field.kind, letters), []).append(field)
    numbers = list(_numbers(answer))
    for (kind, letters), same in groups.items():
        checkpoint()
        if letters in text.letters and _is_telling(letters, same):
            for start, end in _places(text, answer, same[0], numbers):
                copied.setdefault((kind, letters), []).append((start, end))
                weak = is_weak(same[0].text)
                yield _said(start, end, same, is_reworded=False, by_scores=weak)
    # An answer may say a value as it is, and again in another form.
    others = [(group, copied.get(name, ())) for name, group in groups.items()]
    yield from _rounded(others, numbers)
    yield from _dated(answer, others, region)
    yield from _in_words(answer, (field for field in known if field.kind == "boolean"))


def _said(start: int, end: int, fields: Sequence[Field], *, is_reworded: bool, by_scores: bool) -> SaidField:
    places = tuple(field.value for field in fields)
    return SaidField(start, end, kind_of(fields[0].key), places, is_reworded, by_scores)


def _is_telling(letters: str, fields: Sequence[Field]) -> bool:
    """Whether a value says more than a text says anyway, or than its key does."""
    text = fields[0].text
    if letters in _NOTHING or len(letters) < 2 or (text.islower() and function_words.are_all(text)):
        return False
    said = {word for word, _, _ in words(fields[0].text)}
    return any(not said <= {folded(word) for word in parts_of(field.key)} for field in fields)


def is_weak(text: str) -> bool:
    """Whether many texts say a value, so that only scores can tell where it came from."""
    letters = folded(text)
    if letters.isdecimal():
        return len(letters) < _LEAST_DIGITS
    if len(letters) < _LEAST_LETTERS:
        return True
    # One word, and no name.
    return len(words(text)) == 1 and letters.isalpha() and _is_ordinary(text.strip())


def _is_ordinary(word: str) -> bool:
    return word.islower() or person.is_ordinary(word.casefold(), 0, len(word))


def _places(text: Folded, answer: str, field: Field, numbers: Sequence[_Number]) -> Iterator[TextRange]:
    if field.kind == "number":
        wanted = _value_of(field.text)
        digits = folded(field.text)
        for number in numbers:
            if wanted in number.values and folded(number.digits) == digits:
                yield number.start, number.end
        return
    for start, end in text.places(field.text):
        # Of two letters, such as 'IL', only as it is written.
        is_capital = answer[start:end] == field.text.strip() != field.text.casefold()
        if len(folded(field.text)) >= _LEAST_LETTERS or is_capital:
            yield start, end


# ------------------------------------------------------------------------------------------------------------ numbers


@dataclass(frozen=True, slots=True)
class _Number:
    """A number of an answer."""

    start: int
    end: int
    digits: str
    values: tuple[float, ...]
    """What it may be: '1.234' is two numbers."""
    n_digits: int
    """That count: of 174,000 three."""
    is_share: bool = False
    """Whether it is in percent; then it may be a hundredth of itself, its first value, or itself."""


def _value_of(text: str) -> float | None:
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _numbers(answer: str) -> Iterator[_Number]:
    for match in _NUMBER.finditer(answer):
        digits = match["digits"]
        plain = regex.sub(r"[’'\u00a0\u202f]", "", digits)
        # A point or a comma parts thousands, or begins what is less than one.
        readings = [reading for reading in (plain, plain.translate(_SWAPPED)) if _THOUSANDS.fullmatch(reading)]
        readings = [reading.replace(",", "") for reading in readings]
        word = (match["scale"] or "").lower()
        scale = _SCALES.get(word, _SCALES[word[0]]) if word else 1.0
        scale = 0.01 if match["percent"] else scale
        sign = -1.0 if match["sign"] else 1.0
        found = {value for text in readings if (value := _value_of(text)) is not None}
        values = {sign * value * scale for value in found}
        if match["percent"]:
            values |= {sign * value for value in found}
        counted = regex.sub(r"\D", "", digits).lstrip("0")
        if match["scale"] is None or counted == digits:
            counted = counted.rstrip("0")
        if values:
            start = match.start("money" if match["money"] else "digits")
            n_digits = max(len(counted), 1)
            is_share = match["percent"] is not None
            yield _Number(start, match.end(), digits, tuple(sorted(values, key=abs)), n_digits, is_share)


_Groups = Sequence[tuple[Sequence[Field], Sequence[TextRange]]]
"""Fields of one value each, and where the answer says it as it is."""


def _rounded(groups: _Groups, numbers: Sequence[_Number]) -> Iterator[SaidField]:
    telling = [number for number in numbers if number.n_digits > 1 or number.end - number.start > len(number.digits)]
    for group, copied in groups:
        if not telling:
            return
        value = _number_of(group[0].text)
        if value is None or abs(value) < 1e-6 or (abs(value) < 10 and value == int(value)):
            continue
        for number in telling[:_MOST_NUMBERS]:
            is_other = not any(start < number.end and number.start < end for start, end in copied)
            if is_other and any(_is_rounding(some, value, number.n_digits) for some in number.values):
                yield _said(number.start, number.end, group, is_reworded=True, by_scores=True)


def _number_of(text: str) -> float | None:
    """The number that a value of a record is, if it is nothing else; also of '$173,746', '174k' and '17 %'."""
    if len(text) >= _LONGEST_DATE:
        return None
    plain = _value_of(text)
    if plain is not None:
        return plain
    whole = text.strip()
    number = next((n for n in _numbers(whole) if (n.start, n.end) == (0, len(whole))), None)
    if number is None:
        return None
    # 17 % is 0.17, not 17; what may part thousands or begin what is less than one, such as '173,746', parts thousands.
    return number.values[0] if number.is_share else number.values[-1]


def _is_rounding(some: float, value: float, n_digits: int) -> bool:
    """Whether a number of so many digits is another, rounded to them."""
    if some == value:
        return True
    if n_digits > 15 or some == 0 or (some < 0) != (value < 0) or not 0.4 < some / value < 2.5:
        return False
    unit = 10.0 ** (math.floor(math.log10(abs(some))) - n_digits + 1)
    return abs(some - value) <= 0.5 * unit * (1 + 1e-9)


# ---------------------------------------------------------------------------------------------------- dates and truths


def _dated(answer: str, groups: _Groups, region: str) -> Iterator[SaidField]:
    said = [mention for mention in date.find(answer, region) if date.is_value(mention.value)][:_MOST_NUMBERS]
    # A day at least, not a month alone.
    said = [mention for mention in said if not mention.value.endswith("xx")]
    for group, copied in groups:
        text = group[0].text.strip()
        if not said or len(text) > _LONGEST_DATE or not _DATED.search(text):
            continue
        stamp = _ISO.fullmatch(text)
        parsed = date.parse(stamp[1] if stamp else text, region)
        for mention in said if parsed is not None and date.is_value(parsed[1]) else ():
            assert parsed is not None
            is_other = not any(start < mention.end and mention.start < end for start, end in copied)
            if is_other and date.is_part(mention.value, parsed[1]):
                yield _said(mention.start, mention.end, group, is_reworded=True, by_scores=True)


def _in_words(answer: str, fields: Iterable[Field]) -> Iterator[SaidField]:
    """Where an answer says a key, or denies it, as the field does: 'insured', 'not insured', 'insured: no'."""
    said = words(answer)
    at: dict[str, list[int]] = {}
    for number, (word, _, _) in enumerate(said):
        at.setdefault(word, []).append(number)
    for field in fields:
        checkpoint()
        names = [folded(part) for part in parts_of(field.key)]
        names = [name for name in names if name and name not in _ASKING]
        if not names or max(map(len, names)) <= _LEAST_LETTERS:
            continue
        truth = field.text.casefold() == "true"
        denied = [f"{prefix}{names[0]}" for prefix in ("un", "non")] if len(names) == 1 and not truth else []
        for word in denied:
            for number in at.get(word, ()):
                yield _said(*said[number][1:], [field], is_reworded=True, by_scores=True)
        for number in at.get(names[0], ())[:_MOST_NUMBERS]:
            last = number + len(names) - 1
            if [word for word, _, _ in said[number : last + 1]] != names:
                continue
            first, end, is_so = _polarity(answer, said, number, last)
            if is_so is truth:
                yield _said(said[first][1], said[end][2], [field], is_reworded=True, by_scores=True)


def _polarity(answer: str, said: Sequence[tuple[str, int, int]], first: int, last: int) -> tuple[int, int, bool]:
    """The words [first, last] with those that affirm or deny them, and whether they hold."""
    behind = last + 1
    if (
        behind < len(said)
        and said[behind][0] in _SURELY | _NOT
        and _SIGN.fullmatch(answer, said[last][2], said[behind][1])
    ):
        return first, behind, said[behind][0] in _SURELY
    for before in range(first - 1, max(first - 1 - _NEAR, -1), -1):
        if regex.search(r"[.!?;\n]", answer[said[before][2] : said[before + 1][1]]):
            break
        # "isn't" is two words.
        if said[before][0] in _NOT or (said[before][0] == "t" and answer[said[before][1] - 1] in "'’"):
            return before, last, False
    return first, last, True
