"""Texts searched by recognisers of packs.

Where a value may begin is known before its pattern is asked: at one of its texts to begin with, behind a word, or not
far before a digit; else it is looked for everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from time import monotonic
from typing import Final

import regex

from leakmeter.errors import UsageError
from leakmeter.text.entities import date, person
from leakmeter.text.entities.mention import DATE, PERSON, Mention
from leakmeter.text.entities.packs.checksums import AS_WRITTEN, CHECKSUMS
from leakmeter.text.entities.packs.rule import BEGINS, PackRule, lower
from leakmeter.text.folding import WORD, in_plain_text

_DIGITS = regex.compile(r"\d+")
_MOST_RUNS: Final = 50
"""In a text with more runs of digits than one to so many characters it is quicker to ask every place than those near
them."""
_BESIDE = regex.compile(rf"[{WORD}]{{2}}")


@in_plain_text
def find(text: str, rules: Sequence[PackRule]) -> Iterator[Mention]:
    """What recognisers find, in no order; those of several may overlap. `UsageError` where one of a user's takes too
    long."""
    lowered = lower(text) if any(rule.before or rule.after for rule in rules) else ""
    likely = _likely(text, [rule for rule in rules if rule.is_of_digits])
    for rule in rules:
        try:
            matches = likely(rule) if rule.is_of_digits else _matches(text, lowered, rule)
            for match in matches:
                start, end = match.span("value" if match.re.groupindex.get("value") and match["value"] else "whole")
                said = text[start:end]
                if not said.strip() or (rule.checksum is not None and not _holds(rule.checksum, said)):
                    continue
                if not rule.after or any(True for _ in _ends_of_words(lowered[end : end + rule.near], rule.after)):
                    yield Mention(rule.kind, start, end, _normal(rule, said))
        except TimeoutError:
            raise UsageError(
                f"the recogniser of kind '{rule.kind}' took longer than {rule.seconds:g} s on a document; the usual "
                "cause is that one text fits its pattern in many ways, as in (a|a){40}"
            ) from None


def _likely(text: str, rules: Sequence[PackRule]) -> Callable[[PackRule], Iterator[regex.Match[str]]]:
    """Finds what rules match whose values have a digit soon: one question asks for all of them, and few places are left
    where one of them may match."""
    runs = _digits(text) if rules else ()
    if len(runs) * _MOST_RUNS > len(text):
        return lambda rule: rule.compiled.finditer(text)
    by_distance: dict[int, list[PackRule]] = {}
    for rule in rules:
        by_distance.setdefault(rule.to_digit or 0, []).append(rule)
    near: dict[int, Sequence[int]] = {}
    for distance, some in by_distance.items():
        screen = _at_once(tuple(some), distance)
        near[distance] = [run for run in runs if screen.match(text, max(0, run - distance))]
    return lambda rule: _near(text, near[rule.to_digit or 0], rule)


@lru_cache(maxsize=32)
def _at_once(rules: tuple[PackRule, ...], distance: int) -> regex.Pattern[str]:
    """What matches where any of some rules does, within a distance."""
    return regex.compile(rf"(?s:.{{0,{distance}}}?){BEGINS}(?:{'|'.join(rule.inner for rule in rules)})")


def _near(text: str, runs: Sequence[int], rule: PackRule) -> Iterator[regex.Match[str]]:
    distance, done = rule.to_digit or 0, 0
    for run in runs:
        at = max(done, run - distance)
        while at <= run and (match := rule.near_digit.match(text, at)):
            at = done = match.end("whole")
            yield match


def _matches(text: str, lowered: str, rule: PackRule) -> Iterator[regex.Match[str]]:
    """Places that look like a value of a rule, none overlapping."""
    until = None if rule.seconds is None else monotonic() + rule.seconds
    if not rule.before and not rule.starts:
        yield from rule.compiled.finditer(text, timeout=rule.seconds)
        return
    done = 0
    compiled = rule.behind_word if rule.before else rule.compiled
    for at in sorted(set(_ends_of_words(lowered, rule.before) if rule.before else _places(text, rule.starts))):
        left = None if until is None else until - monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        match = compiled.match(text, at, timeout=left)
        if match and match.start("whole") >= done:
            done = match.end("whole")
            yield match


@lru_cache(maxsize=4)
def _digits(text: str) -> Sequence[int]:
    """Where runs of digits begin."""
    return [match.start() for match in _DIGITS.finditer(text)]


def _places(text: str, parts: Sequence[str]) -> Iterator[int]:
    for part in parts:
        at = text.find(part)
        while at >= 0:
            yield at
            at = text.find(part, at + 1)


def _ends_of_words(lowered: str, words: Sequence[str]) -> Iterator[int]:
    """Where words end that stand there as wholes."""
    for word in words:
        for at in _places(lowered, (word,)):
            end = at + len(word)
            if not _BESIDE.match(lowered, at - 1, at + 1) and not _BESIDE.match(lowered, end - 1, end + 1):
                yield end


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
