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
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from leakmeter.core.written import open_private
from leakmeter.errors import LeakmeterError, StoreError, UsageError
from leakmeter.integrations.values import (
    SAMPLING,
    documents_of,
    known_fields,
    messages_of,
    name_of,
    sampling_of,
    text_or_none,
)

SCHEMA: Final = "leakmeter-answer/1"
"""Form of a line; a reader refuses others."""
_MOST_SAID: Final = 50
_LOGGER: Final = logging.getLogger("leakmeter.integrations")
_APPENDING: Final = os.O_RDWR | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A finished answer, the prompt that it was drawn with, and what had been retrieved before."""

    trace_id: str
    span_id: str
    answer: str
    messages: tuple[Mapping[str, Any], ...] | None = None
    """The chat that was sent; None for a completion."""
    prompt: str | None = None
    """The text that was sent, of a completion."""
    time: datetime
    """When the answer was finished."""
    recipient: str | None = None
    model: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Settings in `values.SAMPLING`, as far as they are known."""
    documents: tuple[Mapping[str, str | None], ...] = ()
    """Retrieved before the call: `id` and `text`."""
    hidden_calls: int = 0
    """Model calls and tool runs of the trace whose output is not an answer in this log."""
    source: str = "record"
    response_id: str | None = None
    """Names the draw, where that is known: two lines with one are one draw, shown twice."""
    finish_reason: str | None = None
    n_tools: int = 0
    """Tools that were described to the model beside the messages."""
    is_interrupted: bool = False
    """Whether it is what came of a stream that broke off."""
    is_incomplete: bool = False
    """Whether the source had cut the prompt or the documents before they came here."""

    def line(self) -> bytes:
        """One line of JSON in ASCII, with its end."""
        said: dict[str, Any] = {
            "schema": SCHEMA,
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "time": self.time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "recipient": self.recipient,
            "model": self.model,
            "sampling": dict(self.sampling),
        }
        said |= {"prompt": self.prompt} if self.messages is None else {"messages": self.messages}
        said |= {"answer": self.answer, "documents": self.documents, "hidden_calls": self.hidden_calls}
        seldom = {
            "response_id": self.response_id,
            "finish_reason": self.finish_reason,
            "n_tools": self.n_tools,
            "interrupted": self.is_interrupted,
            "incomplete": self.is_incomplete,
        }
        said |= {name: value for name, value in seldom.items() if value}
        return json.dumps(said | {"source": self.source}, allow_nan=False).encode("ascii") + b"\n"


