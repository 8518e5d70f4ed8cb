"""Reports whose keys and passwords are not to be read: terminals and Markdown end in logs that others see.

Of a secret its first characters are shown, by which it is found again where it is kept, and a dot for each of the
others, wherever a report says it: in tables, and in texts that are cut into tokens or pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Final

from leakmeter.report import blocks as b

DOT: Final = "•"
_SHOWN: Final = 4
"""First characters of a secret that are shown, of one that has four times as many."""


def masked(report: b.Report, secrets: Iterable[str]) -> b.Report:
    """A report in which these texts are not to be read; the same where there are none."""
    known = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
    return _masked(report, known) if known else report


def hidden(text: str, secrets: Sequence[str]) -> str:
    """A text as long, with dots for what of these secrets, the longest first, is not to be read.

    >>> hidden("key AKIAQ2W3E4R5T6Y7ZAPS ok", ["AKIAQ2W3E4R5T6Y7ZAPS"])
    'key AKIA•••••••••••••••• ok'
    """
    characters = list(text)
    for first, last in _places(text, secrets):
        characters[first:last] = DOT * (last - first)
    return "".join(characters)


def _places(text: str, secrets: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Characters [start, end) that are not to be read."""
    for secret in secrets:
        n_shown = min(_SHOWN, len(secret) // 4)
        at = text.find(secret)
        while at >= 0:
            yield at + n_shown, at + len(secret)
            at = text.find(secret, at + len(secret))


def _masked(thing: Any, secrets: Sequence[str]) -> Any:
    def mask(part: Any) -> Any:
        if isinstance(part, b.Untrusted):
            return replace(part, text=hidden(part.text, secrets))
        if isinstance(part, tuple) and type(part) is tuple:
            return tuple(_in_order(part, secrets))
        return _passage(part, secrets) if isinstance(part, b.Passage) else None

    return rewritten(thing, mask)


def rewritten(thing: Any, rewrite: Callable[[Any], Any]) -> Any:
    """A report, or a part of one, in which `rewrite` stands for the parts of which it makes something; it gives None of
    those that are only looked into."""
    if (made := rewrite(thing)) is not None:
        return made
    if isinstance(thing, b.Later):
        return b.Later(partial(_each, thing, rewrite))
    if is_dataclass(thing) and not isinstance(thing, type):
        changed = {field.name: rewritten(getattr(thing, field.name), rewrite) for field in fields(thing) if field.init}
        return replace(thing, **changed)
    if isinstance(thing, tuple) and type(thing) is tuple:
        return tuple(rewritten(one, rewrite) for one in thing)
    return [rewritten(one, rewrite) for one in thing] if isinstance(thing, list) else thing


def _each(things: Iterable[Any], rewrite: Callable[[Any], Any]) -> Iterator[Any]:
    return (rewritten(thing, rewrite) for thing in things)


def _in_order(things: tuple[Any, ...], secrets: Sequence[str]) -> Iterator[Any]:
    """Things of a tuple; of a phrase, texts that follow one another may each have a part of a secret."""
    for is_text, group in groupby(things, lambda thing: isinstance(thing, b.Untrusted)):
        if is_text:
            texts = list(group)
            take = _taking(hidden("".join(one.text for one in texts), secrets))
            yield from (replace(one, text=take(len(one.text))) for one in texts)
        else:
            yield from (_masked(one, secrets) for one in group)


def _passage(passage: b.Passage, secrets: Sequence[str]) -> b.Passage:
    """A passage whose segments, such as tokens, may each have a part of a secret."""
    text = hidden("".join(segment.text.text for segment in passage.segments), secrets)
    take = _taking(text)
    segments = []
    for segment in passage.segments:
        own = replace(segment.text, text=take(len(segment.text.text)))
        words = _taking(own.text)
        parts = [replace(part, text=replace(part.text, text=words(len(part.text.text)))) for part in segment.parts]
        segments.append(replace(segment, text=own, parts=parts, note=_masked(segment.note, secrets)))
    return replace(passage, segments=segments, name=_masked(passage.name, secrets))


def _taking(text: str) -> Callable[[int], str]:
    """Gives the next so many characters of a text."""
    at = 0

    def take(n: int) -> str:
        nonlocal at
        at += n
        return text[at - n : at]

    return take
