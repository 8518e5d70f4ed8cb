"""Traces as tables: frames with times, and CSV files with lists as JSON or as Python writes them; and what the parts
of a message are that a model reasons in."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from helpers import logged_traffic
from helpers.logged_agents import AGENTS, ANSWER, BOOKED, WORD
from helpers.logged_traffic import exchanges, records, write
from leakmeter.commands.cases import log_formats
from leakmeter.data.cases import ReadCases, cases_of
from leakmeter.data.traces import LoggedAnswer, TraceReader
from leakmeter.errors import DataError

TRAFFIC = exchanges(6, words=19)


def loaded(source: Any) -> ReadCases:
    return cases_of(source, needs_response=True, logs=log_formats)


def phoenix() -> pd.DataFrame:
    """Spans as Phoenix gives them in a frame: a column for each attribute, and times."""
    rows = []
    for span in records(logged_traffic.openinference, TRAFFIC, apart=True):
        row = {name: value for name, value in span.items() if name not in ("context", "attributes")}
        row |= {f"context.{name}": value for name, value in span["context"].items()}
        row |= {f"attributes.{name}": value for name, value in span["attributes"].items()}
        rows.append(row | {name: pd.Timestamp(span[name]) for name in ("start_time", "end_time")})
    return pd.DataFrame(rows)


def as_json(cell: Any) -> Any:
    return json.dumps(cell) if isinstance(cell, list | dict) else cell


def written(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", ["frame", "parquet", "python cells", "json cells"])
def test_spans_of_phoenix_are_read_from_frames_and_files_of_them(kind: str, tmp_path: Path) -> None:
    frame = phoenix()
    if kind == "parquet":
        frame.to_parquet(tmp_path / "spans.parquet")
    source: Any = {
        "frame": lambda: frame,
        "parquet": lambda: tmp_path / "spans.parquet",
        "python cells": lambda: written(frame, tmp_path / "spans.csv"),
        "json cells": lambda: written(frame.map(as_json), tmp_path / "spans.csv"),
    }[kind]()
    plain = loaded(write(tmp_path / "spans.jsonl", records(logged_traffic.openinference, TRAFFIC, apart=True)))
    found = loaded(source)
    assert found.format == "openinference"
    assert found.cases == plain.cases
    assert [case.response for case in found.cases] == [one.answer for one in TRAFFIC]
    if isinstance(source, Path):
        assert sum(isinstance(one, LoggedAnswer) for one in TraceReader(source)) == len(TRAFFIC)


@pytest.mark.parametrize("name", ["langfuse", "langsmith", "mlflow", "openinference"])
@pytest.mark.parametrize("cells", ["python", "json"])
def test_logs_of_agents_are_read_from_csv_of_frames(name: str, cells: str, tmp_path: Path) -> None:
    logged = AGENTS[name]()
    frame = pd.DataFrame(logged)
    path = written(frame if cells == "python" else frame.map(as_json), tmp_path / "log.csv")
    plain, found = loaded(logged), loaded(path)
    assert [case.response for case in found.cases] == [WORD, json.dumps(BOOKED[1]), ANSWER]
    assert (found.format, found.cases) == (plain.format, plain.cases)


def test_an_answer_that_looks_like_a_list_stays_one_in_a_table(tmp_path: Path) -> None:
    logged = [{**row, "output": "['a', 'b']"} if row.get("output") == ANSWER else row for row in AGENTS["langfuse"]()]
    found = loaded(written(pd.DataFrame(logged), tmp_path / "log.csv"))
    said = loaded(logged)
    assert [case.response for case in found.cases] == [case.response for case in said.cases]


def test_a_message_that_looks_like_a_list_stays_a_text(tmp_path: Path) -> None:
    (first, *_) = TRAFFIC
    spans = records(logged_traffic.openinference, [first])
    for span in spans:
        if span["span_kind"] == "LLM":
            span["attributes"]["llm.output_messages"] = [{"message.role": "assistant", "message.content": "['a', 'b']"}]
    assert [case.response for case in loaded(spans).cases] == ["['a', 'b']"]


def test_traces_of_mlflow_are_read_from_csv(tmp_path: Path) -> None:
    traces = records(logged_traffic.mlflow, TRAFFIC)
    rows = [
        {"trace_id": trace["info"]["trace_id"], "state": "OK", "request": "{'question': 'x'}", "tags": {"a": "b"},
         "spans": trace["data"]["spans"]}
        for trace in traces
    ]  # fmt: skip
    found = loaded(written(pd.DataFrame(rows), tmp_path / "traces.csv"))
    assert found.format == "mlflow"
    assert [case.response for case in found.cases] == [one.answer for one in TRAFFIC]


def of_sdk(one: logged_traffic.Exchange) -> list[dict[str, Any]]:
    """Spans as `ReadableSpan.to_json` of OpenTelemetry's SDK for Python writes them, by its conventions of 2026."""
    return [
        {
            "name": f"{attributes['gen_ai.operation.name']} x",
            "context": {"trace_id": f"0x{one.trace_id}", "span_id": f"0x{one.span_id(step)}", "trace_state": "[]"},
            "kind": "SpanKind.CLIENT",
            "parent_id": None,
            "start_time": one.time(step).isoformat(),
            "end_time": one.time(step + 1).isoformat(),
            "status": {"status_code": "UNSET"},
            "attributes": attributes,
            "events": [],
            "links": [],
            "resource": {"attributes": {"service.name": "desk"}, "schema_url": ""},
        }
        for step, attributes in enumerate(map(plain_attributes, otel_spans(one)))
    ]


