"""Where surrogate values come from: a source of randomness, Faker, digits, values that differ from others, and
scrambled ones, of which nothing need be known."""

from __future__ import annotations

import functools
import hashlib
import random
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

SurrogateDraw = Callable[[random.Random], str]
"""Draws a value of some form; it may be one that was drawn before."""

TRIES: Final = 200
"""Draws before a value that does not fit is taken, or another way is gone."""
WORD: Final = r"[^\W\d_]+(?:['’][^\W\d_]+)*"
"""A pattern of one word of a name or a street."""


def listed(text: str, end: str = "") -> tuple[str, ...]:
    return tuple(word + end for word in text.split())


LOCALES: Final = listed(
    """
    en_US en_CA en_GB en_AU en_IE en_NZ en_IN de_DE de_AT de_CH fr_FR es_ES es_MX it_IT nl_NL pt_PT pt_BR sv_SE no_NO
    da_DK fi_FI pl_PL ja_JP zh_CN ko_KR
    """
)
"""Faker's locales that whole names and addresses are made in."""


def source(*deciding: object) -> random.Random:
    """A source of randomness that what it is given decides alone, the same in any process."""
    return random.Random(hashlib.sha256("\0".join(map(str, deciding)).encode()).digest())


def faker(locale: str, drawn: random.Random) -> Any:
    """Faker's generator of a locale, its state drawn anew."""
    fake = _faker(locale)
    fake.seed_instance(drawn.getrandbits(64))
    return fake


@functools.cache
def _faker(locale: str) -> Any:
    from faker import Faker

    return Faker(locale)


def locale_of(region: str, locales: Iterable[str]) -> str:
    """A country's locale, that of its own language (de_DE, fr_FR) first; en_US where there is none."""
    of_region = [locale for locale in locales if locale.endswith(f"_{region}")]
    return min(
        of_region, key=lambda candidate: (candidate.partition("_")[0].upper() != region, candidate), default="en_US"
    )


def digits(n: int, drawn: random.Random) -> str:
    return "".join(drawn.choice("0123456789") for _ in range(n))


def digits_like(text: str, drawn: random.Random) -> str:
    """As many digits, the first a 0 only where it is one."""
    if not text:
        return ""
    return (text[0] if int(text[0]) == 0 else drawn.choice("123456789")) + digits(len(text) - 1, drawn)


def ordinal_ending(number: int) -> str:
    """What is written behind a number that counts: 'st' of 21, 'th' of 11."""
    return "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def cased(new: str, like: str) -> str:
    """A word in capitals or in small letters where another one is."""
    return new.upper() if len(like) > 1 and like.isupper() else new.lower() if like.islower() else new


def other_than(words: Iterable[str], name: str, drawn: random.Random) -> str:
    """One of the words that a name does not have."""
    own = name.split()
    return drawn.choice([word for word in words if word not in own])


def distinct(
    draws: Sequence[SurrogateDraw],
    n: int,
    drawn: random.Random,
    taboo: Collection[str],
    fits: Callable[[str], bool] | None,
) -> list[str]:
    """At most `n` values, none twice: those that fit first, and of these what the first way to draw gives. Where too
    few that fit are found in some thousand draws, others stand behind them."""
    seen = {value.casefold() for value in taboo}
    fitting: list[str] = []
    others: list[str] = []
    for draw in draws:
        for _ in range(max(2_000, 40 * n)):
            value = draw(drawn)
            if value.casefold() in seen:
                continue
            seen.add(value.casefold())
            (fitting if fits is None or fits(value) else others).append(value)
            if len(fitting) == n:
                return fitting
    return [*fitting, *others][:n]


def unlike(
    texts: Sequence[str], context: str, make: Callable[[random.Random], Sequence[str]], drawn: random.Random
) -> Sequence[str]:
    """What is made in the place of each text; scrambled texts where an old one comes back time after time. The fullest
    text is last; its surrogate may not stand in `context`, in any case."""
    used = context.casefold()
    for _ in range(TRIES):
        new = make(drawn)
        differs = all(a.casefold() != b.casefold() for a, b in zip(new, texts, strict=True))
        if differs and new[-1].casefold() not in used:
            return new
    same = {text: scrambled(text, drawn) for text in dict.fromkeys(texts)}
    return [same[text] for text in texts]


def scrambled(text: str, drawn: random.Random) -> str:
    """Each digit another digit, each letter another letter of its kind, everything else as it is."""
    new = "".join(_other_character(char, drawn) for char in text)
    return new if new != text else text + drawn.choice("abcdefghijkmnpqrstuvwxyz")


def _other_character(char: str, drawn: random.Random) -> str:
    if char.isdecimal():
        return drawn.choice([digit for digit in "0123456789" if digit != char])
    if not char.isalpha():
        return char
    if char.isupper() or char.islower():
        letter = drawn.choice([letter for letter in "abcdefghijklmnoprstuvwy" if letter != char.lower()])
        return letter.upper() if char.isupper() else letter
    # A script without capitals: a neighbour in it.
    near = (chr(code) for code in (ord(char) + drawn.randint(1, 9), ord(char) - drawn.randint(1, 9)) if code > 0)
    return next((other for other in near if other.isalpha() and unicodedata.category(other) == "Lo"), char)
