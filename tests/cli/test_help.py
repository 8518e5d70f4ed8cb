"""The help of every command: the program's own options and words, and nothing that its framework adds."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from cyclopts import App
from rich.console import Console

from leakmeter.cli import program
from leakmeter.cli.cache import app as cache

OWN_NEGATIVES = {"--no-cache"}
"""Options of ours that begin so."""


def commands(app: App | None = None, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Words of every command, and of those within it."""
    yield words
    for name in app or program(words[0] if words else None):
        if not name.startswith("-"):
            whole = (*words, name)
            yield from commands((app or program(whole[0]))[name], whole)


def help_of(words: tuple[str, ...]) -> str:
    said = io.StringIO()
    program(words[0] if words else None).help_print(list(words), console=Console(file=said, width=200))
    return said.getvalue()


ALL = list(commands())


def test_help_has_no_leftovers() -> None:
    assert {(), ("gate",), ("runs", "compare"), ("pii", "probe"), ("audit", "run"), ("cache", "clear")} <= set(ALL)
    for words in ALL:
        said = help_of(words)
        assert set(re.findall(r"--(?:no|empty)-[\w-]+", said)) <= OWN_NEGATIVES
        for leftover in (*(f"default: {value}" for value in ("None", "False", "True", "(", "[", "]")), '""'):
            assert leftover not in said, words
        # Markup of docstrings is not for a terminal.
        assert "``" not in said, words
        assert ":param" not in said, words


def test_a_command_keeps_its_own_help_whatever_was_looked_at_before() -> None:
    before = help_of(("cache",))
    program("demo")["cache"]
    program()["cache"]
    assert help_of(("cache",)) == before
    assert "reconstructed" in before
    assert "reconstructed" in cache.help