def otel_spans(one: logged_traffic.Exchange) -> list[dict[str, Any]]:
    groups = records(logged_traffic.otel, [one])
    return [span for group in groups for span in group["resourceSpans"][0]["scopeSpans"][0]["spans"]]


def plain_attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


@pytest.mark.parametrize("kind", ["lines", "python cells", "columns", "columns of json", "parquet"])
def test_spans_as_the_sdk_of_python_prints_them_are_read(kind: str, tmp_path: Path) -> None:
    logged = [span for one in TRAFFIC for span in of_sdk(one)]
    columns = pd.json_normalize(logged)
    if kind == "parquet":
        columns.drop(columns=["events", "links"]).to_parquet(tmp_path / "spans.parquet")
    source: Any = {
        "lines": lambda: write(tmp_path / "spans.jsonl", logged),
        "python cells": lambda: written(pd.DataFrame(logged), tmp_path / "spans.csv"),
        "columns": lambda: written(columns, tmp_path / "spans.csv"),
        "columns of json": lambda: write(tmp_path / "spans.jsonl", columns.to_dict("records")),
        "parquet": lambda: tmp_path / "spans.parquet",
    }[kind]()
    found = loaded(source)
    assert found.format == "otel"
    assert cases_of(source, format="otel", logs=log_formats).cases == found.cases
    assert [case.response for case in found.cases] == [one.answer for one in TRAFFIC]
    assert [len(case.context_documents) for case in found.cases] == [len(one.texts) for one in TRAFFIC]


@pytest.mark.parametrize("kind", ["python cells", "columns", "columns of json"])
def test_requests_with_their_answers_are_read_from_tables(kind: str, tmp_path: Path) -> None:
    logged = [
        {
            "id": f"c{one.number}",
            "request": {"model": "m", "temperature": 0.2, "messages": one.messages},
            "response": {"choices": [{"message": {"role": "assistant", "content": one.answer}}], "usage": {"n": 9}},
        }
        for one in TRAFFIC
    ]  # fmt: skip
    columns = pd.json_normalize(logged)
    source: Any = {
        "python cells": lambda: written(pd.DataFrame(logged), tmp_path / "log.csv"),
        "columns": lambda: written(columns, tmp_path / "log.csv"),
        "columns of json": lambda: write(tmp_path / "log.jsonl", columns.to_dict("records")),
    }[kind]()
    plain, found = (cases_of(each, context_from="system", logs=log_formats) for each in (logged, source))
    assert (found.format, found.cases) == (plain.format, plain.cases)
    assert found.format == "openai"
    assert cases_of(source, format="openai", context_from="system", logs=log_formats).cases == plain.cases


def otel(change: Callable[[list[dict[str, Any]]], None], name: str) -> list[dict[str, Any]]:
    """OTLP records with the messages of an attribute changed."""
    groups = records(logged_traffic.otel, TRAFFIC[:1])
    for group in groups:
        for span in group["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for attribute in span["attributes"]:
                if attribute["key"] == f"gen_ai.{name}.messages":
                    messages = json.loads(attribute["value"]["stringValue"])
                    change(messages)
                    attribute["value"]["stringValue"] = json.dumps(messages)
    return groups


@pytest.mark.parametrize("kind", ["reasoning", "thinking"])
@pytest.mark.parametrize("field", ["content", "text"])
def test_reasoning_before_an_answer_is_hidden_and_told(kind: str, field: str, tmp_path: Path) -> None:
    def reason(messages: list[dict[str, Any]]) -> None:
        messages[-1]["parts"].insert(0, {"type": kind, field: "The file says so."})

    found = loaded(held := otel(reason, "output"))
    assert [case.response for case in found.cases] == [TRAFFIC[0].answer]
    assert found.notes[-1].startswith("data: in 1 of 1 case the log has reasoning or other calls before the response")
    (answer,) = TraceReader(write(tmp_path / "log.jsonl", held))
    assert isinstance(answer, LoggedAnswer)
    assert answer.n_hidden_calls == 1


def test_a_part_that_is_no_text_is_called_so() -> None:
    def picture(messages: list[dict[str, Any]]) -> None:
        messages[-1]["parts"].append({"type": "blob", "mime_type": "image/png"})

    for name in ("input", "output"):
        with pytest.raises(DataError, match="A message has a part that is not text, such as an image or a file"):
            loaded(otel(picture, name))

    def cut(messages: list[dict[str, Any]]) -> None:
        messages[-1]["parts"][0]["truncated"] = True

    with pytest.raises(DataError, match="what was retrieved was cut before it was logged"):
        loaded(otel(cut, "input"))


def test_retrievals_of_older_clients_of_langfuse_are_read() -> None:
    rows = records(logged_traffic.langfuse, TRAFFIC, apart=True)
    for row in rows:
        if row["type"] == "RETRIEVER":
            row |= {"type": "SPAN", "name": "VectorStoreRetriever"}
    assert [case.response for case in loaded(rows).cases] == [one.answer for one in TRAFFIC]
    # One that returned no texts is none.
    for row in rows:
        if row["name"] == "VectorStoreRetriever":
            row["output"] = json.dumps([{"score": 1}])
    with pytest.raises(DataError, match="Nothing was retrieved for this call"):
        loaded(rows)


def test_an_archive_of_other_files_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("log.jsonl", "{}")
    with pytest.raises(DataError, match=r"'.*x\.zip' is a ZIP archive without samples.*; unpack it and give a file"):
        list(TraceReader(path))
    path.write_bytes(b"PK\x03\x04" + bytes(40))
    with pytest.raises(DataError, match=r"'.*x\.zip' cannot be unpacked"):
        list(TraceReader(path))
