"""The span processor, given spans with what `opentelemetry.sdk.trace.ReadableSpan` has; nothing of it is imported."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import Any

import pytest

from leakmeter.products.integrations import AnswerLog, AnswerSpanProcessor, answering

IDS = itertools.count(1)
LLM = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "invented-7b",
    "llm.invocation_parameters": '{"temperature": 0.7, "top_p": 1.0}',
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "Be short.",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "Anna Ek called at nine. Who called?",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "Anna Ek.",
}
GENAI = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "invented-7b",
    "gen_ai.request.temperature": 0.7,
    "gen_ai.response.id": "draw-1",
    "gen_ai.response.finish_reasons": ("stop",),
    "gen_ai.system_instructions": '[{"type": "text", "content": "Be short."}]',
    "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Who called?"}]}]',
    "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "Anna Ek."}]}]',
}


def retrieved(*documents: tuple[str, str], prefix: str = "retrieval.documents") -> dict[str, Any]:
    """Attributes of a retriever's span."""
    made: dict[str, Any] = {"openinference.span.kind": "RETRIEVER"}
    for number, (id_, text) in enumerate(documents):
        made |= {f"{prefix}.{number}.document.id": id_, f"{prefix}.{number}.document.content": text}
        made[f"{prefix}.{number}.document.metadata"] = '{"source": "calls.txt"}'
    return made


class Span(SimpleNamespace):
    def __init__(self, parent: Span | None = None, trace: int = 0xABC) -> None:
        context = SimpleNamespace(trace_id=trace, span_id=next(IDS))
        super().__init__(
            context=context,
            parent=None if parent is None else parent.context,
            attributes={},
            events=(),
            end_time=None,
            status=SimpleNamespace(status_code=SimpleNamespace(name="UNSET")),
            dropped_attributes=0,
        )

    def get_span_context(self) -> Any:
        return self.context


@pytest.fixture
def processor(log: AnswerLog) -> AnswerSpanProcessor:
    return AnswerSpanProcessor(log)


def logged(log: AnswerLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.path.read_bytes().splitlines()] if log.path.exists() else []


def begin(processor: AnswerSpanProcessor, parent: Span | None = None, **more: Any) -> Span:
    span = Span(parent, **more)
    processor.on_start(span, parent_context=None)
    return span


def end(processor: AnswerSpanProcessor, span: Span, attributes: Any = None, *, failed: bool = False) -> Span:
    span.attributes = attributes or {}
    span.end_time = 1_767_323_106_000_007_000
    span.status.status_code.name = "ERROR" if failed else "UNSET"
    processor.on_end(span)
    return span


def run(processor: AnswerSpanProcessor, parent: Span | None, attributes: Any, **more: Any) -> Span:
    return end(processor, begin(processor, parent), attributes, **more)


def test_a_trace_of_openinference(log: AnswerLog, processor: AnswerSpanProcessor) -> None:
    root = begin(processor)
    run(processor, root, retrieved(("call-1", "Anna Ek called at nine.")))
    calls = {key: value for key, value in LLM.items() if "output_messages.0.message.content" not in key}
    for name, value in (("name", "clock"), ("arguments", "{}")):
        calls[f"llm.output_messages.0.message.tool_calls.0.tool_call.function.{name}"] = value
    run(processor, root, calls)
    run(processor, root, {"openinference.span.kind": "TOOL"})
    call = run(processor, root, LLM)
    assert logged(log) == []
    end(processor, root, {"openinference.span.kind": "CHAIN", "user.id": "desk 4", "output.value": "Anna Ek."})
    assert logged(log) == [
        {
            "schema": "leakmeter-answer/1",
            "trace_id": f"{0xABC:032x}",
            "span_id": f"{call.context.span_id:016x}",
            "time": "2026-01-02T03:05:06.000007Z",
            "recipient": "desk 4",
            "model": "invented-7b",
            "sampling": {"temperature": 0.7, "top_p": 1.0},
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": "Anna Ek called at nine. Who called?"},
            ],
            "answer": "Anna Ek.",
            "documents": [{"id": "call-1", "text": "Anna Ek called at nine."}],
            "turn": 2,
            "hidden_calls": 2,
            "unmeasured_calls": 0,
            "source": "opentelemetry",
        }
    ]
    assert not processor._of


