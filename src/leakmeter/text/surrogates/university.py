"""Surrogates of a university's name: others of the list that ships."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from leakmeter.text.surrogates.draw import SurrogateDraw


@functools.cache
def universities() -> tuple[str, ...]:
    """Universities of the United States as they call themselves, the lines of `universities.txt`."""
    return tuple((Path(__file__).parent / "universities.txt").read_text(encoding="utf-8").splitlines())


def drawer(value: str) -> SurrogateDraw:
    """Draws universities; none is the true one by its initials, or with or without its campus."""
    others = [name for name in universities() if not _is_same(_plain(value), name)]
    return lambda drawn: drawn.choice(others)


def _plain(name: str) -> str:
    words = re.findall(r"\w+", name.casefold())
    return " ".join(words[1:] if words[:1] == ["the"] else words)


def _is_same(plain: str, name: str) -> bool:
    plain_name = _plain(name)
    initials = "".join(word[0] for word in re.findall(r"\w+", name) if word[0].isupper()).casefold()
    return plain in (plain_name, initials) or plain.startswith(f"{plain_name} ") or plain_name.startswith(f"{plain} ")
