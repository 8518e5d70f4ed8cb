"""Invented traffic of a retrieval system, written in each format that people have their logs in."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
_NAMES = ("Anna Ek", "Bo Lind", "Cid Oy", "Dora Haas", "Emil Roth", "Fay Moor")
_DEEDS = ("called at nine", "sold the boat", "left the ward", "signed the lease", "paid the fine", "lost a key")
_FILLER = "The office by the lake keeps its own books, and each entry is read twice before it is filed away."


@dataclass(frozen=True)
class Exchange:
    """A question that was answered from retrieved texts."""

    number: int
    texts: tuple[str, ...]
    ids: tuple[str | None, ...]
    question: str
    answer: str
    recipient: str
    earlier: tuple[tuple[str, str], ...] = ()
    """Role and text of turns before."""
    rewrite: bool = False
    """Whether another call rewrote the question first."""
    in_system: bool = False
    """Whether the retrieved texts stand in the system's message."""
    parameters: dict[str, Any] = field(default_factory=lambda: {"temperature": 1.0, "top_p": 1.0, "max_tokens": 64})

    @property
    def trace_id(self) -> str:
        return f"{self.number:032x}"

    def span_id(self, step: int) -> str:
        return f"{self.number:012x}{step:04x}"

    def time(self, step: int = 0) -> datetime:
        return START + timedelta(seconds=10 * self.number + step)

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [{"id": id_, "text": text} for id_, text in zip(self.ids, self.texts, strict=True)]

    @property
    def pages(self) -> list[dict[str, Any]]:
        """Documents by the names that LangChain gives them."""
        return [{"page_content": text, "id": id_} for id_, text in zip(self.ids, self.texts, strict=True)]

    @property
    def messages(self) -> list[dict[str, str]]:
        notes = "\n\n".join(f"[{n}] {text}" for n, text in enumerate(self.texts, 1))
        rules = "Answer from the notes."
        system = f"{rules}\n{notes}\nBe brief." if self.in_system else rules
        asked = self.question if self.in_system else f"Notes:\n{notes}\n\nQuestion: {self.question}"
        turns = [{"role": role, "content": text} for role, text in self.earlier]
        return [{"role": "system", "content": system}, *turns, {"role": "user", "content": asked}]


