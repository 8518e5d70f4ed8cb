"""The user's own patterns: lines 'TYPE = REGEX'.

They are run with a limit of time, by the `regex` library, since a pattern may take forever on the wrong text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regex

from leakmeter.core.files import read_text
from leakmeter.errors import UsageError
from leakmeter.text.entities.mention import Mention
from leakmeter.text.folding import in_unescaped_text

SECONDS_AT_MOST = 2.0
"""For one pattern and one document."""
_MOST_CHARACTERS = 10_000
_MOST_REPEATS = 1_000_000
_REPEATS = re.compile(r"\{(\d+)")
_LINE = re.compile(r"\s*(?P<type>\S+)\s*=\s*(?P<pattern>.*?)\s*")
_TYPE = re.compile(r"[a-z][a-z0-9_]{0,23}")
_IS_TEXT = re.compile(r"^[^\n=]* = ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Pattern:
    type: str
    source: str
    compiled: Any


def resolved(patterns: str | None) -> str | None:
    """A file's name to the lines in it, so that a run is known by what it read; lines as they are."""
    if patterns is None:
        return None
    text = patterns if _IS_TEXT.search(patterns) else read_text(Path(patterns), "file of entity patterns")
    return "\n".join(f"{pattern.type} = {pattern.source}" for pattern in parse(text))


def parse(text: str) -> list[Pattern]:
    """Lines 'TYPE = REGEX' to patterns; empty lines and lines that begin with '#' say nothing."""
    patterns = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if not match or not match["pattern"] or not _TYPE.fullmatch(match["type"]):
            raise UsageError(
                f"entity patterns, line {number}: {line.strip()[:60]!r} is not 'TYPE = REGEX' with a type of small "
                "letters, digits and '_'"
            )
        expression = compiled(match["pattern"], f"entity patterns, line {number}: {match['pattern'][:60]!r}")
        if expression.match("") is not None:
            raise UsageError(
                f"entity patterns, line {number}: {match['pattern'][:60]!r} matches the empty text; it has to need a "
                "character at least"
            )
        patterns.append(Pattern(match["type"], match["pattern"], expression))
    if not patterns:
        raise UsageError("entity patterns hold no line 'TYPE = REGEX'")
    return patterns


def compiled(source: str, where: str, *, dot_is_any: bool = False, is_bounded: bool = False) -> Any:
    """A pattern that was compiled in little time and memory: repetitions are written out, and multiply. It is to be run
    with a limit of time, see `SECONDS_AT_MOST`. With `dot_is_any` a dot matches line breaks too; what `is_bounded` is
    known to match few characters, however often parts of it are repeated."""
    repeated = 1 if is_bounded else math.prod(max(1, int(count[-12:])) for count in _REPEATS.findall(source))
    if len(source) > _MOST_CHARACTERS or repeated > _MOST_REPEATS:
        raise UsageError(
            f"{where} is too large: {_MOST_CHARACTERS:,} characters at most, and repetitions that multiply to "
            f"{_MOST_REPEATS:,} at most"
        )
    try:
        return regex.compile(source, regex.DOTALL if dot_is_any else 0)
    except regex.error as error:
        raise UsageError(f"{where}: {error}") from None
    except (MemoryError, RecursionError):
        raise UsageError(f"{where} is nested too deeply") from None
    except (OverflowError, ValueError):
        raise UsageError(f"{where} holds a number that is too large") from None


@in_unescaped_text
def find(text: str, pattern: Pattern) -> Iterator[Mention]:
    """What a pattern finds, or its group 'value' where it has one; the normal form is in lower case, spaces single."""
    group: str | int = "value" if "value" in pattern.compiled.groupindex else 0
    try:
        for match in pattern.compiled.finditer(text, timeout=SECONDS_AT_MOST):
            start, end = match.span(group)
            # A group that took no part in the match is at (-1, -1), which is empty too.
            if text[start:end].strip():
                yield Mention(pattern.type, start, end, " ".join(text[start:end].casefold().split()))
    except TimeoutError:
        raise UsageError(
            f"entity pattern '{pattern.type} = {pattern.source[:60]}' took longer than {SECONDS_AT_MOST:g} s on a "
            "document; the usual cause is nested repetition, as in (a+)+"
        ) from None
