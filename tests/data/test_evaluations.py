"""Results of evaluations and answers of frameworks, where the tool is installed as it writes them itself."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from helpers.peers import peer
from helpers.read_cases import fixed_text, read, said, sources
from leakmeter.data import rows, zipped
from leakmeter.errors import DataError

ASKED = "Who rents berth nine?"
RECORD = "Berth nine is let to Ines Varga, phone 555-010-2231."
TIDES = "High water is at six."
FILES = {"berths.md": RECORD, "tides.md": TIDES}
ANSWER = "Ines Varga rents it; call 555-010-2231."
HITS = [{"source": name, "text": text} for name, text in FILES.items()]

# --- inspect_ai -------------------------------------------------------------------------------------------------------

CALL = {"id": "c1", "function": "search", "arguments": {"query": "berth nine"}, "type": "function"}
MESSAGES = [
    {"id": "m1", "role": "system", "content": "Be brief."},
    {"id": "m2", "role": "user", "content": ASKED, "source": "input"},
    {"id": "m3", "role": "assistant", "content": "", "source": "generate", "model": "m", "tool_calls": [CALL]},
    {"id": "m4", "role": "tool", "content": "attachment://a1", "tool_call_id": "c1", "function": "search"},
    {"id": "m5", "role": "assistant", "model": "m", "content": [
        {"type": "reasoning", "reasoning": "Two hits."}, {"type": "text", "text": ANSWER}]},
]  # fmt: skip
SAMPLE = {
    "id": "berth", "epoch": 1, "input": ASKED, "target": "Ines Varga", "messages": MESSAGES,
    "output": {"model": "m", "choices": [{"message": MESSAGES[-1], "stop_reason": "stop"}]},
    "scores": {}, "attachments": {"a1": json.dumps(HITS)}, "events": [],
}  # fmt: skip


def archive(files: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A ZIP archive; of Zstandard (93), which Python's library does not write before 3.14, made by hand."""
    if method != 93:
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w", method) as opened:
            for name, content in files.items():
                opened.writestr(name, content)
        return held.getvalue()
    local, listed = b"", b""
    for name, content in files.items():
        packed = pa.compress(content, "zstd", asbytes=True)
        shared = struct.pack("<5H3L", 20, 0, method, 0, 0, zipfile.crc32(content), len(packed), len(content))
        sizes = struct.pack("<2H", len(name), 0)
        listed += b"PK\x01\x02" + struct.pack("<H", 20) + shared + sizes + bytes(10) + struct.pack("<L", len(local))
        listed += name.encode()
        local += b"PK\x03\x04" + shared + sizes + name.encode() + packed
    end = struct.pack("<4H2LH", 0, 0, len(files), len(files), len(listed), len(local), 0)
    return local + listed + b"PK\x05\x06" + end


def in_archive(*samples: Any) -> dict[str, bytes]:
    files = {f"samples/{n}.json": json.dumps(sample).encode() for n, sample in enumerate(samples, 1)}
    return {"_journal/start.json": b"{}", **files, "summaries.json": b"[]", "header.json": b"{}"}


