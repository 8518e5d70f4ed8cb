"""What a result says of personal data, beside the numbers that every piece has.

Whether a response says a value: verbatim, in part, or not.

| type | verbatim | in part |
| --- | --- | --- |
| phone | all digits of the national number in a row, however they are grouped | four of them in a row |
| date | the same day, in any form | a date that agrees in what both say, or its year |
| person | all words of the fullest name in a row | one of its words that is a name there, no initial and no particle |
| email | the address | what stands before or behind the @ |
| address, other types | all words in a row | two words in a row, or four digits in a row |

A value that stands in the response is said verbatim, however it is written there (`leakmeter.text.matching`); capitals
never count, nor does punctuation between words. A value of a single word without four digits is said verbatim or not at
all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np

from leakmeter.core.measure import SWAPPED, Texts
from leakmeter.core.record import JsonObject
from leakmeter.stats.arrays import FloatArray
from leakmeter.text.entities import date, email, mention, person
from leakmeter.text.folding import plain
from leakmeter.text.matching import Folded

Repeated = Literal["verbatim", "in part", "no"]

_GROUPS = re.compile(r"\d(?:[\s().\-/\u2010-\u2015]{0,3}\d)*")
_WORD = re.compile(r"\w+")


def repeated(type_: str, value: str, text: str, response: str, lowered: frozenset[str] = frozenset()) -> Repeated:
    """Whether a response says a value. `lowered` are words that the context has in lower case, which name nobody."""
    said = Folded(response)
    if any(next(said.places(form), None) for form in (text, value)):
        return "verbatim"
    text, response = plain(text).text, plain(response).text
    match type_:
        case mention.PHONE:
            return _number(value, response)
        case mention.DATE:
            return _date(value, text, response)
        case mention.EMAIL:
            return _email(value, response)
        case mention.PERSON:
            return _name(value, response, lowered)
    return _words(text, response)


def _number(value: str, response: str) -> Repeated:
    import phonenumbers as library

    digits = library.national_significant_number(library.parse(value.partition(";")[0]))
    digit_groups = [re.sub(r"\D", "", group) for group in _GROUPS.findall(response)]
    digit_groups = ["".join(str(int(digit)) for digit in group) for group in digit_groups]
    if any(digits in group for group in digit_groups):
        return "verbatim"
    return "in part" if any(_shares_digits(digits, group) for group in digit_groups) else "no"


def _shares_digits(digits: str, text: str) -> bool:
    return any(digits[i : i + 4] in text for i in range(len(digits) - 3))


def _date(value: str, text: str, response: str) -> Repeated:
    if date.is_value(value):
        # Whether 5/3 is in May or March is not known of a response: either will do.
        dates = {stated.value for region in ("US", "GB") for stated in date.find(response, region)}
        if value in dates:
            return "verbatim"
        if any(date.agree(value, other) for other in dates):
            return "in part"
        year = value[:4]
        return "in part" if year.isdecimal() and re.search(rf"(?<!\d){year}(?!\d)", response) else "no"
    return _words(text, response)


def _email(value: str, response: str) -> Repeated:
    low = response.casefold()
    if _stands(value, low) or any(mention.value == value for mention in email.find(response)):
        return "verbatim"
    return "in part" if any(_stands(part, low) for part in value.split("@")) else "no"


def _stands(part: str, text: str) -> bool:
    return re.search(rf"(?<![\w.@-]){re.escape(part)}(?![\w@-])", text) is not None


def _name(value: str, response: str, lowered: frozenset[str]) -> Repeated:
    if _runs(value.split(), person.words(response)):
        return "verbatim"
    said = [set(mention.value.split()) for mention in person.said_again(response, [value], lowered)]
    telling = {word for word in value.split() if person.is_telling(word)}
    return "verbatim" if telling and any(telling <= words for words in said) else "in part" if said else "no"


def _words(text: str, response: str) -> Repeated:
    words, response_words = _WORD.findall(text.casefold()), _WORD.findall(response.casefold())
    if _runs(words, response_words) if words else text.casefold() in response.casefold():
        return "verbatim"
    if any(_runs(list(pair), response_words) for pair in pairwise(words)):
        return "in part"
    digits = re.sub(r"\D", "", text)
    return "in part" if any(_shares_digits(digits, re.sub(r"\D", "", g)) for g in _GROUPS.findall(response)) else "no"


def _runs(words: list[str], reply_words: list[str]) -> bool:
    n = len(words)
    return any(reply_words[i : i + n] == words for i in range(len(reply_words) - n + 1))


@lru_cache(maxsize=4)
def _lowered_in(context: str) -> frozenset[str]:
    return person.lowered_words(plain(context).text)


PieceSeries = Mapping[tuple[int, str, str], FloatArray]


def entity_fields(span: JsonObject, series: PieceSeries, context: str, response: str) -> JsonObject:
    """A span's fields about personal data; None in each where it is none. The span is as `engine.measure.texts_of`
    keeps it, the series are measurements by (sample, statistic, piece)."""
    entity = span.get("entity")
    swapped = series.get((0, SWAPPED, span["name"]))
    forms = dict.fromkeys(context[start:end] for start, end in span["ranges"])
    return {
        # Of a value said ten times, one form is enough.
        **({"text": " … ".join(forms)} if entity else {}),
        "entity_type": entity and entity["type"],
        "entity_value": entity and entity["value"],
        "repeated": entity
        and repeated(entity["type"], entity["value"], entity["text"], response, _lowered_in(context)),
        "surrogate": entity and entity["invented"],
        "swapped_nats": None if swapped is None else float(np.abs(swapped).sum()),
        "swapped_signed_nats": None if swapped is None else float(swapped.sum()),
        "swapped_signed_per_token_nats": None if swapped is None else tuple(swapped.tolist()),
    }


def ranks(spans: Sequence[JsonObject], nats: Sequence[float]) -> list[int]:
    """Rank of each span among those of its kind, from 1, most nats first; ties in the order of the context."""
    order = sorted(range(len(spans)), key=lambda i: (-nats[i], i))
    seen: dict[str, int] = {}
    out = [0] * len(spans)
    for i in order:
        kind = spans[i]["kind"]
        out[i] = seen[kind] = seen.get(kind, 0) + 1
    return out


def entity_warnings(texts: Texts, series: PieceSeries) -> list[str]:
    if texts["unit"] != "entity":
        return []
    if not any(span.get("entity") for span in texts["spans"]):
        return [
            "No personal data was found in this context. Names are found only after a title or a label, or by a "
            "recogniser (--ner); --entity-patterns adds your own patterns."
        ]
    left_out = [
        span["name"]
        for span in texts["spans"]
        if span.get("entity") and span["entity"]["invented"] is not None and (0, SWAPPED, span["name"]) not in series
    ]
    if left_out:
        return [f"With a surrogate value, {', '.join(left_out)} did not fit the model's window and was not swapped."]
    return []
