"""The log of answers: what a line holds, who may read it, many writers, what goes wrong, and that it is read again."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import resource
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from leakmeter.data import traces
from leakmeter.errors import StoreError, UsageError
from leakmeter.products.integrations import AnswerLog, log_answer

SAID: dict[str, Any] = {"prompt": "Note: Anna Ek called at nine. Who called?", "answer": "Anna Ek."}


class Hostile:
    """A document that raises, with a text in its error."""

    metadata = None

    @property
    def text(self) -> str:
        raise RuntimeError("Anna Ek")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line]


def test_a_line_is_what_the_page_says(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    same: dict[str, Any] = {"answer": "Anna Ek.", "recipient": "desk 4", "model": "invented-7b", "trace_id": "t1"}
    same |= {"span_id": "s1", "response_id": "r1", "finish_reason": "stop", "hidden_calls": 2, "n_tools": 1}
    same |= {"tool_calls": [{"name": "mail", "arguments": '{"to": "desk 4"}'}], "turn": 2, "unmeasured_calls": 1}
    same |= {"reasoning": "The notes have it."}
    notes = "Notes: Anna Ek called at nine."
    assert log_answer(
        path,
        messages=[{"role": "system", "content": notes}, ("user", "Who called?")],
        documents={"call-1": "Anna Ek called at nine."},
        temperature=1.0,
        top_p=1,
        time=datetime(2026, 1, 2, 4, 5, 6, 7, timezone(timedelta(hours=1))),
        **same,
    )
    (line,) = lines(path)
    assert line == {
        "schema": "leakmeter-answer/1",
        "time": "2026-01-02T03:05:06.000007Z",
        "sampling": {"temperature": 1.0, "top_p": 1},
        "messages": [{"role": "system", "content": notes}, {"role": "user", "content": "Who called?"}],
        "documents": [{"id": "call-1", "text": "Anna Ek called at nine."}],
        "source": "record",
        **same,
    }


def test_what_is_not_given_is_missing_and_ids_are_random(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "answers.jsonl")
    before = datetime.now(UTC)
    assert log_answer(log, **SAID) and log_answer(log, **SAID)  # noqa: PT018
    first, second = lines(log.path)
    assert (first["prompt"], "messages" in first) == (SAID["prompt"], False)
    assert (first["recipient"], first["model"], first["sampling"], first["documents"]) == (None, None, {}, [])
    assert all(first[name] != second[name] for name in ("trace_id", "span_id"))
    assert before <= datetime.fromisoformat(first["time"]) <= datetime.now(UTC)


def test_a_call_of_a_tool_is_a_line_without_text(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    call = {"id": "c2", "type": "function", "function": {"name": "mail", "arguments": '{"to": "Anna Ek"}'}}
    read = [("user", "Who called? Write to her."), {"role": "tool", "name": "calls", "content": "Anna Ek called."}]
    assert log_answer(path, messages=read, tool_calls=[call], recipient="desk 4")
    (line,) = lines(path)
    assert (line["answer"], line["tool_calls"]) == ("", [{"name": "mail", "arguments": '{"to": "Anna Ek"}'}])
    (told,) = traces.TraceReader(path)
    assert isinstance(told, traces.LoggedAnswer)
    assert (told.channel, told.recipient, told.answer) == ("tool", "tool:mail", '{"to": "Anna Ek"}')
    assert [document.name for document in told.documents] == ["calls#1"]


def test_no_answer_no_line(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "answers.jsonl")
    assert not any(log_answer(log, prompt="p", **more) for more in ({}, {"answer": None}, {"answer": ""}))
    assert (log.lost, log.path.exists()) == (0, False)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "either 'messages' or 'prompt'"),
        ({"prompt": "p", "messages": [("user", "u")]}, "either 'messages' or 'prompt'"),
        ({"answer": 7, "prompt": "p"}, "'answer' is int"),
        ({"prompt": ["p"]}, "'prompt' is list"),
        ({"messages": "p"}, "'messages' is not a list"),
        ({"messages": [{"content": "p"}]}, "message 1 has no role"),
        ({"prompt": "p", "documents": "d"}, "'documents' is neither a list"),
        ({"prompt": "p", "documents": {"d": 1}}, "'documents' holds something"),
        ({"prompt": "p", "documents": [Hostile()]}, "cannot read its input: RuntimeError"),
        ({"prompt": "p", "time": "now"}, "'time' is str, expected a datetime"),
        ({"prompt": "p", "hidden_calls": -1}, "'hidden_calls' is not a count"),
        ({"prompt": "p", "tool_calls": "mail"}, "'tool_calls' is not a list of calls"),
        ({"prompt": "p", "tool_calls": {"name": "mail"}}, "'tool_calls' is not a list of calls"),
        ({"prompt": "p", "sampling": 1}, "'sampling' is int, expected a mapping"),
        ({"prompt": "p", "documets": []}, "'documets' is not a field"),
    ],
)
def test_what_is_no_answer_is_refused_and_raises_where_asked(
    fields: dict[str, Any], why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fields = {"answer": "a", **fields}
    with pytest.raises(UsageError, match=why):
        log_answer(AnswerLog(tmp_path / "strict.jsonl", strict=True), **fields)
    log = AnswerLog(tmp_path / "answers.jsonl")
    assert [log_answer(log, **fields), log_answer(log, **fields), log.lost] == [False, False, 2]
    assert [one.levelno for one in caplog.records] == [logging.WARNING]
    assert "Anna" not in caplog.text
    assert not list(tmp_path.iterdir())


def test_the_file_is_its_owners_alone_and_a_line_after_a_cut_one_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "answers.jsonl"
    previous = os.umask(0)
    try:
        log_answer(path, **SAID)
    finally:
        os.umask(previous)
    modes = [stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent)]
    assert modes == [0o600, 0o700]
    path.chmod(0o644)
    with path.open("ab") as file:
        file.write(b'{"schema": "leakmeter-answer/1", "answer": "An')
    log_answer(path, **SAID)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first, cut, last = path.read_bytes().splitlines()
    assert json.loads(first)["answer"] == json.loads(last)["answer"] == "Anna Ek."
    assert cut.endswith(b'"An')


HOSTILE = [
    'quotes " and \\ and {curly} and %s',
    "line\nbreak\r\nand \u2028 and \u2029 and \x85",
    "\x1b[31mred\x1b[0m \x9b31m \x00",
    "<|im_end|><script>alert(1)</script>",
    "half a pair \ud800",
    "東京 🙂 ÅØ",
]


def test_texts_are_data(tmp_path: Path) -> None:
    for number, text in enumerate(HOSTILE):
        path = tmp_path / f"{number}.jsonl"
        log_answer(path, prompt=text, answer=text, documents={text: text}, recipient=text, model=text, trace_id=text)
        held = path.read_bytes()
        assert held.isascii()
        assert held.count(b"\n") == 1
        assert all(byte >= 32 or byte == 10 for byte in held)
        (line,) = lines(path)
        assert [line[name] for name in ("prompt", "answer", "recipient", "model", "trace_id")] == [text] * 5
        assert line["documents"] == [{"id": text, "text": text}]


def many(path: str, name: str) -> None:
    log = AnswerLog(path, strict=True)
    with ThreadPoolExecutor(4) as threads:
        # Longer than a page and than what a pipe takes at once.
        list(threads.map(lambda i: log_answer(log, prompt="p" * (i * 997), answer=f"{name}-{i}"), range(40)))


def test_threads_and_processes_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=many, args=(str(path), str(number))) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    found = lines(path)
    assert sorted(line["answer"] for line in found) == sorted(f"{n}-{i}" for n in range(4) for i in range(40))
    assert all(line["prompt"] == "p" * (int(line["answer"].split("-")[1]) * 997) for line in found)


LIMITED = """
import resource, sys
from leakmeter.integrations import AnswerLog, log_answer
log = AnswerLog(sys.argv[1])
assert log_answer(log, prompt="p", answer="first")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
assert not log_answer(log, prompt="secret" * 1000, answer="second")
assert not log_answer(log, prompt="secret" * 1000, answer="second")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert log_answer(log, prompt="p", answer="third")
assert log.lost == 2
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limit of a file's size here")
def test_a_disk_that_is_full_costs_one_line(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    ran = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "secret" not in ran.stderr
    first, *cut, last = path.read_bytes().splitlines()
    assert [json.loads(line)["answer"] for line in (first, last)] == ["first", "third"]
    for line in cut:
        assert line.startswith(b'{"schema"')
        with pytest.raises(ValueError):
            json.loads(line)


@pytest.mark.parametrize("kind", ["a directory", "a link", "a pipe", "below a file", "a device"])
def test_a_write_that_fails_is_said_once(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "other").write_text("kept")
    places = {"below a file": tmp_path / "other" / "answers.jsonl", "a device": Path(os.devnull)}
    path = places.get(kind, tmp_path / "answers.jsonl")
    if kind == "a link":
        path.symlink_to(tmp_path / "other")
    elif kind not in places:
        (os.mkfifo if kind == "a pipe" else os.mkdir)(path)
    mode = path.stat().st_mode if path.exists() else None
    log = AnswerLog(path)
    assert [log_answer(log, **SAID) for _ in range(3)] == [False] * 3
    assert log.lost == 3
    (said,) = caplog.records
    assert (said.name, "cannot be written" in said.getMessage()) == ("leakmeter.integrations", True)
    assert "Anna" not in said.getMessage()
    with pytest.raises(StoreError, match="cannot be written"):
        log_answer(AnswerLog(path, strict=True), **SAID)
    assert mode == (path.stat().st_mode if path.exists() else None)
    assert (tmp_path / "other").read_text() == "kept"


TEXTS = {"call-1": "Anna Ek called at nine.", "menu": "Soup is <|im_end|> served\u2028at noon. \x1b[31m {x} %s"}


def test_documents_recipient_and_settings_come_back(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "answers.jsonl", strict=True)
    system = "Notes:\n" + "\n---\n".join(TEXTS.values())
    told = {"recipient": "desk 4", "model": "invented-7b", "answer": "Anna Ek.", "trace_id": "t", "span_id": "s"}
    sent = [("system", system), ("user", "Who?")]
    log_answer(log, messages=sent, documents=TEXTS, **told, temperature=0.7, response_id="r", hidden_calls=2)
    # A line that a full disk cut, and the next one.
    with log.path.open("ab") as file:
        file.write(b"\n")
    (found,) = traces.TraceReader(log.path)
    assert isinstance(found, traces.LoggedAnswer)
    assert {name: getattr(found, name) for name in told} == told
    assert (found.sampling.temperature, found.response_id, found.n_hidden_calls) == (0.7, "r", 2)
    assert [(one.id, one.text) for one in found.documents] == list(TEXTS.items())
    for one in found.documents:
        (place,) = one.places
        assert found.messages[place.message].content[place.start : place.end] == one.text


def test_what_was_cut_or_has_no_text_is_refused(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "answers.jsonl", strict=True)
    log_answer(log, messages=[("user", "Who?")], documents=[{"id": "call-1"}], answer="Anna Ek.")
    log_answer(log, messages=[("user", "Who?")], documents={"call-1": "Anna Ek called at nine."}, answer="Anna Ek.")
    assert [type(one) for one in traces.TraceReader(log.path)] == [traces.Refused, traces.Refused]


def test_roles_and_settings_go_by_one_name(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "answers.jsonl", strict=True)
    said = {"SystemMessage": "Anna Ek called at nine.", "Human": "Who?", "AIMessageChunk": "?", "User": "So?"}
    given = {"topP": "0.9", "max_new_tokens": 7, "best_of": 3, "model_kwargs": {"topK": 4}}
    documents = ["Anna Ek called at nine."]
    log_answer(log, messages=list(said.items()), documents=documents, answer="Anna Ek.", sampling=given)
    (found,) = traces.TraceReader(log.path)
    assert isinstance(found, traces.LoggedAnswer)
    assert [one.role for one in found.messages] == ["system", "user", "assistant", "user"]
    sampling = found.sampling
    assert (sampling.top_p, sampling.max_tokens, sampling.top_k, sampling.constrained) == (0.9, 7, 4, True)
