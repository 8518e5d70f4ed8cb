"""Logs of agents as the libraries write them themselves, where they are installed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.logged_agents import (
    ANSWER,
    BOOKED,
    CALLS,
    FOUND,
    RESULT,
    SYSTEM,
    TOOLS,
    WORD,
    openai_message,
    openinference_message,
)
from helpers.peers import peer
from leakmeter.core.case import Emission
from leakmeter.data.cases import cases_of
from leakmeter.data.traces.reader import presets

pytestmark = pytest.mark.peers


def check(found: Any) -> None:
    assert [case.response for case in found.cases] == [WORD, json.dumps(BOOKED[1]), ANSWER]
    assert found.cases[1].emission == Emission(found.cases[0].emission.conversation, 2, "tool", "calendar.create")
    names = [message.parts[number].name for message in found.cases[-1].messages for number in message.retrieved]
    assert names == ["boats.md", "hours.md", "calendar.create#1"]


def _steps() -> Iterator[Any]:
    for tool, call in zip(TOOLS, CALLS, strict=True):
        yield from filter(None, (tool, call))


@pytest.mark.filterwarnings("ignore")  # MLflow takes a warning of another library for a failure, and traces nothing
def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = peer("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(tmp_path.joinpath("runs").as_uri())
    mlflow.set_experiment("yard")
    with mlflow.start_span("agent", span_type="AGENT") as root:
        root.set_inputs({"question": "?"})
        for step in _steps():
            if len(step) == 3:
                with mlflow.start_span(step[0], span_type="TOOL") as span:
                    span.set_inputs({})
                    span.set_outputs(step[2])
                continue
            with mlflow.start_span("Completions", span_type="CHAT_MODEL") as span:
                span.set_inputs({"model": "m", "messages": list(map(openai_message, step[0]))})
                span.set_outputs({"choices": [{"message": openai_message(step[1]), "finish_reason": "stop"}]})
    mlflow.flush_trace_async_logging()
    trace = mlflow.get_trace(root.trace_id)
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(trace.to_dict()) + "\n")
    check(cases_of(path, logs=presets))
    frame = mlflow.search_traces(return_type="pandas")
    check(cases_of(frame, logs=presets))
    frame.to_csv(tmp_path / "traces.csv", index=False)
    check(cases_of(tmp_path / "traces.csv", logs=presets))


def _attributes(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """As OpenTelemetry has them: a name and a text for each leaf."""
    if isinstance(value, dict | list):
        for key, held in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _attributes(f"{name}.{key}", held)
    elif value is not None:
        yield name, value


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # those of the many libraries that Phoenix imports
def test_phoenix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHOENIX_WORKING_DIR", str(tmp_path))
    monkeypatch.setenv("PHOENIX_TELEMETRY_ENABLED", "false")
    phoenix = peer("phoenix")
    client = peer("phoenix.client")
    sdk = peer("opentelemetry.sdk.trace")
    exporting = peer("opentelemetry.sdk.trace.export")
    otlp = peer("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    url = phoenix.launch_app(run_in_thread=True, use_temp_dir=False).url
    provider = sdk.TracerProvider()
    provider.add_span_processor(exporting.SimpleSpanProcessor(otlp.OTLPSpanExporter(f"{url}v1/traces")))
    tracer = provider.get_tracer("yard")
    root = {"openinference.span.kind": "AGENT", "session.id": "talk-1", "user.id": "reader-1"}
    with tracer.start_as_current_span("agent", attributes=root):
        for step in _steps():
            told: dict[str, Any] = {"openinference.span.kind": "TOOL" if len(step) == 3 else "LLM"}
            if len(step) == 2:
                told |= _attributes("llm.input_messages", list(map(openinference_message, step[0])))
                told |= _attributes("llm.output_messages", [openinference_message(step[1])])
            with tracer.start_as_current_span("step", attributes=told):
                pass
    provider.force_flush()
    spans = client.Client(base_url=url).spans
    until = time.monotonic() + 30
    while len(frame := spans.get_spans_dataframe(project_identifier="default")) < 6 and time.monotonic() < until:
        time.sleep(0.5)
    check(cases_of(frame, logs=presets))
    frame.to_parquet(tmp_path / "spans.parquet")
    frame.to_csv(tmp_path / "spans.csv")
    frame.to_json(tmp_path / "spans.jsonl", orient="records", lines=True, date_format="iso")
    told_by_api = spans.get_spans(project_identifier="default")
    (tmp_path / "api.jsonl").write_text("".join(f"{json.dumps(span)}\n" for span in told_by_api))
    for name in ("spans.parquet", "spans.csv", "spans.jsonl", "api.jsonl"):
        check(cases_of(tmp_path / name, logs=presets))


def test_langchain_messages_in_runs_of_langsmith() -> None:
    messages = peer("langchain_core.messages")
    dumpd = peer("langchain_core.load").dumpd
    kinds = {"system": messages.SystemMessage, "user": messages.HumanMessage}

    def made(said: Any) -> Any:
        role, text, calls, of = said
        if of is not None:
            return messages.ToolMessage(text, tool_call_id=of, name={"c1": "search_docs", "c2": "calendar.create"}[of])
        if role in kinds:
            return kinds[role](text)
        # As of Anthropic: calls are among the parts too.
        parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        parts += [{"type": "tool_use", "id": id_, "name": name, "input": given} for name, given, id_ in calls]
        held = [{"name": name, "args": given, "id": id_} for name, given, id_ in calls]
        return messages.AIMessage(parts if calls else text, tool_calls=held)

    rows = []
    for number, (prompt, reply) in enumerate(CALLS):
        outputs = {"generations": [[{"text": reply[1], "type": "ChatGeneration", "message": dumpd(made(reply))}]]}
        inputs = {"messages": [[dumpd(made(said)) for said in prompt]]}
        time = f"2026-03-02T09:00:0{number}"
        run = {"id": f"r{number}", "trace_id": "t", "run_type": "llm", "start_time": time, "end_time": time}
        rows.append(json.loads(json.dumps({**run, "inputs": inputs, "outputs": outputs})))
    check(cases_of(rows, logs=presets))
    assert SYSTEM in json.dumps(rows)
    assert (FOUND[0]["source"], RESULT) == ("boats.md", TOOLS[2][2])
