"""An agent's invented run, in each format that logs of agents have.

It searches, writes to a calendar beside a word to the user, and answers: three calls of a model, of which the first has
read nothing, and each repeats what was before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from helpers.logged_traffic import _any as any_value

TRACE: Final = "a" * 32
SYSTEM: Final = "You keep the books of a yard."
QUESTION: Final = "Book a call with the owner of boat 9."
FOUND: Final = [
    {"source": "boats.md", "score": 0.91, "text": 'Boat 9 belongs to Orla Vane, called "Red", phone 555-010-7788.'},
    {"source": "hours.md", "score": 0.4, "text": "The desk is open until six."},
]
SEARCHED: Final = ("search_docs", {"query": "owner of boat 9"}, "c1")
BOOKED: Final = ("calendar.create", {"note": "Call Orla Vane on 555-010-7788"}, "c2")
WORD: Final = "I book it."
RESULT: Final = "Booked for Friday at ten."
ANSWER: Final = "Orla Vane will be called on Friday at ten."

Said = tuple[str, str, Sequence[tuple[str, dict[str, Any], str]], str | None]
"""Role, text, calls, and of a result the id of its call."""
_ASKED: Final[list[Said]] = [("system", SYSTEM, (), None), ("user", QUESTION, (), None)]
_FIRST: Final[Said] = ("assistant", "", (SEARCHED,), None)
_SECOND: Final[Said] = ("assistant", WORD, (BOOKED,), None)
_READ: Final[Said] = ("tool", json.dumps(FOUND), (), "c1")
CALLS: Final[list[tuple[list[Said], Said]]] = [
    (_ASKED, _FIRST),
    ([*_ASKED, _FIRST, _READ], _SECOND),
    ([*_ASKED, _FIRST, _READ, _SECOND, ("tool", RESULT, (), "c2")], ("assistant", ANSWER, (), None)),
]
"""Of each call of the model what it read, and what it answered."""
TOOLS: Final = (None, ("search_docs", "c1", FOUND), ("calendar.create", "c2", RESULT))
"""What ran before each call."""
_NAMES: Final = {"c1": "search_docs", "c2": "calendar.create"}


def _steps() -> Iterator[tuple[int, Any]]:
    """Numbers of spans, and of each a tool that ran, or a call."""
    number = 1
    for tool, call in zip(TOOLS, CALLS, strict=True):
        for held in (tool, call):
            if held is not None:
                yield number, held
                number += 1


def _time(number: int) -> datetime:
    return datetime(2026, 3, 2, 9, 0, number, tzinfo=UTC)


def _id(number: int) -> str:
    return f"{number:016x}"


def openai_message(said: Said, *, as_text: bool = True) -> dict[str, Any]:
    role, text, calls, of = said
    out: dict[str, Any] = {"role": role, "content": text or None}
    if calls:
        out["tool_calls"] = [
            {
                "id": id_,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given) if as_text else given},
            }
            for name, given, id_ in calls
        ]
    return out if of is None else {**out, "tool_call_id": of}


def genai_message(said: Said) -> dict[str, Any]:
    role, text, calls, of = said
    if of is not None:
        response: Any = json.loads(text) if text.startswith("[") else text
        return {"role": "tool", "parts": [{"type": "tool_call_response", "id": of, "response": response}]}
    parts = [{"type": "text", "content": text}] if text else []
    parts += [{"type": "tool_call", "id": id_, "name": name, "arguments": given} for name, given, id_ in calls]
    return {"role": role, "parts": parts}


def otel_span(number: int, operation: str, attributes: dict[str, Any], parent: int | None = 0) -> dict[str, Any]:
    held = {"gen_ai.operation.name": operation, **attributes}
    start = int(_time(number).timestamp()) * 10**9
    return {
        "traceId": TRACE, "spanId": _id(number), "parentSpanId": "" if parent is None else _id(parent),
        "name": operation, "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 5 * 10**8),
        "attributes": [{"key": key, "value": any_value(value)} for key, value in held.items()], "status": {},
    }  # fmt: skip


def otel() -> list[dict[str, Any]]:
    """Spans of the GenAI conventions, with messages as JSON."""
    spans = [otel_span(0, "invoke_agent", {"gen_ai.conversation.id": "talk-1", "user.id": "reader-1"}, None)]
    for number, held in _steps():
        if len(held) == 3:
            name, id_, result = held
            told = {"name": name, "call.id": id_, "call.result": json.dumps(result)}
            spans.append(otel_span(number, "execute_tool", {f"gen_ai.tool.{key}": told[key] for key in told}))
            continue
        prompt, reply = held
        messages = {
            "gen_ai.system_instructions": [{"type": "text", "content": SYSTEM}],
            "gen_ai.input.messages": list(map(genai_message, prompt[1:])),
            "gen_ai.output.messages": [{**genai_message(reply), "finish_reason": "stop"}],
        }
        spans.append(otel_span(number, "chat", {name: json.dumps(said) for name, said in messages.items()}))
    return spans


def openinference() -> list[dict[str, Any]]:
    """Rows of a data frame of Phoenix."""
    rows = []
    for number, held in _steps():
        kind, attributes = "TOOL", {}
        if len(held) == 2:
            kind = "LLM"
            attributes = {
                "llm.input_messages": list(map(openinference_message, held[0])),
                "llm.output_messages": [openinference_message(held[1])],
            }
        rows.append(
            {
                "name": kind, "span_kind": kind, "parent_id": None, "status_code": "OK", "start_time": _time(number),
                "end_time": _time(number) + timedelta(seconds=0.5), "context.trace_id": TRACE,
                "context.span_id": _id(number), "attributes.openinference.span.kind": kind,
                "attributes.session.id": "talk-1", "attributes.user.id": "reader-1",
                "attributes.llm.input_messages": None, "attributes.llm.output_messages": None,
                **{f"attributes.{name}": value for name, value in attributes.items()},
            }
        )  # fmt: skip
    return rows


def openinference_message(said: Said) -> dict[str, Any]:
    held = openai_message(said)
    out = {f"message.{name}": value for name, value in held.items() if name != "tool_calls" and value is not None}
    if calls := held.get("tool_calls"):
        out["message.tool_calls"] = [
            {
                "tool_call.id": call["id"], "tool_call.function.name": call["function"]["name"],
                "tool_call.function.arguments": call["function"]["arguments"],
            }
            for call in calls
        ]  # fmt: skip
    return out


def langfuse() -> list[dict[str, Any]]:
    rows = []
    for number, held in _steps():
        row = {
            "id": _id(number), "traceId": TRACE, "startTime": _time(number).isoformat(), "sessionId": "talk-1",
            "endTime": (_time(number) + timedelta(seconds=0.5)).isoformat(), "userId": "reader-1", "level": "DEFAULT",
        }  # fmt: skip
        if len(held) == 3:
            rows.append({**row, "type": "TOOL", "name": held[0], "output": held[2]})
        else:
            messages = list(map(openai_message, held[0]))
            rows.append({**row, "type": "GENERATION", "input": messages, "output": openai_message(held[1])})
    return rows


def langsmith() -> list[dict[str, Any]]:
    kinds = {"system": "SystemMessage", "user": "HumanMessage", "assistant": "AIMessage", "tool": "ToolMessage"}

    def made(said: Said) -> dict[str, Any]:
        role, text, calls, of = said
        fields: dict[str, Any] = {
            "content": text,
            "additional_kwargs": {},
            "response_metadata": {},
            "id": f"run-{role}",
        }
        if calls:
            fields["tool_calls"] = [
                {"name": n, "args": given, "id": id_, "type": "tool_call"} for n, given, id_ in calls
            ]
        if of is not None:
            fields |= {"tool_call_id": of, "name": _NAMES[of], "status": "success"}
        return {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", kinds[role]],
            "kwargs": fields,
        }

    rows = []
    for number, held in _steps():
        row = {
            "id": _id(number), "trace_id": TRACE, "start_time": _time(number).isoformat(), "status": "success",
            "end_time": (_time(number) + timedelta(seconds=0.5)).isoformat(), "error": None,
            "extra": {"metadata": {"thread_id": "talk-1", "user_id": "reader-1"}},
        }  # fmt: skip
        if len(held) == 3:
            outputs = {"output": {"content": json.dumps(held[2]), "type": "tool", "tool_call_id": held[1]}}
            rows.append({**row, "run_type": "tool", "name": held[0], "inputs": {"input": "{}"}, "outputs": outputs})
        else:
            reply = made(held[1])
            outputs = {"generations": [[{"text": held[1][1], "message": reply}]]}
            inputs = {"messages": [list(map(made, held[0]))]}
            rows.append({**row, "run_type": "llm", "name": "ChatModel", "inputs": inputs, "outputs": outputs})
    return rows


def mlflow() -> list[dict[str, Any]]:
    spans = []
    for number, held in _steps():
        if len(held) == 3:
            told: dict[str, Any] = {"spanType": "TOOL", "spanInputs": {}, "spanOutputs": held[2]}
        else:
            inputs = {"messages": list(map(openai_message, held[0])), "tools": [{"type": "function"}]}
            outputs = {
                "id": f"chatcmpl-{number}",
                "choices": [{"message": openai_message(held[1]), "finish_reason": "stop"}],
            }
            told = {"spanType": "CHAT_MODEL", "spanInputs": inputs, "spanOutputs": outputs}
        start = int(_time(number).timestamp()) * 10**9
        spans.append(
            {
                "span_id": _id(number), "parent_span_id": "", "name": held[0] if len(held) == 3 else "Completions",
                "start_time_unix_nano": start, "end_time_unix_nano": start + 5 * 10**8,
                "status": {"code": "STATUS_CODE_OK"},
                "attributes": {f"mlflow.{name}": json.dumps(value) for name, value in told.items()},
            }
        )  # fmt: skip
    about = {"mlflow.trace.session": "talk-1", "mlflow.trace.user": "reader-1"}
    return [{"info": {"trace_id": f"tr-{TRACE}", "trace_metadata": about}, "data": {"spans": spans}}]


def own() -> list[dict[str, Any]]:
    """The log of leakmeter.integrations, which has no conversation but the trace."""

    def message(said: Said) -> dict[str, Any]:
        calls = [{"name": name, "arguments": json.dumps(given)} for name, given, _ in said[2]]
        return {**openai_message(said), "content": said[1], **({"tool_calls": calls} if calls else {})}

    lines: list[dict[str, Any]] = []
    for turn, (prompt, reply) in enumerate(CALLS, 1):
        said = message(reply)
        held = {"messages": list(map(message, prompt)), "answer": said["content"], "turn": turn, "documents": []}
        counts = {"hidden_calls": 2 * (turn - 1), "unmeasured_calls": 0}
        ids = {"schema": "leakmeter-answer/1", "trace_id": TRACE, "span_id": _id(2 * turn - 1)}
        calls = said.get("tool_calls", [])
        lines.append({**ids, "recipient": "reader-1", **held, "tool_calls": calls, **counts})
    return lines


AGENTS: Final[dict[str, Callable[[], list[dict[str, Any]]]]] = {
    writer.__name__: writer for writer in (otel, openinference, langfuse, langsmith, mlflow)
}