@pytest.mark.parametrize("form", ["json", "deflate", "stored", "zstd"])
def test_samples_of_inspect_are_read(tmp_path: Path, form: str) -> None:
    samples = [SAMPLE, {**SAMPLE, "epoch": 2}]
    path = tmp_path / ("log.json" if form == "json" else "log.eval")
    method = {"deflate": zipfile.ZIP_DEFLATED, "stored": zipfile.ZIP_STORED, "zstd": 93}.get(form, 0)
    whole = {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": samples}
    path.write_bytes(json.dumps(whole).encode() if form == "json" else archive(in_archive(*samples), method=method))
    found = read(path)
    assert (found.format, [case.id for case in found.cases]) == ("inspect", ["berth", "berth (epoch 2)"])
    assert found.references == ("Ines Varga",) * 2
    for case in found.cases:
        assert (case.response, list(sources(case))) == (ANSWER, list(FILES))
        assert "Two hits" not in fixed_text(case)


def test_of_a_call_that_failed_the_model_read_the_error() -> None:
    failed = {**MESSAGES[3], "content": "", "error": {"type": "timeout", "message": "The index is Ines Varga's."}}
    (case,) = read([{**SAMPLE, "messages": [*MESSAGES[:3], failed, MESSAGES[4]]}]).cases
    assert sources(case) == {"search#1": "The index is Ines Varga's."}


def test_calls_of_other_agents_are_counted() -> None:
    other = {"event": "model", "output": {"choices": [{"message": {"id": "x", "role": "assistant"}}]}}
    (note,) = [note for note in read([{**SAMPLE, "events": [other]}]).notes if "other calls" in note]
    assert note.startswith("data: in 1 of 1 case the log has reasoning or other calls")


def test_each_choice_of_a_sample_of_inspect_is_a_case() -> None:
    other = {
        "role": "assistant",
        "content": [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "No."}],
    }
    output = {**SAMPLE["output"], "choices": [{"message": MESSAGES[-1]}, {"message": other}], "completion": ANSWER}
    for messages in (MESSAGES, MESSAGES[:-1]):
        found = read([{**SAMPLE, "messages": messages, "output": output}])
        assert [(case.id, case.response) for case in found.cases] == [("berth", ANSWER), ("berth (choice 2)", "No.")]
        assert [list(sources(case)) for case in found.cases] == [list(FILES)] * 2
    for answer in ({"choices": [{"message": other}]}, {"completion": "No."}, {**output, "completion": "Yes."}):
        with pytest.raises(DataError, match="'output' and the last of 'messages' differ"):
            read([{**SAMPLE, "output": answer}])
    for answer in (
        {"choices": []},
        {"choices": [{"message": {**other, "content": ""}}]},
        {"completion": f"{ANSWER}\n"},
    ):
        assert [case.response for case in read([{**SAMPLE, "output": answer}]).cases] == [ANSWER]


@pytest.mark.peers
def test_inspect_writes_what_is_read(tmp_path: Path) -> None:
    log = peer("inspect_ai.log")
    model = peer("inspect_ai.model")
    tool = peer("inspect_ai.tool")
    call = tool.ToolCall(id="c1", function="search", arguments={"query": "berth nine"})
    messages = [
        model.ChatMessageSystem(content="Be brief."),
        model.ChatMessageUser(content=ASKED),
        model.ChatMessageAssistant(content="", tool_calls=[call]),
        model.ChatMessageTool(content=json.dumps(HITS), tool_call_id="c1", function="search"),
        model.ChatMessageAssistant(content=ANSWER),
    ]
    sample = log.EvalSample(id="berth", epoch=1, input=ASKED, target="Ines Varga", messages=messages)
    spec = log.EvalSpec(
        created="2026-01-01T00:00:00+00:00", task="t", model="m", dataset=log.EvalDataset(), config=log.EvalConfig()
    )
    for name in ("log.eval", "log.json"):
        log.write_eval_log(log.EvalLog(eval=spec, samples=[sample]), str(tmp_path / name))
        (case,) = read(tmp_path / name).cases
        assert (case.response, list(sources(case))) == (ANSWER, list(FILES))


def test_archives_are_read_within_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.eval"

    def refused(content: bytes, why: str) -> None:
        path.write_bytes(content)
        with pytest.raises(DataError, match=why) as caught:
            read(path)
        assert "\n" not in str(caught.value)

    refused(archive({"notes.txt": b"x"}), "is a ZIP archive without samples of inspect_ai")
    whole = archive(in_archive(SAMPLE))
    refused(whole[:-30], r"cannot be unpacked; is it incomplete or damaged\?")
    refused(whole[:60] + bytes(20) + whole[80:], "cannot be unpacked|is not JSON|is not UTF-8")
    refused(archive(in_archive(SAMPLE), method=zipfile.ZIP_LZMA), "is packed with method 14")
    # Its list of files says that it is longer than any that is read.
    end = whole.rindex(b"PK\x05\x06")
    refused(whole[: end + 12] + struct.pack("<L", 2**30) + whole[end + 16 :], "an archive of too many files")
    monkeypatch.setattr(zipped, "_CHUNK", 1000)
    monkeypatch.setattr(rows, "files_within", lambda *held: zipped.files_within(*held, most=5000))
    for method in (zipfile.ZIP_DEFLATED, 93):
        refused(archive({"samples/1.json": bytes(10**6)}, method=method), "unpacks to more bytes than are read")


