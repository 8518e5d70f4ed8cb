"""Names in the letters of another script: 'Ivan Petrov' and 'Иван Петров' are one name.

Each word has a **key**: its sounds, in which the ways of writing a name in Latin letters that are in use agree (Sergei,
Sergey, Sergej). Cyrillic and Greek words have a key of all letters, Arabic ones, which write few vowels, of consonants
alone. Chinese, Japanese and Korean names are not known in Latin letters, which takes a dictionary, nor Hebrew ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import regex

from leakmeter.text.folding import unaccented

_LETTERS_OF: Final = {
    **dict(
        zip("абвгґдеєёжзиіїйклмнопрстуўфхцчшщыэюяјљњћђџ", "abvggdeeezziiiiklmnoprstuufhccssieuailnccd", strict=True)
    ),
    **dict(zip("αβγδεζηθικλμνοπρσςτυφχω", "avgdezitiklmnoprsstifho", strict=True)),
    **dict.fromkeys("ъь’ʹ", ""),
    "ξ": "ks",
    "ψ": "ps",
}
_CONSONANTS_OF: Final = {
    **dict(zip("بتثجحخدذرزسشصضطظغفقكلمنهپچڤگک", "bttghhddrzsssdtzgpkklmnhpsbgk", strict=True)),
}
_SPELLINGS: Final = (
    (regex.compile(r"shch|sch|sh|sz"), "s"),
    (regex.compile(r"tsch|tch|ch|ts|tz|cz"), "c"),
    (regex.compile(r"kh"), "h"),
    (regex.compile(r"zh"), "z"),
    (regex.compile(r"([dgt])h"), r"\1"),
    (regex.compile(r"ph"), "f"),
    (regex.compile(r"ou|oo"), "u"),
    (regex.compile(r"x"), "ks"),
    (regex.compile(r"w"), "v"),
    (regex.compile(r"q"), "k"),
    (regex.compile(r"[yij]+(?=[aeou])"), ""),
    (regex.compile(r"[yj]"), "i"),
    (regex.compile(r"(.)\1+"), r"\1"),
)
"""How a sound is written in Latin letters, and as the key has it, in this order."""
_MOST: Final = 100
"""Characters of a name."""
_LEAST_LETTERS: Final = 4
_LEAST_CONSONANTS: Final = 5
_WORD = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}\p{Arabic}][\p{L}\p{M}'’ʹ]{0,40}+")
_LATIN, _LETTERS, _CONSONANTS = (
    regex.compile(r"\p{Latin}"),
    regex.compile(r"[\p{Cyrillic}\p{Greek}]"),
    regex.compile(r"\p{Arabic}"),
)
_CYRILLIC = regex.compile(r"\p{Cyrillic}")
_BETWEEN = regex.compile(r"[\s.·‐-]{1,3}")
_Words = list[tuple[str, int, int]]
"""Keys with their characters."""


def places(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Characters of a text that say a name of another script than theirs; nothing of a short name."""
    if len(value) > _MOST:
        return
    is_latin = _LATIN.search(value) is not None
    if value.isascii() and text.isascii():
        return
    for script, key, least in ((_LETTERS, _key, _LEAST_LETTERS), (_CONSONANTS, _consonants, _LEAST_CONSONANTS)):
        is_of_script = script.search(value) is not None
        if is_latin == is_of_script:
            continue
        name = [word for word, _, _ in _words(value, key, _LATIN if is_latin else script)]
        if len("".join(name)) >= least:
            # The article of Arabic is a word of its own, or none.
            n_words = len(name) if script is _LETTERS else None
            yield from _runs(text, _words(text, key, script if is_latin else _LATIN), "".join(name), n_words)


def _runs(text: str, words: _Words, wanted: str, n_words: int | None) -> Iterator[tuple[int, int]]:
    """Words in a row, so many where that is known, whose keys are a key together."""
    for first, (_, start, _) in enumerate(words):
        said = ""
        for number in range(first, len(words)):
            key, at, end = words[number]
            if number > first and not _BETWEEN.fullmatch(text, words[number - 1][2], at):
                break
            said += key
            if said == wanted and n_words in (None, number - first + 1):
                yield start, end
            if not key or not wanted.startswith(said):
                break


@lru_cache(maxsize=16)
def _words(text: str, key: Callable[[str], str], script: regex.Pattern[str]) -> _Words:
    """Words of one script, and their keys."""
    return [(key(match.group()), *match.span()) for match in _WORD.finditer(text) if script.match(match.group())]


@lru_cache(maxsize=20_000)
def _key(word: str) -> str:
    """The sounds of a word in Latin, Cyrillic or Greek letters.

    >>> {_key(word) for word in ("Сергей", "Sergei", "Sergey", "Sergej")}
    {'sergei'}
    """
    # An accent on a Cyrillic letter makes another letter of it.
    letters = word.casefold() if _CYRILLIC.match(word) else unaccented(word).casefold().replace("ου", "u")
    written = "".join(_LETTERS_OF.get(letter, letter) for letter in letters)
    for spelling, sound in _SPELLINGS:
        written = spelling.sub(sound, written)
    return "".join(filter(str.isalpha, written))


@lru_cache(maxsize=20_000)
def _consonants(word: str) -> str:
    """The consonants of a word in Latin or Arabic letters.

    >>> {_consonants(word) for word in ("محمد", "Mohammed", "Muhammad")}
    {'mhmd'}
    """
    if not _LATIN.match(word):
        return _once("".join(_CONSONANTS_OF.get(letter, "") for letter in word))
    written = unaccented(word).casefold().replace("w", "")
    sounds = regex.sub(r"ch|sh", "s", written)
    sounds = regex.sub(r"kh", "h", regex.sub(r"([dgt])h", r"\1", sounds))
    sounds = sounds.translate(str.maketrans("vfjqx", "bpgkk")).removesuffix("h")
    return _once(regex.sub(r"[aeiouy]|\P{L}", "", sounds))


def _once(sounds: str) -> str:
    """Without a second of two sounds that are alike."""
    return "".join(sound for at, sound in enumerate(sounds) if not sounds.startswith(sound, at - 1) or at == 0)
