"""Telephone numbers, found and brought to their normal form by the `phonenumbers` library.

It is asked for everything that could be a number, since invented and internal ones are not valid; what is not valid
then has to look like a number: an international prefix, a word such as 'phone' before it, or the groups in which the
numbers of its country are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from leakmeter.errors import UnknownNameError
from leakmeter.text.entities.mention import PHONE, Mention
from leakmeter.text.folding import in_plain_text

_LABEL = re.compile(
    r"(?:phone|telephone|tel|fon|mobile|mobil|cell|fax|call|dial|ring|sms|text|whatsapp|reach(?:ed)?|handy|móvil|"
    r"teléfono|téléphone|portable|telefon|telefono|telefoon|telefone|тел|电话|電話|전화|هاتف|טלפון)"
    r"[^\w\n]{0,4}(?:\w{1,8}[^\w\n]{1,3}){0,3}\Z",
    re.IGNORECASE,
)
_CLOSING = re.compile("[)）]")
# The North American plan writes 3-3-4, and 3-4 within an area.
_GROUPED = re.compile(r"\(?\d{3}\)?[ .\-/\u2010-\u2015]{1,2}\d{3}[ .\-\u2010-\u2015]\d{4}")


def is_region(region: str) -> bool:
    import phonenumbers

    return region in phonenumbers.SUPPORTED_REGIONS


def check_region(region: str) -> None:
    import phonenumbers

    if not is_region(region):
        raise UnknownNameError("region", region, phonenumbers.SUPPORTED_REGIONS)


def is_value(text: str) -> bool:
    import phonenumbers as library

    try:
        library.parse(text.partition(";")[0])
    except library.NumberParseException:
        return False
    return True


@in_plain_text
def find(text: str, region: str) -> Iterator[Mention]:
    """Telephone numbers of a text; the normal form is E.164, with ';ext=' and the extension where there is one. Numbers
    without prefix are the region's."""
    import phonenumbers as library

    candidates = [
        (match, value_of(match.number))
        for match in library.PhoneNumberMatcher(text, region, leniency=library.Leniency.POSSIBLE)
    ]
    sure = {
        value
        for match, value in candidates
        if match.raw_string.lstrip("(").startswith(("+", "＋"))
        or (match.number.country_code == 1 and _GROUPED.fullmatch(match.raw_string))
        or (
            sum(map(str.isdigit, match.raw_string)) >= 6 and _LABEL.search(text[max(0, match.start - 40) : match.start])
        )
    }
    # A second pass is the most work of all: often nothing is left to ask, and never of what stands behind the last.
    unsure = [match.start for match, value in candidates if value not in sure]
    if unsure:
        strict = library.PhoneNumberMatcher(text, region, leniency=library.Leniency.STRICT_GROUPING)
        starts = {match.start for match in takewhile(lambda match: match.start <= unsure[-1], strict)}
        sure |= {value for match, value in candidates if match.start in starts}
    # A number that is sure in one place is meant in another, however it is written there.
    for match, value in candidates:
        if value in sure:
            # A bracket that closes behind the number is no part of it.
            opens = match.raw_string.startswith(("(", "（")) and not _CLOSING.search(match.raw_string)
            yield Mention(PHONE, match.start + opens, match.end, value)


def national(value: str) -> str:
    """The digits of a normal form without those of its country."""
    import phonenumbers as library

    return library.national_significant_number(library.parse(value.partition(";")[0]))


def value_of(number: object) -> str:
    import phonenumbers as library

    assert isinstance(number, library.PhoneNumber)
    plain = library.format_number(number, library.PhoneNumberFormat.E164)
    return f"{plain};ext={number.extension}" if number.extension else plain
