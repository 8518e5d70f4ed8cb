"""Keys, tokens and passwords: what terminals and logs, which others read, do not show whole.

Of a secret its first characters are shown, by which it is found again where it is kept, and a dot for each of the
others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import regex

from leakmeter.text.entities import shapes
from leakmeter.text.entities.packs import pack, search
from leakmeter.text.entities.packs.rule import PackRule
from leakmeter.text.structured import parts_of

DOT: Final = "•"
_SHOWN: Final = 4
"""First characters of a secret that are shown, of one that has four times as many."""
_PASSWORD: Final = "password"
"""The recogniser whose labels say that a password follows."""
_NAMES: Final = (
    *("pwd", "secret", "token", "pin", "otp", "credential", "credentials"),
    *("api key", "access key", "private key", "secret key", "encryption key", "ssh key", "signing key"),
)
"""What fields are called that have a secret, beside the labels of passwords."""
_LABELLED = regex.compile(
    r"(?<![\p{L}\p{N}_])(?P<name>[\p{L}_][\p{L}\p{N}_ -]{0,39})[\"'”]?[ ]{0,2}[:=][ ]{0,2}"
    r"(?:\"(?P<value>[^\"\n]{1,200})\"|'(?P<value>[^'\n]{1,200})'|(?P<value>(?=\S{0,199}[\d!#$%&*?@^~])[^\s\"',;<>]{3,200}))"
)
"""A name, a colon or an equals sign, and a value: within quotes, or with a character that no word has."""


@cache
def _names() -> frozenset[str]:
    labels = (label for rule in pack.recognisers() if rule.kind == _PASSWORD for label in rule.before)
    return frozenset(" ".join(parts_of(name)).casefold() for name in (*labels, *_NAMES))


def is_secret(kind: str) -> bool:
    """Whether a kind of value is a key or a password, or the name of a field that has one."""
    return kind == shapes.KEY or kind in pack.secrets() or _is_name(kind)


def _is_name(name: str) -> bool:
    """Whether the last words of a name are those of a secret: 'db_password', 'apiKey', but not 'max_tokens'."""
    words = [word.casefold() for word in parts_of(name)]
    return any(" ".join(words[-n:]) in _names() for n in (1, 2, 3) if len(words) >= n)


def find(text: str, *, by_shape: bool) -> tuple[str, ...]:
    """Secrets in a text, as it writes them; `by_shape` too those that nothing names, but which no word looks like: an
    id may look so as well."""
    found = dict.fromkeys(text[mention.start : mention.end] for mention in search.find(text, _recognisers()))
    found |= dict.fromkeys(match["value"] for match in _LABELLED.finditer(text) if _is_name(match["name"]))
    if by_shape:
        keys = (mention for mention in shapes.find(text) if mention.type == shapes.KEY)
        found |= dict.fromkeys(text[mention.start : mention.end] for mention in keys)
    return tuple(found)


@cache
def _recognisers() -> tuple[PackRule, ...]:
    return tuple(rule for rule in pack.recognisers() if is_secret(rule.kind))


def hidden(text: str, secrets: Sequence[str]) -> str:
    """A text as long, with dots for what of these secrets is not to be read.

    >>> hidden("key AKIAQ2W3E4R5T6Y7ZAPS ok", ["AKIAQ2W3E4R5T6Y7ZAPS"])
    'key AKIA•••••••••••••••• ok'
    """
    characters = list(text)
    for first, last in _places(text, sorted({*secrets} - {""}, key=len, reverse=True)):
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
