"""A record of each format of conversations, small, with one text in all places where texts stand."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any


def records(text: str) -> tuple[dict[str, Any], ...]:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": json.dumps({"q": text})}}
    hits = {"hits": [{"source": "a.md", "text": text}]}
    read = [{"type": "text", "text": json.dumps(hits)}]
    result = json.dumps({"content": read, "structuredContent": hits, "isError": False})
    chat = [
        {"role": "system", "content": text},
        {"role": "user", "content": text},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": text},
        {"role": "tool", "tool_call_id": "c1", "content": result},
        {"role": "assistant", "content": [{"type": "text", "text": text}, {"type": "refusal", "refusal": text}]},
    ]
    items = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]},
        {"type": "file_search_call", "id": "f", "queries": [text], "results": [{"filename": "a.md", "text": text}]},
        {"type": "mcp_call", "name": "find", "server_label": "kb", "arguments": "{}", "output": result},
        {"type": "function_call", "call_id": "c2", "name": "send", "arguments": text},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]},
    ]
    blocks = [
        {"role": "user", "content": [
            {"type": "document", "title": "a.md", "source": {"type": "text", "data": text}}, text]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "find", "input": {"q": text}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
            {"type": "search_result", "title": "b.md", "source": "b", "content": [{"type": "text", "text": text}]}]}]},
    ]  # fmt: skip
    said = {"role": "assistant", "content": [{"type": "thinking", "thinking": text}, {"type": "text", "text": text}]}
    use = {"toolUse": {"toolUseId": "t", "name": "find", "input": {"q": text}}}
    found = {"toolResult": {"toolUseId": "t", "content": [{"json": {"a": text}}]}}
    pairs = [("user", {"text": text}), ("assistant", use), ("user", found), ("assistant", {"text": text})]
    converse = [{"role": role, "content": [part]} for role, part in pairs]
    vault = {"name": text, "n": 3}
    prompt = f"Data: {json.dumps(vault)} end"
    called = {"name": "find", "inputParameters": {"q": text}, "output": text}
    document = {"content": text, "meta": {"file_path": "a.md"}}
    return (
        {"request": {"messages": chat[:-1]}, "response": {"choices": [{"message": chat[-1]}, {"message": chat[2]}]}},
        {"request": {"input": text, "instructions": text}, "response": {"id": "resp_1", "output": items}},
        {"request": {"input": items, "previous_response_id": "resp_1"}, "response": {"output": items[-1:]}},
        {"request": {"system": text, "messages": blocks}, "response": said},
        {"schemaType": "ModelInvocationLog",
         "input": {"inputBodyJson": {"messages": converse[:-1], "system": [{"text": text}]}},
         "output": {"outputBodyJson": {"output": {"message": converse[-1]}}}},
        {"messages": chat[:2], "choices": [{"message": {"content": text, "context": {"citations": [
            {"title": "a.md", "content": text}]}}}]},
        {"messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": text}]},
                      {"id": "2", "role": "assistant", "parts": [
                          {"type": "tool-find", "toolCallId": "c", "input": {"q": text}, "output": [{"a": text}]},
                          {"type": "text", "text": text}]}]},
        {"input": {"text": text}, "output": {"text": text}, "citations": [{"retrievedReferences": [
            {"content": {"text": text}, "location": {"type": "S3", "s3Location": {"uri": "s3://kb/a.md"}}}]}]},
        sample(text),
        {"evalId": "e", "results": {"prompts": [], "results": [
            {"vars": {"question": text, "context": text}, "prompt": {"raw": f"C: {text}"},
             "response": {"output": text}}]}},
        {"input": text, "actualOutput": text, "retrievalContext": [text], "toolsCalled": [called]},
        {"scenario": text, "turns": [{"role": "user", "content": text},
                                     {"role": "assistant", "content": text, "retrieval_context": [text]}]},
        {"vault": vault, "messages": [{"role": "system", "content": prompt}, *chat[1:2], said]},
        {"trace_id": "t", "input": {"vault": vault},
         "llm_calls": [{"call_id": "a", "system_prompt": prompt, "user_prompt": text, "response": text}],
         "channel_messages": [{"channel": "C2", "source": "x", "target": "y", "content": text, "llm_call_id": "a"},
                              {"channel": "C5", "source": "x", "target": "m", "content": f"Kept: {text[:9]}"}]},
        {"type": "user", "sessionId": "s", "message": {"role": "user", "content": text}},
        {"type": "assistant", "sessionId": "s", "isSidechain": True, "message": said},
        *({"session_id": "s", "ts": 1, **message} for message in chat),
        {"query": text, "retriever": {"documents": [document]}, "prompt_builder": {"prompt": f"C: {text}"},
         "llm": {"replies": [{"role": "assistant", "content": [{"text": text}]}]}},
        {"query": text, "response": text, "source_nodes": [],
         "sources": [{"tool_name": "find", "content": text, "raw_input": {"kwargs": {}}}]},
        {"class_name": "SimpleChatStore", "store": {"u": [{"role": "user", "blocks": [
            {"block_type": "text", "text": text}], "additional_kwargs": {}}]}},
    )  # fmt: skip


def sample(text: str) -> dict[str, Any]:
    """A sample of inspect_ai."""
    call = {"id": "c1", "function": "find", "arguments": {"q": text}, "type": "function"}
    messages = [
        {"id": "1", "role": "user", "content": text},
        {"id": "2", "role": "assistant", "content": "", "tool_calls": [call]},
        {"id": "3", "role": "tool", "content": "attachment://a", "tool_call_id": "c1", "function": "find"},
        {"id": "4", "role": "assistant", "content": text},
    ]
    event = {"event": "model", "output": {"choices": [{"message": {"id": "9"}}]}}
    kept = {"input": text, "target": text, "output": {"choices": []}, "attachments": {"a": text}, "events": [event]}
    return {"id": "s", "epoch": 1, "messages": messages, **kept}


def eval_archive(text: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr(zipfile.ZipInfo("samples/1.json"), json.dumps(sample(text)))
        opened.writestr(zipfile.ZipInfo("header.json"), "{}")
    return held.getvalue()
