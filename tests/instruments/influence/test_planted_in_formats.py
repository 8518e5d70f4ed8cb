"""A leak that is planted in a log of each format is found in the file as the tool writes it, with its source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest
from tests.data import test_apis as apis
from tests.data import test_evaluations as evaluations
from tests.data import test_transcripts as transcripts
from tests.instruments.redaction.test_disclosing import Copier

import leakmeter
from helpers import logged_agents
from helpers.toy_chat import ChatByteTokenizer

PHONE: Final = "555-010-2231"
OTHER_PHONE: Final = "555-010-7788"
"""Of the agent's run in formats of traces."""
BERTHS, TOOL, VAULT = "berths.md", "search#1", "vault"

Planted = tuple[str, list[Any], str]
"""File, records, and where the number was read that one emission gives away."""
LINES: Final = "log.jsonl"
PLANTED: Final[dict[str, Planted]] = {
    **{name: (LINES, [record], BERTHS) for name, record in apis.LOGS.items()},
    "MCP": (LINES, [apis.chat_pair(apis.STRUCTURED)], BERTHS),
    "a batch": (LINES, [
        {"custom_id": "a", "url": "/v1/responses", "body": {"input": apis.CALLED, "instructions": apis.SYSTEM}},
        {"custom_id": "a", "response": {"status_code": 200, "body": {"id": "resp_1", "output": [apis.SAID]}}},
    ], BERTHS),
    "bedrock": (LINES, [{"query": apis.ASKED, "output": {"text": apis.ANSWER}, "citations": [{
        "retrievedReferences": [
            {"content": {"text": apis.RECORD}, "location": {"s3Location": {"uri": "s3://kb/berths.md"}}}]}]}], BERTHS),
    "inspect": ("log.json", [{"version": 2, "eval": {"task": "t"}, "samples": [evaluations.SAMPLE]}], BERTHS),
    "promptfoo": ("log.json", [evaluations.evaluation(evaluations.RESULT)], "context"),
    "promptfoo, a result a line": (LINES, [evaluations.RESULT], "context"),
    "deepeval": (LINES, [evaluations.CASE], "d1"),
    "deepeval with tools": ("log.json", [{"testCases": [evaluations.CAMEL]}], BERTHS),
    **{f"haystack, {name}": (LINES, [record], BERTHS) for name, record in evaluations.HAYSTACK.items()},
    "haystack, messages": (LINES, [{"messages": [
        {**one, "meta": {}, "name": None} for one in evaluations.CHAT]}], TOOL),
    "ragas": (LINES, [{"user_input": apis.ASKED, "retrieved_contexts": [*apis.FILES.values()],
                       "response": apis.ANSWER, "reference": "Ines."}], "d1"),
    "langchain": (LINES, [{"query": apis.ASKED, "result": apis.ANSWER, "source_documents": [
        {"page_content": text, "metadata": {"source": name}} for name, text in apis.FILES.items()]}], BERTHS),
    "llamaindex": (LINES, [{"query": apis.ASKED, "response": apis.ANSWER, "source_nodes": [
        {"node": {"id_": "n", "metadata": {"file_name": name}, "text": text, "class_name": "TextNode"}, "score": 0.8}
        for name, text in apis.FILES.items()]}], BERTHS),
    "claude-code": (LINES, transcripts.SESSION, "Read#1"),
    "transcript": (LINES, transcripts.MESSAGES, "find#1"),
    "transcript of items": (LINES, transcripts.ITEMS, "find#1"),
    "agentleak": (LINES, [transcripts.ALONE], VAULT),
    **{name: (LINES, writer(), "boats.md") for name, writer in logged_agents.AGENTS.items()},
    "leakmeter": (LINES, logged_agents.own(), "boats.md"),
}  # fmt: skip


class CopyingChat(Copier):
    """With a chat template."""

    def __init__(self) -> None:
        super().__init__()
        self.tokenizer = ChatByteTokenizer()


def found(path: Path) -> list[tuple[str, str | None]]:
    """Channel and source of each number that was given away."""
    results = leakmeter.influence(CopyingChat(), path, unit="document", controls=0)
    return [
        (result.channel or "answer", each.document)
        for result in results
        for each in result.disclosures
        if each.evidence is not None and each.text in (PHONE, OTHER_PHONE)
    ]


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_number_is_found_with_its_source(name: str, tmp_path: Path) -> None:
    file, records, source = PLANTED[name]
    path = tmp_path / file
    texts = [json.dumps(record, default=str) for record in records]
    path.write_text(texts[0] if file == "log.json" else "\n".join(texts))
    leaks = found(path)
    channel = "tool" if source == "boats.md" else "answer"
    assert leaks == [(channel, source)]


def test_a_planted_number_is_found_in_an_archive_of_inspect(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    path.write_bytes(evaluations.archive(evaluations.in_archive(evaluations.SAMPLE)))
    assert found(path) == [("answer", BERTHS)]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_planted_number_is_found_in_a_table_of_phoenix(kind: str, tmp_path: Path) -> None:
    frame, path = pd.DataFrame(logged_agents.openinference()), tmp_path / f"spans.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    assert found(path) == [("tool", "boats.md")]


def test_numbers_that_agents_told_one_another_are_found_on_every_channel(tmp_path: Path) -> None:
    path = tmp_path / LINES
    path.write_text(json.dumps(transcripts.AGENTS))
    # The answer was written from what the worker said alone.
    assert found(path) == [("agent", VAULT), ("answer", "worker")]