# --- promptfoo --------------------------------------------------------------------------------------------------------


def result(variables: dict[str, Any], raw: str, **more: Any) -> dict[str, Any]:
    answer = {"response": {"output": ANSWER, "cached": False}}
    return {"promptIdx": 0, "testIdx": 0, "testCase": {"vars": variables}, "vars": variables, "success": True,
            "prompt": {"raw": raw, "label": "p"}, "provider": {"id": "m"}, **answer, **more}  # fmt: skip


RAW = f"Context: {RECORD}\nQuestion: {ASKED}"
RESULT = result({"question": ASKED, "context": RECORD}, RAW)


def evaluation(*results: Any) -> dict[str, Any]:
    return {"evalId": "e", "results": {"version": 3, "prompts": [{"raw": "{{context}}"}], "results": list(results)}}


def test_results_of_promptfoo_are_read_with_the_prompt_that_was_sent() -> None:
    chat = json.dumps([{"role": "system", "content": RECORD}, {"role": "user", "content": ASKED}])
    of_chat = result({"question": ASKED, "context": RECORD}, chat, id="r2")
    for data in (evaluation({**RESULT, "id": "r1"}, of_chat), [{**RESULT, "id": "r1"}, of_chat]):
        found = read(data)
        assert (found.format, [case.id for case in found.cases]) == ("promptfoo", ["r1", "r2"])
        assert [sources(case) for case in found.cases] == [{"context": RECORD}] * 2
        assert [case.response for case in found.cases] == [ANSWER] * 2
        assert found.cases[0].messages[0].text == RAW
    # Without such a name, what is beside the question is the context.
    (case,) = read(evaluation(result({"question": ASKED, "berth": RECORD}, RAW))).cases
    assert sources(case) == {"berth": RECORD}


def test_a_result_of_promptfoo_without_a_context_is_refused() -> None:
    with pytest.raises(DataError, match="result 1: no variable of the test is known as a context; name it 'context'"):
        read(evaluation(result({"topic": ASKED}, ASKED)))
    with pytest.raises(DataError, match="that stands in the prompt word for word is known as a context"):
        read(evaluation(result({"question": ASKED, "context": TIDES}, RAW)))
    with pytest.raises(DataError, match="the request failed, and there is no answer"):
        read(evaluation({**RESULT, "response": {}, "error": "402"}))


def test_no_variable_of_promptfoo_that_was_read_is_dropped() -> None:
    listed = {"question": ASKED, "context": [{"text": RECORD}, TIDES]}
    assert sources(read([result(listed, f"{RAW}\n{TIDES}")]).cases[0]) == {"context 1": RECORD, "context 2": TIDES}
    several = {"question": ASKED, "context": TIDES, "memory": f"{RECORD}\nHm."}
    with pytest.raises(DataError, match="of 'memory' a part is in the prompt, and not word for word"):
        read([result(several, f"{TIDES} {RECORD.upper()} {ASKED}")])
    # One that the template leaves out was not read.
    assert sources(read([result(several, f"{TIDES} {ASKED}")]).cases[0]) == {"context": TIDES}


# --- DeepEval ---------------------------------------------------------------------------------------------------------

CASE = {"name": "test_case_0", "input": ASKED, "actual_output": ANSWER, "expected_output": "Ines.", "context": ["gold"],
        "retrieval_context": list(FILES.values()), "tools_called": None}  # fmt: skip
TOOLS = {"name": "search", "input_parameters": {"query": "berth nine"}, "output": HITS, "description": None}
CAMEL = {"input": ASKED, "actualOutput": ANSWER, "retrievalContext": [], "toolsCalled": [
    {"name": "search", "inputParameters": {"query": "berth nine"}, "output": HITS}]}  # fmt: skip


def test_test_cases_of_deepeval_are_read() -> None:
    found = read([CASE])
    assert (found.format, found.references) == ("deepeval", ("Ines.",))
    assert (found.cases[0].query, sources(found.cases[0])) == (ASKED, {"d1": RECORD, "d2": TIDES})
    for data in ([CAMEL], [{**CASE, "retrieval_context": None, "tools_called": [TOOLS]}], {"testCases": [CAMEL]}):
        (case,) = read(data).cases
        assert (case.response, list(sources(case))) == (ANSWER, list(FILES))
    cases = read([{**CASE, "retrieval_context": [TIDES], "tools_called": [{**TOOLS, "output": RECORD}]}]).cases
    assert sources(cases[-1]) == {"d1": TIDES, "search#1": RECORD}
    with pytest.raises(DataError, match="'context' of a test case is what is right, and no model read it"):
        read([{**CASE, "retrieval_context": None}])


