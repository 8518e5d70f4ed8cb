"""How many characters a pattern matches at most, how many digits at least, and how far behind its start the first is.

A pattern of a pack has to match few characters, so that a search takes time in proportion to the text: quantifiers have
upper limits, and nothing calls itself. The digits that a value has tell where to look for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import regex

from leakmeter.errors import UsageError

MOST: Final = 8_192
"""Characters that a pattern may match."""
_TOKEN = regex.compile(
    r"(?P<escape>\\(?:[pPN]\{[^{}]*\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^0-9gkLRXKpPNxu]))"
    r"|(?P<class>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])"
    r"|(?P<open>\((?:\?(?:P?<[A-Za-z_]\w*>|[:>=!]|<[=!]|[ims]+:))?(?!\?))"
    r"|(?P<close>\))"
    r"|(?P<bar>\|)"
    r"|(?P<times>(?:\{(?P<least>\d{1,5})(?:,(?P<most>\d{1,5}))?\}|\?)[?+]?)"
    r"|(?P<wrong>[*+{}\[\\]|\(\?)"
    r"|(?P<sign>.)",
    regex.DOTALL,
)
_DIGITS = regex.compile(r"\[(?:\\d|[0-9]-[0-9]|[0-9])+\]")


@dataclass(frozen=True, slots=True)
class Size:
    most: int
    """Characters that are matched, without those that are only looked at."""
    to_digit: int | None
    """Characters before the first digit at most; None where a match may have no digit."""
    digits: int
    """Digits that are matched at least."""


class _Sequence:
    """The alternatives of a group, or of a whole pattern, as they are read."""

    def __init__(self, opening: str) -> None:
        self.opening = opening
        self.branches: list[Size] = []
        self.most, self.to_digit, self.digits = 0, _FAR, 0

    def add(self, size: Size) -> None:
        if size.to_digit is not None:
            self.to_digit = min(self.to_digit, self.most + size.to_digit)
        self.most += size.most
        self.digits += size.digits

    def end_branch(self) -> None:
        self.branches.append(Size(self.most, self.to_digit if self.to_digit < _FAR else None, self.digits))
        self.most, self.to_digit, self.digits = 0, _FAR, 0

    def size(self) -> Size:
        self.end_branch()
        most = max(branch.most for branch in self.branches)
        digits = [branch.to_digit for branch in self.branches]
        found = [digit for digit in digits if digit is not None]
        to_digit = max(found) if len(found) == len(digits) else None
        if self.opening in ("(?<=", "(?<!", "(?!"):
            return Size(0, None, 0)
        if self.opening == "(?=":
            return Size(0, to_digit, 0)
        return Size(most, to_digit, min(branch.digits for branch in self.branches))


_FAR: Final = 10**9


def size_of(source: str, where: str) -> Size:
    """`UsageError` for a pattern without upper limit, or of more than `MOST` characters; `where` begins its text."""
    open_groups = [_Sequence("")]
    waiting: Size | None = None

    def settle() -> None:
        nonlocal waiting
        if waiting is not None:
            open_groups[-1].add(waiting)
            waiting = None

    for token in _TOKEN.finditer(source):
        kind, text = token.lastgroup, token.group()
        if kind == "times":
            if waiting is not None:
                most = int(token["most"] or token["least"] or 1)
                least = int(token["least"] or 0)
                waiting = Size(waiting.most * most, waiting.to_digit if least else None, waiting.digits * least)
                _check(waiting.most, where)
            settle()
            continue
        settle()
        if kind == "wrong":
            raise UsageError(
                f"{where} has {text!r} at character {token.start() + 1}; write how often at most, as in {{0,40}}, and "
                "brackets and backslashes that are meant as such behind a backslash"
            )
        if kind == "open":
            open_groups.append(_Sequence(text))
        elif kind == "close":
            if len(open_groups) == 1:
                continue  # the library says so
            waiting = open_groups.pop().size()
        elif kind == "bar":
            open_groups[-1].end_branch()
        else:
            is_digit = text == r"\d" or text.isdecimal() or (kind == "class" and _DIGITS.fullmatch(text) is not None)
            waiting = Size(1, 0 if is_digit else None, int(is_digit))
        _check(sum(group.most for group in open_groups), where)
    settle()
    while len(open_groups) > 1:  # the library says so
        open_groups[-2].add(open_groups.pop().size())
    size = open_groups[0].size()
    _check(size.most, where)
    return size


def _check(n_characters: int, where: str) -> None:
    if n_characters > MOST:
        raise UsageError(f"{where} matches {n_characters:,} characters or more; {MOST:,} at most")
