"""`--data` of other people's files, end to end: what is read of them, what is said of that, what is refused."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import leakmeter
from helpers.command_line import assert_refused, object_of

Call = Callable[..., Any]
TEXTS = ["Anna called at nine.", "Bo ate soup."]
OWN = {"id": "1", "context": TEXTS, "query": "Who?", "response": "Anna"}
RAGAS = {"user_input": "Who?", "retrieved_contexts": TEXTS, "response": "Anna"}
LANGCHAIN = {"query": "Who?", "source_documents": [{"page_content": text} for text in TEXTS], "result": "Anna"}
LLAMA = {"query": "Who?", "source_nodes": [{"node": {"text": text}, "score": 1} for text in TEXTS], "response": "Anna"}
MINE = {"question": {"text": "Who?"}, "hits": [{"body": text} for text in TEXTS], "said": "Anna"}
MAP = ("--map", "query=question.text,context=hits[].body", "--map", "response=said")


@pytest.fixture
def run(cli: Call) -> Call:
    """A command with the toy model and JSON."""

    def call(*words: object) -> Any:
        options = next(i for i, word in enumerate(words) if str(word).startswith("-"))
        return cli(*words[:options], "--model", "toy", "--json", *words[options:])

    return call


@pytest.fixture
def expected(run: Call) -> Call:
    """What the command says of the same case in leakmeter's own form."""

    def made(command: str, *words: object) -> Any:
        Path("own.jsonl").write_text(json.dumps(OWN))
        ended = run(command, "--data", "own.jsonl", *words)
        assert (ended.code, ended.err.count("\n")) == (0, 1), ended.err
        return json.loads(ended.out)

    return made


@pytest.mark.parametrize("command", [("influence",), ("redact", "--max-loss", 5), ("decode", "--lambda", 1.5)])
def test_records_of_other_tools_are_cases(run: Call, expected: Call, command: tuple[object, ...]) -> None:
    wanted = expected(*command)
    for name, record in (("ragas", RAGAS), ("langchain", LANGCHAIN), ("llamaindex", LLAMA)):
        Path("log.json").write_text(json.dumps([record], indent=1))
        for how, begins in (((), f"data: read as --format {name}: "), (("--format", name), "data: first case, ")):
            ended = run(*command, "--data", "log.json", *how)
            assert ended.err.startswith(begins)
            assert json.loads(ended.out) == wanted


@pytest.mark.parametrize("name", ["log.jsonl", "log.csv", "log.parquet", "log.jsonl.gz", "-"])
def test_files_and_standard_input(run: Call, expected: Call, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = expected("influence")
    line = json.dumps(MINE).encode()
    match name.rpartition(".")[2]:
        case "-":
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(line), isatty=lambda: False))
        case "csv":
            pd.DataFrame([MINE]).to_csv(name, index=False)
        case "parquet":
            pd.DataFrame([MINE]).to_parquet(name)
        case suffix:
            Path(name).write_bytes(gzip.compress(line) if suffix == "gz" else line)
    ended = run("influence", "--data", name, *MAP)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == wanted
    # Lines on what the mapping reads, and nothing on columns that it leaves out.
    begins = [" ".join(line.split()[:4]) for line in ended.err.splitlines()]
    assert begins[:-1] == [
        "data: --map reads queries",
        *(f"data: first case, {text}" for text in ("query:", "context", "context", "response:")),
    ]
    assert begins[-1].startswith("run: ")


@pytest.mark.parametrize("command", ["influence", "decode"])
def test_nothing_is_run_or_written_where_fields_are_unknown(run: Call, command: str) -> None:
    Path("log.jsonl").write_text(json.dumps({"prompt": "Who?", "passages": TEXTS, "completion": "Anna"}))
    mending = "--map query=prompt,context=passages,response=completion"
    ended = run(command, "--data", "log.jsonl")
    assert_refused(ended, mending)
    assert ended.err.strip().endswith(mending)
    assert not Path("runs").exists()
    assert run(command, "--data", "log.jsonl", *mending.split()).code == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--context-file a.txt --query Who? --map query=a", "--map is for --data"),
        ("--context-file a.txt --query Who? --format ragas", "--format is for --data"),
        ("--context-file a.txt --query Who? --context-from (a)", "--context-from is for --data and --messages"),
        ("--messages a.json --skip-bad", "--skip-bad is for --data"),
        ("--data log.jsonl --format ragaz", "no format named 'ragaz'; did you mean 'ragas'?"),
        ("--data log.jsonl --map qury=a", "there is no field 'qury'; did you mean 'query'?"),
        ("--data log.jsonl --context-from a.*", "has no group"),
        ("--data", "requires an argument"),
    ],
)
def test_what_does_not_go_together_is_said(run: Call, words: str, problem: str) -> None:
    Path("log.jsonl").write_text(json.dumps(RAGAS))
    assert_refused(run("influence", *words.split()), problem)


