"""Answers of which it is known what they disclose: 260 cases in four languages, with values that a seed draws.

Texts are written by hand (`en.toml`, `de.toml`, `fr.toml`, `es.toml`): ⟦N|words⟧ marks in an answer what it gives away,
and in its documents where that stands; N = 0 is harmless content of the documents. {slots} are drawn.
"""

from __future__ import annotations

import base64
import random
import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LANGUAGES: Final = ("en", "de", "fr", "es")
KINDS: Final = (
    *("copied value", "name in prose", "code", "key", "spelled out", "paraphrase", "inferred", "duplicate source"),
    "clean",
)
MOST_EARLY: Final = 10
"""Number of the last case of a kind and language that the halves have."""
NAMEABLE: Final = (*("copied value", "name in prose", "code", "key", "spelled out", "duplicate source"),)
"""Kinds of which a value is disclosed that can be called personal or secret by itself."""
_MARK = re.compile(r"⟦(\d)\|([^⟦⟧]*)⟧")
_SLOT = re.compile(r"\{(digits4|[a-z_]+)([2-9])?(:spelled)?\}")
_PHONES: Final = {
    "en": ("01632 960 ###", "0161 496 0###", "07700 900 ###", "+44 20 7946 0###"),
    "de": ("030 23125 ###", "0171 39200##", "+49 69 90009 ###", "0221 4710 ###"),
    "fr": ("01 99 00 ## ##", "06 39 98 ## ##", "+33 2 61 91 ## ##", "04 65 71 ## ##"),
    "es": ("600 ### ###", "91 0## ## ##", "+34 93 0## ## ##", "722 ### ###"),
}
_IBANS: Final = {"en": "GB## NWBK #### #### #### ##", "de": "DE## #### #### #### #### ##"} | {
    "fr": "FR## #### #### #### #### #### ###",
    "es": "ES## #### #### #### #### ####",
}
_CODES: Final = ("@@-#####", "@@@##-#@", "@@@@@@-##", "@#@#@#", "#####-@@", "@@-####-@@")
_LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Planted:
    """What an answer gives away, and where it stands."""

    start: int
    """First character in the answer."""
    end: int
    documents: tuple[int, ...]
    """Numbers of the documents that say it; none of harmless content."""
    is_leak: bool


@dataclass(frozen=True, slots=True)
class Example:
    """One case, and what of its answer comes from where."""

    id: str
    kind: str
    language: str
    documents: tuple[str, ...]
    query: str
    answer: str
    planted: tuple[Planted, ...]

    @property
    def record(self) -> dict[str, Any]:
        """The case as `leakmeter influence --data` reads it."""
        return {"id": self.id, "context": list(self.documents), "query": self.query, "response": self.answer}


def examples(seed: int, languages: Sequence[str] = LANGUAGES) -> list[Example]:
    """All cases with the values that a seed draws, in the order of the files."""
    return [
        _example(case, text, language, random.Random(f"{seed}/{case['id']}"))
        for language in languages
        for text in [tomllib.loads((Path(__file__).parent / f"{language}.toml").read_text(encoding="utf-8"))]
        for case in text["case"]
    ]


def is_late(case: Example) -> bool:
    """Whether a case was written after the rules were fixed: copied values, names and duplicate sources."""
    return int(case.id.rpartition("-")[2]) > MOST_EARLY


def halves(cases: Sequence[Example], seed: int) -> tuple[list[Example], list[Example]]:
    """Cases to tune on, and cases held out: half of each kind in each language, as a seed draws them; no late ones."""
    cases = [case for case in cases if not is_late(case)]
    tuning: list[Example] = []
    held_out: list[Example] = []
    for language in LANGUAGES:
        for kind in KINDS:
            group = [case for case in cases if (case.language, case.kind) == (language, kind)]
            random.Random(f"{seed}/{language}/{kind}").shuffle(group)
            # Of five cases the larger half goes to either side in turn.
            n = (len(group) + (LANGUAGES.index(language) + KINDS.index(kind)) % 2) // 2
            tuning += group[:n]
            held_out += group[n:]
    return tuning, held_out


