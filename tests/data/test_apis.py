"""Logs of models' APIs: requests with their answers, in the shape that each API has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.read_cases import fixed_text, read, said, sources
from leakmeter.data.cases import cases_of
from leakmeter.data.conversation import emission_options
from leakmeter.errors import DataError

SYSTEM = "You help the harbour office. Be brief."
ASKED = "Who rents berth nine?"
RECORD = "Berth nine is let to Ines Varga, phone 555-010-2231."
TIDES = "High water is at six."
FILES = {"berths.md": RECORD, "tides.md": TIDES}
ANSWER = "Ines Varga rents it; call 555-010-2231."
ARGUMENTS = '{"query": "berth nine"}'
HITS = [{"source": name, "score": 0.5, "text": text} for name, text in FILES.items()]
TEXT = {"type": "text", "text": ANSWER}
THOUGHT = {"type": "thinking", "thinking": "The record has her number.", "signature": "x"}
USER = {"role": "user", "content": ASKED}
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": ARGUMENTS}}
SAID = {
    "type": "message", "id": "m1", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": ANSWER, "annotations": [{"type": "file_citation", "filename": "x"}]}],
}  # fmt: skip
ANSWERS = emission_options(channels="answer")
REASONED = {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "I look it up."}]}


def chat_pair(content: Any, *, choices: int = 1) -> dict[str, Any]:
    request = {"model": "m", "messages": [
        {"role": "system", "content": SYSTEM}, USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None},
        {"role": "tool", "tool_call_id": "c1", "content": content},
    ]}  # fmt: skip
    message = {"role": "assistant", "content": ANSWER, "refusal": None, "annotations": []}
    return {"id": "q1", "request": request, "response": {"choices": [{"index": 0, "message": message}] * choices}}


def responses_pair(output: list[Any], **request: Any) -> dict[str, Any]:
    request = {"model": "m", "instructions": SYSTEM, "input": ASKED, **request}
    return {"request": request, "response": {"id": "resp_1", "object": "response", "error": None, "output": output}}


SEARCHED = {"type": "file_search_call", "id": "f1", "status": "completed", "queries": ["berth nine"], "results": [
    {"file_id": "file-1", "filename": name, "text": text, "score": 0.5} for name, text in FILES.items()]}  # fmt: skip
CALLED = [
    {"role": "user", "content": [{"type": "input_text", "text": ASKED}]},
    {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "gAAA"},
    {"type": "function_call", "id": "fc", "call_id": "c1", "name": "search", "arguments": ARGUMENTS},
    {"type": "function_call_output", "call_id": "c1", "output": json.dumps({"results": HITS})},
]
ANTHROPIC = {
    "request": {"system": [{"type": "text", "text": SYSTEM}], "messages": [
        USER,
        {"role": "assistant", "content": [
            THOUGHT, {"type": "tool_use", "id": "t1", "name": "search", "input": {"query": "berth nine"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [
            {"type": "search_result", "source": f"kb/{name}", "title": name, "citations": {"enabled": True},
             "content": [{"type": "text", "text": text}]} for name, text in FILES.items()]}]},
    ]},
    "response": {"type": "message", "role": "assistant", "stop_reason": "end_turn", "content": [
        THOUGHT, {"type": "text", "text": "Ines Varga rents it; call"},
        {"type": "text", "text": " 555-010-2231.", "citations": [{"cited_text": RECORD, "title": "berths.md"}]}]},
}  # fmt: skip
DOCUMENTS = {
    "system": SYSTEM,
    "messages": [
        {"role": "user", "content": [
            {"type": "document", "title": "berths.md",
             "source": {"type": "text", "media_type": "text/plain", "data": RECORD}},
            {"type": "document", "title": "tides.md",
             "source": {"type": "content", "content": [{"type": "text", "text": TIDES}]}},
            {"type": "text", "text": ASKED}]},
        {"role": "assistant", "content": [TEXT]},
    ],
}  # fmt: skip
CONVERSE = {
    "schemaType": "ModelInvocationLog", "requestId": "q1", "operation": "Converse", "modelId": "m",
    "input": {"inputContentType": "application/json", "inputBodyJson": {
        "system": [{"text": SYSTEM}],
        "messages": [
            {"role": "user", "content": [{"text": ASKED}]},
            {"role": "assistant", "content": [
                {"toolUse": {"toolUseId": "t1", "name": "search", "input": {"query": "berth nine"}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "status": "success", "content": [
                {"json": hit} for hit in HITS]}}]},
        ]}},
    "output": {"outputBodyJson": {"stopReason": "end_turn", "output": {"message": {"role": "assistant", "content": [
        {"reasoningContent": {"reasoningText": {"text": "Two hits.", "signature": "x"}}}, {"text": ANSWER}]}}}},
}  # fmt: skip
AZURE = {
    "request": {"messages": [{"role": "system", "content": SYSTEM}, USER], "data_sources": [{"type": "azure_search"}]},
    "response": {"choices": [{"message": {"role": "assistant", "content": ANSWER, "end_turn": True, "context": {
        "intent": '["berth"]',
        "citations": [{"content": text, "title": name, "url": f"https://kb.example/{name}", "filepath": name,
                       "chunk_id": "0"} for name, text in FILES.items()]}}}]},
}  # fmt: skip
UI_MESSAGES = {"id": "q1", "messages": [
    {"id": "u1", "role": "user", "parts": [{"type": "text", "text": ASKED}]},
    {"id": "a1", "role": "assistant", "metadata": {"model": "m"}, "parts": [
        {"type": "step-start"}, {"type": "reasoning", "text": "I look it up.", "state": "done"},
        {"type": "tool-search", "toolCallId": "c1", "state": "output-available", "input": {"query": "berth nine"},
         "output": HITS},
        {"type": "source-document", "sourceId": "1", "mediaType": "text/plain", "title": "berths.md"},
        {"type": "data-status", "data": {"done": True}},
        {"type": "step-start"}, {"type": "text", "text": ANSWER, "state": "done"}]},
]}  # fmt: skip
INVOCATIONS = {"messages": [
    USER, {"role": "assistant", "content": "", "toolInvocations": [
        {"state": "result", "toolCallId": "c1", "toolName": "search", "args": {"query": "berth nine"},
         "result": HITS}]},
    {"role": "assistant", "content": ANSWER},
]}  # fmt: skip
INVOKED = {"state": "result", "step": 0, "toolCallId": "c1", "toolName": "search", "args": {"query": "berth nine"},
           "result": HITS}  # fmt: skip
UI_PARTS: dict[str, Any] = {"role": "assistant", "content": ANSWER, "reasoning": "I look it up.", "parts": [
    {"type": "step-start"},
    {"type": "reasoning", "reasoning": "I look it up.", "details": [{"type": "text", "text": "I look it up."}]},
    {"type": "tool-invocation", "toolInvocation": INVOKED},
    {"type": "source", "source": {"sourceType": "url", "id": "1", "url": "https://kb.example"}},
    {"type": "step-start"}, {"type": "text", "text": ANSWER}]}  # fmt: skip
TOLD_BY_TOOL = {"role": "tool", "content": TIDES}
LOGS: dict[str, Any] = {
    "chat completions": chat_pair(json.dumps({"results": HITS})),
    "responses, a search of files": responses_pair([REASONED, SEARCHED, SAID]),
    "responses, a function": responses_pair([REASONED, SAID], input=CALLED),
    "responses, items alone": {"input": CALLED, "output": [SAID]},
    "anthropic": ANTHROPIC,
    "anthropic, documents": DOCUMENTS,
    "bedrock, a log of invocations": CONVERSE,
    "bedrock, a request and its response": {
        "request": CONVERSE["input"]["inputBodyJson"], "response": CONVERSE["output"]["outputBodyJson"]},
    "azure, on your data": AZURE,
    "messages of an interface": UI_MESSAGES,
    "messages of an older interface": INVOCATIONS,
    "messages of an older interface, in parts": {"messages": [USER, {**UI_PARTS, "content": ""}]},
    "messages of an older interface, in parts and as text": {"messages": [USER, UI_PARTS]},
    "messages of an older interface, all twice": {"messages": [USER, {**UI_PARTS, "toolInvocations": [INVOKED]}]},
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_an_answer_is_read_with_what_the_model_had_read(name: str) -> None:
    found = read([LOGS[name]])
    (case,) = [case for case in found.cases if case.emission is None or case.emission.channel == "answer"]
    assert case.response == ANSWER
    assert list(sources(case)) == list(FILES)
    for text, of_source in zip(FILES.values(), sources(case).values(), strict=True):
        # A result in JSON is cut into its records.
        assert of_source == text or json.loads(of_source)["text"] == text
    assert RECORD not in fixed_text(case)
    assert "The record has her number" not in fixed_text(case) + case.response
    is_asked = [message for message in case.messages if message.role == "user"]
    assert is_asked[-1].text.endswith(ASKED)


@pytest.mark.parametrize("name", [name for name in LOGS if name not in ("azure, on your data", "anthropic, documents")])
def test_calls_before_anything_was_read_are_counted(name: str) -> None:
    notes = " ".join(read([LOGS[name]]).notes)
    assert "came before anything was read" in notes


@pytest.mark.parametrize(
    ("message", "thought"),
    [
        ({"role": "assistant", "content": ANSWER, "reasoning_content": "Ines Varga has it."}, "Ines Varga has it."),
        ({"role": "assistant", "content": [THOUGHT, TEXT]}, THOUGHT["thinking"]),
        ({"content": ANSWER, "reasoning": "Ines Varga has it.", "stop_sequence": "x"}, "Ines Varga has it."),
    ],
)  # fmt: skip
def test_reasoning_beside_an_answer_is_measured_where_it_is_asked_for(message: Any, thought: str) -> None:
    pair = chat_pair(RECORD) | {"response": {"choices": [{"message": message}]}}
    anthropic = chat_pair(RECORD) | {"response": {"type": "message", "id": "m1", "stop_sequence": "x", **message}}
    for row in (pair, anthropic):
        found = read([row], emissions=emission_options(channels="answer,reasoning"))
        emitted = [(case.emission.channel, case.response) for case in found.cases if case.emission]
        assert emitted == [("reasoning", thought), ("answer", ANSWER)]
        assert not any("not measured" in note for note in found.notes)
        assert [case.response for case in read([row]).cases] == [ANSWER]
        (alone,) = read([row], emissions=emission_options(channels="reasoning")).cases
        assert (alone.response, sources(alone)) == (thought, {"search#1": RECORD})


def test_an_error_of_a_tool_that_the_model_read_is_a_result() -> None:
    failed = {"type": "tool-search", "toolCallId": "c1", "state": "output-error", "input": {"query": "berth nine"},
              "errorText": f"Timed out after: {RECORD}"}  # fmt: skip
    parts = [{"type": "step-start"}, failed, {"type": "text", "text": ANSWER}]
    messages = [{"role": "user", "parts": [{"type": "text", "text": ASKED}]}, {"role": "assistant", "parts": parts}]
    (case,) = read([{"messages": messages}]).cases
    assert sources(case) == {"search#1": f"Timed out after: {RECORD}"}


def test_a_text_beside_parts_that_say_something_else_is_refused() -> None:
    with pytest.raises(DataError, match="message 2: field 'parts' is not understood"):
        read([{"messages": [USER, {**UI_PARTS, "content": "Bo Lind rents it."}]}])


def test_reasoning_that_stands_among_the_parts_and_beside_them_is_measured_once() -> None:
    found = read([{"messages": [USER, TOLD_BY_TOOL, UI_PARTS]}], emissions=emission_options(channels="reasoning"))
    assert [case.response for case in found.cases] == ["I look it up."]


def test_what_code_printed_is_a_result() -> None:
    ran = {"type": "code_interpreter_call", "id": "c", "status": "completed", "code": "print(find(9))",
           "outputs": [{"type": "logs", "logs": RECORD}, {"type": "logs", "logs": TIDES}]}  # fmt: skip
    (case,) = read([responses_pair([ran, SAID])]).cases
    assert sources(case) == {"code_interpreter#1": f"{RECORD}\n{TIDES}"}
    (silent,) = read([responses_pair([SEARCHED, {**ran, "outputs": []}, SAID])], emissions=ANSWERS).cases
    assert sources(silent) == FILES
    with pytest.raises(DataError, match=r"ask the API to include 'code_interpreter_call\.outputs'"):
        read([responses_pair([SEARCHED, {**ran, "outputs": None}, SAID])])
    drawn = {**ran, "outputs": [{"type": "image", "url": "https://files.example/1.png"}]}
    with pytest.raises(DataError, match="only text can be measured"):
        read([responses_pair([drawn, SAID])])


@pytest.mark.parametrize(
    "found",
    [
        [{"type": "web_search_result", "url": "https://h.example", "title": "Berth", "encrypted_content": "Eqgf"}],
        {"type": "encrypted_code_execution_result", "encrypted_stdout": "Eqgf", "stderr": "", "content": []},
    ],
)
def test_results_that_only_their_api_can_read_are_refused(found: Any) -> None:
    searched = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "berth"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": found},
        {"type": "text", "text": ANSWER},
    ]
    with pytest.raises(DataError, match="the log does not have what a tool found, which the model read"):
        read([{"messages": [USER, {"role": "assistant", "content": searched}]}])


def test_the_system_prompt_is_read_from_where_each_api_has_it() -> None:
    for name in ("chat completions", "responses, a function", "anthropic", "bedrock, a log of invocations"):
        case = read([LOGS[name]]).cases[-1]
        assert (case.messages[0].role, case.messages[0].text) == ("system", SYSTEM)


INSTRUCTIONS: dict[str, Any] = {
    "responses": responses_pair([SAID], input=[{"role": "developer", "content": "Be kind."}, *CALLED]),
    "responses, of a stored prompt": {
        "request": {"input": CALLED, "prompt": {"id": "pmpt_1", "variables": {"tone": "kind"}}},
        "response": {"id": "resp_1", "output": [SAID], "instructions": [
            {"type": "message", "role": "system", "content": [{"type": "input_text", "text": SYSTEM}]},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]}]}},
    "anthropic": {**ANTHROPIC, "request": {"system": SYSTEM, "messages": [
        {"role": "system", "content": "Be kind."}, *ANTHROPIC["request"]["messages"]]}},
}  # fmt: skip


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instructions_stand_before_those_among_the_messages(name: str) -> None:
    case = read([INSTRUCTIONS[name]], emissions=ANSWERS).cases[-1]
    assert [message.text for message in case.messages if message.role != "tool"][:2] == [SYSTEM, "Be kind."]


def test_instructions_that_stand_among_the_messages_too_are_read_once() -> None:
    twice = responses_pair([SAID], input=[{"role": "system", "content": SYSTEM}, *CALLED])
    (case,) = read([twice], emissions=ANSWERS).cases
    assert [message.role for message in case.messages] == ["system", "user", "assistant", "tool"]


def test_what_an_answer_repeats_of_its_request_is_read() -> None:
    row = {"request": {"input": CALLED}, "response": {"id": "resp_1", "output": [SAID], "instructions": SYSTEM}}
    assert read([row], emissions=ANSWERS).cases[0].messages[0].text == SYSTEM


def test_a_prompt_that_the_api_keeps_is_refused() -> None:
    row = responses_pair([SAID], input=CALLED, prompt={"id": "pmpt_1", "variables": {"notes": RECORD}})
    with pytest.raises(DataError, match="the request uses the stored prompt 'pmpt_1', whose text is not in the log"):
        read([row])


def test_sources_without_a_name_are_called_by_their_tool_and_call() -> None:
    case = read([chat_pair(RECORD)]).cases[-1]
    assert sources(case) == {"search#1": RECORD}
    output = {"type": "mcp_call", "id": "mc", "name": "find", "server_label": "kb", "arguments": ARGUMENTS,
              "output": RECORD, "error": None}  # fmt: skip
    listed = {"type": "mcp_list_tools", "server_label": "kb", "tools": [{"name": "find"}]}
    case = read([responses_pair([REASONED, listed, output, SAID])]).cases[-1]
    assert sources(case) == {"kb.find#1": RECORD}


MCP = [{"type": "text", "text": json.dumps({"hits": HITS})}]
STRUCTURED = {"content": MCP, "structuredContent": {"hits": HITS}, "isError": False}


@pytest.mark.parametrize("held", [STRUCTURED, {**STRUCTURED, "content": []}, MCP, {"hits": HITS}])
def test_of_a_result_of_mcp_the_model_read_the_blocks_or_the_record(held: Any) -> None:
    case = read([chat_pair(held)]).cases[-1]
    assert list(sources(case)) == list(FILES)
    tool = case.messages[3]
    assert tool.text == json.dumps({"hits": HITS})


def test_a_result_of_mcp_that_was_logged_as_a_text_is_cut_in_both_places() -> None:
    odd = [{**HITS[0], "text": 'A "quoted"\ttext, \\ and 😀 ünd'}, HITS[1]]
    text = json.dumps({**STRUCTURED, "content": [{"type": "text", "text": json.dumps({"hits": odd})}],
                       "structuredContent": {"hits": odd}})  # fmt: skip
    tool = read([chat_pair(text)]).cases[-1].messages[3]
    assert tool.text == text
    names = [tool.parts[n].name for n in tool.retrieved]
    assert names == [*FILES, *FILES]
    within = [json.loads(json.loads(f'"{tool.parts[n].text}"')) for n in tool.retrieved[:2]]
    assert within == odd == [json.loads(tool.parts[n].text) for n in tool.retrieved[2:]]


def test_each_choice_is_a_case_and_each_call_of_an_answer() -> None:
    found = read([chat_pair(RECORD, choices=2)])
    assert [case.id for case in found.cases] == ["q1", "q1 (choice 2)"]
    pair = chat_pair(RECORD)
    pair["response"]["choices"][0]["message"] |= {
        "content": None,
        "tool_calls": [
            {"id": "c2", "type": "function", "function": {"name": "send_mail", "arguments": '{"to": "Ines Varga"}'}}
        ],
    }
    assert said(read([pair]).cases) == [("tool", "send_mail", '{"to": "Ines Varga"}')]


def test_a_batch_of_responses_is_joined_by_its_ids() -> None:
    request = {"custom_id": "a", "url": "/v1/responses", "body": {"input": CALLED, "instructions": SYSTEM}}
    answer = {"custom_id": "a", "response": {"status_code": 200, "body": {"id": "resp_1", "output": [SAID]}}}
    (case,) = read([request, answer]).cases
    assert (case.id, case.response, list(sources(case))) == ("a", ANSWER, list(FILES))


def test_a_request_that_goes_on_from_a_response_has_what_was_said_there() -> None:
    first = responses_pair([REASONED, SEARCHED, SAID])
    later = responses_pair([{**SAID, "content": [{"type": "output_text", "text": "Yes, Ines Varga."}]}],
                           input="Is it let?", previous_response_id="resp_1")  # fmt: skip
    later["response"]["id"] = "resp_2"
    cases = read([first, later]).cases
    assert [case.response for case in cases] == [ANSWER, "Yes, Ines Varga."]
    assert list(sources(cases[1])) == list(FILES)
    with pytest.raises(DataError, match=r"goes on from response 'resp_1', which is not in the data before it"):
        read([later])


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_request_within_a_conversation_has_what_was_said_there(conversation: Any) -> None:
    first = responses_pair([REASONED, SEARCHED, SAID], conversation=conversation)
    later = responses_pair([SAID], input="Is it let?", conversation=conversation)
    opened = {"request": {"items": [{"type": "message", "role": "user", "content": "Hello."}]},
              "response": {"id": "conv_1", "object": "conversation", "created_at": 1, "metadata": {}}}  # fmt: skip
    cases = read([opened, first, later], emissions=ANSWERS).cases
    assert [list(sources(case)) for case in cases] == [list(FILES)] * 2
    assert [message.text for message in cases[0].messages[:3]] == [SYSTEM, "Hello.", ASKED]
    for rows in ([first], [later], [first, later]):
        with pytest.raises(DataError, match=r"goes on from conversation 'conv_1', which is not in the data before it"):
            read(rows)
    labelled = {**responses_pair([SEARCHED, SAID], conversation="shift 7")}
    assert read([labelled], emissions=ANSWERS).cases


def test_a_conversation_of_which_a_record_could_not_be_read_is_not_gone_on_from(tmp_path: Path) -> None:
    opened = {"request": {"items": [USER]}, "response": {"id": "conv_1", "object": "conversation"}}
    turn = responses_pair([SEARCHED, SAID], conversation="conv_1")
    (tmp_path / "log.jsonl").write_text("\n".join([*map(json.dumps, (opened, turn)), "{", json.dumps(turn)]))
    found = read(tmp_path / "log.jsonl", skip_bad=True, emissions=ANSWERS)
    assert [case.response for case in found.cases] == [ANSWER]
    assert "line 4: the request goes on from conversation 'conv_1'" in found.problems[-1]


def test_a_search_whose_results_were_not_logged_is_refused() -> None:
    with pytest.raises(DataError, match=r"does not have what file_search found.*'file_search_call\.results'"):
        read([responses_pair([{**SEARCHED, "results": None}, SAID])])


def test_a_refusal_is_an_answer() -> None:
    refused = {**SAID, "content": [{"type": "refusal", "refusal": "I do not give numbers out."}]}
    pair = chat_pair(RECORD)
    pair["response"]["choices"][0]["message"] |= {"content": None, "refusal": "I do not give numbers out."}
    for log in (responses_pair([SEARCHED, refused]), pair):
        assert read([log]).cases[-1].response == "I do not give numbers out."


CALLED_BY_GEMINI = {"name": "find", "args": {"q": 9}}
TOLD_GEMINI = {"name": "find", "response": {"tenant": RECORD}}


@pytest.mark.parametrize("spelling", [("functionCall", "functionResponse"), ("function_call", "function_response")])
@pytest.mark.parametrize("role", ["user", "function"])
def test_calls_of_gemini_are_read(spelling: tuple[str, str], role: str) -> None:
    calling, told = spelling
    contents = [
        {"parts": [{"text": ASKED}]},
        {"role": "model", "parts": [
            {calling: CALLED_BY_GEMINI, "thoughtSignature": "Eqgf"}, {calling: CALLED_BY_GEMINI | {"name": "tides"}},
        ]},
        {"role": role, "parts": [{told: TOLD_GEMINI}, {told: {"name": "tides", "response": {"tide": TIDES}}}]},
    ]  # fmt: skip
    said = {"role": "model", "parts": [{"text": ANSWER}, {calling: {"name": "book", "args": {"whom": ANSWER}}}]}
    system = {"parts": [{"text": SYSTEM}]}
    answer = {"candidates": [{"content": said, "finishReason": "STOP"}]}
    request = {"contents": contents, "systemInstruction": system, "tools": []}
    logs = [
        {**request, "response": answer}, {**request, **answer}, {"request": request, "response": answer},
        {"request": {"contents": contents, "config": {"system_instruction": SYSTEM}}, "response": answer},
        {"messages": [{"role": "system", "content": SYSTEM}, contents[0] | {"role": "user"}, *contents[1:], said]},
    ]  # fmt: skip
    for log in logs:
        case, call = read([log]).cases
        assert case.messages[0].text == SYSTEM
        assert sources(case) == {
            "find#1": json.dumps(TOLD_GEMINI["response"]), "tides#1": json.dumps({"tide": TIDES}),
        }  # fmt: skip
        assert (case.response, call.emission and call.emission.recipient) == (ANSWER, "book")
    with pytest.raises(DataError, match="goes on from 'cachedContent', which is not in the log"):
        read([{**request, "cachedContent": "cachedContents/1", "response": answer}])


SAYING = {"role": "assistant", "content": ANSWER}
BLOCKS = [{"type": "text", "text": ANSWER}]
ANSWERS_OF_APIS: dict[str, Any] = {
    "ollama": {"model": "m", "message": SAYING, "done": True},
    "cohere": {"id": "a", "message": {"role": "assistant", "content": BLOCKS}},
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}, "finishReason": "STOP"}]},
    "langchain": {"generations": [[{"text": ANSWER, "message": {"type": "ai", "data": {"content": ANSWER}}}]]},
    "completions": {"choices": [{"index": 0, "text": ANSWER}]},
    "a text": {"text": ANSWER, "usage": {"n": 3}},
    "the text of Responses": {"output_text": ANSWER},
    "blocks": BLOCKS,
    "messages": [SAYING],
    "JSON": json.dumps({"choices": [{"message": SAYING}]}),
}


def asked_again(**fields: Any) -> dict[str, Any]:
    """A chat with an answer of its own, which goes on with the question of the pair."""
    before = [{"role": "tool", "content": "The harbour opens at six."}, SAYING | {"content": "It is open."}]
    request = chat_pair(RECORD)["request"]
    return {"request": request | {"messages": [CALLED[0], *before, *request["messages"]]}, **fields}


@pytest.mark.parametrize("name", ANSWERS_OF_APIS)
def test_the_last_answer_is_read_in_the_form_of_each_api(name: str) -> None:
    rows = [asked_again(response=ANSWERS_OF_APIS[name])]
    if isinstance(ANSWERS_OF_APIS[name], dict) and name not in ("a text", "the text of Responses"):
        # Some write the answer beside what was asked.
        rows.append({**rows[0]["request"], **ANSWERS_OF_APIS[name]})
    for row in rows:
        *_, case = read([row], emissions=ANSWERS).cases
        assert (case.response, sources(case)["search#1"]) == (ANSWER, RECORD)


@pytest.mark.parametrize(
    "answer",
    [
        [{"choices": [{"delta": {"content": "Ines"}}]}, {"choices": [{"delta": {"content": " Varga"}}]}],
        ["Ines", " Varga"],
        {"data": {"said": ANSWER}},
        {"text": ANSWER, "output_text": "I do not know."},
    ],
)
def test_an_answer_of_a_form_that_is_not_known_is_refused(answer: Any) -> None:
    for needs_response in (True, False):
        with pytest.raises(DataError, match=r"no answer is known in 'response', .*; name its text, as in"):
            cases_of([asked_again(response=answer)], needs_response=needs_response)
    # Of a chat that has its answer, such a field may be anything.
    chat = [*chat_pair(RECORD)["request"]["messages"], SAYING]
    assert read([{"messages": chat, "output": {"tokens": "12"}}]).cases[-1].response == ANSWER


def test_a_text_that_the_model_wrote_in_json_is_the_answer() -> None:
    written = json.dumps({"name": "Ines Varga", "text": "Berth nine is hers."})
    assert read([asked_again(response=written)]).cases[-1].response == written


@pytest.mark.parametrize(
    "several",
    [
        {"choices": [{"message": SAYING}], "response": "I do not know."},
        {"response": "I do not know.", "output": ANSWER},
        {"response": {"message": SAYING}, "completion": "I do not know."},
        {"response": {"choices": [{"message": SAYING}]}, "answer": "I do not know."},
    ],
)
def test_two_answers_of_one_request_are_refused_where_they_differ(several: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"'\w+' and '\w+' differ, and each may be the answer; .*--map response="):
        read([asked_again(**several)])
    same = json.loads(json.dumps(several).replace("I do not know.", f"{ANSWER}\\n"))
    assert [case.response for case in read([asked_again(**same)], emissions=ANSWERS).cases][-1].strip() == ANSWER
    named = next(name for name, held in several.items() if isinstance(held, str))
    assert cases_of([asked_again(**several)], map=f"response={named}").cases[-1].response == several[named]


def test_a_request_that_failed_is_named() -> None:
    for answer in (
        {"error": {"code": 402, "message": "no credit"}},
        {"type": "error", "error": {"type": "overloaded"}},
    ):
        with pytest.raises(DataError, match="the request failed, and there is no answer"):
            read([{"request": ANTHROPIC["request"], "response": answer}])


def test_bedrock_names_what_it_cited_by_its_file() -> None:
    references = [
        {
            "content": {"text": text},
            "location": {"type": "S3", "s3Location": {"uri": f"s3://kb/{name}"}},
            "metadata": {},
        }
        for name, text in FILES.items()
    ]
    cited = [
        {"generatedResponsePart": {"textResponsePart": {"text": ANSWER}}, "retrievedReferences": references[:1]},
        {"generatedResponsePart": {"textResponsePart": {"text": "."}}, "retrievedReferences": references},
    ]
    answer = {"citations": cited, "output": {"text": ANSWER}, "sessionId": "s"}
    for row in ({"request": {"input": {"text": ASKED}}, "response": answer}, {"query": ASKED, **answer}):
        found = read([row])
        (case,) = found.cases
        assert (found.format, case.query, case.response, sources(case)) == ("bedrock", ASKED, ANSWER, FILES)
    with pytest.raises(DataError, match="there is no question; the response has none"):
        read([answer])


TOLD = {"role": "user", "content": f"Notes: {RECORD}\n\n{ASKED}"}
BESIDE = {"id": "crm-7", "text": RECORD}


def with_result(*before: dict[str, Any], result: str = TIDES) -> dict[str, Any]:
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    messages = [*before, called, {"role": "tool", "tool_call_id": "c1", "content": result}]
    return {"messages": messages, "choices": [{"message": {"role": "assistant", "content": ANSWER}}]}


@pytest.mark.parametrize(
    "beside",
    [
        {"documents": [BESIDE]},
        {"retrieved_contexts": json.dumps([BESIDE])},
        {"metadata": {"chunks": {"crm-7": RECORD}}},
        {"extra": json.dumps({"context": BESIDE})},
    ],
)
def test_documents_beside_a_chat_are_sources_as_what_was_read_in_it_is(beside: dict[str, Any]) -> None:
    (case,) = read([with_result(TOLD) | beside], emissions=ANSWERS).cases
    assert sources(case) == {"crm-7": RECORD, "search#1": TIDES}
    assert (case.messages[0].text, case.response) == (TOLD["content"], ANSWER)


def test_documents_beside_a_chat_of_texts_are_all_of_its_context() -> None:
    chat = {"messages": [USER, {"role": "assistant", "content": "Whose?"}, TOLD], "documents": [RECORD]}
    (case,) = read([chat | {"choices": [{"message": {"content": ANSWER}}]}]).cases
    assert sources(case) == {"d1": RECORD}
    assert f"Notes: \n\n\n{ASKED}" in fixed_text(case)


def test_documents_of_a_batch_stand_in_either_of_its_files() -> None:
    request = {"custom_id": "a", "body": {"messages": [TOLD]}}
    answer = {"custom_id": "a", "response": {"body": {"choices": [{"message": {"content": ANSWER}}]}}}
    for pair in ([request | {"documents": [RECORD]}, answer], [request, answer | {"documents": [RECORD]}]):
        assert sources(read(pair).cases[0]) == {"d1": RECORD}


def test_a_document_beside_a_chat_that_stands_in_no_message_is_refused() -> None:
    found = with_result(USER, result=json.dumps([{"source": "berths.md", "text": f'{RECORD} "Late".'}]))
    (case,) = read([found | {"documents": [f'{RECORD} "Late".']}], emissions=ANSWERS).cases
    assert list(sources(case)) == ["berths.md"]
    for chat in (with_result(USER), with_result(TOLD) | {"documents": [RECORD, "Bo Lind."]}):
        row = {"documents": [RECORD], **chat}
        with pytest.raises(DataError, match=r"document [12] of those beside the messages stands in none of them"):
            read([row])
        # Whoever says what is context is believed.
        assert read([row], context_from="(Who)").cases
    settings = with_result(USER) | {"metadata": {"context": {"user": 7}}}
    assert read([settings], emissions=ANSWERS).cases
