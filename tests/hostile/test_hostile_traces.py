"""Logs that somebody made to hurt: each ends in a result or a refusal of one line, in little memory, in linear time.

Time is counted in steps of the interpreter, so that no clock is asked.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pyarrow as pa
import pytest

from helpers.command_line import assert_refused
from helpers.logged_answers import Echo, logged
from helpers.logged_traffic import WRITERS, exchanges, records
from helpers.operations import n_operations
from leakmeter.data import opened as opened_module
from leakmeter.data import streamed as records_module
from leakmeter.data.traces import DocumentPlace, LoggedAnswer, LoggedMessage, Reason, TraceReader, as_case
from leakmeter.data.traces import places as places_module
from leakmeter.data.traces import reader as reader_module
from leakmeter.data.traces.answer import LoggedDocument, ReadText, Refused, Unusable
from leakmeter.data.traces.places import Retrieved, find
from leakmeter.data.traces.span import SpanKind, TraceSpan
from leakmeter.data.traces.trace import outcome_of
from leakmeter.engine.loading import KeptModel
from leakmeter.errors import DataError, LeakmeterError
from leakmeter.products.ledger import measuring
from leakmeter.products.ledger.keys import Keys
from leakmeter.products.ledger.measuring import add
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.ledger.turns import Turns

Call = Callable[..., Any]
RAIN: Final = "It rains in Rome."
OWN: Final[dict[str, Any]] = {
    "schema": "leakmeter-answer/1",
    "trace_id": "t",
    "span_id": "1",
    "messages": [{"role": "user", "content": f"{RAIN}\n\nWhere?"}],
    "answer": "Rome",
    "documents": [{"id": "weather", "text": RAIN}],
}


def n_searches(work: Callable[[], object]) -> int:
    """How often one text was looked for in another."""
    count = 0

    def profile(frame: FrameType, event: str, given: object) -> None:
        nonlocal count
        count += event == "c_call" and getattr(given, "__name__", "") == "find"

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def check_linear(work: Callable[[int], Callable[[], object]], n: int) -> None:
    """Twice as much takes about twice the steps; what grows with the square takes four times as many."""
    work(2)()  # whatever is done once
    assert n_operations(work(2 * n)) < 2.6 * n_operations(work(n))


def lines(path: Path, held: Iterable[Any]) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in held)
    return path


def read(path: Path) -> tuple[TraceReader, list[LoggedAnswer | Refused]]:
    reader = TraceReader(path)
    return reader, list(reader)


def check_refused(cli: Call, path: Path, why: str) -> None:
    assert_refused(cli("ledger", "add", path, "--model", "toy", "--ledger", path.with_name("ledger")), why)


# Trees of spans.


def span(number: int, kind: SpanKind, parent: int | None = None, **fields: Any) -> TraceSpan:
    """A step at the second of its number; a call answers, and what searches finds the weather."""
    made = TraceSpan(
        "t", str(number), f"log, {number}", kind, None if parent is None else str(parent), number, number + 0.5
    )
    if kind == "llm":
        made.messages = [["assistant", f"said {number - 1}"], ["user", f"{RAIN} Where?"]]
        made.answers = [[f"said {number}", "stop"]]
    elif kind in ("retriever", "reranker"):
        made.documents = [["weather", RAIN]]
    for name, value in fields.items():
        setattr(made, name, value)
    return made


SHAPES: Final[dict[str, Callable[[int], list[TraceSpan]]]] = {
    "chain": lambda n: [span(0, "retriever"), *(span(i, "other", i - 1) for i in range(1, n)), span(n, "llm", n - 1)],
    "ring": lambda n: [
        span(-1, "retriever"),
        *(span(i, "other", (i + 1) % n) for i in range(n)),
        span(n + 2, "llm", 0),
    ],
    "ring of calls": lambda n: [span(-1, "retriever"), *(span(i, "llm", (i + 1) % n) for i in range(n))],
    "calls": lambda n: [span(-1, "retriever"), *(span(i, "llm") for i in range(n))],
    "tools": lambda n: [
        span(-1, "retriever"),
        *(span(i, "tool", answers=[[f"said {i}", None]]) for i in range(n)),
        *(span(i, "llm") for i in range(n, 2 * n)),
    ],
    "rerankers": lambda n: [*(span(i, "reranker") for i in range(n)), span(n, "llm")],
    "twice": lambda n: [span(-1, "retriever"), *(span(0, "llm", answers=[[f"said {i}", None]]) for i in range(n))],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_spans_take_a_time_in_proportion_to_their_number(shape: str) -> None:
    check_linear(lambda n: partial(outcome_of, SHAPES[shape](n), "x"), 40)


@pytest.mark.parametrize(
    ("spans", "reasons", "n_hidden"),
    [
        (SHAPES["chain"](5), [], 1),  # within the retrieval
        (SHAPES["ring"](3), [None], 0),
        (SHAPES["ring of calls"](3), [None] * 3, 0),
        ([span(0, "retriever", 0), span(1, "llm", 1)], [None], 0),
        ([span(0, "retriever", 77), span(1, "llm", 78)], [None], 0),
        (SHAPES["twice"](3), [Reason.SAME_ID, Reason.SAME_ID, None], 0),
        ([*SHAPES["calls"](1), *SHAPES["calls"](1)], [None], 0),
    ],
)
def test_no_answer_is_lost_whatever_is_above_it(
    spans: list[TraceSpan], reasons: list[Reason | None], n_hidden: int
) -> None:
    found = outcome_of(spans, "x")
    assert [getattr(one, "reason", None) for one in found.results] == reasons
    assert found.n_hidden == n_hidden


def test_of_a_trace_no_more_is_looked_for_than_takes_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {i: f"{RAIN} {i}" for i in range(0, 80, 2)}
    steps = ((span(i, "retriever", documents=[[str(i), text]]), span(i + 1, "llm")) for i, text in texts.items())
    spans = [one for both in steps for one in both]
    spans[-1].messages = [["user", " ".join(texts.values())]]
    (whole,) = (one for one in outcome_of(spans, "x").results if isinstance(one, LoggedAnswer))
    assert len(whole.documents) == 40
    monkeypatch.setattr(places_module, "MOST_WORK", 10**6)
    found = outcome_of(spans, "x").results
    assert {one.reason for one in found if isinstance(one, Refused)} == {Reason.TOO_MANY_DOCUMENTS}
    assert n_operations(lambda: outcome_of(spans, "x")) < 10**5


def test_a_record_with_too_many_spans_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "MOST_SPANS", 10)
    for n in (10, 11):
        rows = [{"id": str(i), "type": "SPAN", "parentObservationId": str(i - 1)} for i in range(n)]
        reader, _ = read(lines(tmp_path / "log.jsonl", [{"id": "t", "observations": rows}]))
        assert reader.refused == ({Reason.TOO_MANY_SPANS: 1} if n > 10 else {})


# Agents.


def loop(n: int) -> TraceSpan:
    """A call whose prompt has as many calls of tools and their results, each a list of named records."""
    records = json.dumps([{"title": f"{i}.md", "text": f"{RAIN} {i}"} for i in range(3)])
    prompt: list[dict[str, Any]] = [{"role": "user", "content": "Where?"}]
    for i in range(n):
        call = {"id": f"c{i}", "function": {"name": "search", "arguments": '{"a": 1}'}}
        prompt.append({"role": "assistant", "content": None, "tool_calls": [call]})
        prompt.append({"role": "tool", "tool_call_id": f"c{i}", "content": records.replace("Rome", f"Rome, {i}")})
    made = span(1, "llm")
    made.read_call(prompt, {"role": "assistant", "content": "Rome"})
    return made


def replying(n: int, *, of_server: bool = False) -> TraceSpan:
    """A call that emits as many calls of tools, of its own server or not."""
    made = loop(1)
    call = {"type": "tool_call", "name": "search", "arguments": {"a": 1}}
    result = {"type": "tool_call_response", "response": RAIN}
    parts = [{**part, "id": f"s{i}"} for i in range(n) for part in ([call, result] if of_server else [call])]
    made.read_call([{"role": "user", "content": "Where?"}], [{"role": "assistant", "parts": parts}])
    return made


def test_results_take_a_time_in_proportion_to_their_number() -> None:
    check_linear(lambda n: partial(loop, n), 20)
    check_linear(lambda n: partial(outcome_of, [loop(n)], "x"), 20)
    (answer,) = outcome_of([loop(20)], "x").results
    assert isinstance(answer, LoggedAnswer)
    assert len(answer.documents) == 60
    check_linear(lambda n: partial(as_case, outcome_of([loop(n)], "x").results[0], by_id=True), 20)  # type: ignore[arg-type]
    assert len(as_case(answer, by_id=True).context_documents) == 60


@pytest.mark.parametrize("of_server", [False, True])
def test_a_reply_of_more_calls_than_any_model_makes_is_refused(
    of_server: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = outcome_of([replying(50, of_server=of_server)], "x")
    assert len(found.results) + found.n_before_reading == 50
    many = [replying(500, of_server=of_server)]
    monkeypatch.setattr(places_module, "MOST_WORK", 10**8)
    (refused,) = outcome_of(many, "x").results
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.TOO_MANY_DOCUMENTS
    assert n_operations(lambda: outcome_of(many, "x")) < 3 * 10**6


def test_a_reply_of_many_calls_that_has_read_is_refused() -> None:
    read = loop(1)
    read.answers = [["", None, [["search", '{"a": 1}']] * 4000, [], False]]
    (refused,) = outcome_of([read], "x").results
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.TOO_MANY_DOCUMENTS


def test_places_in_results_take_a_time_in_proportion_to_their_number() -> None:
    def messages(n: int) -> list[LoggedMessage]:
        return [LoggedMessage("tool", ".," * n, read=(ReadText("search#1", 0, 2 * n),))]

    check_linear(lambda n: partial(find, [Retrieved("a", "."), Retrieved("b", ",")], messages(n)), 200)
    many = [LoggedMessage("tool", "a1 " * 500, read=tuple(ReadText(f"n{i}", 3 * i, 3 * i + 2) for i in range(500)))]
    (document,) = find([], many).documents
    assert len(document.places) == 500


# Texts in prompts.


def prompt(*contents: str) -> list[LoggedMessage]:
    return [LoggedMessage("user", content) for content in contents]


def test_places_take_a_time_in_proportion_to_their_number() -> None:
    check_linear(lambda n: partial(find, [Retrieved("a", "."), Retrieved("b", ",")], prompt(".," * n)), 200)


@pytest.mark.parametrize("text", ["a" * 2000, "ab " * 700 + "a"])
def test_places_within_words_are_not_tried_one_by_one(text: str) -> None:
    messages = prompt("a" * 4000, "ab " * 1400, f"{text}, {text}x {text}")
    found: list[Any] = []
    assert n_searches(lambda: found.extend(find([Retrieved("a", text)], messages).documents)) < 20
    assert [(place.message, place.start) for place in found[0].places] == [(2, 0), (2, 2 * len(text) + 4)]


def test_texts_and_places_beyond_all_use_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [Retrieved(str(n), f"n{n}x") for n in range(100)]
    content = " ".join(one.text or "" for one in many)
    assert len(find(many, prompt(content)).documents) == 100
    for name, most in (("MOST_PLACES", 99), ("MOST_WORK", 10**5)):
        with monkeypatch.context() as patched:
            patched.setattr(places_module, name, most)
            with pytest.raises(Unusable) as refused:
                find(many, prompt(content))
            assert refused.value.reason is Reason.TOO_MANY_DOCUMENTS


class Compared(str):
    """An id whose comparisons take steps."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)


