"""Values of logs, which may be JSON within JSON, numbers as texts, and times of many kinds, as plain values;
messages and answers, as clients, frameworks and conventions write them, as roles and texts."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard

from leakmeter.core.plain import half_pair
from leakmeter.data import foreign
from leakmeter.data.foreign import CALL_PARTS, RESULT_PARTS, ROLES, joined_answer, parsed, parts_of, spoken, turn_of
from leakmeter.data.traces.answer import LoggedMessage, Reason, Sampling, Unusable
from leakmeter.text.templates import PART_SEPARATOR

_LONGEST_ID: Final = 256


def is_record(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, dict)


def named(value: object) -> str | None:
    """An id as text; None where there is none. Of one that is far too long, or no valid Unicode, its hash."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_ID and value.isascii():
        return value
    if isinstance(value, bool) or value is None or value == "":
        return None
    if isinstance(value, bytes):
        return value.hex()
    if not (isinstance(value, str | int | float) or type(value).__name__ == "UUID"):
        return None
    text = str(value)
    written = text.encode(errors="surrogatepass")
    is_good = len(text) <= _LONGEST_ID and (text.isascii() or written.decode(errors="replace") == text)
    return text if is_good else f"sha256:{hashlib.sha256(written).hexdigest()[:32]}"


def event_of(held: Mapping[Any, Any]) -> str:
    """A name for a record that has none: the hash of what it says."""
    written = json.dumps(held, sort_keys=True, default=str).encode()
    return f"sha256:{hashlib.sha256(written).hexdigest()[:32]}"


def at_path(held: object, path: str) -> Any:
    """The value at a path of names with dots between them; a name with dots of its own is tried whole first."""
    held = parsed(held)
    if not is_record(held):
        return None
    if path in held:
        return held[path]
    cut = len(path)
    while (cut := path.rfind(".", 0, cut)) > 0:
        if path[:cut] in held and (inner := at_path(held[path[:cut]], path[cut + 1 :])) is not None:
            return inner
    return None