class AnswerLog:
    """A file of answers that this program gave, for `leakmeter ledger` to read.

    The file holds prompts, documents and answers in full. It has mode 0600.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> log = AnswerLog(Path(tempfile.mkdtemp()) / "answers.jsonl")
        >>> log.record(prompt="Note: Anna Ek called at nine. Who called?", answer="Anna Ek.", recipient="desk 4",
        ...            documents={"call-1": "Anna Ek called at nine."}, temperature=1.0, top_p=1.0)
        True
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
        self._said: set[str] = set()
        self._lock: Final = threading.Lock()

    def append(self, answer: Answer) -> bool:
        """Append a line.

        Args:
            answer: what is written.

        Returns:
            Whether it was written.

        Raises:
            StoreError: it could not be, and the log is strict.
        """
        try:
            self._write(answer.line())
        except (OSError, ValueError, TypeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no JSON"
            self.lose(StoreError(f"an answer cannot be written to '{self.path}': {why or type(error).__name__}"))
            return False
        return True

    def record(
        self,
        case: Mapping[str, Any] | Any = None,
        /,
        **fields: Any,
    ) -> bool:
        """Append an answer that was given.

        Args:
            case: a mapping, a record or an object with the fields below; `response` may stand for `answer`, `context`
                for `documents`.
            **fields: `messages`, the chat that the model was sent, or `prompt`, its text without a chat template;
                `documents`, what had been retrieved for it: texts by id, or a list of texts, of mappings with `id` and
                `text`, or of documents of LangChain or LlamaIndex; `answer`; `recipient`; `model`; settings of the
                sampling, such as `temperature` and `top_p`, see `values.SAMPLING`, also as a mapping `sampling`;
                `trace_id` and `span_id`, by default random; `time`, by default now; `hidden_calls`; `response_id`;
                `finish_reason`; `n_tools`. They are put before those of the case.

        Returns:
            Whether a line was written. An answer that is None or empty is none: nothing is written.

        Raises:
            UsageError: what was given is no answer with its prompt, and the log is strict.
            StoreError: it could not be written, and the log is strict.
        """
        is_written = False
        with self.guarding("record"):
            answer = answer_of({**known_fields(case), **fields})
            is_written = answer is not None and self.append(answer)
        return is_written  # noqa: RET504 - the block may end without it

    def lose(self, error: LeakmeterError) -> None:
        """Count an answer that is not in the log, and say why, once for each reason.

        Raises:
            LeakmeterError: the error, where the log is strict.
        """
        if self.strict:
            raise error
        with self._lock:
            self.lost += 1
            is_new = str(error) not in self._said and len(self._said) < _MOST_SAID
            if is_new:
                self._said.add(str(error))
        if is_new:
            _LOGGER.warning("%s (said once)", error)

    @contextmanager
    def guarding(self, what: str) -> Iterator[None]:
        """Let nothing out of a block into the program that gives the answers, unless the log is strict.

        Args:
            what: the block does, for the message.

        Raises:
            LeakmeterError: something failed, and the log is strict.
        """
        try:
            yield
        except LeakmeterError as error:
            self.lose(error)
        except Exception as error:  # noqa: BLE001 - objects of other libraries, of any version
            # The error's own text may hold texts of the answer.
            self.lose(UsageError(f"{what} cannot read what it was given: {type(error).__name__}"))

    def _write(self, line: bytes) -> None:
        try:
            handle = open_private(self.path, _APPENDING)
        except FileNotFoundError:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = open_private(self.path, _APPENDING)
        try:
            size = os.fstat(handle).st_size
            if size:
                os.lseek(handle, size - 1, os.SEEK_SET)
                if os.read(handle, 1) != b"\n":
                    # What was written last was cut; a line of its own keeps this one whole.
                    line = b"\n" + line
            written = os.write(handle, line)
            if written != len(line):
                raise OSError(0, f"only {written:,} of {len(line):,} bytes could be written")
        finally:
            os.close(handle)


def opened(log: AnswerLog | str | os.PathLike[str]) -> AnswerLog:
    """A log, or the log at a path."""
    return log if isinstance(log, AnswerLog) else AnswerLog(log)


def record(log: AnswerLog | str | os.PathLike[str], case: Mapping[str, Any] | Any = None, /, **fields: Any) -> bool:
    """Append an answer to a log; see `AnswerLog.record`.

    Args:
        log: the log, or its path.
        case: a mapping or an object with the fields of an answer.
        **fields: those fields.

    Returns:
        Whether a line was written.
    """
    return opened(log).record(case, **fields)


def answer_of(fields: Mapping[str, Any], source: str = "record") -> Answer | None:
    """An answer of what a caller has; None where nothing was answered.

    Raises:
        UsageError: a field is unknown, or of another kind, or the prompt is missing or given twice; names the field.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    for other, name in (("response", "answer"), ("context", "documents")):
        if other in given:
            given.setdefault(name, given[other])
            del given[other]
    text = given.pop("answer", "")
    if not isinstance(text, str):
        raise UsageError(f"'answer' is {type(text).__name__}, expected text")
    messages, prompt = given.pop("messages", None) or None, given.pop("prompt", None)
    if not isinstance(prompt, str | None):
        raise UsageError(f"'prompt' is {type(prompt).__name__}, expected text; give a chat as 'messages'")
    if not text:
        return None
    if (messages is None) == (prompt is None):
        raise UsageError("an answer needs what the model was sent: give either 'messages' or 'prompt'")
    time = given.pop("time", None) or datetime.now(UTC)
    if not isinstance(time, datetime):
        raise UsageError("'time' is no datetime")
    counts = {name: given.pop(name, 0) for name in ("hidden_calls", "n_tools")}
    for name, count in counts.items():
        if not isinstance(count, int) or count < 0:
            raise UsageError(f"'{name}' is no count")
    names = ("trace_id", "span_id", "recipient", "model", "response_id", "finish_reason")
    plain = {name: name_of(given.pop(name, None)) for name in names}
    documents = documents_of(given.pop("documents", ()))
    sampling = given.pop("sampling", {})
    if not isinstance(sampling, Mapping):
        raise UsageError("'sampling' is no mapping of settings")
    settings = {name: given.pop(name) for name in SAMPLING if name in given}
    if given:
        raise UsageError(f"'{text_or_none(next(iter(given)))}' is no field of an answer")
    return Answer(
        trace_id=plain["trace_id"] or secrets.token_hex(16),
        span_id=plain["span_id"] or secrets.token_hex(8),
        answer=text,
        messages=None if messages is None else messages_of(messages),
        prompt=prompt,
        time=time,
        recipient=plain["recipient"],
        model=plain["model"],
        sampling=sampling_of(sampling, settings),
        documents=documents,
        hidden_calls=counts["hidden_calls"],
        source=source,
        response_id=plain["response_id"],
        finish_reason=plain["finish_reason"],
        n_tools=counts["n_tools"],
    )
