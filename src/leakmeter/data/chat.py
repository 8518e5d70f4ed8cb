"""Chats as cases: a list of messages, as chat interfaces write them, and each thing that the model emitted in it.

Of a conversation in which tools were called or documents read, these are the context, and all else stays. Of a chat
of texts alone the context is what was said before the question, or what of it is marked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from leakmeter.core.case import Case, Channel, Document, Emission, Message
from leakmeter.data.context_marker import SYSTEM, ContextElsewhereError, ContextMarker, SlowPatternError
from leakmeter.data.conversation import (
    ALL_EMISSIONS,
    ConversationEntry,
    EmissionOptions,
    Emitted,
    checked_role,
    checked_turn,
    digests,
    emissions_of,
    entries_of,
    has_sources,
    messages_of_entries,
)
from leakmeter.data.foreign import (
    CALL_PARTS,
    RESULT_PARTS,
    ContentPart,
    Turn,
    is_silent,
    joined_answer,
    parts_of,
    spoken,
)
from leakmeter.data.mapping import Names, checked_text, is_name
from leakmeter.errors import DataError

_NOT_MEASURED: Final = (
    "which is not measured; without the assistant's messages that call tools, and with the results as messages of role "
    "'tool', the chat can be read, and the results are context"
)


def messages_of(value: object, where: str) -> tuple[Message, ...]:
    """A parsed list of messages; content is text, or a list of texts and of {"text", "name"} parts."""
    if not isinstance(value, list) or not value:
        raise DataError(f"{where}: 'messages' has to be a list of at least one {{'role', 'content'}}")
    out: list[Message] = []
    names = Names()
    for number, entry in enumerate(value, 1):
        at = f"{where}, message {number}"
        turn = checked_turn(entry, at)
        role = checked_role(turn.role, at)
        name = turn.get("name")
        name = names.own(checked_text(f"{role} {number}" if name in (None, [], {}) else name, "name", at))
        parts = _parts(turn, name, at, is_answer=role == "assistant")
        if not any(part.text.strip() for part in parts):
            raise DataError(f"{at} is empty")
        out.append(Message(role, name, parts))
    return tuple(out)


def _parts(turn: Turn, name: str, where: str, *, is_answer: bool) -> tuple[Document, ...]:
    if isinstance(turn.content, str):
        return (Document(name, checked_text(turn.content, "content", where)),)
    if not isinstance(turn.content, list | Mapping):
        raise DataError(f"{where}: 'content' has to be text or a list of texts")
    out: list[Document] = []
    for number, part in enumerate(parts_of(turn.content), 1):
        if (is_answer and not spoken([part])) or is_silent(part.kind):
            continue
        label, text = f"{name}, part {number}", part.text
        if isinstance(part.logged, Mapping):
            text = part.logged.get("text") if text is None else text
            if part.kind != "text" or text is None:
                raise DataError(f"{where}: part {number} {_other(part)}")
            label = checked_text(part.logged.get("name", label), "name", where)
        if checked_text(part.logged if text is None else text, "content", where):
            out.append(Document(label, text or ""))
    return tuple(out)


def _other(part: ContentPart) -> str:
    """Of a part that is not text: what it is, and what to do."""
    if part.kind in RESULT_PARTS or part.kind == "toolResult":
        return f"is the result of a tool, {_NOT_MEASURED}"
    if part.kind in CALL_PARTS or part.kind.startswith("tool"):
        return f"calls a tool, {_NOT_MEASURED}"
    kind = f" (it is of type '{part.kind}')" if is_name(part.kind) and part.kind != "text" else ""
    return f"is not text; only text can be measured{kind}"


def answer_text(content: object, noun: str) -> str:
    """An answer that is a text or a list of blocks, its reasoning left out; `noun` names it in errors."""
    parts = spoken(parts_of(content))
    if wrong := next((part for part in parts if part.kind != "text" or part.text is None), None):
        raise DataError(f"{noun} {_other(wrong)}")
    if not parts:
        raise DataError(f"{noun} has no text")
    return joined_answer(part.text or "" for part in parts)


@dataclass(frozen=True, slots=True)
class ChatCase:
    """A case of a chat."""

    case: Case
    is_own: bool
    """Whether it is what the chat ended with, and not an earlier turn, which may be a chat of its own elsewhere."""
    after: bytes = b""
    """What stands for all that was said before, of an emission in a conversation."""


@dataclass(frozen=True, slots=True)
class ChatCases:
    cases: list[ChatCase]
    n_before_reading: int = 0
    """Emissions before which nothing was read, so that there is nothing to measure."""
    is_unanswered: bool = False
    """Whether the last turn has no answer, and earlier turns are the cases."""
    left_out: Counter[tuple[str, Channel]] = field(default_factory=Counter)
    """By conversation and channel, emissions that are not measured: of other channels, or of earlier turns."""


def cases_of_chat(
    id_: str,
    value: object,
    response: object,
    where: str,
    marker: ContextMarker | None = None,
    *,
    options: EmissionOptions = ALL_EMISSIONS,
    needs_response: bool = False,
    decoding: str | None = None,
) -> ChatCases:
    """Cases of a parsed list of messages, and of the response to it, where that stands elsewhere: one of each emission
    that had read something. A chat that ends with a question is one case, without a response; if responses are needed,
    its earlier turns are cases instead."""
    entries = entries_of(value, where)
    is_answered = response is not None or (bool(entries) and entries[-1].role == "assistant")
    if decoding is not None and not is_answered:
        raise DataError(f"{where}: 'decoding' describes how a response was chosen, but there is no 'response'")
    if isinstance(response, str) and is_answered and response.strip() == _said_last(entries):
        response = None
    if response is not None:
        if entries and entries[-1].role == "assistant" and entries[-1].kind != "source":
            raise DataError(
                f"{where}: the last message, the assistant's, is the response, and a response is given too; leave one "
                "of them out"
            )
        number = len(value) + 1 if isinstance(value, list) else 1
        blocks = response if isinstance(response, list) else [{"type": "text", "text": response}]
        spoken_turn = entries_of([{"role": "assistant", "content": blocks}], where)
        entries += [replace(entry, message=number) for entry in spoken_turn]
    if has_sources(entries):
        if isinstance(response, str) and not response.strip():
            # Left for the case to refuse.
            messages = _with_more(messages_of_entries(entries), marker, where)
            return ChatCases([ChatCase(Case(id_, response=response, messages=messages), is_own=True)])
        return _of_conversation(id_, entries, where, marker, options, needs_response=needs_response, decoding=decoding)
    messages = messages_of(value, where)
    text = None
    if response is not None:
        text = answer_text(response, f"{where}: 'response'") if isinstance(response, list) else str(response)
    return _of_texts(id_, messages, text, where, marker, options, needs_response=needs_response, decoding=decoding)


def _said_last(entries: Sequence[ConversationEntry]) -> str | None:
    """The text of a chat's last message, where it is an answer and no more."""
    last = [entry for entry in entries if entry.message == entries[-1].message and entry.kind != "reasoning"]
    is_answer = bool(last) and all(entry.kind == "answer" for entry in last)
    return joined_answer(entry.text for entry in last).strip() if is_answer else None


