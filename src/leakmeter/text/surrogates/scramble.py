"""Surrogates of values that nothing is known of: other digits and letters in the same places."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Sequence


def in_mentions(texts: Sequence[str], drawn: random.Random) -> list[str]:
    """Each text scrambled, the same in any case alike."""
    same = {text.casefold(): scrambled(text, drawn) for text in reversed(texts)}
    return [same[text.casefold()] for text in texts]


def scrambled(text: str, drawn: random.Random) -> str:
    """Each digit another digit, each letter another letter of its kind, everything else as it is."""
    new = "".join(_other(char, drawn) for char in text)
    return new if new != text else text + drawn.choice("abcdefghijkmnpqrstuvwxyz")


def _other(char: str, drawn: random.Random) -> str:
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
