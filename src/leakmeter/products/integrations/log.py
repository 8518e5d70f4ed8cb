"""A log of answers on this machine: JSON lines, one a finished answer, which several threads and processes append to.

A line is appended by one write to a file that was opened for appending, so that lines do not mix. A line that the
system cut, because the disk was full, stays alone: what is appended next begins on a line of its own.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from leakmeter.core.files import open_private
from leakmeter.data.foreign import SAMPLING, LoggedFields, calls_of, documents_of, messages_of, name_of, sampling_of
from leakmeter.errors import LeakmeterError, StoreError, UsageError

SCHEMA: Final = "leakmeter-answer/1"
"""Form of a line; a reader refuses others."""
_COUNTS: Final = ("hidden_calls", "unmeasured_calls", "n_tools", "turn")
_NAMES: Final = ("trace_id", "span_id", "recipient", "model", "response_id", "finish_reason")
_FLAGS: Final = ("interrupted", "incomplete")
_EXPECTED: Final[dict[str, tuple[type, str]]] = {
    "answer": (str, "a text"),
    "reasoning": (str, "a text"),
    "prompt": (str, "a text; give a chat as 'messages'"),
    "time": (datetime, "a datetime"),
    "sampling": (Mapping, "a mapping of settings"),
}
_FIELDS: Final = frozenset((*_COUNTS, *_NAMES, *_FLAGS, *_EXPECTED, "messages", "tool_calls", "documents", *SAMPLING))
_MOST_WARNINGS: Final = 50
_LOGGER: Final = logging.getLogger("leakmeter.integrations")
_APPENDING: Final = os.O_RDWR | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class AnswerLog:
    """A file of answers that this program gave, for `leakmeter ledger` and `--data` to read; see `log_answer`.

    The file holds prompts, documents and answers in full. It has mode 0600.
    """

    def __init__(self, path: str | os.PathLike[str], *, strict: bool = False) -> None:
        """A log at a place; the file is made with the first answer.

        Args:
            path: the file; a directory that is missing is made, with mode 0700.
            strict: raise when an answer cannot be written. Otherwise the first failure of each kind is logged as a
                warning of `leakmeter.integrations`, without any text of the answer, and counted.
        """
        self.path: Final = Path(path)
        self.strict: Final = strict
        self.lost = 0
        """Answers that could not be written or were without text, and events that could not be read."""
        self._warned: set[str] = set()
        self._lock: Final = threading.Lock()

    def append(self, fields: LoggedFields, source: str) -> bool:
        """Append an answer that a library gave (see `log_answer`; also `interrupted` and `incomplete`). Returns False
        where nothing was answered, or it could not be written."""
        with self.guarding("log_answer"):
            if (line := _line(fields, source)) is not None:
                self._write(line)
                return True
        return False

    @contextmanager
    def guarding(self, activity: str) -> Iterator[None]:
        """Let nothing out of a block into the program that gives the answers, unless the log is strict."""
        try:
            yield
        except Exception as error:  # objects of other libraries, of any version
            if not isinstance(error, LeakmeterError):
                # The error's own text may hold texts of the answer.
                error = UsageError(f"{activity} cannot read its input: {type(error).__name__}")
            if self.strict:
                raise error from None
            with self._lock:
                self.lost += 1
                is_new = str(error) not in self._warned and len(self._warned) < _MOST_WARNINGS
                self._warned |= {str(error)} if is_new else set()
            if is_new:
                _LOGGER.warning("%s (said once)", error)

    def _write(self, line: LoggedFields) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = open_private(self.path, _APPENDING)
            try:
                written = json.dumps(line, allow_nan=False).encode("ascii") + b"\n"
                if size := os.fstat(handle).st_size:
                    os.lseek(handle, size - 1, os.SEEK_SET)
                    # What was written last may have been cut; a line of its own keeps this one whole.
                    written = written if os.read(handle, 1) == b"\n" else b"\n" + written
                n_bytes = os.write(handle, written)
                if n_bytes != len(written):
                    raise OSError(0, f"only {n_bytes:,} of {len(written):,} bytes could be written")
            finally:
                os.close(handle)
        except (OSError, ValueError, TypeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not JSON"
            raise StoreError(f"an answer cannot be written to '{self.path}': {why or type(error).__name__}") from None


def opened(log: AnswerLog | str | os.PathLike[str]) -> AnswerLog:
    return log if isinstance(log, AnswerLog) else AnswerLog(log)


def log_answer(log: AnswerLog | str | os.PathLike[str], **fields: Any) -> bool:
    """Append an answer that this program gave to a log.

    Args:
        log: the log, or the path of its file.
        **fields: `messages`, the chat that the model was sent, or `prompt`, its text without a chat template;
            `documents`, what had been retrieved for it: texts by id, or a list of texts, of mappings with `id` and
            `text`, or of documents of LangChain or LlamaIndex; `answer`; `tool_calls`, the calls of tools in it, of any
            library; `reasoning`, what the model thought; `recipient`, an id, or a mapping with `id`, `role`, `tenant`
            and `subject`; `model`; settings of the sampling, such as `temperature` and `top_p` (see
            `data.foreign.SAMPLING`), also as a mapping `sampling`; `trace_id` and
            `span_id`, by default random; `turn`, the number of the model's call in its trace, by default 1; `time`, by
            default now; `hidden_calls`, and how many of them no line tells of as `unmeasured_calls`, by default all;
            `response_id`; `finish_reason`; `n_tools`.

    Returns:
        Whether a line was written. An answer that is None or empty, and calls no tool, is none: nothing is written.

    Raises:
        UsageError: what was given is no answer with its prompt, and the log is strict.
        StoreError: it could not be written, and the log is strict.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "answers.jsonl"
        >>> log_answer(path, prompt="Note: Anna Ek called at nine. Who called?", answer="Anna Ek.",
        ...            documents={"call-1": "Anna Ek called at nine."}, temperature=1.0, top_p=1.0)
        True
    """
    return opened(log).append(fields, "record")


def _line(fields: LoggedFields, source: str) -> LoggedFields | None:
    """What a line holds; None where nothing was answered."""
    values = {name: value for name, value in fields.items() if value is not None}
    if unknown := next((name for name in values if name not in _FIELDS), None):
        raise UsageError(f"'{str(unknown)[:60]}' is not a field of an answer")
    for name, (kind, expected) in _EXPECTED.items():
        if name in values and not isinstance(values[name], kind):
            raise UsageError(f"'{name}' is {type(values[name]).__name__}, expected {expected}")
    for name in _COUNTS:
        if not isinstance(count := values.get(name, 0), int) or count < 0:
            raise UsageError(f"'{name}' is not a count")
    calls = calls_of(values.get("tool_calls", ()))
    if not (values.get("answer") or calls):
        return None
    messages = values.get("messages") or None
    if (messages is None) == ("prompt" not in values):
        raise UsageError("an answer needs the model's input: give either 'messages' or 'prompt'")
    names = {name: name_of(values.get(name)) for name in _NAMES}
    n_hidden = values.get("hidden_calls", 0)
    seldom = {
        "response_id": names["response_id"],
        "finish_reason": names["finish_reason"],
        "reasoning": values.get("reasoning"),
        "tool_calls": calls,
        "turn": turn if (turn := values.get("turn", 1)) > 1 else None,
    }
    more = {"unmeasured_calls": n} if (n := values.get("unmeasured_calls", n_hidden)) < n_hidden else {}
    settings = {name: values[name] for name in SAMPLING if name in values}
    return {
        "schema": SCHEMA,
        "trace_id": names["trace_id"] or secrets.token_hex(16),
        "span_id": names["span_id"] or secrets.token_hex(8),
        "time": values.get("time", datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        # Beside an id there may be a role, a tenant and subjects.
        "recipient": dict(told) if isinstance(told := values.get("recipient"), Mapping) else names["recipient"],
        "model": names["model"],
        "sampling": sampling_of(values.get("sampling"), settings),
        **({"prompt": values["prompt"]} if messages is None else {"messages": messages_of(messages)}),
        "answer": values.get("answer", ""),
        "documents": documents_of(values.get("documents", ())),
        "hidden_calls": n_hidden,
        **more,
        **{name: value for name in (*seldom, "n_tools", *_FLAGS) if (value := {**values, **seldom}.get(name))},
        "source": source,
    }