def test_texts_of_the_first_case_are_shown_or_their_lengths(run: Call) -> None:
    Path("log.json").write_text(json.dumps([RAGAS]))
    shown = [line for line in run("influence", "--data", "log.json").err.splitlines() if "first case" in line]
    assert [line.split(": ")[1].partition(" (")[0] for line in shown] == [
        *("first case, query", "first case, context 1 of 2", "first case, context 2 of 2", "first case, response"),
    ]
    assert RAGAS["user_input"] in shown[0]
    quiet = run("influence", "--data", "log.json", "--quiet-texts").err.splitlines()
    assert f"data: first case, query: {len(RAGAS['user_input'])} characters" in quiet
    assert RAGAS["user_input"] not in "".join(quiet)
    assert_refused(run("influence", "--quiet-texts", "--context-file", "log.json"), "--quiet-texts is for --data")


def test_publicly_nothing_is_said_of_the_data(run: Call) -> None:
    Path("log.jsonl").write_text(json.dumps({**RAGAS, "response": None}))
    words = ["decode", "--data", "log.jsonl", "--epsilon", "1", "--lambda-max", "1.5", "--max-new-tokens", "2"]
    assert "data: read as" in run(*words).err
    assert "data:" not in run(*words, "--public").err


def test_frontier_reads_references_of_other_tools(run: Call) -> None:
    Path("log.jsonl").write_text(json.dumps({**RAGAS, "reference": "Anna."}))
    words = ["decode", "frontier", "--data", "log.jsonl", "--lambda", "0", "1", "--max-new-tokens", "2"]
    assert_refused(run(*words), "leave it out (in a file with --map response=)")
    ended = run(*words, "--map", "response=")
    assert ended.code == 0, ended.err
    assert ended.err.startswith("data: read as --format ragas")


def test_the_library_reads_documents_of_other_libraries() -> None:
    pages = [SimpleNamespace(page_content=text, metadata={"source": f"{i}.txt"}) for i, text in enumerate(TEXTS)]
    plainly = {f"{i}.txt": text for i, text in enumerate(TEXTS)}
    found, wanted = (
        leakmeter.influence("toy", context=context, query="Who?", response="Anna", unit="document")
        for context in (pages, plainly)
    )
    assert [piece.name for piece in found.pieces] == ["0.txt", "1.txt"]
    assert [piece.nats for piece in found.pieces] == [piece.nats for piece in wanted.pieces]


def test_notes_in_the_turn_of_a_logged_chat_have_to_be_marked(cli: Call, byte_model: tuple[Any, Any]) -> None:
    for part in byte_model:
        part.save_pretrained("own")
    turns = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    Path("own/chat_template.jinja").write_text(turns + "{% if add_generation_prompt %}[assistant] {% endif %}")
    asked = {"role": "user", "content": "Notes: Anna called. Bo ate.\nWho called?"}
    answer = {"role": "assistant", "content": "Anna.", "refusal": None}
    Path("log.jsonl").write_text(json.dumps({"id": "c1", "model": "m", "messages": [asked, answer]}))
    Path("chat.json").write_text(json.dumps({"messages": [asked], "choices": [{"message": answer}]}))
    for source in (("--data", "log.jsonl"), ("--messages", "chat.json")):
        words = ("influence", "--model", "own", "--json", *source)
        refused = cli(*words)
        assert (refused.code, refused.out) == (2, "")
        assert "is a chat with only a query" in refused.err
        assert "--context-from REGEX" in refused.err
        case = object_of(cli(*words, "--context-from", r"Notes:(.*)\n"))
        assert [piece["text"] for piece in case["pieces"]] == ["Anna called.", "Bo ate."]
        assert (case["response"]["text"], case["response"]["sampled"]) == ("Anna.", False)
        assert case["query"] == "Notes: \nWho called?"