TABLE = "| berth | let to |\n|---|---|\n| nine | Ines Varga |"


@pytest.mark.parametrize(
    ("joined", "texts"),
    [
        (f"{RECORD}|{TIDES}", [RECORD, TIDES]),
        (f"{RECORD}|", [f"{RECORD}|"]),
        (TABLE, [TABLE]),
        ("|berth|let to|\n|-|-|\n|nine|Ines Varga|", ["|berth|let to|\n|-|-|\n|nine|Ines Varga|"]),
        (f"{RECORD} | {TIDES}", [f"{RECORD} | {TIDES}"]),
    ],
)
def test_texts_that_deepeval_joined_are_cut_and_tables_are_not(joined: str, texts: list[str]) -> None:
    assert list(sources(read([{**CASE, "retrieval_context": joined}]).cases[0]).values()) == texts


def test_turns_of_deepeval_are_read() -> None:
    turns = [{"role": "user", "content": ASKED},
             {"role": "assistant", "content": ANSWER, "retrieval_context": [RECORD]},
             {"role": "user", "content": "And the tide?"},
             {"role": "assistant", "content": "At six.", "tools_called": [{**TOOLS, "output": TIDES}]}]  # fmt: skip
    # Its own log may have no more than the turns.
    for fields in ({"scenario": "s"}, {}):
        cases = read([{**fields, "turns": turns}]).cases
        answers = [case.response for case in cases if case.emission and case.emission.channel == "answer"]
        assert answers == [ANSWER, "At six."]
        assert sources(cases[-1]) == {"d1": RECORD, "search#1": TIDES}
    for spelling in ("tools_called", "toolsCalled"):
        calling = [turns[0], {"role": "assistant", "content": ANSWER, spelling: [{**TOOLS, "output": RECORD}]}]
        (case,) = read([{"turns": calling}]).cases[-1:]
        assert (case.response, sources(case)) == (ANSWER, {"search#1": RECORD})
    found = {"content": [{"type": "text", "text": RECORD}], "isError": False}
    served = {"role": "assistant", "content": ANSWER, "mcp_tools_called": [{"name": "s", "args": {}, "result": found}]}
    (case,) = read([{"turns": [turns[0], served]}]).cases[-1:]
    assert (case.response, sources(case)) == (ANSWER, {"s#1": RECORD})


@pytest.mark.peers
def test_deepeval_writes_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
    test_case = pytest.importorskip("deepeval.test_case")
    dataset = pytest.importorskip("deepeval.dataset").EvaluationDataset()
    dataset.add_test_case(test_case.LLMTestCase(input=ASKED, actual_output=ANSWER, retrieval_context=[RECORD, TIDES]))
    called = test_case.ToolCall(name="search", input_parameters={"query": "berth nine"}, output=RECORD)
    dataset.add_test_case(test_case.LLMTestCase(input=ASKED, actual_output=ANSWER, tools_called=[called]))
    for kind in ("json", "jsonl", "csv"):
        dataset.save_as(file_type=kind, directory=str(tmp_path), file_name="cases", include_test_cases=True)
        cases = read(tmp_path / f"cases.{kind}").cases
        assert [case.response for case in cases] == [ANSWER] * 2
        assert [sources(case) for case in cases] == [{"d1": RECORD, "d2": TIDES}, {"search#1": RECORD}]


# --- RAGAS, Haystack, LlamaIndex --------------------------------------------------------------------------------------