def exchanges(n: int, *, seed: int = 0, words: int = 40) -> list[Exchange]:
    """So many, of texts of about as many words, by a few people; one in five with an earlier turn, one in seven with a
    rewritten question."""
    draw = random.Random(seed)
    body = " ".join([_FILLER] * max(1, words // 19))
    out = []
    for number in range(1, n + 1):
        picked = draw.sample(range(40), 3)
        who, deeds = [_NAMES[file % len(_NAMES)] for file in picked], [_DEEDS[file % len(_DEEDS)] for file in picked]
        texts = [f"File {f}: {w} {d} on day {f}.\n{body}" for f, w, d in zip(picked, who, deeds, strict=True)]
        earlier = (("user", "Good day."), ("assistant", "Good day to you.")) if number % 5 == 0 else ()
        out.append(
            Exchange(
                number, tuple(texts), tuple(f"doc-{file}" for file in picked),
                f"What did {who[0]} do, in case {number}?", f"{who[0]} {deeds[0]}.", f"user-{draw.randrange(12)}",
                earlier, number % 7 == 0, number % 3 == 0,
            )
        )  # fmt: skip
    return out


def _iso(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def _ns(time: datetime) -> int:
    return int(time.timestamp()) * 10**9


def leakmeter(one: Exchange) -> Iterator[dict[str, Any]]:
    yield {
        "schema": "leakmeter-answer/1", "trace_id": one.trace_id, "span_id": one.span_id(2), "time": _iso(one.time(4)),
        "recipient": one.recipient, "model": "small-model", "sampling": one.parameters, "messages": one.messages,
        "answer": one.answer, "finish_reason": "stop", "documents": one.documents, "hidden_calls": int(one.rewrite),
        "source": "record",
    }  # fmt: skip


def _completion(one: Exchange) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": one.answer}, "finish_reason": "stop"}
    head = {"id": f"chatcmpl-{one.number}", "object": "chat.completion", "created": int(one.time(4).timestamp())}
    return {**head, "model": "small-model", "choices": [choice]}


def openai(one: Exchange) -> Iterator[dict[str, Any]]:
    request = {"model": "small-model", "messages": one.messages, "user": one.recipient, **one.parameters}
    yield {"request": request, "response": _completion(one), "documents": one.documents}


def openai_batch(one: Exchange) -> Iterator[dict[str, Any]]:
    """A request, and far behind it its answer."""
    (asked,) = openai(one)
    body = {**asked["request"], "metadata": {"documents": one.documents}}
    id_ = f"request-{one.number}"
    yield {"custom_id": id_, "method": "POST", "url": "/v1/chat/completions", "body": body}
    response = {"status_code": 200, "request_id": f"r{one.number}", "body": asked["response"]}
    yield {"id": f"batch_req_{one.number}", "custom_id": id_, "response": response, "error": None}


def ragas(one: Exchange) -> Iterator[dict[str, Any]]:
    yield {
        "user_input": one.question, "retrieved_contexts": list(one.texts), "retrieved_context_ids": list(one.ids),
        "response": one.answer, "reference": "It is in the file.", "user_id": one.recipient,
    }  # fmt: skip


Call = Callable[[int, list[dict[str, str]], str], dict[str, Any]]


def _in_turn(one: Exchange, first: dict[str, Any], call: Call, retrieval: dict[str, Any]) -> list[dict[str, Any]]:
    """What a trace is of: its root, perhaps a call that rewrote the question, the retrieval and the answer."""
    rewriting = [{"role": "user", "content": f"Rewrite as a search: {one.question}"}]
    between = [call(1, rewriting, f"search {one.number}")] if one.rewrite else []
    return [first, *between, retrieval, call(3, one.messages, one.answer)]


def openinference(one: Exchange) -> Iterator[dict[str, Any]]:
    def span(step: int, kind: str, attributes: dict[str, Any], parent: int | None = 0) -> dict[str, Any]:
        return {
            "name": kind.lower(), "context": {"trace_id": one.trace_id, "span_id": one.span_id(step)},
            "span_kind": kind, "parent_id": None if parent is None else one.span_id(parent),
            "start_time": one.time(step).isoformat(), "end_time": one.time(step + 2).isoformat(),
            "status_code": "OK", "status_message": "",
            "attributes": {"openinference.span.kind": kind, **attributes}, "events": [],
        }  # fmt: skip

    def call(step: int, messages: list[dict[str, str]], answer: str) -> dict[str, Any]:
        attributes = {
            "llm.input_messages": [{"message.role": m["role"], "message.content": m["content"]} for m in messages],
            "llm.output_messages": [{"message.role": "assistant", "message.content": answer}],
            "llm.model_name": "small-model",
            "llm.invocation_parameters": json.dumps({"model": "small-model", **one.parameters}),
            "output.value": answer,
        }
        return span(step, "LLM", attributes)

    documents = {}
    for n, document in enumerate(one.documents):
        start = f"retrieval.documents.{n}.document"
        documents |= {f"{start}.content": document["text"], f"{start}.score": 0.5}
        if document["id"] is not None:
            documents[f"{start}.id"] = document["id"]
    asked = {"input.value": one.question, "user.id": one.recipient, "session.id": "s"}
    retrieval = span(2, "RETRIEVER", {"input.value": one.question, **documents})
    yield from _in_turn(one, span(0, "CHAIN", asked, None), call, retrieval)


def _any(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any(one) for one in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": _any(one)} for key, one in value.items()]}}
    names = {bool: "boolValue", int: "intValue", float: "doubleValue"}
    return {names.get(type(value), "stringValue"): str(value) if type(value) is int else value}


def otel(one: Exchange, *, as_text: bool = True) -> Iterator[dict[str, Any]]:
    def span(step: int, operation: str, attributes: dict[str, Any]) -> dict[str, Any]:
        held = {"gen_ai.operation.name": operation, **attributes}
        return {
            "traceId": one.trace_id, "spanId": one.span_id(step),
            "parentSpanId": "" if step == 0 else one.span_id(0), "name": operation, "kind": 3,
            "startTimeUnixNano": str(_ns(one.time(step))), "endTimeUnixNano": str(_ns(one.time(step + 2))),
            "attributes": [{"key": key, "value": _any(value)} for key, value in held.items()], "status": {},
        }  # fmt: skip

    def written(value: Any) -> Any:
        return json.dumps(value) if as_text else value

    def call(step: int, messages: list[dict[str, str]], answer: str) -> dict[str, Any]:
        told = [{"role": m["role"], "parts": [{"type": "text", "content": m["content"]}]} for m in messages]
        system = [part for m in told if m["role"] == "system" for part in m["parts"]]
        said = [{"role": "assistant", "parts": [{"type": "text", "content": answer}], "finish_reason": "stop"}]
        attributes = {
            "gen_ai.provider.name": "some.cloud",
            "gen_ai.request.model": "small-model",
            **{f"gen_ai.request.{name}": value for name, value in one.parameters.items()},
            "gen_ai.input.messages": written([m for m in told if m["role"] != "system"]),
            "gen_ai.output.messages": written(said),
            **({"gen_ai.system_instructions": written(system)} if system else {}),
        }
        return span(step, "chat", attributes)

    documents = [{"id": i, "score": 0.5, "content": t} for i, t in zip(one.ids, one.texts, strict=True)]
    first = span(0, "invoke_agent", {"user.id": one.recipient, "gen_ai.conversation.id": "c"})
    retrieval = span(2, "retrieval", {"gen_ai.retrieval.documents": written(documents)})
    spans = _in_turn(one, first, call, retrieval)
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "desk"}}]}
    for few in (spans[:2], spans[2:]):
        yield {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "x"}, "spans": few}]}]}


