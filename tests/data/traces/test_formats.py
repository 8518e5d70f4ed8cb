"""The same invented traffic in every format comes out as the same answers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from helpers import logged_traffic
from helpers.logged_traffic import WITH_SPANS, WRITERS, Exchange, exchanges, records, write
from leakmeter.data.cases import cases_of
from leakmeter.data.traces import LoggedAnswer, Reason, Refused, TraceReader
from leakmeter.data.traces.reader import presets

TRAFFIC = exchanges(12)


def read(path: Path, **options: Any) -> tuple[TraceReader, list[LoggedAnswer | Refused]]:
    reader = TraceReader(path, **options)
    return reader, list(reader)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("apart", [False, True])
def test_every_format_says_the_same(name: str, apart: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", records(WRITERS[name], TRAFFIC, apart=apart))
    reader, found = read(path)
    assert reader.format == name.removesuffix("_batch")
    assert not reader.refused
    assert reader.n_answers == len(found) == len(TRAFFIC)
    for one, said in zip(TRAFFIC, found, strict=True):
        assert isinstance(said, LoggedAnswer)
        assert (said.answer, said.recipient) == (one.answer, one.recipient)
        assert [document.id for document in said.documents] == list(one.ids)
        assert [document.text for document in said.documents] == list(one.texts)
        for document in said.documents:
            (place,) = document.places
            assert said.messages[place.message].content[place.start : place.end] == document.text
        if name == "ragas":
            assert said.is_rebuilt
            assert said.messages[0].content.endswith(one.question)
            continue
        assert [{"role": m.role, "content": m.content} for m in said.messages] == one.messages
        assert said.model == "small-model"
        assert (said.sampling.temperature, said.sampling.max_tokens, said.sampling.decoding) == (1.0, 64, "sampling")
        # Other limits than top-p are not logged.
        assert said.sampling.is_plain is None
        assert said.time is not None
        assert abs((said.time - one.time(4)).total_seconds()) <= 1
        assert said.n_hidden_calls == (one.rewrite if name in (*WITH_SPANS, "leakmeter") else 0)
        assert len(said.earlier) == len(one.earlier)
        if name not in ("openai", "openai_batch"):
            assert said.trace_id.endswith(one.trace_id)
    assert reader.n_hidden_calls == (sum(one.rewrite for one in TRAFFIC) if name in WITH_SPANS else 0)


def test_packed_logs_and_logs_in_several_files_are_read_as_they_are(tmp_path: Path) -> None:
    held = records(logged_traffic.otel, TRAFFIC)
    plain = write(tmp_path / "log.jsonl", held)
    for suffix in (".jsonl.gz", ".jsonl.zst"):
        path = write(tmp_path / f"log{suffix}", held)
        told: list[tuple[int, int]] = []
        reader, found = read(path, on_bytes=lambda n, of, told=told: told.append((n, of)))
        assert [replace(one, where="") for one in found] == [replace(one, where="") for one in read(plain)[1]]
        assert reader.offsets == {str(path): plain.stat().st_size}
        assert told[-1] == (reader.size, reader.size) == (path.stat().st_size, path.stat().st_size)
    apart = records(logged_traffic.openinference, TRAFFIC, apart=True)
    half = len(apart) // 2
    reader = TraceReader([write(tmp_path / "a.jsonl", apart[:half]), write(tmp_path / "b.jsonl.gz", apart[half:])])
    assert sum(isinstance(one, LoggedAnswer) for one in reader) == len(TRAFFIC)
    assert reader.n_bytes == reader.size
    for writer in (logged_traffic.langsmith, logged_traffic.langfuse):
        path = write(tmp_path / f"{writer.__name__}.parquet", records(writer, TRAFFIC, apart=True))
        reader, found = read(path)
        assert reader.format == writer.__name__
        assert [one.answer for one in found if isinstance(one, LoggedAnswer)] == [one.answer for one in TRAFFIC]
        assert reader.offsets == {str(path): len(records(writer, TRAFFIC))}


def answer_of(path: Path, *told: dict[str, Any], **options: Any) -> LoggedAnswer:
    (found,) = read(write(path, told), **options)[1]
    assert isinstance(found, LoggedAnswer)
    return found


def test_documents_beside_a_completion(tmp_path: Path) -> None:
    texts = TRAFFIC[0].texts
    for documents, options in (
        ({"retrieved_contexts": list(texts)}, {}),
        ({"metadata": {"docs": [{"page_content": t} for t in texts]}}, {}),
        ({"rag": {"hits": [{"node": {"id_": "n", "text": t}} for t in texts]}}, {"documents": "rag.hits"}),
        ({"documents": dict(zip("abc", texts, strict=True))}, {}),
    ):
        line = {name: value for name, value in openai_line().items() if name != "documents"}
        assert len(answer_of(tmp_path / "log.jsonl", line | documents, **options).documents) == 3


def test_ids_of_documents_and_answers_that_are_json(tmp_path: Path) -> None:
    for name in ("openai", "openinference", "otel", "langfuse", "mlflow", "langsmith", "ragas", "leakmeter"):
        for said in ('{"answer": "Anna"}', '["a", "b"]', '"quoted"', "12", "null"):
            one = replace(TRAFFIC[0], ids=(None, "b", None), answer=said)
            found = answer_of(tmp_path / "log.jsonl", *records(WRITERS[name], [one]))
            assert found.answer == said, name
        if name not in ("ragas", "leakmeter"):
            first, second, third = found.documents
            assert first.id == f"sha256:{first.content_hash[:32]}" != third.id
            assert second.id == "b"


def test_several_choices_are_an_event_each_and_what_has_no_id_is_known_by_what_it_says(tmp_path: Path) -> None:
    line = openai_line()
    line["request"]["tools"] = [{"type": "function", "function": {"name": "search"}}]
    choice = line["response"]["choices"][0]
    line["response"]["choices"] = [choice, choice, {"message": {"role": "assistant", "content": None}}]
    one, two, three = read(write(tmp_path / "log.jsonl", [line]))[1]
    assert isinstance(one, LoggedAnswer)
    assert isinstance(three, Refused)
    assert (one.span_id, two.span_id, three.span_id, three.reason) == ("1", "1.2", "1.3", Reason.NO_ANSWER)
    assert one.n_tools == 1
    line = openai_line()
    del line["response"]["id"]
    other = {**line, "time": "2026-03-02T09:00:00Z"}
    one, again, third = read(write(tmp_path / "a.jsonl", [line, line, other]))[1]
    (moved,) = read(write(tmp_path / "b.jsonl", [line]))[1]
    assert one.trace_id == again.trace_id == moved.trace_id != third.trace_id


@pytest.mark.parametrize("written", [logged_traffic.openai, logged_traffic.ragas])
def test_two_answers_of_one_record_are_refused_where_they_differ(written: Any, tmp_path: Path) -> None:
    (line,) = records(written, TRAFFIC[:1])
    (whole,) = read(write(tmp_path / "log.jsonl", [line]))[1]
    assert isinstance(whole, LoggedAnswer)
    for other, reasons in ((f"{whole.answer}\n", {}), ("I do not know.", {Reason.SEVERAL_ANSWERS: 1})):
        reader, found = read(write(tmp_path / "log.jsonl", [{**line, "answer": other}]))
        assert reader.refused == reasons
        assert len(found) == 1


def test_two_contexts_of_one_record_are_refused_where_they_differ(tmp_path: Path) -> None:
    (line,) = records(logged_traffic.ragas, TRAFFIC[:1])
    for other, n in ((line["retrieved_contexts"], 1), (["Bo Lind is ill."], 0)):
        reader, _ = read(write(tmp_path / "log.jsonl", [{**line, "contexts": other}]))
        assert reader.n_answers == n
        assert reader.refused == ({} if n else {Reason.NOT_OF_FORMAT: 1})


def test_records_that_lack_a_part_are_refused(tmp_path: Path) -> None:
    request, answer = records(logged_traffic.openai_batch, TRAFFIC[:1])
    failed = answer | {"response": {"status_code": 500, "body": {}}}
    (held,) = logged_traffic.leakmeter(TRAFFIC[0])
    cut, later = {**held, "incomplete": True}, {**held, "schema": "leakmeter-answer/2"}
    for lines, reasons in (
        ([request], [Reason.NO_ANSWER]),
        ([answer], [Reason.NO_PROMPT]),
        ([request, failed], [Reason.FAILED]),
        ([held, cut, later], [Reason.INCOMPLETE, Reason.OTHER_VERSION]),
    ):
        reader, _ = read(write(tmp_path / "log.jsonl", lines))
        assert reader.refused == dict.fromkeys(reasons, 1)
    assert all(reason.sentence for reason in Reason)


RECIPIENTS = {
    "openai": "request.user", "leakmeter": "recipient", "ragas": "user_id", "openinference": "user.id",
    "otel": "gen_ai.conversation.id", "langfuse": "session_id", "mlflow": "mlflow.trace.session",
    "langsmith": "thread_id",
}  # fmt: skip


def test_the_recipient_is_the_field_that_is_named(tmp_path: Path) -> None:
    said = {"otel": "c", "langfuse": "s", "mlflow": "s", "langsmith": "t"}
    for name, path in RECIPIENTS.items():
        log = write(tmp_path / "log.jsonl", records(WRITERS[name], TRAFFIC[:2]))
        found = [one.recipient for one in read(log, recipient=path)[1] if isinstance(one, LoggedAnswer)]
        assert found == [said.get(name, one.recipient) for one in TRAFFIC[:2]]
        none = read(log, recipient="no.such")[1]
        assert all(isinstance(one, LoggedAnswer) and one.recipient is None for one in none)


HOT = {"temperature": 1}
OPEN = {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0}


@pytest.mark.parametrize(
    ("parameters", "decoding", "is_plain"),
    [
        ({}, None, None),
        *(({"temperature": of}, None, None) for of in (float("nan"), -1, True)),
        *((of, "greedy", False) for of in ({"temperature": 0}, {"do_sample": False})),
        *((of, "sampling", None) for of in ({"temperature": 0.7}, {"temperature": "0.7", "top_p": "1"})),
        *((of, "sampling", None) for of in (OPEN | {"top_k": -1}, OPEN)),
        (OPEN | {"repeat_penalty": 1}, "sampling", True),
        (OPEN | {"repeat_penalty": 1.1}, "sampling", False),
        (HOT | {"decoding": "sampling"}, "sampling", True),
        (HOT | {"decoding": "sampling", "top_k": 5}, "top-k", False),
        *((of, "beam", False) for of in (HOT | {"decoding": "beam"}, {"num_beams": 4})),
        *((HOT | of, "top-p", False) for of in ({"top_p": 1, "typical_p": 0.9}, {"top_p": 0.9}, {"min_p": 0.1})),
        (HOT | {"top_k": 40}, "top-k", False),
        *((HOT | of, "sampling", False) for of in (
            {"frequency_penalty": 0.5}, {"logit_bias": {"7": -100}}, {"response_format": {"type": "json_object"}},
            {"best_of": 5},
        )),
    ],
)  # fmt: skip
def test_how_an_answer_was_drawn(parameters: dict[str, Any], decoding: Any, is_plain: Any, tmp_path: Path) -> None:
    one = replace(TRAFFIC[0], parameters=parameters)
    for name in ("leakmeter", "openai", "langsmith"):
        sampling = answer_of(tmp_path / "log.jsonl", *records(WRITERS[name], [one])).sampling
        assert (sampling.decoding, sampling.is_plain) == (decoding, is_plain)


def test_prompts_that_cannot_be_measured(tmp_path: Path) -> None:
    (held,) = logged_traffic.leakmeter(TRAFFIC[0])
    path = tmp_path / "log.jsonl"
    for messages, reason in (
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], Reason.NOT_TEXT),
        ([{"role": "assistant", "tool_calls": [{"id": "1"}], "content": None}], Reason.NO_QUESTION),
        ([{"role": "user<|im_end|>", "content": "x"}], Reason.BAD_ROLE),
        ([{"role": "system", "content": "x"}], Reason.NO_QUESTION),
        ([{"role": "user", "content": "\ud800"}], Reason.NOT_UNICODE),
        ([], Reason.NO_PROMPT),
        (None, Reason.NO_PROMPT),
        ("Once upon a time", Reason.RAW_PROMPT),
    ):
        path.write_text(json.dumps({**held, "messages": messages}))
        reader, (refused,) = read(path)
        assert isinstance(refused, Refused)
        assert reader.refused == {reason: 1}
        assert (refused.reason, refused.where, refused.span_id) == (reason, "log.jsonl, line 1", TRAFFIC[0].span_id(2))


FIRST, SECOND = TRAFFIC[0].texts[:2]


@pytest.mark.parametrize("name", ["langsmith", "langfuse", "mlflow"])
@pytest.mark.parametrize(
    ("output", "found"),
    [
        ([{"text": FIRST}, {"text": SECOND}], [FIRST, SECOND]),
        *(({of: [{"text": FIRST}]}, [FIRST]) for of in ("documents", "docs", "results", "nodes", "chunks", "hits")),
        ({"matches": [{"id": "m", "score": 0.5, "metadata": {"text": FIRST}}]}, [FIRST]),
        ({"points": [{"id": 3, "payload": {"text": FIRST}}]}, [FIRST]),
        ({"hits": {"hits": [{"_source": {"text": FIRST}}]}}, [FIRST]),
        ({"retrievalResults": [{"content": {"text": FIRST, "type": "TEXT"}}]}, [FIRST]),
        ({"ids": [["a", "b"]], "documents": [[FIRST, SECOND]]}, [FIRST, SECOND]),
        ([[{"page_content": FIRST}, 0.7], [{"page_content": SECOND}, 0.5]], [FIRST, SECOND]),
        ({"documents": [{"text": FIRST}], "results": [{"text": SECOND}]}, [FIRST, SECOND]),
        ({"documents": [{"text": FIRST}], "results": [{"id": "a", "score": 1}]}, [FIRST]),
        ({"documents": [{"text": FIRST}], "context": f"1. {FIRST}"}, [FIRST]),
        ({"text": FIRST, "items": []}, [FIRST]),
        (FIRST, [FIRST]),
        ({"output": FIRST}, [FIRST]),
        ([], []),
        ({"documents": []}, []),
        (None, Reason.DOCUMENT_WITHOUT_TEXT),
        ({}, Reason.DOCUMENT_WITHOUT_TEXT),
        ({"status": "ok"}, Reason.DOCUMENT_WITHOUT_TEXT),
        ('[{"text": "File', Reason.INCOMPLETE),
    ],
)
def test_what_a_search_returned_is_read_under_known_names_or_told(
    name: str, output: Any, found: Any, tmp_path: Path
) -> None:
    third = TRAFFIC[0].texts[2]
    one = replace(TRAFFIC[0], question=f"{third} {TRAFFIC[0].question}")
    held = json.loads(json.dumps(records(WRITERS[name], [one])))
    spans = held[0]["data"]["spans"] if name == "mlflow" else held
    _, search, call = spans
    other = json.loads(json.dumps(search)) | {"id": "other", "span_id": "AAAAAAAAAAk="}
    for span, value in ((search, output), (other, [{"text": third}])):
        if name == "mlflow":
            span["attributes"]["mlflow.spanOutputs"] = json.dumps(value)
        else:
            span["outputs" if name == "langsmith" else "output"] = value
    spans[:] = [search, other, call]
    (said,) = read(write(tmp_path / "log.jsonl", held))[1]
    if isinstance(found, Reason):
        assert isinstance(said, Refused)
        assert said.reason is found
        return
    assert isinstance(said, LoggedAnswer)
    assert sorted(document.text for document in said.documents) == sorted([*found, third])


def test_a_search_by_open_telemetry_whose_texts_were_not_logged_is_told(tmp_path: Path) -> None:
    first, search, call = otel_spans(TRAFFIC[0])
    log = tmp_path / "log.jsonl"
    for held, reason in (
        ({"gen_ai.retrieval.documents": None}, Reason.DOCUMENT_WITHOUT_TEXT),
        ({"gen_ai.retrieval.documents": '[{"id": "a", "content": "File'}, Reason.INCOMPLETE),
        ({"gen_ai.retrieval.documents": "[]"}, Reason.NO_DOCUMENTS),
    ):
        assert reasons_of(log, [first, with_attributes(search, **held), call]) == [reason]
    # The user may say where they stand instead.
    bare = with_attributes(search, **{"gen_ai.retrieval.documents": None})
    (said,) = cases_of(write(log, [first, bare, call]), logs=presets, context_from="Notes:(.*)Question:").cases
    assert FIRST in "".join(document.text for document in said.context_documents)


def otel_event(name: str, **attributes: Any) -> dict[str, Any]:
    return with_attributes({"name": name, "attributes": []}, **{n: json.dumps(v) for n, v in attributes.items()})


def test_events_of_one_name_are_all_read(tmp_path: Path) -> None:
    *before, call = otel_spans(TRAFFIC[0])
    bare = with_attributes(
        call, **dict.fromkeys(("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"))
    )
    asked, other = TRAFFIC[0].messages, [{"role": "user", "content": "Who?"}]
    no, yes = ([{"role": "assistant", "content": text}] for text in ("No.", "Yes."))
    prompt = otel_event("gen_ai.content.prompt", **{"gen_ai.prompt": asked})
    replies = [otel_event("gen_ai.content.completion", **{"gen_ai.completion": said}) for said in (no, yes)]

    def details(messages: Any, said: Any) -> dict[str, Any]:
        names = {"gen_ai.input.messages": messages, "gen_ai.output.messages": said}
        return otel_event("gen_ai.client.inference.operation.details", **names)

    for events, said in (
        ([prompt, *replies], ["No.", "Yes."]),
        ([details(asked, no), details(asked, yes)], ["No.", "Yes."]),
        ([details(asked, no), details(other, yes)], [Reason.SAME_ID]),
        ([details(asked, no) | {"droppedAttributesCount": 1}], [Reason.INCOMPLETE]),
    ):
        found = read(write(tmp_path / "log.jsonl", [*before, bare | {"events": events}]))[1]
        assert [one.reason if isinstance(one, Refused) else one.answer for one in found] == said


def chunk(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "AIMessageChunk", "content": content, **more}


def piece(arguments: str, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_call_chunk", "index": 0, "name": None, "id": None, "args": arguments, **more}]


PIECES = ("Anna 070", "-123 45", "67.")
EVENTS = "".join(f"data: {json.dumps({'delta': text})}\n\n" for text in PIECES)
SERIALISED = [{"lc": 1, "type": "constructor", "id": ["x", "AIMessageChunk"], "kwargs": {"content": t}} for t in PIECES]
ENDED = {"response_metadata": {"finish_reason": "stop"}}


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (list(PIECES), ["Anna 070-123 4567."]),
        ({"output": list(PIECES)}, ["Anna 070-123 4567."]),
        ([*map(chunk, PIECES), chunk("", **ENDED)], ["Anna 070-123 4567."]),
        ([chunk([{"type": "text", "text": text, "index": 0}]) for text in PIECES], ["Anna 070-123 4567."]),
        (SERIALISED, ["Anna 070-123 4567."]),
        (
            [
                chunk("I look.", tool_call_chunks=piece('{"who": "An', name="search", id="c1")),
                chunk("", tool_call_chunks=piece('na"}')),
            ],
            ["I look.", '{"who": "Anna"}'],
        ),
        ([chunk("An"), chunk([{"type": "image_url", "image_url": {"url": "x"}}])], [Reason.NOT_TEXT]),
        ([{"content": text} for text in PIECES], [Reason.SEVERAL_ANSWERS]),
        ([chunk("An"), {"role": "assistant", "content": "Anna."}], [Reason.SEVERAL_ANSWERS]),
        # Choices are an answer each.
        ({"choices": ["Anna.", "Bo."]}, ["Anna.", "Bo."]),
        ([{"role": "assistant", "content": text} for text in ("Anna.", "Bo.")], ["Anna.", "Bo."]),
        (EVENTS, [Reason.STREAM]),
        (f"event: delta\n{EVENTS}data: [DONE]\n\n", [Reason.STREAM]),
        (f"Such is a stream:\n{EVENTS}", [f"Such is a stream:\n{EVENTS}"]),
        ('data: {"a": 1}', ['data: {"a": 1}']),
    ],
)
@pytest.mark.parametrize("name", ["langsmith", "langfuse"])
def test_an_answer_that_was_streamed_is_one(name: str, output: Any, said: list[Any], tmp_path: Path) -> None:
    *before, call = WRITERS[name](TRAFFIC[0])
    key = "output" if name == "langfuse" else "outputs"
    found = read(write(tmp_path / "log.jsonl", [*before, call | {key: output}]))[1]
    assert [one.reason if isinstance(one, Refused) else one.answer for one in found] == said


def test_of_two_answers_none_is_chosen(tmp_path: Path) -> None:
    held = [*logged_traffic.langfuse(TRAFFIC[0])]
    (call,) = (row for row in held if row["type"] == "GENERATION")
    for output, n_refused in (
        ({"answer": "Anna.", "output": "Anna."}, 0),
        ({"answer": "Anna.", "output": ""}, 0),
        ({"answer": "Anna.", "output": "Bo."}, 1),
    ):
        call["output"] = output
        path = tmp_path / "log.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in held))
        reader, (found,) = read(path)
        assert reader.refused == ({Reason.SEVERAL_ANSWERS: 1} if n_refused else {})
        assert n_refused or found.answer == "Anna."


def test_reasoning_out_of_sight_is_a_hidden_call(tmp_path: Path) -> None:
    for said, n_hidden in (
        ({}, 0),
        ({"usage": {"completion_tokens_details": {"reasoning_tokens": 0}}}, 0),
        ({"usage": {"completion_tokens_details": {"reasoning_tokens": 12}}}, 1),
        ({"usage": {"output_tokens_details": {"reasoning_tokens": 12}}, "reasoning": {"effort": "low"}}, 1),
    ):
        (line,) = logged_traffic.openai(TRAFFIC[1])
        line["response"].update(said)
        assert answer_of(tmp_path / "log.jsonl", line).n_hidden_calls == n_hidden
        line["response"].pop("usage", None)
        line["response"]["choices"][0]["message"]["reasoning_content"] = "They want Anna."
        assert answer_of(tmp_path / "log.jsonl", line).n_hidden_calls == 1


def test_a_list_a_page_of_an_api_and_one_record_on_several_lines(tmp_path: Path) -> None:
    held = records(logged_traffic.langfuse, TRAFFIC[:3])
    for value in (held, {"data": held, "meta": {}}, json.dumps(held, indent=2), json.dumps({"data": held}, indent=1)):
        path = tmp_path / "log.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        reader, found = read(path)
        assert (reader.format, len(found)) == ("langfuse", 3)
    about = {"id": "t1", "userId": "who", "observations": records(logged_traffic.langfuse, TRAFFIC[:1])}
    for one in about["observations"]:
        del one["user_id"]
    path.write_text(json.dumps(about))
    (answer,) = read(path)[1]
    assert isinstance(answer, LoggedAnswer)
    assert answer.recipient == "who"


def test_a_span_a_line_and_both_conventions_of_otlp(tmp_path: Path) -> None:
    one = TRAFFIC[0]
    assert read(write(tmp_path / "log.jsonl", otel_spans(one)))[0].n_answers == 1
    reader, (answer,) = read(write(tmp_path / "log.jsonl", spans_of_otlp(one)))
    assert reader.format == "otel"
    assert isinstance(answer, LoggedAnswer)
    assert [(m.role, m.content) for m in answer.messages] == [(m["role"], m["content"]) for m in one.messages]
    # Values that are no JSON text are read too.
    plain = [span for one in TRAFFIC for span in logged_traffic.otel(one, as_text=False)]
    assert read(write(tmp_path / "log.jsonl", plain))[0].n_answers == len(TRAFFIC)


def spans_of_otlp(one: Exchange, **attributes: Any) -> list[dict[str, Any]]:
    """Spans by OpenInference with flattened attributes; those of the call with what is given in the place of its own,
    or without it where that is None."""
    out = []
    for span in logged_traffic.openinference(one):
        held = span["attributes"]
        for name in ("llm.input_messages", "llm.output_messages"):
            for number, message in enumerate(held.pop(name, [])):
                held |= {f"{name}.{number}.{key}": value for key, value in message.items()}
        for name, value in attributes.items() if span["span_kind"] == "LLM" else ():
            held = {key: kept for key, kept in held.items() if not key.startswith(name)} | {name: value}
        written = [{"key": key, "value": {"stringValue": str(held[key])}} for key in held if held[key] is not None]
        ids = {"traceId": span["context"]["trace_id"], "spanId": span["context"]["span_id"]}
        time = str(int(datetime.fromisoformat(span["start_time"]).timestamp()) * 10**9)
        out.append({**ids, "startTimeUnixNano": time, "attributes": written})
    return out


def reasons_of(path: Path, spans: list[dict[str, Any]]) -> list[Reason | None]:
    return [one.reason if isinstance(one, Refused) else None for one in read(write(path, spans))[1]]


KIND, ROLE = "openinference.span.kind", "llm.input_messages.0.message.role"
OTHER_PARTS = {f"llm.output_messages.0.message.contents.{n}.message_content.text": "Anna." for n in (0, 2)}


@pytest.mark.parametrize(
    ("changed", "n_dropped", "reason"),
    [
        ({}, 0, None),
        # What a message has between its texts stands elsewhere.
        ({"llm.output_messages.0.message.content": None, **OTHER_PARTS}, 0, None),
        ({"llm.input_messages.0": None}, 0, Reason.INCOMPLETE),
        ({"llm.input_messages.1": None, "llm.input_messages.2.message.role": "user"}, 0, Reason.INCOMPLETE),
        ({"llm.output_messages.0": None, "llm.output_messages.1.message.content": "x"}, 0, Reason.INCOMPLETE),
        ({KIND: None}, 0, Reason.INCOMPLETE),
        ({}, 3, Reason.INCOMPLETE),
    ],
)
def test_a_call_whose_first_attributes_were_evicted_is_incomplete(
    changed: dict[str, Any], n_dropped: int, reason: Reason | None, tmp_path: Path
) -> None:
    spans = spans_of_otlp(TRAFFIC[0], **changed)
    for name in ("droppedAttributesCount", "dropped_attributes_count"):
        assert reasons_of(tmp_path / "log.jsonl", [*spans[:-1], spans[-1] | {name: n_dropped}]) == [reason]
    printed = []
    for span in spans:
        attributes = {one["key"]: one["value"]["stringValue"] for one in span["attributes"]}
        context = {"trace_id": span["traceId"], "span_id": span["spanId"]}
        printed.append({"kind": "SpanKind.INTERNAL", "context": context, "attributes": attributes, "parent_id": None})
        printed[-1]["start_time"] = span["startTimeUnixNano"]
    printed[-1]["dropped_attributes_count"] = n_dropped
    # Whichever span is the first of the log.
    for held in (printed, printed[::-1]):
        assert reasons_of(tmp_path / "log.jsonl", held) == [reason]


def test_a_call_for_which_only_a_part_of_a_retrieval_was_logged_is_incomplete(tmp_path: Path) -> None:
    first, retrieval, call = spans_of_otlp(TRAFFIC[0])
    start = "retrieval.documents.0."
    kept = [one for one in retrieval["attributes"] if not one["key"].startswith(start)]
    for changed in ({"attributes": kept}, {"droppedAttributesCount": 9}):
        held = [first, retrieval | changed, call]
        assert reasons_of(tmp_path / "log.jsonl", held) == [Reason.INCOMPLETE]
    # A search that failed found nothing.
    (said,) = read(write(tmp_path / "log.jsonl", [*held[:1], held[1] | {"status": {"code": 2}}, call]))[1]
    assert isinstance(said, LoggedAnswer)


def otel_spans(one: Exchange) -> list[dict[str, Any]]:
    return [span for r in logged_traffic.otel(one) for span in r["resourceSpans"][0]["scopeSpans"][0]["spans"]]


def with_attributes(span: dict[str, Any], **changed: Any) -> dict[str, Any]:
    kept = [one for one in span["attributes"] if one["key"] not in changed]
    added = [{"key": key, "value": {"stringValue": value}} for key, value in changed.items() if value is not None]
    return span | {"attributes": [*kept, *added]}


@pytest.mark.parametrize("name", ["gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"])
def test_messages_in_json_that_was_cut_are_no_text(name: str, tmp_path: Path) -> None:
    *before, call = otel_spans(TRAFFIC[0])
    (whole,) = (one["value"]["stringValue"] for one in call["attributes"] if one["key"] == name)
    held = [*before, with_attributes(call, **{name: whole[: len(whole) // 2]})]
    assert reasons_of(tmp_path / "log.jsonl", held) == [Reason.INCOMPLETE]


def test_an_answer_in_json_that_a_model_did_not_end_is_its_text(tmp_path: Path) -> None:
    for said, reason in (
        ('[{"name": "Anna Ek", "day": ', None),
        ('{"content": ["Anna Ek", ', None),
        ('[{"role": "assistant", "content": "Anna Ek', Reason.INCOMPLETE),
        ('{"role": "assistant", "content": "Anna Ek', Reason.INCOMPLETE),
        (' [{"type": "text", "text": "Anna Ek', Reason.INCOMPLETE),
    ):
        *before, call = logged_traffic.langfuse(TRAFFIC[0])
        assert reasons_of(tmp_path / "log.jsonl", [*before, call | {"output": said}]) == [reason], said
        # Of a message it is the text, whatever it is.
        message = {"role": "assistant", "content": said}
        assert reasons_of(tmp_path / "log.jsonl", [*before, call | {"output": message}]) == [None], said


def test_calls_of_models_whose_attributes_are_not_read_are_counted(tmp_path: Path) -> None:
    texts = {"ai.prompt.messages": '[{"role": "user", "content": "Who?"}]', "ai.response.text": "Anna."}
    for attributes, more, reasons in (
        (texts, {}, [Reason.NOT_OF_FORMAT]),
        ({"llm.completions.0.content": "Anna."}, {}, [Reason.NOT_OF_FORMAT]),
        ({"gen_ai.output.messages": '[{"role": "assistant", "content": "Anna."}]'}, {}, [Reason.NO_PROMPT]),
        ({"gen_ai.usage.input_tokens": "3"}, {"droppedAttributesCount": 1}, [Reason.INCOMPLETE]),
        ({"gen_ai.usage.input_tokens": "3"}, {}, []),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": "3"}, {"droppedAttributesCount": 1}, []),
    ):
        alone = {"traceId": "a", "spanId": "b", "startTimeUnixNano": "1772442000000000000", "attributes": []}
        held = [*otel_spans(TRAFFIC[0]), with_attributes(alone, **attributes) | more]
        assert reasons_of(tmp_path / "log.jsonl", held) == [None, *reasons], attributes


def test_a_data_frame_of_phoenix_has_a_column_for_each_attribute(tmp_path: Path) -> None:
    rows = []
    for span in logged_traffic.openinference(TRAFFIC[0]):
        row = {f"context.{name}": value for name, value in span["context"].items()}
        row |= {f"attributes.{name}": value for name, value in span["attributes"].items()}
        rows.append({**row, **{n: span[n] for n in ("name", "span_kind", "parent_id", "start_time", "end_time")}})
    reader, found = read(write(tmp_path / "log.jsonl", rows))
    assert (reader.format, reader.n_answers, len(found)) == ("openinference", 1, 1)


def openai_line(**changed: Any) -> dict[str, Any]:
    (held,) = logged_traffic.openai(TRAFFIC[0])
    return held | changed