@pytest.mark.parametrize("is_structured", [False, True])
def test_a_trace_of_the_genai_conventions(is_structured: bool, log: AnswerLog, processor: AnswerSpanProcessor) -> None:
    parsed = {key: json.loads(value) if str(value).startswith("[") else value for key, value in GENAI.items()}
    root = begin(processor)
    documents = '[{"id": "call-1", "score": 0.5}]'
    run(processor, root, {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": documents})
    run(processor, root, {"gen_ai.operation.name": "execute_tool"})
    run(processor, root, parsed if is_structured else GENAI)
    end(processor, root, {"gen_ai.operation.name": "invoke_agent"})
    (line,) = logged(log)
    assert line["messages"] == [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Who called?"}]
    assert (line["model"], line["sampling"], line["answer"]) == ("invented-7b", {"temperature": 0.7}, "Anna Ek.")
    assert (line["response_id"], line["finish_reason"], line["hidden_calls"]) == ("draw-1", "stop", 1)
    # Only the id is promised: a reader refuses an answer with a document whose text is not known.
    assert line["documents"] == [{"id": "call-1", "text": None}]


def test_messages_in_one_event_and_a_completion_with_choices(log: AnswerLog, processor: AnswerSpanProcessor) -> None:
    span = begin(processor)
    held = {key: value for key, value in GENAI.items() if "messages" in key}
    span.events = (SimpleNamespace(name="gen_ai.client.inference.operation.details", attributes=held),)
    end(processor, span, {"gen_ai.operation.name": "chat"})
    asked = {"openinference.span.kind": "LLM", "llm.prompts.0.prompt.text": "Who called?"}
    choices = {f"llm.choices.{n}.completion.text": text for n, text in enumerate(("Anna Ek.", "Bo Lind."))}
    span = run(processor, None, asked | choices)
    line, first, second = logged(log)
    assert (line["messages"], line["answer"]) == ([{"role": "user", "content": "Who called?"}], "Anna Ek.")
    assert first["prompt"] == second["prompt"] == "Who called?"
    assert (first["answer"], second["answer"]) == ("Anna Ek.", "Bo Lind.")
    assert second["span_id"] == f"{span.context.span_id:016x}.2"


def test_what_a_reranker_left_out_is_no_document(log: AnswerLog, processor: AnswerSpanProcessor) -> None:
    first, second = ("call-1", "Anna Ek called at nine."), ("menu", "Soup is served at noon.")
    root = begin(processor)
    run(processor, root, retrieved(first, second))
    reranked = retrieved(first, second, prefix="reranker.input_documents")
    reranked |= retrieved(first, prefix="reranker.output_documents")
    run(processor, root, reranked | {"openinference.span.kind": "RERANKER"})
    run(processor, root, LLM)
    end(processor, root)
    assert [document["id"] for document in logged(log)[0]["documents"]] == ["call-1"]


def test_traces_at_one_time_and_a_parent_elsewhere(log: AnswerLog, processor: AnswerSpanProcessor) -> None:
    elsewhere = Span(trace=1)
    roots = [begin(processor, elsewhere, trace=1), begin(processor, trace=2)]
    for root, name in zip(roots, "ab", strict=True):
        run(processor, root, retrieved((name, f"text {name}")))
    for root in reversed(roots):
        run(processor, root, LLM)
        end(processor, root)
    assert [(int(line["trace_id"], 16), line["documents"][0]["id"]) for line in logged(log)] == [(2, "b"), (1, "a")]


def test_what_fails_is_no_answer_and_what_had_been_streamed_is(
    log: AnswerLog, processor: AnswerSpanProcessor, caplog: pytest.LogCaptureFixture
) -> None:
    root = begin(processor)
    run(processor, root, {"openinference.span.kind": "LLM"}, failed=True)
    end(processor, root, failed=True)
    assert (logged(log), log.lost) == ([], 0)
    run(processor, None, LLM, failed=True)
    assert logged(log)[0]["interrupted"] is True
    # Spans without content are counted.
    run(processor, None, {"gen_ai.operation.name": "chat", "gen_ai.request.model": "invented-7b"})
    assert (len(logged(log)), log.lost) == (1, 1)
    assert "without its prompt" in caplog.text


def test_calls_of_tools_in_both_conventions(log: AnswerLog, processor: AnswerSpanProcessor) -> None:
    called = {"type": "tool_call", "id": "c1", "name": "mail", "arguments": {"to": "Anna Ek"}}
    run(processor, None, GENAI | {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [called]}])})
    attributes = {key: value for key, value in LLM.items() if not key.endswith("output_messages.0.message.content")}
    for name, value in (("name", "mail"), ("arguments", '{"to": "Anna Ek"}')):
        attributes[f"llm.output_messages.0.message.tool_calls.0.tool_call.function.{name}"] = value
    run(processor, None, attributes)
    first, second = logged(log)
    assert first["answer"] == second["answer"] == ""
    assert first["tool_calls"] == second["tool_calls"] == [{"name": "mail", "arguments": '{"to": "Anna Ek"}'}]


def test_what_the_sdk_cut_is_marked(log: AnswerLog, processor: AnswerSpanProcessor) -> None:
    span = begin(processor)
    span.dropped_attributes = 1
    end(processor, span, {key: value for key, value in LLM.items() if "kind" not in key})
    span = begin(processor)
    span._attributes = SimpleNamespace(max_value_len=20)
    end(processor, span, {key: value[:20] for key, value in LLM.items()})
    root = begin(processor)
    lost = begin(processor, root)
    lost.dropped_attributes = 3
    end(processor, lost, {"openinference.span.kind": "RETRIEVER"})
    run(processor, root, LLM)
    end(processor, root)
    run(processor, None, LLM)
    assert [line.get("incomplete", False) for line in logged(log)] == [True, True, True, False]


def test_what_cannot_be_read_costs_its_trace_and_no_more(log: AnswerLog, processor: AnswerSpanProcessor) -> None:
    root = begin(processor)
    run(processor, root, LLM | {"llm.output_messages.0.message.content": "better query"})
    run(processor, root, LLM | {"llm.input_messages.0.message.role": 7})
    end(processor, root)
    processor.on_end(Span())
    assert (logged(log), log.lost) == ([], 1)
    run(processor, None, LLM)
    assert len(logged(log)) == 1
    assert not processor._of


def test_a_block_and_the_end_of_a_program(log: AnswerLog, processor: AnswerSpanProcessor) -> None:
    with answering("desk 4", trace_id="question-1"):
        run(processor, None, retrieved(("a", "text")))
        run(processor, None, LLM)
    root = begin(processor)
    run(processor, root, LLM)
    assert processor.force_flush() is True
    assert len(logged(log)) == 1
    processor.shutdown()
    first, second = logged(log)
    assert (first["trace_id"], first["recipient"], len(first["documents"])) == ("question-1", "desk 4", 1)
    assert second["recipient"] is None
