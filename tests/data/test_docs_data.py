"""The page on data: each of its files is read by the command beside it, as what the page says it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers.docs_blocks import blocks, command_lines, words_of
from helpers.places import ROOT
from leakmeter.commands.cases import read_cases
from leakmeter.core.loaded import LoadedCases
from leakmeter.data.cases import load_referenced

PAGE = ROOT / "docs" / "data.md"
LINES = [line for _, line in command_lines(PAGE)]


@pytest.mark.parametrize("line", LINES)
def test_every_file_is_read_by_its_command(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leakmeter.cli import program

    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples" / "data", "samples")
    for block in blocks("json", page=PAGE):
        (tmp_path / str(block.title)).write_text(block.text)
    words = words_of(line)
    if "-" in words:
        words[words.index("-")] = "cases.jsonl"
    _, bound, *_ = program(words).parse_args(words, print_error=False, exit_on_error=False)
    given: dict[str, Any] = bound.arguments
    if "source" not in given:
        assert load_referenced(given["data"]).records[0].reference == "Anna Ek"
        return
    loaded: LoadedCases[Any] = read_cases(given["source"])
    assert not loaded.problems
    (first, *_) = loaded.cases
    responses = [case.response for case in loaded.cases]
    if "samples/" in line:
        assert all(responses)
        last = first.messages[-1] if first.messages else None
        document = last.parts[last.retrieved[0]] if last else first.documents[0]
        assert document.text.startswith("Account 4411: Odalys Brewster.")
        return
    assert responses in (["Anna Ek."], ["Anna Ek.", None])
    if first.documents:
        assert first.query == "Who called?"
        assert first.documents[0].text == "Anna Ek called at nine."
    elif "langfuse" in line:
        (message,) = first.messages
        assert (message.parts[1].name, message.parts[1].text) == ("calls.txt", "Anna Ek called at nine.")
    else:
        assert "--context-from system" in line
        assert [one.fixed for one in first.messages] == [False, False]
