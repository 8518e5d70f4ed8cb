"""Whatever is wrong is said in one line; nothing is left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.places import any_name
from leakmeter.cli import main

Call = Callable[..., Any]


def check_refused(ended: Any, *said: str) -> None:
    """One line, exit code 2, nothing measured and nothing written; before it, how the first case was read."""
    lines = [line for line in ended.err.splitlines(keepends=True) if not line.startswith("data: first case, ")]
    assert (ended.code, ended.out, len(lines), "".join(lines)[-1:]) == (2, "", 1, "\n"), ended.err
    assert lines[0].startswith("leakmeter: ")
    assert all(part in lines[0] for part in said), ended.err
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"query": ""}, ["empty query", "give a query"]),
        ({"query": None}, ["empty query"]),
        ({"response": ""}, ["empty response", "--samples 1"]),
        ({"query": "\udcff"}, ["query is no valid Unicode"]),
        ({"response": "a\udcff"}, ["response is no valid Unicode", "at character 1"]),
        ({"context_file": "missing.txt"}, ["context file 'missing.txt' cannot be read: No such file or directory"]),
        ({"context_file": ""}, ["context file '.' is a directory; give a file"]),
        ({"context_file": "a" * 300}, ["File name too long"]),
        ({"context_file": None}, ["give one of --context-file, --data and --messages"]),
        ({"unit": "sentnce"}, ["no unit named 'sentnce'; did you mean 'sentence'?"]),
        ({"unit": "message"}, ["unit 'message' needs a chat; give --messages"]),
        ({"model": "smollm-135m"}, ["no model named", "did you mean 'smollm2-135m'?"]),
        ({"model": "no/such/model"}, ["there is no file or directory 'no/such/model'"]),
        ({"model": "HuggingFaceTB/SmolLM2"}, ["write 'hf:HuggingFaceTB/SmolLM2'"]),
        ({"template": "plian"}, ["no template named 'plian'; did you mean 'plain'?"]),
        ({"template": "chat"}, ["no chat template; give --template plain"]),
        ({"template": "@missing.txt"}, ["template file 'missing.txt' cannot be read"]),
        ({"removal": "drp"}, ["drp", "drop", "mask", "retokenize"]),
        ({"dtype": "bfloat16"}, ["float64"]),
        ({"device": "cuda"}, ["toy", "CPU"]),
        ({"cid_lambda": "-1"}, ["cid-lambda is -1.0; it has to be 0 or more"]),
        ({"temperature": "0"}, ["temperature is 0.0; it has to be above 0"]),
        ({"temperature": "warm"}, ["--temperature", "warm", "float"]),
        ({"samples": "-1"}, ["samples is -1; it has to be 0 or more"]),
        ({"samples": "three"}, ["--samples", "three", "int"]),
        ({"max_new_tokens": "0"}, ["max-new-tokens is 0"]),
        ({"seed": "-1"}, ["seed is -1"]),
        ({"html": "no/such/folder/page.html"}, ["is in a directory that does not exist"]),
        ({"html": "."}, ["is a directory; give the name of a file"]),
        ({"html": "a" * 300}, ["File name too long"]),
        ({"messages": "chat.json"}, ["--context-file and --messages do not go together"]),
        ({"data": "cases.jsonl"}, ["--context-file and --data do not go together"]),
        ({"sample": "3"}, ["--sample"]),
    ],
)
def test_an_option_that_cannot_be_used(measure: Call, options: dict[str, Any], said: list[str]) -> None:
    check_refused(measure(**options), *said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["influense"], "no command named 'influense'; did you mean 'influence'? known: 'influence', 'icl', 'pii', "),
        (["zzz"], "known: 'influence', 'icl', 'pii', 'susceptibility', 'generate', 'redact', 'decode', "),
        (["runs", "shov"], "'shov'"),
        (["pyproject.tom"], "'pyproject.tom' is neither a file nor a command; see `leakmeter --help`"),
        (["pii", "prob"], "no command of `leakmeter pii` named 'prob'; did you mean 'probe'? known: 'check', "),
        (["influence"], "give one of --context-file, --data and --messages"),
        (["influence", "--query"], "--query"),
        (["influence", "--query", "Who", "came?"], "'came?' is none of them; put quotes around a text"),
        (["report"], "RUN"),
        (["report", "missing"], "there is no 'missing'; give the directory of a run, one that `leakmeter runs list`"),
        (["models", "pull"], "NAME"),
        (["models", "pull", "toy", "now"], "`leakmeter models pull` takes NAME, and options; 'now' is none"),
        (["models", "pull", "smollm-135m"], "did you mean 'smollm2-135m'?"),
        (["models", "list"], "`leakmeter models` has no command 'list'; give one of its commands (cache, pull), "),
        (["runs", "list", "old"], "`leakmeter runs list` takes options alone; 'old' is none of them"),
        (["runs", "rename", "a", "b", "c"], "takes RUN and NAME, and options; 'c' is none of them"),
        (["--nosuch"], "--nosuch"),
        (["demo", "--model", "nosuch"], "no model named 'nosuch'"),
    ],
)
def test_a_command_that_cannot_be_followed(cli: Call, words: list[str], said: str) -> None:
    check_refused(cli(*words), said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty, so there is no influence to measure"),
        (b"\xef\xbb\xbf \n\t\r\n", "is empty"),
        (b"caf\xe9", "is not UTF-8: byte 0xe9 at offset 3; save it as UTF-8"),
        (bytes(range(256)), "is not UTF-8: byte 0x80 at offset 128"),
    ],
)
def test_a_context_file_that_cannot_be_used(measure: Call, tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    check_refused(measure(context_file=path), f"context file '{path}' {said}")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "holds no case"),
        (["{"], "line 1 is not JSON"),
        (['{"context": "", "query": "b", "response": "c"}'], "case '1' has an empty context"),
        (['{"context": "a", "query": "", "response": "c"}'], "case '1' has an empty query"),
        (['{"context": "a", "query": "b", "response": ""}'], "case '1' has an empty response"),
        (
            ['{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'],
            "no chat template",
        ),
    ],
)
def test_a_data_file_that_cannot_be_used(cli: Call, tmp_path: Path, lines: list[str], said: str) -> None:
    data = tmp_path / "cases.jsonl"
    data.write_text("\n".join(lines))
    words = ("influence", "--model", "toy", "--data", data)
    check_refused(cli(*words), said)
    check_refused(cli(*words, "--skip-bad"))
    for option in ("--query", "--response"):
        check_refused(cli(*words, option, "x"), "each line of --data has its own")


def test_messages_need_a_chat_template(cli: Call, tmp_path: Path) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]))
    words = ("influence", "--model", "toy", "--messages")
    check_refused(cli(*words, chat, "--context-from", "system"), "no chat template", "give a model that has one")
    check_refused(cli(*words, chat, "--query", "x"), "leave out --query")
    chat.write_text("[]")
    check_refused(cli(*words, chat), "list of at least one")
    check_refused(cli(*words, tmp_path / "no.json"), "No such file")


def test_a_place_where_no_run_can_be_written(measure: Call, note: Path) -> None:
    for out in (note, note / "below"):
        ended = measure(out=out)
        check_refused(ended, "run directory", "cannot be written")
    assert [path.name for path in note.parent.iterdir()] == ["note.txt"]


def test_a_pipe_or_a_device_is_not_replaced_by_a_page(measure: Call, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_refused(measure(html=pipe), "is a device or a pipe; give the name of a file")
    assert pipe.is_fifo()


def test_a_page_that_is_there_survives_a_refusal(measure: Call, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for content in (None, "old", ""):
        if content is not None:
            page.write_text(content)
        check_refused(measure(html=page, query=""))
        assert (page.read_text() if page.exists() else None) == content


def test_a_damaged_run_is_named(cli: Call, measure: Call, tmp_path: Path) -> None:
    assert measure(out=tmp_path / "runs").code == 0
    (run,) = (tmp_path / "runs").iterdir()
    cases = run / "cases-00000.json"
    cases.write_text(cases.read_text().replace("Graz", "Wien"))
    said = (f"run '{run}' is damaged: cases-00000.json", "was changed after the run was complete")
    check_refused(cli("report", run), *said)
    check_refused(measure(out=tmp_path / "runs"), *said)
    (run / "spec.json").write_text("{")
    check_refused(cli("report", run), f"run '{run}' is damaged: spec.json")
    check_refused(cli("report", cases), f"'{cases}/spec.json' cannot be read")


@any_name
def test_no_traceback_in_a_process_of_its_own(command: Call, note: Path) -> None:
    given = ("influence", "--model", "toy", "--context-file", note, "--query", "Who?")
    ended = command(*given, "--response", b"\xff".decode(errors="surrogateescape"))
    # A slow machine also says what it is doing.
    *_, problem = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout, "Traceback" in ended.stderr) == (2, "", False)
    assert "response is no valid Unicode" in problem


def test_an_unknown_precision_or_device(cli: Call, note: Path, byte_model: tuple[Any, Any], tmp_path: Path) -> None:
    import torch

    for part in byte_model:
        part.save_pretrained(tmp_path / "own")
    given = ("influence", "--model", tmp_path / "own", "--template", "plain", "--context-file", note)
    given = (*given, "--query", "Who?", "--response", "Anna")
    check_refused(cli(*given, "--dtype", "int3"), "dtype is 'int3'; it has to be one of float32, bfloat16, float16")
    if not torch.cuda.is_available():
        for device in ("cuda", "cuda:7"):
            check_refused(cli(*given, "--device", device), "sees no CUDA device; try --device cpu")


def test_a_context_beyond_the_window(cli: Call, measure: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leakmeter.backends.toy import Toy

    small = Toy()
    small.window = 200
    monkeypatch.setattr("leakmeter.engine.loading.load", lambda *_, **__: small)
    path = tmp_path / "long.txt"
    path.write_text("Anna sang in Graz. " * 30)
    needs = "case 'long' needs 609 tokens (570 of context, 34 of query and template, 5 of response) and 200 fit"
    cut = "; shorten the context, or have its end cut off with --truncate\n"
    check_refused(measure(context_file=path), needs, cut)
    check_refused(measure(context_file=path, response=None), "50 of response", cut)
    # What is too long is named, and not the context, which is not.
    for more in ((), ("--truncate",)):
        check_refused(measure(*more, response="Anna. " * 50), "a context: shorten the response\n")
        check_refused(measure(*more, query="Who? " * 50), "a context: shorten the query\n")
        sampled = measure(*more, response=None, max_new_tokens=190)
        check_refused(sampled, "a context: give a smaller --max-new-tokens\n")
    ended = measure("--truncate", "--json", context_file=path)
    assert ended.code == 0
    assert json.loads(ended.out)["truncated_tokens"] == 409
    assert "409" in measure("--truncate", context_file=path).out


def test_no_command_answers_in_the_words_of_its_parser(cli: Call) -> None:
    from leakmeter.cli import program

    for name in (one for one in program() if not one.startswith("-")):
        within = [one for one in program([name])[name] if not one.startswith("-")]
        for path in ((name,), *((name, one) for one in within)):
            ended = cli(*path, *["nosuch"] * 3)
            assert "Unused" not in ended.err, path
            assert ended.code == 2, path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["influence", "--controls", "3.5"], "--controls is '3.5', expected a whole number"),
        (["influence", "--top-k-of-nothing", "3.5"], "Unknown option"),
        (["pii", "probe", "--decoys", "50.5"], "--decoys is '50.5', expected a whole number"),
        (["icl", "--seed", "0.1"], "--seed is '0.1', expected a whole number"),
    ],
)
def test_a_fraction_of_what_is_whole_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_whole_number_may_have_a_point(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = tmp_path / "log.jsonl"
    data.write_text('{"context": "Ana lives in Rome.", "query": "Where?", "response": "Rome"}\n', encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["influence", "--data", str(data), "--model", "toy", "--controls", "2.0", "--out", str(tmp_path / "runs")])
    assert not ended.value.code