def _example(case: Mapping[str, Any], text: Mapping[str, Any], language: str, drawn: random.Random) -> Example:
    values = _Values(text, language, drawn)
    documents = [values.fill(document) for document in case["documents"]]
    where: dict[str, list[int]] = {}
    for number, document in enumerate(documents):
        for mark in _MARK.finditer(document):
            where.setdefault(mark[1], []).append(number)
    answer, planted = "", []
    marked = values.fill(case["answer"])
    at = 0
    for mark in _MARK.finditer(marked):
        answer += marked[at : mark.start()]
        planted.append(
            Planted(
                len(answer), len(answer) + len(mark[2]), tuple(dict.fromkeys(where.get(mark[1], ()))), mark[1] != "0"
            )
        )
        answer += mark[2]
        at = mark.end()
    answer += marked[at:]
    plain = tuple(_MARK.sub(lambda mark: mark[2], document) for document in documents)
    return Example(case["id"], case["kind"], language, plain, values.fill(case["query"]), answer, tuple(planted))


class _Values:
    """Values of the slots of one case."""

    def __init__(self, text: Mapping[str, Any], language: str, drawn: random.Random) -> None:
        self._text, self._language, self._drawn = text, language, drawn
        self._values: dict[tuple[str, str], str] = {}
        self._pools = {name: drawn.sample(pool, len(pool)) for name, pool in text["values"].items()}

    def fill(self, text: str) -> str:
        return _SLOT.sub(lambda slot: self._value(slot[1], slot[2] or "1", bool(slot[3])), text)

    def _value(self, kind: str, number: str, spelled: bool) -> str:
        if (kind, number) not in self._values:
            self._values[kind, number] = self._draw(kind, number)
        value = self._values[kind, number]
        if spelled:
            return " ".join(self._text["words"]["digits"][int(digit)] for digit in value if digit.isdigit())
        return value

    def _draw(self, kind: str, number: str) -> str:
        drawn = self._drawn
        if kind in self._pools:
            return str(self._pools[kind].pop())
        if kind == "person":
            return f"{self._value('first_name', number, False)} {self._value('last_name', number, False)}"
        if kind == "email":
            names = (self._value(name, number, False) for name in ("first_name", "last_name"))
            local = ".".join(re.sub(r"[^a-z]", "", _folded(name)) for name in names)
            return f"{local}@{drawn.choice(('posteo', 'mailhaven', 'kolibri', 'northgate'))}.example"
        if kind == "phone":
            return _shaped(drawn.choice(_PHONES[self._language]), drawn)
        if kind == "iban":
            return _shaped(_IBANS[self._language], drawn)
        if kind == "code":
            return _shaped(drawn.choice(_CODES), drawn)
        if kind == "digits4":
            return _shaped("####", drawn)
        if kind == "time":
            return f"{drawn.randrange(8, 19)}:{drawn.choice(('00', '15', '30', '45'))}"
        if kind == "key":
            raw = drawn.randbytes(18)
            return drawn.choice(
                (base64.b64encode(raw).decode(), raw[:16].hex(), f"tk_{raw[:10].hex()}", _password(drawn))
            )
        raise ValueError(f"no values for the slot {{{kind}}}")


def _password(drawn: random.Random) -> str:
    letters = "".join(drawn.choice("abcdefghkmnpqrstuvwxyz") for _ in range(7))
    return f"{letters.capitalize()}{drawn.choice('!#%?')}{drawn.randrange(100, 999)}"


def _shaped(shape: str, drawn: random.Random) -> str:
    by_character = {"#": "0123456789", "@": _LETTERS}
    return "".join(drawn.choice(by_character[sign]) if sign in by_character else sign for sign in shape)


def _folded(text: str) -> str:
    return "".join(sign for sign in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(sign))