def langfuse(one: Exchange) -> Iterator[dict[str, Any]]:
    def row(step: int, kind: str, input_: Any, output: Any, **more: Any) -> dict[str, Any]:
        start, end = (one.time(at).strftime("%Y-%m-%d %H:%M:%S.%f") for at in (step, step + 2))
        return {
            "id": one.span_id(step), "trace_id": one.trace_id, "project_id": "p",
            "parent_observation_id": None if step == 0 else one.span_id(0), "type": kind, "name": kind.lower(),
            "start_time": start, "end_time": end, "level": "DEFAULT", "input": json.dumps(input_),
            "output": output if isinstance(output, str) else json.dumps(output), "user_id": one.recipient,
            "session_id": "s", "metadata": {"place": "desk"}, **more,
        }  # fmt: skip

    def call(step: int, messages: list[dict[str, str]], answer: str) -> dict[str, Any]:
        model = {"provided_model_name": "small-model", "model_parameters": json.dumps(one.parameters)}
        return row(step, "GENERATION", messages, {"role": "assistant", "content": answer}, **model)

    documents = [{"page_content": t, "metadata": {"id": i}} for i, t in zip(one.ids, one.texts, strict=True)]
    first = row(0, "SPAN", {"question": one.question}, one.answer)
    yield from _in_turn(one, first, call, row(2, "RETRIEVER", one.question, documents))


def mlflow(one: Exchange) -> Iterator[dict[str, Any]]:
    def packed(id_: str) -> str:
        return base64.b64encode(bytes.fromhex(id_)).decode()

    def span(step: int, kind: str, inputs: Any, outputs: Any) -> dict[str, Any]:
        told = {"traceRequestId": f"tr-{one.trace_id}", "spanType": kind, "spanInputs": inputs, "spanOutputs": outputs}
        return {
            "trace_id": packed(one.trace_id), "span_id": packed(one.span_id(step)),
            "parent_span_id": "" if step == 0 else packed(one.span_id(0)), "name": kind.lower(),
            "start_time_unix_nano": _ns(one.time(step)), "end_time_unix_nano": _ns(one.time(step + 2)),
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": {f"mlflow.{name}": json.dumps(value) for name, value in told.items()}, "events": [],
        }  # fmt: skip

    def call(step: int, messages: list[dict[str, str]], answer: str) -> dict[str, Any]:
        if step == 3:
            request = {"messages": messages, "model": "small-model", **one.parameters}
            return span(step, "CHAT_MODEL", request, _completion(one))
        said = {"choices": [{"message": {"role": "assistant", "content": answer}}]}
        return span(step, "CHAT_MODEL", {"messages": messages, "model": "small-model"}, said)

    first = span(0, "CHAIN", {"question": one.question}, one.answer)
    documents = [{**page, "metadata": {"doc_uri": "x"}} for page in one.pages]
    spans = _in_turn(one, first, call, span(2, "RETRIEVER", {"query": one.question}, documents))
    info = {"trace_id": f"tr-{one.trace_id}", "request_time": _iso(one.time()), "state": "OK", "tags": {}}
    metadata = {"mlflow.trace.user": one.recipient, "mlflow.trace.session": "s"}
    yield {"info": {**info, "trace_metadata": metadata}, "data": {"spans": spans}}


