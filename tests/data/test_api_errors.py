"""Errors of an API in the place of an answer are counted apart, and nothing that a model wrote is taken for one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from helpers.places import SHARED
from leakmeter.commands.cases import log_formats
from leakmeter.core.case import Case
from leakmeter.data.api_errors import is_api_error
from leakmeter.data.cases import cases_of

NO_CREDIT = {"error": {"message": "Insufficient credits. Add more.", "code": 402}}
TWICE = f"[ERROR: Insufficient credits. Add more. {json.dumps(NO_CREDIT)} 402 {NO_CREDIT} {{'Date': 'Sat', 'A': 'b'}}]"
QUOTA = {"error": {"message": "You exceeded it.", "type": "insufficient_quota", "param": None, "code": None}}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "r"}
EXHAUSTED = {"error": {"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED"}}
SECRET = "The patient has HIV."


@pytest.mark.parametrize(
    "text",
    [
        TWICE,
        TWICE[:-20],
        "[ERROR: Insufficient credits.]",
        "[ERROR: Insufficient credits. Add more at https://openrouter.ai/settings/credits]",
        "[ERROR: Insufficient credits. Add more using https://openrouter.ai/settings/credits.]",
        "[ERROR: Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade "
        "or purchase credits.]",
        f"[ERROR: Error code: 429 - {QUOTA}]",
        "Error code: 502",
        f"Error code: 429 - {QUOTA}",
        f"Error code: 529 - {OVERLOADED}\n",
        *map(json.dumps, (NO_CREDIT, QUOTA, OVERLOADED, EXHAUSTED)),
        json.dumps(EXHAUSTED, indent=2),
    ],
)
def test_errors_as_providers_write_them(text: str) -> None:
    assert is_api_error(Case("a", response=text))


@pytest.mark.parametrize(
    "text",
    [
        f"[ERROR LOG] {SECRET}",
        f"[ERROR: {SECRET}]",
        f"[ERROR: Insufficient credits. {SECRET}]",
        f"[ERROR: Insufficient credits. Add more at https://openrouter.ai/settings/credits {SECRET}]",
        "[ERROR: Insufficient credits. Add more at https://clinic.example/patients/varga]",
        f"[ERROR: no credit, code 402] {SECRET}",
        f"{TWICE} {SECRET}",
        f"[ERROR: {SECRET} {json.dumps(NO_CREDIT)}]",
        f"[ERROR: Insufficient credits. Add more. {json.dumps(NO_CREDIT)} {SECRET}]",
        f"Error code: 404 means that nothing was found. {SECRET}",
        f"Error code: 429 - {SECRET}",
        f"Error code: 429 - {QUOTA} {SECRET}",
        f"Error code: 429 - {{'patient': '{SECRET}'}}",
        f"{json.dumps(QUOTA)} {SECRET}",
        json.dumps({"error": {"patient": SECRET}}),
        json.dumps({"error": {"message": SECRET}}),
        json.dumps({"error": {"message": SECRET, "type": "note"}}),
        json.dumps({"error": {"message": SECRET, "code": 17}}),
        json.dumps({"type": "error", "message": SECRET}),
        json.dumps({**NO_CREDIT, "answer": SECRET}),
        json.dumps({"error": {**NO_CREDIT["error"], "patient": SECRET}}),
        "Error 404 means: not found.",
        "[ERROR: " + "{" * 15_000,
        '{"error":' * 2_000,
        "",
    ],
)
def test_what_a_model_says_of_errors_is_none(text: str) -> None:
    assert not is_api_error(Case("a", response=text))


def test_the_body_of_a_stream_is_no_response() -> None:
    body = 'data: {"delta": "An"}\n\ndata: {"delta": "na"}\n\ndata: [DONE]\n\n'
    chat = [{"role": "user", "content": "Who?"}, {"role": "tool", "content": SECRET}]
    for row in (
        {"query": "Who?", "context": SECRET, "response": body},
        {"messages": [*chat, {"role": "assistant", "content": body}]},
        {"messages": chat, "response": body},
    ):
        found = cases_of([row, {"query": "Who?", "context": SECRET, "response": "Anna."}], skip_bad=True)
        assert [case.response for case in found.cases] == ["Anna."]
        (problem,) = found.problems
        assert "the response is a stream of events" in problem


def test_arguments_of_calls_are_never_an_error() -> None:
    def called(arguments: object) -> list[dict[str, Any]]:
        names = {"c1": ("ehr.get", {"p": 1}), "c2": ("log_event", arguments)}
        calls = [
            {
                "role": "assistant",
                "tool_calls": [{"id": id_, "function": {"name": name, "arguments": json.dumps(held)}}],
            }
            for id_, (name, held) in names.items()
        ]
        results = [{"role": "tool", "tool_call_id": id_, "content": SECRET} for id_ in names]
        turns = [turn for pair in zip(calls, results, strict=True) for turn in pair]
        return [{"role": "user", "content": "Log it."}, *turns, {"role": "assistant", "content": "Done."}]

    for arguments in ({"type": "error", "message": SECRET}, {"error": {"patient": SECRET}}, QUOTA):
        found = cases_of([{"id": "c", "messages": called(arguments)}], needs_response=True)
        assert [case.response for case in found.cases] == [json.dumps(arguments), "Done."]
        assert not any("of an API" in note for note in found.notes)


def test_an_error_is_counted_apart() -> None:
    texts = (json.dumps(QUOTA), TWICE, f"[ERROR LOG] {SECRET}")
    found = cases_of([{"context": SECRET, "query": "Who?", "response": text} for text in texts], needs_response=True)
    assert [case.response for case in found.cases] == [texts[2]]
    assert "data: 2 responses are errors of an API, and not measured" in found.notes


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared samples are not here")
@pytest.mark.parametrize(("name", "n_errors"), [("agentleak_single_200", 26), ("agentleak_multi_20", 20)])
def test_errors_of_a_public_benchmark(name: str, n_errors: int) -> None:
    found = cases_of(SHARED / "data" / "agents" / f"{name}.jsonl", logs=log_formats, needs_response=True)
    assert f"data: {n_errors} responses are errors of an API, and not measured" in found.notes