def _of_conversation(
    id_: str,
    entries: Sequence[ConversationEntry],
    where: str,
    marker: ContextMarker | None,
    options: EmissionOptions,
    *,
    needs_response: bool,
    decoding: str | None,
) -> ChatCases:
    emitted = emissions_of(entries)
    is_answered = bool(emitted) and emitted[-1].is_last
    if not is_answered and not needs_response:
        messages = _with_more(messages_of_entries(entries), marker, where)
        return ChatCases([ChatCase(Case(id_, messages=messages), is_own=True)])
    wanted: list[Emitted] = []
    left_out: Counter[tuple[str, Channel]] = Counter()
    for each in emitted:
        if each.channel in options.channels and options.has_turn(each.turn, emitted[-1].turn):
            wanted.append(each)
        else:
            left_out[id_, each.channel] += 1
    read: list[tuple[Emitted, tuple[Message, ...]]] = []
    for each in wanted:
        messages = _with_more(each.messages, marker, where)
        if each.has_asked and (
            each.has_read or (marker is not None and bool(Case("", messages=messages).context_documents))
        ):
            read.append((each, messages))
    shown = [0, *(len(messages) for _, messages in read)]
    emissions = [each.of(id_, first) for (each, _), first in zip(read, shown, strict=False)]
    ids = ids_of(id_, emissions)
    cases = [
        ChatCase(
            Case(
                own_id,
                response=each.response,
                messages=messages,
                decoding=decoding if each.is_last else None,
                emission=emission,
                begun=each.begun,
            ),
            is_own=each.is_last,
            after=each.after,
        )
        for own_id, (each, messages), emission in zip(ids, read, emissions, strict=True)
    ]
    return ChatCases(cases, len(wanted) - len(read), is_unanswered=not is_answered, left_out=left_out)


def ids_of(conversation: str, emissions: Sequence[Emission]) -> list[str]:
    """Of a conversation with several emissions: its own, the turn, and who or what received it, but for the user."""
    if len(emissions) == 1:
        return [conversation]
    names = Names()
    return [names.own(id_of(each)) for each in emissions]