def test_turns_of_ragas_are_read() -> None:
    turns = [
        {"content": ASKED, "metadata": None, "type": "human"},
        {"content": "", "metadata": None, "type": "ai", "tool_calls": [{"name": "search", "args": {"query": "nine"}}]},
        {"content": RECORD, "metadata": None, "type": "tool"},
        {"content": ANSWER, "metadata": None, "type": "ai", "tool_calls": None},
    ]
    for user_input in (turns, json.dumps(turns)):
        found = read([{"user_input": user_input, "reference": "Ines.", "reference_tool_calls": []}])
        (case,) = found.cases
        assert (found.format, case.response, sources(case)) == ("ragas", ANSWER, {"search#1": RECORD})
    told = {**turns[0], "content": f"{TIDES}\n\n{turns[0]['content']}"}
    *_, case = read([{"user_input": [told, *turns[1:]], "retrieved_contexts": [TIDES]}]).cases
    assert sources(case) == {"d1": TIDES, "search#1": RECORD}
    with pytest.raises(DataError, match="document 1 of those beside the messages stands in none of them"):
        read([{"user_input": turns, "retrieved_contexts": [TIDES]}])


def haystack_document(name: str, text: str) -> dict[str, Any]:
    return {"id": "6336acec", "content": text, "blob": None, "meta": {"file_path": name}, "score": 0.8}


FOUND = [haystack_document(*item) for item in FILES.items()]
PIPELINE = {"retriever": {"documents": FOUND}, "llm": {"replies": [ANSWER], "meta": [{"model": "m"}]}}
BUILT = {"data": ANSWER, "query": ASKED, "documents": FOUND, "meta": {}}
HAYSTACK: dict[str, Any] = {
    "pipeline": {"query": ASKED, **PIPELINE},
    "pipeline with its prompt": {**PIPELINE, "prompt_builder": {"prompt": f"{RECORD}\n{TIDES}\nQuestion: {ASKED}"}},
    "flat documents": {"query": ASKED, "search": {"documents": [
        {"file_path": name, "id": "6336acec", "content": text} for name, text in FILES.items()]},
        "generator": {"replies": [{"role": "assistant", "meta": {}, "name": None, "content": [
            {"reasoning": {"reasoning_text": "Two.", "extra": {}}}, {"text": ANSWER}]}]}},
    "answer": BUILT,
    "answer, serialised": {"type": "haystack.dataclasses.answer.GeneratedAnswer", "init_parameters": BUILT},
    "answers of a pipeline": {"answer_builder": {"answers": [BUILT]}},
}  # fmt: skip


@pytest.mark.parametrize("name", HAYSTACK)
def test_results_of_haystack_are_read(name: str) -> None:
    found = read([HAYSTACK[name]])
    (case,) = found.cases
    assert (found.format, case.response, sources(case)) == ("haystack", ANSWER, FILES)
    assert case.query == ASKED or case.messages[-1].text.endswith(ASKED)


def test_a_pipeline_without_its_question_is_refused_and_each_reply_is_a_case() -> None:
    with pytest.raises(DataError, match="the pipeline's result has no 'query', and no prompt with the documents"):
        read([PIPELINE])
    several = {"query": ASKED, **PIPELINE, "llm": {"replies": [ANSWER, "Nobody."]}}
    assert [(case.id, case.response) for case in read([several]).cases] == [("1.1", ANSWER), ("1.2", "Nobody.")]


def test_what_several_components_of_a_pipeline_return_is_not_dropped() -> None:
    one, two = FOUND
    for parts, names in (
        ({"bm25": [one], "dense": [two]}, list(FILES)),
        ({"bm25": [one], "dense": [one, two]}, list(FILES)),
        ({"bm25": [one, two], "ranker": [two]}, list(FILES)[1:]),
    ):
        found = {name: {"documents": documents} for name, documents in parts.items()}
        record = {**found, "llm": PIPELINE["llm"]}
        assert list(sources(read([{"query": ASKED, **record}]).cases[0])) == names
        prompt = {"prompt": f"{RECORD}\n{TIDES}\nQuestion: {ASKED}"}
        assert sources(read([{**record, "builder": prompt}]).cases[0]) == FILES
    rewriter = {"query": ASKED, "rewriter": {"replies": ["berth nine, renter"]}, **PIPELINE}
    with pytest.raises(DataError, match=r"differ, and each may be the answer; .*response=llm\.replies\[0\]"):
        read([rewriter])
    read([{**rewriter, "rewriter": PIPELINE["llm"]}])


