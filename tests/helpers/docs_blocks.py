"""Fenced blocks of the documentation's pages, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from helpers.places import ROOT

PAGES = [
    path
    for path in (ROOT / "README.md", ROOT / "RELEASING.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.is_file()
]
DRAWN = "One output"
OUTPUTS = ("Output", DRAWN)
"""Titles of what a command prints."""
CONSOLE = ("console", "bash", "sh", "shell")
_WITHOUT_MODEL = ("gate", "report", "runs", "models", "study")
_FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    number: int
    language: str
    title: str | None
    """The file that it is shown as."""
    text: str

    @property
    def id(self) -> str:
        return f"{self.page.relative_to(ROOT)}-{self.number}"


@cache
def _of(page: Path) -> tuple[Block, ...]:
    found = []
    for number, match in enumerate(_FENCE.finditer(page.read_text(encoding="utf-8")), 1):
        title = re.search(r'title="([^"]+)"', match.group(2))
        found.append(Block(page, number, match.group(1), title and title.group(1), match.group(3)))
    return tuple(found)


def blocks(*languages: str, page: Path | None = None) -> list[Block]:
    """Blocks of these languages, or of any; of all pages, or of one."""
    pages = PAGES if page is None else [page]
    return [block for path in pages for block in _of(path) if not languages or block.language in languages]


def shell_lines(page: Path | None = None) -> Iterator[tuple[str, str]]:
    """Where each line of a console block stands, and the line: what it goes on with and without a comment."""
    for block in blocks(*CONSOLE, page=page):
        for line in block.text.replace("\\\n", " ").splitlines():
            if line.strip():
                yield block.id, line.strip().removeprefix("$ ")


def command_lines(page: Path | None = None) -> Iterator[tuple[str, str]]:
    """The same of lines that call leakmeter."""
    return ((where, line) for where, line in shell_lines(page) if re.match(r"leakmeter(\s|$)", line))


def exit_code(words: Sequence[str]) -> int:
    """What `leakmeter WORDS` ends with, in this process."""
    from leakmeter.cli import main

    try:
        main(words)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def words_of(line: str) -> list[str]:
    """The words of a line up to a pipe or redirection, without the program."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>&;<")
    lexer.whitespace_split = True
    words = list(lexer)
    ends = [i for i, word in enumerate(words) if set(word) <= set("|>&;<")]
    return words[1 : ends[0]] if ends else words[1:]


def with_the_toy(words: list[str]) -> list[str]:
    """A command line, measured with the toy model where it has one."""
    if words[:2] in (["generate", "calibrate"], ["pii", "extract"], ["ledger", "show"]) or words[0] in _WITHOUT_MODEL:
        return words
    more = [] if "toy" in words else ["--model", "toy"]
    if words[0] == "icl" and words[1:2] != ["responses"] and "--label-scoring" not in words:
        # A token of the toy is a byte, and two of the sample's labels begin with the same one.
        more += ["--label-scoring", "whole-sequence"]
    if words[:2] == ["pii", "probe"]:
        more += ["--decoys", "50", "--prompts", "1", *(() if "--kinds" in words else ("--kinds", "twin"))]
    return [*words, *more]
