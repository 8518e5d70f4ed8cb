"""What measures cases reads the logs that the ledger reads, and measures the same answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from helpers import logged_traffic
from helpers.logged_answers import ChatToy
from helpers.logged_traffic import exchanges, records, write
from leakmeter.data import traces
from leakmeter.data.cases import cases_of
from leakmeter.data.formats import FORMATS
from leakmeter.data.traces import LoggedAnswer, TraceReader, as_case
from leakmeter.data.traces.reader import presets
from leakmeter.errors import DataError

Call = Callable[..., Any]
NAMES = ("leakmeter", *logged_traffic.WITH_SPANS)
TRAFFIC = [replace(one, ids=("a", "a", None)) for one in exchanges(8, words=19)]


def test_data_and_ledger_know_the_same_formats() -> None:
    assert {preset.name for preset in presets()} == set(NAMES)
    assert not set(NAMES) & FORMATS.keys()
    # The ledger adds up answers to recipients, which these do not name.
    alone = {"agentleak", "bedrock", "claude-code", "deepeval", "inspect", "promptfoo", "transcript"}
    assert traces.FORMATS.keys() | alone == FORMATS.keys() | set(NAMES)


@pytest.mark.parametrize("name", ["rag", "langchain", "llamaindex"])
def test_a_record_without_a_prompt_is_read_under_one_name(tmp_path: Path, name: str) -> None:
    text = "Anna Ek called at nine."
    record = {
        "rag": {"query": "Who called?", "documents": [text], "response": "Anna Ek."},
        "langchain": {"input": "Who called?", "context": [{"page_content": text}], "answer": "Anna Ek."},
        "llamaindex": {"query": "Who?", "source_nodes": [{"node": {"text": text}}], "response": "Anna Ek."},
    }[name]
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(record))
    reader = TraceReader(path)
    (found,) = reader
    assert (cases_of(path, logs=presets).format, reader.format) == (name, name)
    assert isinstance(found, LoggedAnswer)
    assert (found.answer, found.is_rebuilt, found.documents[0].text) == ("Anna Ek.", True, text)


@pytest.mark.parametrize("name", NAMES)
def test_answers_of_a_log_are_cases(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "log.jsonl", records(logged_traffic.WRITERS[name], TRAFFIC, apart=name != "mlflow"))
    answers = [one for one in TraceReader(path) if isinstance(one, LoggedAnswer)]
    found = cases_of(path, logs=presets)
    assert found.format == name
    cases = [as_case(one, by_id=True) for one in answers]
    assert [replace(case, emission=None) for case in found.cases] == [replace(case, emission=None) for case in cases]
    assert len(found.cases) == len(TRAFFIC)
    # Where the log has one session for all, its turns go on from trace to trace, and hidden calls are turns.
    emissions = [case.emission for case in found.cases if case.emission is not None]
    n_calls = [1 + (one.rewrite and name != "leakmeter") for one in TRAFFIC]
    is_session = name != "leakmeter"
    assert len({emission.conversation for emission in emissions}) == (1 if is_session else len(TRAFFIC))
    assert [emission.turn for emission in emissions] == (list(accumulate(n_calls)) if is_session else n_calls)
    assert {(emission.channel, emission.recipient) for emission in emissions} == {("answer", "user")}
    assert found.notes[0].startswith(f"data: read as --format {name}: ")
    case = found.cases[0]
    # Documents are all that is context, and have their own names.
    parts = [message.parts[number].name for message in case.messages for number in message.retrieved]
    assert parts[:2] == ["a", "a (2)"]
    assert all(message.fixed for message in case.messages)
    assert cases_of(path, format=name, logs=presets).cases == found.cases
    whole = tmp_path / "log.json"
    whole.write_text(json.dumps(json.loads(f"[{','.join(path.read_text(encoding='utf-8').splitlines())}]"), indent=1))
    assert cases_of(whole, logs=presets).cases == found.cases


def test_a_trace_alone_in_a_file_is_read(tmp_path: Path) -> None:
    spans = records(logged_traffic.langfuse, TRAFFIC[:1])
    (trace,), runs = (records(of, TRAFFIC[:1]) for of in (logged_traffic.mlflow, logged_traffic.langsmith))
    path = tmp_path / "trace.json"
    for held in ({"id": spans[0]["trace_id"], "observations": spans}, trace, {"runs": runs}):
        path.write_text(json.dumps(held, indent=1), encoding="utf-8")
        (case,) = cases_of(path, logs=presets).cases
        assert case.response == TRAFFIC[0].answer


def test_a_refused_call_is_a_bad_row_with_its_reason(tmp_path: Path) -> None:
    traffic = [TRAFFIC[0], replace(TRAFFIC[1], answer=" ")]
    path = write(tmp_path / "log.jsonl", records(logged_traffic.langsmith, traffic))
    with pytest.raises(DataError, match=r"The call has no answer, or an empty one\."):
        cases_of(path, logs=presets)
    found = cases_of(path, logs=presets, skip_bad=True)
    assert (len(found.cases), len(found.problems)) == (1, 1)


@pytest.mark.parametrize("name", logged_traffic.WITH_SPANS)
def test_what_the_user_names_is_context_where_nothing_was_retrieved(tmp_path: Path, name: str) -> None:
    asked = "Notes: Bo Lind paid the fine.\nQuestion: who paid?"
    told = (("system", "Anna Ek lost a key."),)
    one = replace(TRAFFIC[0], texts=(), ids=(), in_system=True, earlier=told, question=asked)
    path = write(tmp_path / "log.jsonl", records(logged_traffic.WRITERS[name], [one]))
    with pytest.raises(DataError, match=r"Nothing was retrieved .* give --context-from system, or a pattern\."):
        cases_of(path, logs=presets)
    with pytest.raises(DataError, match=r"Nothing was retrieved .* And --context-from finds nothing\."):
        cases_of(path, logs=presets, context_from="Files: (.*)")

    (of_system,) = cases_of(path, logs=presets, context_from="system").cases
    (of_user,) = cases_of(path, logs=presets, context_from="Notes:(.*)Question:").cases
    assert of_system.context_documents[-1].text.endswith("Anna Ek lost a key.")
    assert [document.text for document in of_user.context_documents] == ["Bo Lind paid the fine."]
    # The model reads what it read.
    assert [message.text for message in of_system.messages] == [message.text for message in of_user.messages]


def test_a_pattern_that_takes_too_long_is_told_beside_what_was_retrieved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakmeter.text.entities.pattern.SECONDS_AT_MOST", 1e-9)
    one = replace(TRAFFIC[0], question="a" * 5000 + "!")
    path = write(tmp_path / "log.jsonl", records(logged_traffic.langfuse, [one]))
    with pytest.raises(DataError, match="--context-from took longer"):
        cases_of(path, logs=presets, context_from="(a+)+b")


def test_what_the_user_names_is_context_beside_what_was_retrieved(tmp_path: Path) -> None:
    one = replace(TRAFFIC[0], in_system=True)
    path = write(tmp_path / "log.jsonl", records(logged_traffic.langfuse, [one]))
    (plain,) = cases_of(path, logs=presets).cases
    (case,) = cases_of(path, logs=presets, context_from="system").cases
    documents = [document.text for document in case.context_documents]
    assert set(one.texts) < set(documents)
    # Of the system's message all is context then, and nothing twice.
    (system,) = (message.text for message in case.messages if message.role == "system")
    assert sum(map(len, documents)) <= len(system)
    assert [message.text for message in case.messages] == [message.text for message in plain.messages]


@pytest.mark.parametrize("name", ["langfuse", "langsmith"])
def test_influence_measures_an_export(cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("leakmeter.engine.loading.load", lambda *given, **options: ChatToy())
    short = replace(TRAFFIC[0], texts=("A boat came.", "It rained."), ids=("log-7", "log-8"), question="What came?")
    path = write(tmp_path / "export.jsonl", records(logged_traffic.WRITERS[name], [short]))
    ended = cli("influence", "--data", path, "--model", "toy", "--unit", "document", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert [document["name"] for document in found["documents"]] == ["log-7", "log-8"]
    assert [piece["name"] for piece in found["pieces"]] == ["log-7", "log-8"]
    assert f"data: read as --format {name}" in ended.err