CHAT = [
    {"role": "user", "content": [{"text": ASKED}]},
    {"role": "assistant", "content": [
        {"text": "I look."}, {"tool_call": {"tool_name": "search", "arguments": {"query": "nine"}, "id": "1"}}]},
    {"role": "tool", "content": [{"tool_call_result": {
        "result": RECORD, "origin": {"tool_name": "search", "arguments": {"query": "nine"}, "id": "1"},
        "error": False}}]},
    {"role": "assistant", "content": [{"reasoning": {"reasoning_text": "Two.", "extra": {}}}, {"text": ANSWER}]},
]  # fmt: skip


def test_messages_of_haystack_are_read() -> None:
    messages = [{**message, "meta": {}, "name": None} for message in CHAT]
    for data in ([{"messages": messages, "last_message": messages[-1]}], messages):
        (case,) = read(data).cases
        assert (case.response, sources(case)) == (ANSWER, {"search#1": RECORD})
        assert "Two." not in fixed_text(case)


@pytest.mark.peers
def test_haystack_writes_what_is_read() -> None:
    classes = peer("haystack.dataclasses")
    call = classes.ToolCall(tool_name="search", arguments={"query": "nine"}, id="1")
    messages = [
        classes.ChatMessage.from_user(ASKED),
        classes.ChatMessage.from_assistant("I look.", tool_calls=[call]),
        classes.ChatMessage.from_tool(RECORD, origin=call),
        classes.ChatMessage.from_assistant(ANSWER),
    ]
    (case,) = read([{"messages": [message.to_dict() for message in messages]}]).cases
    assert (case.response, sources(case)) == (ANSWER, {"search#1": RECORD})
    documents = [classes.Document(content=text, meta={"file_path": name}) for name, text in FILES.items()]
    answer = classes.GeneratedAnswer(data=ANSWER, query=ASKED, documents=documents)
    pipeline = {"retriever": {"documents": [document.to_dict() for document in documents]},
                "llm": {"replies": [messages[-1].to_dict()]}, "query": ASKED}  # fmt: skip
    for record in (answer.to_dict(), pipeline):
        (case,) = read([record]).cases
        assert (case.query, case.response, sources(case)) == (ASKED, ANSWER, FILES)


@pytest.mark.peers
def test_llamaindex_writes_what_is_read() -> None:
    llms = peer("llama_index.core.llms")
    types = peer("llama_index.core.base.llms.types")
    tools = peer("llama_index.core.tools")
    schema = peer("llama_index.core.schema")
    call = types.ToolCallBlock(tool_call_id="c1", tool_name="search", tool_kwargs={"query": "nine"})
    messages = [
        llms.ChatMessage(role="user", content=ASKED),
        llms.ChatMessage(role="assistant", blocks=[llms.TextBlock(text="I look."), call]),
        llms.ChatMessage(role="tool", content=RECORD, additional_kwargs={"tool_call_id": "c1"}),
        llms.ChatMessage(role="assistant", content=ANSWER),
    ]
    chat = [message.model_dump(mode="json") for message in messages]
    store = {"store": {"user 1": chat}, "class_name": "SimpleChatStore"}
    output = tools.ToolOutput(content=RECORD, tool_name="search", raw_input={"kwargs": {"query": "n"}}, raw_output="")
    agent = {"query": ASKED, "response": ANSWER, "sources": [output.model_dump(mode="json")], "source_nodes": []}
    for record in ({"messages": chat}, store, agent):
        case = read([record]).cases[-1]
        assert (case.response, sources(case)) == (ANSWER, {"search#1": RECORD})
    nodes = [
        schema.NodeWithScore(node=schema.TextNode(text=text, metadata={"file_name": name}), score=0.5)
        for name, text in FILES.items()
    ]
    record = {"query": ASKED, "response": ANSWER, "source_nodes": [node.model_dump(mode="json") for node in nodes]}
    assert sources(read([record]).cases[0]) == FILES


def test_emissions_of_a_sample_have_their_channels() -> None:
    mail = {**MESSAGES[2], "id": "m6", "tool_calls": [{**CALL, "id": "c2", "function": "send_mail"}]}
    sent = {**MESSAGES[3], "id": "m7", "tool_call_id": "c2", "content": "sent"}
    cases = read([{**SAMPLE, "messages": [*MESSAGES[:4], mail, sent, MESSAGES[4]]}]).cases
    assert [(channel, recipient) for channel, recipient, _ in said(cases)] == [
        ("tool", "send_mail"),
        ("answer", "user"),
    ]