def langsmith(one: Exchange) -> Iterator[dict[str, Any]]:
    def run(step: int, kind: str, inputs: Any, outputs: Any, **extra: Any) -> dict[str, Any]:
        return {
            "id": one.span_id(step), "trace_id": one.trace_id, "parent_run_id": None if step == 0 else one.span_id(0),
            "name": kind, "run_type": kind, "start_time": one.time(step).isoformat(),
            "end_time": one.time(step + 2).isoformat(), "status": "success", "error": None, "inputs": inputs,
            "outputs": outputs, "extra": {"metadata": {"user_id": one.recipient, "thread_id": "t"}, **extra},
        }  # fmt: skip

    def call(step: int, messages: list[dict[str, str]], answer: str) -> dict[str, Any]:
        kinds = {"system": "SystemMessage", "user": "HumanMessage", "assistant": "AIMessage"}

        def made(role: str, content: str) -> dict[str, Any]:
            path = ["langchain", "schema", "messages", kinds[role]]
            return {"lc": 1, "type": "constructor", "id": path, "kwargs": {"content": content}}

        told = [[made(m["role"], m["content"]) for m in messages]]
        said = {"text": answer, "generation_info": {"finish_reason": "stop"}, "message": made("assistant", answer)}
        parameters = {"model": "small-model", **one.parameters}
        return run(step, "llm", {"messages": told}, {"generations": [[said]]}, invocation_params=parameters)

    documents = [{**page, "metadata": {"source": "x"}, "type": "Document"} for page in one.pages]
    first = run(0, "chain", {"question": one.question}, {"output": one.answer})
    yield from _in_turn(one, first, call, run(2, "retriever", {"query": one.question}, {"documents": documents}))


Writer = Callable[[Exchange], Iterator[dict[str, Any]]]
WRITERS: dict[str, Writer] = {
    writer.__name__: writer
    for writer in (leakmeter, openai, openai_batch, ragas, openinference, otel, langfuse, mlflow, langsmith)
}
WITH_SPANS = ("openinference", "otel", "langfuse", "mlflow", "langsmith")
"""Of writers that write other calls of a trace too."""


def records(writer: Writer, given: Iterable[Exchange], *, apart: bool = False) -> list[dict[str, Any]]:
    """Records of exchanges; far apart: those of all exchanges in turn, so that no two of one stand together."""
    made = [list(writer(one)) for one in given]
    if not apart:
        return [record for few in made for record in few]
    longest = max(map(len, made), default=0)
    return [few[-1 - n] for n in range(longest) for few in made if n < len(few)]


def write(path: Path, held: Sequence[Any]) -> Path:
    """JSON lines, packed as the file's name says, or Parquet with records as JSON texts."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        texts = ("inputs", "outputs", "extra")
        rows = [{k: json.dumps(v) if k in texts else v for k, v in record.items()} for record in held]
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in held).encode(errors="surrogatepass")
    if path.suffix == ".gz":
        lines = gzip.compress(lines)
    elif path.suffix == ".zst":
        import pyarrow as pa

        with pa.CompressedOutputStream(str(path), "zstd") as packed:
            packed.write(lines)
        return path
    path.write_bytes(lines)
    return path
