"""Nulls of a relative's name and of a university's."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from leakmeter.instruments.pii.subject import Subject
from leakmeter.samples.words import Gender, alike, gender_of, given_names, surnames, universities
from leakmeter.text.entities.invent import invent
from leakmeter.text.entities.mention import PERSON, Entity

Draw = Callable[[random.Random], str]

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_TITLE = re.compile(r"(?i:dr|mr|mrs|ms|miss|prof|sir|jr|sr|ii|iii|iv|phd|md|esq|aunt|uncle|grandma|grandpa)")
_BOTH: tuple[Gender, Gender] = ("female", "male")
_INITIALS = "ABCDEFGHIJKLMNOPRSTVW"


def person(value: str, subject: Subject, kind: str) -> Sequence[Draw]:
    """Draws names of as many words: first names of the relation's gender, other surnames.

    By the first way to draw, these are as frequent as the true ones; by the second, common or rare. Words that the
    subject's own name has, such as the surname, stay, and no other word becomes one of them: whoever copies the name
    says them too. Initials become initials, titles and particles stay. Where the relation does not say the gender, the
    first name does. Names in other than Latin letters are invented by Faker, in their script.

    Args:
        value: a relative's name.
        subject: whose relative it is.
        kind: of relation, such as 'father'.
    """
    own = frozenset(word.casefold() for word in _WORD.findall(subject.name))
    if not value.isascii() and not any(char.isascii() and char.isalpha() for char in value):
        return [lambda drawn: _in_its_script(value, own, subject.region, drawn)]
    said = [match for match in _WORD.finditer(value) if not _TITLE.fullmatch(match.group())]
    has_capitals = value != value.lower()
    varied = [
        match
        for match in said
        if match.group().casefold() not in own and not (has_capitals and match.group().islower())
    ]
    gender = _gender(kind, [match.group() for match in said])
    # The last of several words is a surname.
    ranked = [surnames() if match is said[-1] and len(said) > 1 else given_names(gender) for match in varied]
    near = [alike(match.group(), names) for match, names in zip(varied, ranked, strict=True)]

    def drawer(pools: Sequence[Sequence[str]]) -> Draw:
        free = [
            _INITIALS if len(match.group()) == 1 else [name for name in pool if name.casefold() not in own]
            for match, pool in zip(varied, pools, strict=True)
        ]

        def draw(drawn: random.Random) -> str:
            out, cursor = "", 0
            for match, names in zip(varied, free, strict=True):
                out += value[cursor : match.start()] + _cased(drawn.choice(names), match.group())
                cursor = match.end()
            return out + value[cursor:]

        return draw

    return drawer(near), drawer(ranked)


def university(value: str) -> Draw:
    """Draws universities of the list that ships; none is the true one by its initials, or with or without its campus.

    Args:
        value: a university's name, or its initials.
    """
    others = [name for name in universities() if not _is_same(_plain(value), name)]
    return lambda drawn: drawn.choice(others)


def _gender(kind: str, words: Sequence[str]) -> Gender:
    """Of the relation, or else of the first word that is a first name of women or of men alone."""
    if gender_of(kind) != "any":
        return gender_of(kind)
    women, men = ({name.casefold() for name in given_names(gender)} for gender in _BOTH)
    for word in map(str.casefold, words):
        if word in women | men:
            return "any" if word in women & men else "female" if word in women else "male"
    return "any"


def _cased(new: str, like: str) -> str:
    return new.upper() if len(like) > 1 and like.isupper() else new.lower() if like.islower() else new


def _in_its_script(value: str, own: frozenset[str], region: str, drawn: random.Random) -> str:
    entity = Entity(PERSON, " ".join(value.casefold().split()), value, ((0, len(value)),))
    new = invent(entity, value, region=region, seed=drawn.getrandbits(32), case_id="null").text
    words, old = new.split(), value.split()
    if len(words) != len(old):
        return new
    return " ".join(was if was.casefold() in own else word for was, word in zip(old, words, strict=True))


def _plain(name: str) -> str:
    words = re.findall(r"\w+", name.casefold())
    return " ".join(words[1:] if words[:1] == ["the"] else words)


def _is_same(plain: str, name: str) -> bool:
    known = _plain(name)
    return plain in (known, _initials(name)) or plain.startswith(f"{known} ") or known.startswith(f"{plain} ")


def _initials(name: str) -> str:
    return "".join(word[0] for word in re.findall(r"\w+", name) if word[0].isupper()).casefold()
