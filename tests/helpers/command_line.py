"""The command line, called in this process or as a user calls it."""

from __future__ import annotations

import copy
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cyclopts import App
from cyclopts.argument import ArgumentCollection

PROGRAM = (sys.executable, "-c", "from leakmeter.cli import main; main()")
NOTE = "Anna Ek lives in Graz. Her phone is 555-010-7788. Bo asked twice.\nCall 555-010-7788 after four."


@dataclass(frozen=True)
class Ended:
    """What a command left."""

    code: int
    out: str
    err: str


def run_command(words: Sequence[object]) -> Ended:
    """`leakmeter WORDS` within this process."""
    from leakmeter.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


def as_options(named: Mapping[str, object]) -> list[object]:
    """Names and values as words of a command; None drops one."""
    given = {f"--{name.replace('_', '-')}": value for name, value in named.items() if value is not None}
    return [part for pair in given.items() for part in pair]


def object_of(ended: Ended) -> dict[str, Any]:
    """The only case that `--json` prints."""
    assert ended.code == 0, ended.err
    (line,) = ended.out.splitlines()
    return dict(json.loads(line))


def lines_of(ended: Ended) -> list[str]:
    """Lines of JSON; what the toy writes may hold separators that `splitlines` would cut at."""
    return ended.out.strip("\n").split("\n")


def objects_of(ended: Ended) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The cases and the summary that `--json` prints."""
    assert ended.code == 0, ended.err
    *cases, last = map(json.loads, lines_of(ended))
    assert set(last) == {"summary"}
    return cases, last["summary"]


def without_seconds(case: dict[str, Any]) -> dict[str, Any]:
    return {**case, "cost": {name: value for name, value in case["cost"].items() if name != "seconds"}}


def assert_refused(ended: Ended, said: str) -> None:
    """Exit code 2, and one line that says why; before it there may be lines on how the first case was read."""
    lines = [line for line in ended.err.splitlines(keepends=True) if not line.startswith("data: first case, ")]
    assert (ended.code, ended.out, len(lines)) == (2, "", 1), ended.err
    assert lines[0].startswith("leakmeter: ")
    assert lines[0].endswith("\n")
    assert said in lines[0]


@pytest.fixture
def note(tmp_path: Path) -> Path:
    """A context file, in a directory of its own."""
    path = tmp_path / "texts" / "note.txt"
    path.parent.mkdir()
    path.write_text(NOTE, encoding="utf-8")
    return path


def fresh(arguments: ArgumentCollection) -> ArgumentCollection:
    """Arguments that nothing was given for yet, made of those that may have been."""
    copies = {id(argument): copy.copy(argument) for argument in arguments}
    for one in copies.values():
        one.tokens = []
        one.children = ArgumentCollection(copies[id(child)] for child in one.children)
    return ArgumentCollection(copies.values())


@pytest.fixture(autouse=True, scope="session")
def parsed_once() -> Iterator[None]:
    """Options of a command are made of its signature once, and not at each of thousands of calls."""
    assemble = App.assemble_argument_collection
    known: dict[Hashable, ArgumentCollection] = {}

    def assembled(app: App, **how: Any) -> ArgumentCollection:
        key = (app.default_command, app.app_stack.default_parameter, *how.items())
        if key not in known:
            known[key] = fresh(assemble(app, **how))
        return fresh(known[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(App, "assemble_argument_collection", assembled)
        # Values would be checked by pydantic too, but only in a process that has imported it for something else.
        patch.setattr("cyclopts.argument._argument.parse_version", lambda version: (1,))
        yield


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are files of the right kind with nothing in them: to draw them takes longer than to measure."""
    blank = {"png": b"\x89PNG\r\n\x1a\n", "svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>'}
    monkeypatch.setattr("leakmeter.report.charts._figure", lambda chart, *, titled: SimpleNamespace())
    monkeypatch.setattr("leakmeter.report.charts._saved", lambda drawn, form: blank[form])


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """`leakmeter ARGUMENTS` within this process, in an empty directory."""
    from leakmeter.cli import main

    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    # On a busy machine any command may take long enough to say how far it is.
    monkeypatch.setattr("leakmeter.commands.progress.LINE_SECONDS", 3600.0)
    monkeypatch.setattr("leakmeter.core.long_work.MOMENT", 3600.0)

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return call


@pytest.fixture
def of_note(cli: Callable[..., Ended], note: Path) -> Callable[..., Callable[..., Ended]]:
    """Makes `leakmeter COMMAND` of the note with the toy model; options of a call win, None drops one."""

    def make(*command: str, **usual: object) -> Callable[..., Ended]:
        def call(*more: object, **options: object) -> Ended:
            given: dict[str, object] = {"context_file": note, "query": "Who?", "model": "toy", **usual, **options}
            return cli(*command, *as_options(given), *more)

        return call

    return make


@pytest.fixture
def measure(of_note: Callable[..., Callable[..., Ended]]) -> Callable[..., Ended]:
    """`leakmeter influence` of the note; more options win."""
    return of_note("influence", response="Anna", out="runs")


@pytest.fixture(scope="session")
def byte_model() -> tuple[Any, Any]:
    """A transformers model of one layer and its tokenizer of single bytes, in memory; do not change them."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    vocab = {token: i for i, token in enumerate(["</s>", *sorted(alphabet)])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    config = LlamaConfig(
        vocab_size=len(vocab), hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=300,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    return model, PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`leakmeter ARGUMENTS` in a process of its own."""

    def call(*arguments: object, environment: dict[str, str] | None = None, **how: Any) -> Any:
        how = {"capture_output": True, "text": True, "cwd": tmp_path, "check": False, **how}
        return subprocess.run([*PROGRAM, *map(str, arguments)], env={**os.environ, **(environment or {})}, **how)

    return call


@pytest.fixture
def toy_chats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logged chats need a chat template: the toy model is loaded with one."""
    from helpers.toy_chat import ToyChat
    from leakmeter.engine import loading

    load = loading.load
    monkeypatch.setattr(loading, "load", lambda model, *how: ToyChat() if model == "toy" else load(model, *how))
