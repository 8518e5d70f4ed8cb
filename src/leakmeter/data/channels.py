"""Who or what received the arguments of a call: another agent, a memory, or a tool. Names of tools say it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from leakmeter.core.case import Channel
from leakmeter.data.mapping import is_name

_AGENT = re.compile(
    r"(?:transfer_to|hand_?off(?:_to)?|delegate_to|(?:ask|call|message|send_to)_agent)_?(?P<name>.*)"
    r"|(?:delegate_work|ask_question)_to_co_?worker",
    re.IGNORECASE,
)
"""How tools are called that hand a task to another agent, or write to one; the second are CrewAI's."""
_AGENTS: Final = ("Task", "Agent")
"""Claude Code's tools that start another agent; in lower case they may be anything."""
_UNNAMED: Final = ("", "agent")
"""What a tool's name may have in the place of an agent's, where the arguments name it."""
_NAMED_BY: Final = ("agent_name", "agent", "target_agent", "coworker", "co_worker", "subagent_type", "recipient", "to")
"""What the arguments of such a tool call the agent."""
_MEMORY = re.compile(r"memor(?:y|ies)|mem0|remember|(?:^|[_.\-])(?:save|store|write)_?(?:note|fact)", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_READS: Final = frozenset(
    ("search", "recall", "read", "get", "list", "query", "retrieve", "load", "find", "fetch", "lookup", "view", "show")
)
_WRITES: Final = frozenset(
    ("add", "save", "store", "write", "append", "insert", "update", "upsert", "replace", "create", "put", "set", "edit")
)


def channel_of(tool: str, arguments: str = "") -> tuple[Channel, str]:
    """Where the arguments of a call went: to another agent, to a memory, or to the tool. What reads from a memory is a
    tool: it keeps nothing.

    >>> channel_of("transfer_to_billing"), channel_of("save_memory")[0], channel_of("search_memory")[0]
    (('agent', 'billing'), 'memory', 'tool')
    >>> channel_of("transfer_to_agent", '{"agent_name": "billing"}')
    ('agent', 'billing')
    """
    match = _AGENT.match(tool.replace(" ", "_"))
    if match or tool in _AGENTS:
        name = (match and match["name"]) or ""
        return "agent", (_agent_in(arguments) or tool) if name.lower() in _UNNAMED else name
    return ("memory" if _MEMORY.search(tool) and not _only_reads(tool, arguments) else "tool"), tool


def _agent_in(arguments: str) -> str:
    held = _record(arguments)
    return next((name for key in _NAMED_BY if isinstance(name := held.get(key), str) and is_name(name)), "")


def _only_reads(tool: str, arguments: str) -> bool:
    words = {word.lower() for word in _WORD.findall(tool)}
    if tool == "memory":
        # Anthropic's, of which an argument says what it does.
        words |= {command} if isinstance(command := _record(arguments).get("command"), str) else set()
    return bool(words & _READS) and not words & _WRITES


def _record(arguments: str) -> Mapping[str, object]:
    with suppress(ValueError, RecursionError):
        held = json.loads(arguments)
        return held if isinstance(held, Mapping) else {}
    return {}
