"""Each tutorial can be followed from its first command to its last, with the files that it shows and the toy model."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.docs_blocks import OUTPUTS, PAGES, blocks, command_lines, exit_code, with_the_toy, words_of
from helpers.places import ROOT

TUTORIALS = [page for page in PAGES if page.parent.name == "tutorials"]
# They train weights, which the toy model has none of, or fetch some; that they parse is tested with all others.
NEED_WEIGHTS = (("models", "pull"), ("pii", "tune"), ("pii", "check"))


@pytest.fixture
def somewhere(toy_chats: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))


def follow(page: Path) -> int:
    """Write the files that a page shows, call its commands, and count them."""
    for block in blocks(page=page):
        if block.title not in (None, *OUTPUTS):
            Path(block.title).write_text(block.text, encoding="utf-8")
    lines = {line: words_of(line) for _, line in command_lines(page)}
    lines = {k: v for k, v in lines.items() if tuple(v[:2]) not in NEED_WEIGHTS and "--soft-prompt" not in v}
    for line, words in lines.items():
        # The toy's numbers may break a bound.
        assert exit_code(with_the_toy(words)) in ((0, 1) if words[0] == "gate" else (0,)), line
    return len(lines)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.long) if page.stem != "auditor" else page for page in TUTORIALS],
    ids=lambda page: page.stem,
)
@pytest.mark.usefixtures("somewhere", "undrawn")
def test_a_tutorial_can_be_followed(page: Path) -> None:
    assert follow(page) > (0 if page.stem == "my_number" else 2)


@pytest.mark.usefixtures("somewhere", "undrawn")
def test_the_commands_of_the_readme_run() -> None:
    assert follow(ROOT / "README.md") == 5