def test_one_text_under_many_ids_takes_a_time_in_proportion_to_their_number() -> None:
    check_linear(lambda n: partial(find, [Retrieved(Compared(i), RAIN) for i in range(n)], prompt(RAIN)), 100)
    (found,) = find([Retrieved(str(i % 50), RAIN) for i in range(99)], prompt(RAIN)).documents
    assert (found.id, found.other_ids) == ("0", tuple(map(str, range(1, 50))))


def conversation(n: int) -> LoggedAnswer:
    """As many messages, each with a place of its own document."""
    messages = tuple(LoggedMessage("user", f"{RAIN} {i}") for i in range(n))
    documents = tuple(LoggedDocument(str(i), str(i), RAIN, (DocumentPlace(i, 0, len(RAIN)),)) for i in range(n))
    return replace(logged(0, {}, "Rome"), messages=messages, documents=documents)


def test_long_conversations_take_a_time_in_proportion_to_their_length() -> None:
    def remembered(n: int) -> Callable[[], object]:
        answer, turns = conversation(n), Turns(Keys(b"k" * 32))
        turns.look(answer)
        later = replace(answer, documents=answer.documents[: n // 2])
        return lambda: turns.whole(later)

    check_linear(remembered, 40)
    check_linear(lambda n: partial(as_case, conversation(n)), 40)


def test_a_log_of_conversations_is_not_held_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakmeter.products.ledger.turns.MOST_PLACES", 50)
    turns = Turns(Keys(b"k" * 32))
    for number in range(20):
        messages = (LoggedMessage("user", f"{number} {RAIN}"),)
        places = tuple(DocumentPlace(0, i, i + 1) for i in range(10))
        turns.look(replace(conversation(1), messages=messages, documents=(LoggedDocument("a", "a", "x", places),)))
    assert sum(map(len, turns._held.values())) == 50


def test_a_batch_of_long_answers_is_a_short_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_MOST_CHARACTERS", 100)
    commits = []
    committed = Ledger.commit
    monkeypatch.setattr(Ledger, "commit", lambda *given, **more: commits.append(0) or committed(*given, **more))
    answers = [logged(n, {"weather": RAIN}, "Rome", query=f"Where, {n}?") for n in range(6)]
    add(Ledger(tmp_path / "ledger", Keys(b"k" * 32)), answers, KeptModel(Echo()))
    assert len(commits) == 3


# Ids.


def test_answers_under_one_id_are_all_accounted_for(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", Keys(b"k" * 32))
    one, other = logged(1, {"weather": RAIN}, "Rome"), logged(1, {"weather": RAIN}, "Milan")
    done = add(ledger, [one, one, other], KeptModel(Echo()))
    assert (done.n_added, done.n_known, len(done.problems)) == (1, 1, 1)
    again = add(ledger, [other, one], KeptModel(Echo()))
    assert (again.n_added, again.n_known, len(again.problems)) == (0, 1, 1)
    assert again.problems[0] == (
        "log.jsonl, line 2: another answer has the same trace and span; give each answer ids of its own"
    )


def other_of(answer: LoggedAnswer) -> dict[str, LoggedAnswer]:
    """The same answer, under the same ids, to somebody else, to another question, and of another document."""
    asked = logged(1, {"weather": RAIN}, "Rome", query="Where does he have it?")
    return {
        "recipient": replace(answer, recipient="reader-2"),
        "question": asked,
        "document": logged(1, {"file-7": "Mr Davit Sorokin was in Rome."}, "Rome"),
        "more documents": logged(1, {"weather": RAIN, "file-7": "Mr Davit Sorokin was in Rome."}, "Rome"),
        "found more": replace(answer, documents=(*answer.documents, replace(answer.documents[0], content_hash="0"))),
    }


@pytest.mark.parametrize("what", ["recipient", "question", "document", "more documents", "found more"])
@pytest.mark.parametrize("logs", [[2], [1, 1]], ids=["one log", "two logs"])
def test_an_answer_to_another_recipient_or_prompt_is_another_one(tmp_path: Path, what: str, logs: list[int]) -> None:
    one = logged(1, {"weather": RAIN}, "Rome")
    both, problems, n_added = [one, other_of(one)[what]], list[str](), 0
    ledger = Ledger(tmp_path / "ledger", Keys(b"k" * 32))
    for n in logs:
        done = add(ledger, both[:n], KeptModel(Echo()))
        both, problems, n_added = both[n:], [*problems, *done.problems], n_added + done.n_added
    assert n_added == 1
    assert [problem.partition(": ")[2] for problem in problems] == [
        "another answer has the same trace and span; give each answer ids of its own"
    ]


def test_answers_of_a_ledger_without_prompts_are_known_by_text_and_recipient(tmp_path: Path) -> None:
    ledger, one = Ledger(tmp_path / "ledger", Keys(b"k" * 32)), logged(1, {"weather": RAIN}, "Rome")
    add(ledger, [one], KeptModel(Echo()))
    with closing(sqlite3.connect(ledger.file)) as opened, opened:
        opened.execute("DROP TABLE prompts")
    done = add(Ledger(ledger.path, ledger.keys), [one, other_of(one)["recipient"]], KeptModel(Echo()))
    assert (done.n_known, len(done.problems)) == (1, 1)


def batch(custom_id: str, *parts: str) -> Iterator[dict[str, Any]]:
    """Halves of calls under one id: requests, answers, and one that failed."""
    for part in parts:
        if part.startswith("ask"):
            messages = [{"role": "user", "content": f"{RAIN} {part}?"}]
            yield {"custom_id": custom_id, "body": {"messages": messages, "metadata": {"documents": [RAIN]}}}
        elif part == "fail":
            yield {"custom_id": custom_id, "response": {"status_code": 500, "body": {}}, "error": {"code": "x"}}
        else:
            body = {"choices": [{"message": {"role": "assistant", "content": part}}]}
            yield {"custom_id": custom_id, "response": {"status_code": 200, "body": body}}


@pytest.mark.parametrize(
    ("parts", "n_answers", "n_refused"),
    [
        ("ask, said", 1, 0), ("ask, ask, said, said", 1, 0), ("ask, fail, said", 1, 0), ("ask, said 1, said 2", 0, 1),
        ("ask 1, ask 2, said 1, said 2", 0, 2), ("ask 1, ask 2, said", 0, 2), ("said 1, said 2", 0, 2),
    ],
)  # fmt: skip
def test_halves_of_calls_under_one_id_are_not_put_together_by_chance(
    parts: str, n_answers: int, n_refused: int, tmp_path: Path
) -> None:
    reader, _ = read(lines(tmp_path / "log.jsonl", batch("request-1", *parts.split(", "))))
    assert (reader.n_answers, reader.refused) == (n_answers, {Reason.SAME_ID: n_refused} if n_refused else {})


# Values.


def test_numbers_that_are_none(tmp_path: Path) -> None:
    many, chat = "9" * 5000, {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}
    otel = {"traceId": "t", "spanId": "1", "startTimeUnixNano": "1"}
    top_k = ({"key": "gen_ai.request.top_k", "value": {"intValue": number}} for number in (many, "--5", "-", "²"))
    openinference = {"context": {"trace_id": "t", "span_id": "1"}, "span_kind": "LLM"}
    for record in (
        openinference | {"attributes": {f"llm.input_messages.{many}.x": 1}},
        *(otel | {"attributes": [chat, one]} for one in top_k),
        OWN | {"time": many, "sampling": {"temperature": many, "top_k": "²"}},
    ):
        reader, found = read(lines(tmp_path / "log.jsonl", [record]))
        assert len(found) == reader.n_records == 1


DEEP: Final = {
    "own": '{"schema": "leakmeter-answer/1", "trace_id": "t", "span_id": "1", "sampling": DEEP, "messages": DEEP}',
    "openai": '{"messages": [{"role": "user", "content": "x"}], "custom_id": "a", "tools": DEEP, "response": DEEP}',
    "openinference": (
        '{"context": {"trace_id": "t", "span_id": "1"}, "span_kind": "LLM", "attributes": '
        '{"openinference.span.kind": "LLM", "llm.invocation_parameters": TEXT, "llm.input_messages": DEEP}}'
    ),
    "otel": (
        '{"traceId": "t", "spanId": "1", "startTimeUnixNano": "1", "attributes": {"gen_ai.operation.name": "chat", '
        '"gen_ai.request.x": DEEP, "gen_ai.input.messages": TEXT}}'
    ),
    "langfuse": (
        '{"id": "1", "trace_id": "t", "type": "GENERATION", "input": TEXT, "modelParameters": DEEP, "usage": DEEP}'
    ),
    "langsmith": '{"run_type": "llm", "id": "1", "inputs": {"messages": DEEP, "p": DEEP}, "outputs": TEXT}',
    "mlflow": (
        '{"info": {"trace_id": "t"}, "data": {"spans": [{"span_id": "1", "attributes": {"mlflow.spanType": "LLM", '
        '"mlflow.spanInputs": TEXT}, "outputs": DEEP}]}}'
    ),
    "ragas": '{"user_input": "x", "response": DEEP, "retrieved_contexts": TEXT}',
}


@pytest.mark.parametrize("form", DEEP)
def test_values_of_any_depth(form: str, tmp_path: Path) -> None:
    # Around the depth at which the parser gives up, its callers, and what they call, are the next to do so.
    for depth in (*range(880, 1010, 13), 10**5):
        for begin, end in (('{"a":', "}"), ("[", "]")):
            deep = f"{begin * depth}1{end * depth}"
            record = DEEP[form].replace("DEEP", deep).replace("TEXT", json.dumps(deep))
            path = lines(tmp_path / "log.jsonl", [json.dumps(OWN), record] if form == "own" else [record])
            with suppress(DataError):  # of one that cannot be parsed nobody knows the format
                reader, found = read(path)
                assert len(found) == reader.n_answers + sum(reader.refused.values())


def test_a_whole_file_of_any_depth_is_refused(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    for begin, end in (("[", "]"), ('{\n"a":', "}")):
        path.write_text(begin * 10**5 + "1" + end * 10**5)
        check_refused(cli, path, "neither JSON lines nor a JSON list of records")


# Sizes.


def packed(path: Path, pieces: Iterable[bytes]) -> Path:
    with pa.CompressedOutputStream(str(path), "zstd" if path.suffix == ".zst" else "gzip") as file:
        for piece in pieces:
            file.write(piece)
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are a hundredth of what they are."""
    for name, most in (("MOST_LINE", 2**18), ("MOST_WHOLE", 2**21), ("MOST_PARTS", 2**17), ("_CHUNK", 2**14)):
        monkeypatch.setattr(records_module, name, most)
    monkeypatch.setattr(reader_module, "MOST_LINE", 2**18)
    monkeypatch.setattr(opened_module, "_ANYWAY", 2**23)


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["log.jsonl", "log.gz", "log.zst"])
def test_a_line_of_any_length_takes_the_memory_of_a_piece(name: str, tmp_path: Path) -> None:
    pieces = [json.dumps(OWN).encode() + b"\n", b'{"a": "', *([b"x" * 2**16] * 100), b'"}\n', json.dumps(OWN).encode()]
    path = tmp_path / name
    path.write_bytes(b"".join(pieces))
    if path.suffix != ".jsonl":
        packed(path, pieces)
    reasons: list[Reason | None] = []
    peak = peak_bytes(lambda: reasons.extend(getattr(one, "reason", None) for one in TraceReader(path)))
    assert reasons == [None, Reason.TOO_LONG, None]
    assert peak < 4 * 2**18


@pytest.mark.parametrize("name", ["log.gz", "log.zst"])
@pytest.mark.parametrize("what", [b"\0", b"\n", b'{"a": "' + b"x" * 2000 + b'"}\n'])
def test_what_unpacks_to_far_more_than_it_is_is_refused(
    cli: Call, name: str, what: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_module, "_ANYWAY", 2**18)
    monkeypatch.setattr(opened_module, "_MOST_TIMES", 100)
    good = json.dumps(OWN).encode() + b"\n"
    path = packed(tmp_path / name, [good, *([what * (2**14 // len(what))] * 100)])
    assert path.stat().st_size < 2**13
    check_refused(cli, path, "decompresses to more than 100 times its size")
    # What is small stays readable, however well it was packed.
    reader, _ = read(packed(path, [good, what * (2**14 // len(what))]))
    assert reader.n_answers == 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        ([b"[", *([b"[]," * 10**4] * 40), b"[]]"], "is one JSON value of more than 131,072 parts"),
        ([b"{\n", *([b'"a":1,' * 10**4] * 30), b'"a":1}'], "is one JSON value of more than 131,072 parts"),
        ([b"[", *([b"[]," * 10**4] * 400), b"[]]"], "is one JSON value of more than 2,097,152 bytes"),
        ([b'{"x": "' + b"a" * 2**17 + b'"}\n'] * 100, "the first records are of no known format"),
    ],
)
def test_small_files_of_large_values_are_refused(cli: Call, tmp_path: Path, pieces: list[bytes], why: str) -> None:
    path = packed(tmp_path / "log.gz", pieces)
    assert path.stat().st_size < 2**16

    def work() -> None:
        with pytest.raises(LeakmeterError):
            read(path)

    assert peak_bytes(work) < 2**23
    check_refused(cli, path, why)


@pytest.mark.parametrize("name", WRITERS)
def test_reading_takes_a_time_in_proportion_to_the_records(name: str, tmp_path: Path) -> None:
    def work(n: int) -> Callable[[], object]:
        return partial(read, lines(tmp_path / f"{n}.jsonl", records(WRITERS[name], exchanges(n, words=1))))

    check_linear(work, 8)


# The same at full size.

_READING: Final = """
import json, re, sys
from pathlib import Path
from leakmeter.errors import LeakmeterError
from leakmeter.data.traces import TraceReader
reader, why = TraceReader(sys.argv[1]), None
try:
    for _ in reader:
        pass
except LeakmeterError as error:
    why = str(error)
(most,) = re.findall(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
told = {"n_answers": reader.n_answers, "n_hidden": reader.n_hidden_calls, "why": why, "peak_mib": int(most) / 1024}
print(json.dumps(told | {"refused": {reason.value: n for reason, n in reader.refused.items()}}))
"""


def read_apart(path: Path) -> dict[str, Any]:
    """The same in a process of its own, with the memory that it took."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the system does not say how much memory a process took")
    done = subprocess.run([sys.executable, "-c", _READING, str(path)], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.long
def test_a_line_of_a_gigabyte_and_small_files_of_gigabytes(tmp_path: Path) -> None:
    own = json.dumps(OWN).encode() + b"\n"
    path = tmp_path / "log.jsonl"
    with path.open("wb") as file:
        file.write(own)
        file.truncate(2**30)  # the rest takes no place on the disk
    found = read_apart(path)
    assert (found["n_answers"], found["refused"], found["why"]) == (1, {"too-long": 1}, None)
    assert found["peak_mib"] < 300
    for name in ("log.gz", "log.zst"):
        path = packed(tmp_path / name, [own, *([bytes(2**20)] * 1100)])
        assert path.stat().st_size < 2**22
        found = read_apart(path)
        assert (found["n_answers"], found["refused"], found["peak_mib"] < 300) == (1, {}, True)
        assert "decompresses to more than 1,000 times its size" in found["why"]
    found = read_apart(packed(tmp_path / "log.gz", [b"[", *([b"[]," * 2**18] * 80), b"[]]"]))
    assert "is one JSON value of more than 16,777,216 parts" in found["why"]
    assert found["peak_mib"] < 700
    line = b'{"schema": "leakmeter-answer/1", "x": ['
    found = read_apart(packed(tmp_path / "log.gz", [line, *([b"[]," * 2**18] * 40), b"[]]}\n"]))
    assert (found["refused"], found["peak_mib"] < 2000) == ({"not-of-format": 1}, True)


def _rows(traces: Iterable[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Traces of so many spans: a retrieval, a ring, and a call below the ring."""
    for trace, n_each in traces:

        def row(number: int, kind: str, trace: int = trace, **more: Any) -> dict[str, Any]:
            time = f"2026-03-02T08:00:00.{number:06}Z"
            return {"id": str(number), "trace_id": str(trace), "type": kind, "start_time": time, **more}

        yield row(0, "RETRIEVER", output=[{"page_content": RAIN, "metadata": {"id": "weather"}}])
        yield from (row(n, "SPAN", parent_observation_id=str(n - 1 or n_each - 2)) for n in range(1, n_each - 1))
        asked = [{"role": "user", "content": f"{RAIN} Where?"}]
        said = {"role": "assistant", "content": "Rome"}
        yield row(n_each - 1, "GENERATION", input=asked, output=said, parent_observation_id=str(n_each - 2))


@pytest.mark.long
def test_a_hundred_thousand_spans(tmp_path: Path) -> None:
    """A million take minutes, within the same bound of memory."""
    traces = [*((number, 10_000) for number in range(5)), *((number, 10) for number in range(5, 5_005))]
    found = read_apart(lines(tmp_path / "log.jsonl", _rows(traces)))
    assert (found["n_answers"], found["n_hidden"], found["refused"]) == (len(traces), 0, {})
    assert found["peak_mib"] < 400
