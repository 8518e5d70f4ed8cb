"""Texts searched by recognisers of packs.

Where a value may begin is known before its pattern is asked: at one of its texts to begin with, at one of its words,
behind a word, or not far before as many digits as it has; else it is looked for everywhere. All these texts and words
of many recognisers are looked for at once.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic
from typing import Final

import regex

from leakmeter.errors import UsageError
from leakmeter.text.entities import date, person
from leakmeter.text.entities.mention import DATE, PERSON, Mention
from leakmeter.text.entities.packs.checksums import AS_WRITTEN, CHECKSUMS
from leakmeter.text.entities.packs.rule import PackRule
from leakmeter.text.folding import WORD, alike, any_of, in_plain_text, lower

_DIGIT: Final = regex.compile(r"\d")
_MOST_RUNS: Final = 25
"""In a text with more runs of digits than one to so many characters it is quicker to ask every place than those near
them."""
_BESIDE = regex.compile(rf"[{WORD}]{{2}}")
_MOST_OF_HEAD: Final = 12
"""Characters of a text that are looked for at once; the rest is compared where these stand."""


@in_plain_text
def find(text: str, rules: Sequence[PackRule]) -> Iterator[Mention]:
    """What recognisers find, in no order; those of several may overlap. `UsageError` where one of a user's takes too
    long."""
    read = _read(text)
    heads = _heads(tuple(rules))
    places = heads.places(read)
    for number, rule in enumerate(rules):
        if number in heads.of_heads and number not in places:
            continue
        if rule.needs and not any(need in read.alike for need in rule.needs):
            continue
        try:
            for match in _matches(read, rule, places.get(number)):
                start, end = match.span("value" if match.re.groupindex.get("value") and match["value"] else "whole")
                said = text[start:end]
                if not said.strip() or (rule.checksum is not None and not _holds(rule.checksum, said)):
                    continue
                if not rule.after or _has_word(read.lowered, rule.after, end, min(len(text), end + rule.near)):
                    yield Mention(rule.kind, start, end, _normal(rule, said))
        except TimeoutError:
            raise UsageError(
                f"the recogniser of kind '{rule.kind}' took longer than {rule.seconds:g} s on a document; the usual "
                "cause is that one text fits its pattern in many ways, as in (a|a){40}"
            ) from None


@dataclass(frozen=True, slots=True)
class _Read:
    """A text as it is searched."""

    text: str
    lowered: str
    alike: str
    digits: Sequence[int]
    """Where its digits are."""
    runs: Sequence[int]
    """Of these, the numbers of those that stand behind none."""


@lru_cache(maxsize=8)
def _read(text: str) -> _Read:
    digits = [match.start() for match in _DIGIT.finditer(text)]
    runs = [number for number, at in enumerate(digits) if not number or digits[number - 1] != at - 1]
    return _Read(text, lower(text), alike(text), digits, runs)


# ------------------------------------------------------------------------------------------------- where values begin


class _Heads:
    """What values of some rules begin with, or stand behind, as one pattern."""

    def __init__(self, rules: Sequence[PackRule]) -> None:
        self._rules = rules
        wanted: dict[str, list[tuple[int, str]]] = {}
        for number, rule in enumerate(rules):
            for word in rule.before or rule.starts or rule.heads:
                wanted.setdefault(alike(word)[:_MOST_OF_HEAD], []).append((number, word))
        self.of_heads = frozenset(number for some in wanted.values() for number, _ in some)
        """Rules that match nowhere else."""
        # The longest is found, and those it begins with stand there too.
        self._wanted = {
            head: [one for n in range(1, len(head) + 1) for one in wanted.get(head[:n], ())] for head in wanted
        }
        of_words = [head for head in wanted if _begins_with_word(head)]
        others = [head for head in wanted if not _begins_with_word(head)]
        # No letter or digit stands before a value or a word; before a sign any may.
        ways = [*([rf"(?<![a-z0-9_]){any_of(of_words)}"] if of_words else []), *([any_of(others)] if others else [])]
        self._pattern = re.compile(f"(?=({'|'.join(ways)}))") if ways else None

    def places(self, read: _Read) -> dict[int, list[int]]:
        """Rules, by their numbers, to where a value of theirs may begin: at a text, or at the end of a word."""
        places: dict[int, set[int]] = {}
        for match in self._pattern.finditer(read.alike) if self._pattern else ():
            at = match.start()
            for number, word in self._wanted[match[1]]:
                if not self._rules[number].before:
                    places.setdefault(number, set()).add(at)
                elif _is_word(read.lowered, word, at):
                    places.setdefault(number, set()).add(at + len(word))
        return {number: sorted(some) for number, some in places.items()}


@lru_cache(maxsize=64)
def _heads(rules: tuple[PackRule, ...]) -> _Heads:
    return _Heads(rules)


def _begins_with_word(head: str) -> bool:
    return regex.match(rf"[{WORD}]", head) is not None


def _is_word(lowered: str, word: str, at: int) -> bool:
    """Whether a word stands at a place as a whole."""
    if not lowered.startswith(word, at):
        return False
    end = at + len(word)
    return not _BESIDE.match(lowered, at - 1, at + 1) and not _BESIDE.match(lowered, end - 1, end + 1)


def _has_word(lowered: str, words: Sequence[str], start: int, end: int) -> bool:
    """Whether characters [start, end), as a text of their own, have one of some words as a whole."""
    part = lowered[start:end]
    for word in words:
        at = part.find(word)
        while at >= 0:
            if _is_word(part, word, at):
                return True
            at = part.find(word, at + 1)
    return False


# ---------------------------------------------------------------------------------------------------- what values are


def _matches(read: _Read, rule: PackRule, places: Sequence[int] | None) -> Iterator[regex.Match[str]]:
    """Places that look like a value of a rule, none overlapping; `places` are where one may begin, None for all."""
    if places is None:
        if rule.is_of_digits:
            yield from _near_digits(read, rule)
        else:
            yield from rule.compiled.finditer(read.text, timeout=rule.seconds)
        return
    until = None if rule.seconds is None else monotonic() + rule.seconds
    compiled = rule.behind_word if rule.before else rule.compiled
    done = 0
    for at in places:
        left = None if until is None else until - monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        # What lies behind a word may have begun before the last value ended.
        if at < done and not rule.before:
            continue
        if rule.passed and (phrase := rule.passed_over.match(read.text, at, timeout=left)):
            done = phrase.end()
            continue
        match = compiled.match(read.text, at, timeout=left)
        if match and match.start("whole") >= done:
            done = match.end("whole")
            yield match


def _near_digits(read: _Read, rule: PackRule) -> Iterator[regex.Match[str]]:
    """Matches of a rule, which begin not far before a run of digits, of which as many as it has stand close enough."""
    digits, distance, done = read.digits, rule.to_digit or 0, 0
    more = max(0, rule.digits - 1)
    enough = read.runs[: bisect_left(read.runs, len(digits) - more)]
    runs = [digits[number] for number in enough if digits[number + more] - digits[number] < rule.most]
    if len(runs) * _MOST_RUNS > len(read.text):
        yield from rule.compiled.finditer(read.text)
        return
    for run in runs:
        at = max(done, run - distance)
        while at <= run and (match := rule.near_digit.match(read.text, at)):
            at = done = match.end("whole")
            yield match


def _holds(checksum: str, said: str) -> bool:
    value = said if checksum in AS_WRITTEN else compact(said)
    return value.isascii() and CHECKSUMS[checksum](value)


def compact(text: str) -> str:
    """Letters and digits of a value, in capitals."""
    return "".join(filter(str.isalnum, text)).upper()


def _normal(rule: PackRule, said: str) -> str:
    if rule.kind == PERSON:
        return person.normal(said)
    if rule.kind == DATE and (parsed := date.parse(said, "")) is not None:
        return parsed[1]
    if rule.checksum is not None or sum(map(str.isdigit, said)) * 2 > len(said):
        return compact(said)
    # Keys are told apart by their case.
    return said if rule.starts else " ".join(said.casefold().split())