def seconds(value: object) -> float | None:
    """A time as seconds since 1970: of ISO texts, datetimes, and numbers of seconds, milli-, micro- or nanoseconds."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, str):
        try:
            if value.isdigit():
                return seconds(int(value))
            return seconds(datetime.fromisoformat(value))
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    if not math.isfinite(value) or value <= 0:
        return None
    # Each unit is a thousand times the next; numbers of this century do not overlap.
    for unit, above in ((1e9, 1e17), (1e6, 1e14), (1e3, 1e11)):
        if value >= above:
            return value / unit
    return value


def moment(value: float | None) -> datetime | None:
    """Seconds since 1970 as a time, UTC, in microseconds."""
    try:
        return None if value is None else datetime.fromtimestamp(round(value, 6), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def sampling_of(held: Mapping[Any, Any]) -> Sampling:
    """How an answer was drawn, of the parameters of its request, under the names that engines have for them."""
    # `format` is a form in a request of Ollama alone, and many logs have another field of that name.
    sampling = foreign.sampling_of({name: value for name, value in held.items() if name != "format"})
    n_beams, decoding = sampling.pop("num_beams", None), sampling.pop("decoding", None)
    return Sampling(**sampling, n_beams=n_beams, logged_decoding=decoding)


_ROLE = re.compile(r"[a-z][a-z_]*")
_ANSWERS = ("answer", "result", "response", "output", "text", "output_text")


def messages_of(value: object) -> list[LoggedMessage]:
    """The messages of a prompt; `Unusable` where there are none, or they say more than texts. Knows lists of messages
    with `role` or `type` and `content` or `parts`; LangChain's `kwargs` and `data`, and its batches of one; a record
    that has such a list as `messages`; each as JSON text too."""
    value = parsed(value)
    if isinstance(value, str):
        raise Unusable(Reason.RAW_PROMPT)
    if is_record(value):
        held = next((value[name] for name in ("messages", "chat_history") if value.get(name)), None)
        if held is None:
            if "prompts" in value or isinstance(value.get("prompt"), str):
                raise Unusable(Reason.RAW_PROMPT)
            held = [value] if "content" in value or "parts" in value else None
        value = parsed(held)
    while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    if not isinstance(value, list) or not value:
        raise Unusable(Reason.NO_PROMPT)
    return [_message(parsed(message)) for message in value]


def checked(messages: Sequence[LoggedMessage]) -> tuple[LoggedMessage, ...]:
    """The messages, if a chat template can write them; `Unusable` of a role that is no plain word, or where nobody
    asks."""
    if any(not _ROLE.fullmatch(message.role) for message in messages):
        raise Unusable(Reason.BAD_ROLE)
    if all(message.role != "user" for message in messages):
        raise Unusable(Reason.NO_QUESTION)
    for message in messages:
        check_unicode(message.content)
    return tuple(messages)


def check_unicode(text: str) -> None:
    if half_pair(text) is not None:
        raise Unusable(Reason.NOT_UNICODE)


def answers_of(value: object) -> list[tuple[str, str | None]]:
    """The texts that a call answered with, and why each of them ended, where that is known; `Unusable` where there is
    no text, or a tool is called. Knows texts, messages, chat completions with `choices`, LangChain's `generations`,
    records with an `answer`; each as JSON text too."""
    inner = parsed(value)
    # A model may write JSON: only what is a message or a list of them is taken for more than the text.
    is_text = isinstance(value, str) and not _is_message(inner)
    answers = _answers(value if is_text else inner, 0)
    if not any(text.strip() for text, _ in answers):
        raise Unusable(Reason.NO_ANSWER)
    for text, _ in answers:
        check_unicode(text)
    return answers


def _is_message(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(_is_message, value))
    if not is_record(value):
        return False
    has_role = "role" in value or value.get("type") in ROLES or "lc" in value
    return isinstance(value.get("choices", value.get("generations")), list) or (
        has_role and any(name in value for name in ("content", "parts", "kwargs", "data"))
    )


def _answers(value: Any, depth: int) -> list[tuple[str, str | None]]:
    if isinstance(value, str):
        return [(value, None)]
    if depth > 4:
        return []
    if isinstance(value, list):
        parts = spoken(parts_of(value)) if all(is_record(item) and "type" in item for item in value) else []
        if parts and all(part.kind == "text" and part.text is not None for part in parts):
            return [(joined_answer(part.text or "" for part in parts), None)]
        return [answer for item in value for answer in _answers(item, depth + 1)]
    if not is_record(value):
        return []
    ended = value.get("finish_reason")
    for shell in ("kwargs", "data", "lc_kwargs"):
        if is_record(value.get(shell)) and ("lc" in value or "type" in value):
            value = value[shell]
    for name in ("choices", "generations"):
        if isinstance(value.get(name), list):
            return _answers(value[name], depth + 1)
    if is_record(value.get("message")):
        info = value.get("generation_info")
        ended = ended or (info.get("finish_reason") if is_record(info) else None)
        texts = _answers(value["message"], depth + 1)
        return [(text, why or _word(ended)) for text, why in texts]
    if "content" in value or "parts" in value or "role" in value:
        if isinstance(value.get("response_metadata"), Mapping):
            ended = ended or value["response_metadata"].get("finish_reason")
        return [(_message({**value, "role": value.get("role") or "assistant"}, joined_answer).content, _word(ended))]
    if isinstance(value.get("messages"), list) and value["messages"]:
        return _answers(value["messages"][-1], depth + 1)
    for name in _ANSWERS:
        if value.get(name) is not None:
            return [(text, why or _word(ended)) for text, why in _answers(value[name], depth + 1)]
    return []


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _message(value: object, join: Callable[[Iterable[str]], str] = PART_SEPARATOR.join) -> LoggedMessage:
    turn = turn_of(value)
    parts = parts_of(turn.content)
    if turn.role == "assistant":
        # What it reasoned out of sight is counted, and no part of what it said.
        parts = spoken(parts)
    if turn.role is None and not is_record(value):
        raise Unusable(Reason.NOT_OF_FORMAT)
    if turn.calls or any(part.kind in (*CALL_PARTS, *RESULT_PARTS) for part in parts):
        raise Unusable(Reason.TOOL_CALL)
    if not isinstance(turn.role, str):
        raise Unusable(Reason.BAD_ROLE)
    texts = [part.text for part in parts if part.kind == "text" and part.text is not None]
    if len(texts) < len(parts):
        raise Unusable(Reason.NOT_TEXT)
    return LoggedMessage(turn.role, join(texts))
