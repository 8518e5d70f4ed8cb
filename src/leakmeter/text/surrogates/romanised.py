"""Names in Latin letters of places whose tables are in other letters.

Given names are lists of usual ones, since tables of all names of a place have many that nobody living has. Surnames of
Russia and Greece are those of Faker's tables, letter by letter: by BGN/PCGN's scheme of 1947 without its apostrophes,
and by ELOT 743 of 1982 (ISO 843). What Faker has in Latin letters is added.
"""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import regex

from leakmeter.core.folder import module_in

_LISTED: Final[Mapping[str, Mapping[str, str]]] = tomllib.loads(
    (Path(__file__).parent / "romanised.toml").read_text(encoding="utf-8")
)
"""Names by locale and kind, separated by spaces."""
LOCALES: Final = tuple(_LISTED)
"""Language, script and country, such as 'zh_Latn_CN'."""
_CYRILLIC: Final[Mapping[str, str]] = {
    "а": "a",
    "б": "b",
    "в": "v",
    "г": "g",
    "д": "d",
    "е": "e",
    "ё": "e",
    "ж": "zh",
    "з": "z",
    "и": "i",
    "й": "y",
    "к": "k",
    "л": "l",
    "м": "m",
    "н": "n",
    "о": "o",
    "п": "p",
    "р": "r",
    "с": "s",
    "т": "t",
    "у": "u",
    "ф": "f",
    "х": "kh",
    "ц": "ts",
    "ч": "ch",
    "ш": "sh",
    "щ": "shch",
    "ъ": "",
    "ы": "y",
    "ь": "",
    "э": "e",
    "ю": "yu",
    "я": "ya",
}
_RUSSIAN_ENDS: Final = (("ий", "й"), ("ый", "й"))
_GREEK: Final[Mapping[str, str]] = {
    "α": "a",
    "β": "v",
    "γ": "g",
    "δ": "d",
    "ε": "e",
    "ζ": "z",
    "η": "i",
    "θ": "th",
    "ι": "i",
    "κ": "k",
    "λ": "l",
    "μ": "m",
    "ν": "n",
    "ξ": "x",
    "ο": "o",
    "π": "p",
    "ρ": "r",
    "σ": "s",
    "ς": "s",
    "τ": "t",
    "υ": "y",
    "φ": "f",
    "χ": "ch",
    "ψ": "ps",
    "ω": "o",
}
_GREEK_PAIRS: Final[Mapping[str, str]] = {"γγ": "ng", "γξ": "nx", "γχ": "nch", "ου": "ou"}
_DIAERESIS: Final = "\u0308"
_VOICED: Final = "αβγδεζηιλμνορω"
"""Letters before which υ of αυ, ευ and ηυ is a v; before others it is an f."""


def _russian(word: str) -> str:
    word = word.lower()
    for end, short in _RUSSIAN_ENDS:
        if word.endswith(end):
            word = word.removesuffix(end) + short
    return "".join(_CYRILLIC.get(char, char) for char in word).capitalize()


def _greek(word: str) -> str:
    # A vowel with a diaeresis, or behind one with an accent, is a sound of its own.
    letters = regex.findall(r"\X", unicodedata.normalize("NFD", word.lower()))
    plain = [letter[0] for letter in letters]
    out, i = "", 0
    while i < len(plain):
        pair = "".join(plain[i : i + 2])
        is_pair = len(pair) == 2 and len(letters[i]) == 1 and _DIAERESIS not in letters[i + 1]
        if is_pair and pair in _GREEK_PAIRS:
            out += _GREEK_PAIRS[pair]
            i += 2
        elif is_pair and pair in ("αυ", "ευ", "ηυ"):
            is_voiced = i + 2 < len(plain) and plain[i + 2] in _VOICED
            out += _GREEK[pair[0]] + ("v" if is_voiced else "f")
            i += 2
        elif pair == "μπ" and i in (0, len(plain) - 2):
            out += "b"
            i += 2
        else:
            out += _GREEK.get(plain[i], plain[i])
            i += 1
    return out.capitalize()


_SPELLED: Final[Mapping[str, Callable[[str], str]]] = {"ru_Latn_RU": _russian, "el_Latn_GR": _greek}
"""Of places whose surnames are spelled in Latin letters, how."""
_IN_LATIN: Final[Mapping[str, Mapping[str, str]]] = {
    "zh_Latn_CN": {"surnames": "last_romanized_names"},
    "ja_Latn_JP": {
        "male": "first_romanized_names_male",
        "female": "first_romanized_names_female",
        "surnames": "last_romanized_names",
    },
}
"""Faker's tables in Latin letters."""


def names_by_kind(locale: str) -> Mapping[str, Sequence[str]]:
    """Names of one of `LOCALES`: 'male', 'female' and 'surnames'."""
    from faker.providers import person

    names = {kind: listed.split() for kind, listed in _LISTED[locale].items()}
    if locale not in (*_SPELLED, *_IN_LATIN):
        return names
    language, _, country = locale.split("_")
    provider = module_in(person, f"{language}_{country}").Provider
    for kind, table in _IN_LATIN.get(locale, {}).items():
        names[kind] += getattr(provider, table)
    spelled = _SPELLED.get(locale)
    if spelled is not None:
        of_faker = [spelled(name) for name in (*provider.last_names_male, *provider.last_names_female)]
        names["surnames"] = [*names.get("surnames", ()), *of_faker]
    return names