def id_of(emission: Emission) -> str:
    """Conversation, turn, and who or what received it, but for the user."""
    whom = {"answer": "", "reasoning": " reasoning"}.get(emission.channel, f" {emission.recipient}")
    return f"{emission.conversation}.{emission.turn}{whom}"


def _with_more(messages: tuple[Message, ...], marker: ContextMarker | None, where: str) -> tuple[Message, ...]:
    return messages if marker is None else marker.added(messages, where)


def _of_texts(
    id_: str,
    messages: tuple[Message, ...],
    response: str | None,
    where: str,
    marker: ContextMarker | None,
    options: EmissionOptions,
    *,
    needs_response: bool,
    decoding: str | None,
) -> ChatCases:
    before, text = without_answer(messages, response, where)
    after = digests(before)
    turns = [i for i, message in enumerate(before) if message.role == "assistant"]
    earlier: list[ChatCase] = []
    n_before_reading = 0
    is_unanswered = text is None and needs_response and bool(turns)
    # Where a response is to be drawn, what was said before is context alone.
    if text is not None or needs_response:
        has_context = False
        for turn, i in enumerate(turns, 1):
            if not options.has_turn(turn, len(turns) + (not is_unanswered)):
                continue
            said = joined_answer(part.text for part in before[i].parts)
            messages = before[:i]
            # Without a pattern, what was context stays it.
            if marker is not None or not has_context:
                messages = _marked_or_none(messages, marker, where)
                has_context = bool(messages)
            if not has_context or not said.strip():
                n_before_reading += 1
            else:
                shown = len(earlier[-1].case.messages) if earlier else 0
                emission = Emission(id_, turn, first_message=shown)
                case = Case(id_, response=said, messages=messages, emission=emission)
                earlier.append(ChatCase(case, is_own=False, after=after[i]))
    if is_unanswered:
        return ChatCases(_numbered(id_, earlier), n_before_reading, is_unanswered=True)
    last = len(earlier[-1].case.messages) if earlier else 0
    case = Case(
        id_,
        response=text,
        messages=with_context(before, marker, where),
        decoding=decoding if text is not None else None,
        emission=Emission(id_, len(turns) + 1, first_message=last) if earlier else None,
    )
    return ChatCases(_numbered(id_, [*earlier, ChatCase(case, is_own=True, after=after[-1])]), n_before_reading)


def _marked_or_none(messages: tuple[Message, ...], marker: ContextMarker | None, where: str) -> tuple[Message, ...]:
    """A chat with its context marked; nothing where nobody asks, or nothing was read."""
    try:
        messages = with_context(messages, marker, where)
    except SlowPatternError:
        raise
    except DataError:
        return ()
    case = Case("", messages=messages)
    return messages if case.asking is not None and case.context_documents else ()


def _numbered(id_: str, cases: list[ChatCase]) -> list[ChatCase]:
    """Cases under the chat's id and their turns, where there are several."""
    return [
        each
        if len(cases) == 1 or each.case.emission is None
        else replace(each, case=replace(each.case, id=f"{id_}.{each.case.emission.turn}"))
        for each in cases
    ]


def without_answer(
    messages: tuple[Message, ...], response: str | None, where: str
) -> tuple[tuple[Message, ...], str | None]:
    """A chat up to its last question, and what was answered: a last message of the assistant's is the response."""
    last = messages[-1]
    if last.role != "assistant":
        return messages, response
    if response is not None:
        raise DataError(
            f"{where}: the last message, the assistant's, is the response, and a response is given too; leave one of "
            "them out"
        )
    if len(messages) == 1:
        raise DataError(f"{where}: the chat has an answer and no question; give the messages before it")
    return messages[:-1], joined_answer(part.text for part in last.parts)


def with_context(messages: tuple[Message, ...], marker: ContextMarker | None, where: str) -> tuple[Message, ...]:
    """A chat with its context marked. Many programs write what they retrieved into the user's turn. Where nobody says
    so, and nothing but a system prompt stands beside the turn, the numbers would be about another text than the one
    that matters."""
    if marker is not None:
        return marker.marked(messages, where)
    if Case("", messages=messages).has_only_system_context:
        raise ContextElsewhereError(
            f"{where}: the system prompt is the only context, and all of the user's turn counts as the query; mark "
            f"the retrieved text in that turn with --context-from REGEX, or give --context-from {SYSTEM} to measure "
            "the system prompt itself (context_from in Python)"
        )
    return messages
