"""The help of every command: the program's own options and words, and nothing that its framework adds."""

from __future__ import annotations

import io
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App
from rich.console import Console

from helpers.docs_blocks import exit_code, with_the_toy
from helpers.examples import few
from leakmeter import cli as command_line
from leakmeter.cli import program, short_helps
from leakmeter.cli.models import cache_app
from leakmeter.core.registry import Short

SHORT = short_helps()
TOY = ("--model", "toy")
SHORTER = ("--max-new-tokens", "4")
OWN_NEGATIVES = {"--no-cache"}
"""Options of ours that begin so."""


def commands(app: App | None = None, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Words of every command, and of those within it."""
    yield words
    for name in app or program(words):
        if not name.startswith("-"):
            whole = (*words, name)
            yield from commands((app or program(whole))[name], whole)


def help_of(words: tuple[str, ...], *, all_options: bool = True, width: int = 200) -> str:
    said = io.StringIO()
    program(words, all_options=all_options).help_print(list(words), console=Console(file=said, width=width))
    return said.getvalue()


ALL = list(commands())


def test_help_has_no_leftovers() -> None:
    assert {(), ("gate",), ("runs", "compare"), ("pii", "probe"), ("models", "cache", "clear")} <= set(ALL)
    for words in ALL:
        said = help_of(words)
        assert set(re.findall(r"--(?:no|empty)-[\w-]+", said)) <= OWN_NEGATIVES
        for leftover in (*(f"default: {value}" for value in ("None", "False", "True", "(", "[", "]")), '""'):
            assert leftover not in said, words
        assert not re.search(r"^│ +[\w-]+ +│$", said, re.MULTILINE), f"a command in the list of {words} has no summary"
        # Markup of docstrings is not for a terminal.
        assert "``" not in said, words
        assert ":param" not in said, words


def test_a_command_keeps_its_own_help_whatever_was_looked_at_before() -> None:
    before = help_of(("models", "cache"))
    program(["demo"])["models"]
    program()["models"]
    assert help_of(("models", "cache")) == before
    assert "reconstructed" in before
    assert "reconstructed" in cache_app.help


def test_the_first_page_is_short_and_names_what_is_behind_it(cli: Callable[..., Any]) -> None:
    for words in ALL:
        said = help_of(words, all_options=False, width=80)
        assert len(said.splitlines()) < 60, words
        options = SHORT.get(" ".join(words), Short(())).options.split()
        for name in options:
            assert re.search(rf"(?<![\w-]){name}(?![\w-])", said), (words, name)
        assert ("--help-all shows all options" in said) == bool(options), words
    assert "Served model" in help_of(("influence",), all_options=False)
    assert "--tokenizer" not in help_of(("influence",), all_options=False)
    assert "--tokenizer" in help_of(("influence",))
    assert "--tokenizer" in cli("influence", "--help-all").out


def test_the_commands_stand_in_four_groups() -> None:
    said = help_of(())
    names = [name for name in program() if not name.startswith("-")]
    assert sorted(names) == sorted(command.name for command in command_line.commands())
    assert sorted(re.findall(r"^│ ([a-z]+) ", said, re.MULTILINE)) == sorted(names)
    headings = [said.index(f"─ {name} ─") for name in ("Measure", "Act", "Follow up", "Set up")]
    assert headings == sorted(headings)


ELSEWHERE = {"pull", "clear", "--open", "smollm2-135m", "fisher", "NAME", "pubmedqa=FILE"}
"""Models are fetched, and pages served, in tests of their own."""
EXAMPLES = {(*of.split(), *shlex.split(example)): of for of, short in SHORT.items() for example in short.examples}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the samples, some cut short, and a run."""
    folder = tmp_path_factory.mktemp("begun")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert exit_code(["demo", "--write-samples", "samples"]) == 0
        for name in ("log.jsonl", "answers.jsonl", "reviews.csv", "questions.jsonl", "contexts.jsonl"):
            rows = Path("samples", name).read_text(encoding="utf-8").splitlines(keepends=True)
            Path("samples", name).write_text("".join(rows[:4]), encoding="utf-8")
        assert exit_code(["influence", "--data", "samples/answers.jsonl", "--map", "response=reference", *TOY]) == 0
    return folder


@pytest.mark.parametrize("command", few(SHORT, 6))
@pytest.mark.usefixtures("toy_chats", "undrawn")
def test_the_examples_run(command: str, begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the toy model, beside the samples."""
    monkeypatch.chdir(tmp_path)
    if command != "demo":
        shutil.copytree(begun, ".", dirs_exist_ok=True)
    if command == "ledger show":
        assert exit_code(["ledger", "add", "samples/traces.jsonl", *TOY]) == 0
    (run,) = begun.glob("runs/*")
    for example in (words for words, of in EXAMPLES.items() if of == command and not ELSEWHERE & {*words}):
        words = [str(run) if word == "RUN" else word for word in example]
        words += SHORTER if words[0] in ("decode", "generate") and "calibrate" not in words else ()
        assert exit_code(with_the_toy(words)) in ((0, 1) if command == "gate" else (0,)), words
