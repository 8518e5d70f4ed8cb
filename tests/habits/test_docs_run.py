"""What the documentation tells people to type works."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if path.is_file()]
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    number: int
    language: str
    text: str

    @property
    def id(self) -> str:
        """Where it stands."""
        return f"{self.page.relative_to(ROOT)}-{self.number}"


def blocks(*languages: str) -> list[Block]:
    found = [
        Block(page, number, match.group(1), match.group(2))
        for page in PAGES
        for number, match in enumerate(_FENCE.finditer(page.read_text(encoding="utf-8")), 1)
    ]
    return [block for block in found if block.language in languages]


def command_lines() -> Iterator[tuple[str, str]]:
    for block in blocks("console", "bash", "sh", "shell"):
        text = block.text.replace("\\\n", " ")
        for line in text.splitlines():
            line = line.strip().removeprefix("$ ")
            if re.match(r"leakmeter(\s|$)", line):
                yield block.id, line


def test_there_is_a_readme_with_examples() -> None:
    assert blocks("python")
    assert list(command_lines())


@pytest.mark.parametrize(("where", "line"), list(command_lines()), ids=lambda value: value[:60])
def test_every_command_line_parses(where: str, line: str) -> None:
    from leakmeter.cli import program

    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>&;<")
    lexer.whitespace_split = True
    words = list(lexer)
    ends = [i for i, word in enumerate(words) if set(word) <= set("|>&;<")]
    words = words[1 : ends[0]] if ends else words[1:]
    command, bound, *_ = program(words[0] if words else None).parse_args(words, print_error=False, exit_on_error=False)
    assert command is not None, where
    assert bound is not None


@pytest.fixture
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for what examples write."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(block: Block, names: dict[str, Any]) -> None:
    # Every block of a page sees what the blocks before it made.
    exec(compile(block.text, block.id, "exec"), names)


def pages_with(language: str) -> list[Path]:
    return list(dict.fromkeys(block.page for block in blocks(language)))


@pytest.mark.parametrize("page", pages_with("python"), ids=lambda page: page.name)
def test_python_examples_run_with_the_toy_model(page: Path, somewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name, option and attribute they use is there; the toy model stands in for the named ones."""
    import leakmeter.api.loading

    load = leakmeter.api.loading.load_backend

    def toy(model: Any = "toy", **_: Any) -> Any:
        return load("toy" if isinstance(model, str) else model)

    monkeypatch.setattr(leakmeter.api.loading, "load_backend", toy)
    names: dict[str, Any] = {"__name__": "__example__"}
    for block in blocks("python"):
        if block.page == page:
            run(block, names)


@pytest.mark.long
@pytest.mark.parametrize("page", pages_with("python"), ids=lambda page: page.name)
def test_python_examples_run_as_they_stand(page: Path, somewhere: Path, real_backend: Any) -> None:
    names: dict[str, Any] = {"__name__": "__example__"}
    for block in blocks("python"):
        if block.page == page:
            run(block, names)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_case_page_lists_every_field_of_a_case(somewhere: Path) -> None:
    page = ROOT / "docs" / "case.md"
    import leakmeter

    case = leakmeter.influence("toy", context="Anna sang. Bo ate.", query="Who?", samples=2, max_new_tokens=4).case
    said = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`]+)`", page.read_text(encoding="utf-8")))))
    for fields in (case, case["pieces"][0], case["samples"][0], case["response"]):
        assert set(fields) <= said
    assert os.listdir(somewhere) == []
