"""Reports whose keys and passwords are not to be read: terminals and Markdown end in logs that others see.

They are hidden wherever a report says them: in tables, and in texts that are cut into tokens or pieces; those that
results name, and those that are found in the texts of the report itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from leakmeter.report import blocks as b
from leakmeter.text.entities.secrets import find, hidden


def masked(report: b.Report, secrets: Iterable[str]) -> b.Report:
    """A report in which these texts, and all that looks like a secret, are not to be read."""
    made: b.Report = _with_hidden(report, tuple(secrets))
    return made


def _with_hidden(thing: Any, secrets: Sequence[str]) -> Any:
    texts: list[str] = []
    passages: list[str] = []
    _collect(thing, texts, passages)
    # A table may have an id that looks like a key; a passage has none.
    found = (*find("\n".join(texts), by_shape=False), *find("\n".join(passages), by_shape=True))
    return _masked(thing, tuple(dict.fromkeys((*secrets, *found))))


def _collect(thing: Any, texts: list[str], passages: list[str]) -> None:
    """The texts of a part of a report; not of what is made later."""
    if isinstance(thing, b.Untrusted):
        texts.append(thing.text)
    elif isinstance(thing, b.Passage):
        passages.append("".join(segment.text.text for segment in thing.segments))
    elif isinstance(thing, tuple | list):
        for is_text, group in groupby(thing, lambda one: isinstance(one, b.Untrusted)):
            if is_text:
                texts.append("".join(one.text for one in group))
            else:
                for one in group:
                    _collect(one, texts, passages)
    elif is_dataclass(thing) and not isinstance(thing, type):
        for field in fields(thing):
            _collect(getattr(thing, field.name), texts, passages)


def _masked(thing: Any, secrets: Sequence[str]) -> Any:
    def mask(part: Any) -> Any:
        if isinstance(part, b.Later):
            return b.Later(lambda: (_with_hidden(one, secrets) for one in part))
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
