"""A logged answer: what the model read, what was retrieved and where it stands, and how the answer was drawn; or why it
cannot be measured: one of a few reasons, never what the log says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from leakmeter.core.case import Channel, Message, Recipient, ToolCall

_INSTRUCTIONS = ("system", "developer")


@dataclass(frozen=True, slots=True)
class ReadText:
    """A part of a message that is the result of a tool, or a document beside a question."""

    name: str
    """Its own, as of a document among those that a tool found; else the tool and the number of its result."""
    start: int
    """Its first character in the message's content."""
    end: int
    """The character behind its last."""
    is_around: bool = False
    """Whether it is what stands around the documents of a result."""


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """A message that the model read."""

    role: str
    content: str
    calls: tuple[ToolCall, ...] = ()
    """Calls of tools, of a message of the assistant's; they follow its content."""
    read: tuple[ReadText, ...] = ()
    """In order; none overlap."""
    tool: str = ""
    """Of a result, the tool, where that is known."""
    call_id: str | None = None
    """Of a result, the id of its call."""


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """Where a document stands in a prompt."""

    message: int
    """Number of the message, from 0."""
    start: int
    """Its first character in the message's content."""
    end: int
    """The character behind its last."""


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose a document is, as far as the log says."""

    owner: str | None = None
    tenant: str | None = None
    readers: tuple[str, ...] = ()


def distinct_whose(said: Iterable[Whose]) -> tuple[Whose, ...]:
    """What is said of documents with one text, each once; nothing where none of them says anything."""
    distinct = tuple(dict.fromkeys(said))
    return () if distinct == (Whose(),) else distinct


@dataclass(frozen=True, slots=True)
class LoggedDocument:
    """A retrieved text that the model read."""

    id: str
    """As given; else 'sha256:' and the beginning of `content_hash`."""
    content_hash: str
    """SHA-256 of the text with each run of white space as one space."""
    text: str
    """As it was retrieved; in the prompt its white space may differ."""
    places: tuple[DocumentPlace, ...]
    """All places in the prompt, one or more. Without the document, the prompt has none of them."""
    other_ids: tuple[str, ...] = ()
    """Of other documents that were retrieved with the same text."""
    name: str = ""
    """What reports call it: its id, or the source, file or title that the log has; of a tool's result the tool and the
    number of its result. Empty where the log has no name."""
    whose: tuple[Whose, ...] = ()
    """Whose each of those with this text is; empty where the log says nothing of it."""


@dataclass(frozen=True, slots=True)
class AbsentDocument:
    """A retrieved text that the model did not read."""

    id: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How an answer was drawn, as far as the log says; None where it does not."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    do_sample: bool | None = None
    n_beams: int | None = None
    logged_decoding: str | None = None
    """One of `core.case.DECODINGS`, where the log has that."""
    logit_bias: bool = False
    """Whether logits of some tokens were changed."""
    constrained: bool = False
    """Whether a grammar, a schema or a choice among several draws restricted the answer."""

    @property
    def decoding(self) -> str | None:
        """One of `core.case.DECODINGS`; None where the temperature is not known.

        A limit that is not logged is taken to be none; `is_plain` is stricter.

        >>> Sampling(temperature=0.7, top_p=0.9).decoding
        'top-p'
        """
        if self.logged_decoding not in (None, "sampling"):
            return self.logged_decoding
        if (self.n_beams or 1) > 1:
            return "beam"
        if self.temperature == 0 or self.do_sample is False or self.top_k == 1 or self.top_p == 0:
            return "greedy"
        if self.top_k is not None and self.top_k > 0:
            return "top-k"
        mass = [share for share in (self.top_p, self.typical_p) if share is not None and share < 1]
        if mass or (self.min_p is not None and self.min_p > 0):
            return "top-p"
        return None if self.temperature is None else "sampling"

    @property
    def is_plain(self) -> bool | None:
        """Whether the answer was drawn from the model's distribution at `temperature`, with nothing left out of it and
        nothing changed; None where that is not known.

        It is True only where the log says that it was sampling, or has each limit that some server has a default for:
        `top_p`, `top_k`, `min_p` and `repetition_penalty`.

        >>> Sampling(temperature=1.0, top_p=1.0).is_plain
        >>> Sampling(temperature=1.0, logged_decoding="sampling").is_plain
        True
        >>> Sampling(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, repetition_penalty=1.0).is_plain
        True
        """
        penalised = bool(self.frequency_penalty or self.presence_penalty or (self.repetition_penalty or 1) != 1)
        if penalised or self.logit_bias or self.constrained:
            return False
        if self.decoding != "sampling":
            return None if self.decoding is None else False
        limits = (self.top_p, self.top_k, self.min_p, self.repetition_penalty)
        return True if self.logged_decoding is not None or None not in limits else None


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """One emission of a model, an answer's text or a tool call's arguments, with the whole prompt that it read."""

    trace_id: str
    span_id: str
    """Of the call; '.2', '.3' … stand behind it for further choices of one call, and the tool's name where a call emits
    more than one thing. With `trace_id`, the event."""
    response_id: str | None
    """The draw, where it is logged: equal in two events where one answer was shown twice."""
    time: datetime | None
    """When the answer was finished, UTC."""
    recipient: str | None
    """Who was answered: the user, or else the session. Of arguments where they went, as 'tool:calendar.create'; of
    thoughts 'reasoning:nobody'."""
    model: str | None
    """The model that answered, or else the one that was asked for."""
    sampling: Sampling
    messages: tuple[LoggedMessage, ...]
    """Everything that was sent, without the answer."""
    answer: str
    """Of a tool call its arguments."""
    documents: tuple[LoggedDocument, ...]
    """Retrieved texts in the order of retrieval, then results of tools in the order of the prompt."""
    absent: tuple[AbsentDocument, ...] = ()
    """Retrieved, and no part of the prompt."""
    n_hidden_calls: int = 0
    """Other calls of models and tools in the trace before this one, of which the recipient saw nothing."""
    n_unmeasured_calls: int = 0
    """Those of models among them that emitted nothing which is measured or counted: they rewrite or grade. What the
    model thought before this emission counts as one."""
    n_reasoned: int = 0
    """1 where the log has the text of these thoughts."""
    n_tools: int = 0
    """Tools described to the model: its prompt was longer than the messages show."""
    n_empty_documents: int = 0
    """Retrieved without any text."""
    finish_reason: str | None = None
    is_interrupted: bool = False
    """Whether the answer is the beginning of one that broke off."""
    is_rebuilt: bool = False
    """Whether the log has no prompt, and the messages were made of the retrieved texts and the question."""
    format: str = ""
    where: str = ""
    """File and line."""
    channel: Channel = "answer"
    begun: Message | None = None
    """What the model had said in its turn before; the last call is the one whose arguments the answer is."""
    conversation: str = ""
    """Id of the conversation or session, where the log has one, else of the trace."""
    turn: int = 1
    """Number of the call in its trace, from 1."""
    known: Recipient | None = None
    """What is known of who was answered; None where the log has only a session."""

    @property
    def asking(self) -> int | None:
        """Number of the last message of the user's."""
        return max((i for i, message in enumerate(self.messages) if message.role == "user"), default=None)

    @property
    def earlier(self) -> tuple[int, ...]:
        """Numbers of the conversation's messages before the one that asks, without instructions."""
        return tuple(i for i in range(self.asking or 0) if self.messages[i].role not in _INSTRUCTIONS)


class Reason(StrEnum):
    """Why a record, or a call of a model, is left out.

    >>> Reason("no-answer").sentence
    'The call has no answer, or an empty one.'
    """

    sentence: str

    def __new__(cls, value: str, sentence: str = "") -> Reason:
        reason = str.__new__(cls, value)
        reason._value_ = value
        reason.sentence = sentence
        return reason

    MALFORMED = "malformed", "The record is no JSON object or no UTF-8, has a field twice, or is nested too deep."
    TOO_LONG = "too-long", "The record is too long to be read."
    NOT_OF_FORMAT = "not-of-format", "The record lacks the fields of its format."
    NO_CASE = "no-case", "The record is no case: 'leakmeter influence --data' of the log says what it lacks."
    OTHER_VERSION = "other-version", "The record comes from a newer version of leakmeter's log; update leakmeter."
    TOO_MANY_SPANS = "too-many-spans", "The trace has too many spans, or too much text, to be read."
    SAME_ID = "same-id", "Another call of the trace has the same id but other texts."
    INCOMPLETE = (
        "incomplete",
        "The prompt, the answer or what was retrieved was cut before it was logged; raise the limits of attributes.",
    )
    NO_PROMPT = "no-prompt", "The call's messages were not logged."
    RAW_PROMPT = "raw-prompt", "The prompt is a single text without messages; only chats are measured."
    NOT_TEXT = "not-text", "A message has a part that is not text, such as an image or a file."
    NOT_UNICODE = "not-unicode", "A text is not valid Unicode: it has half a surrogate pair."
    BAD_ROLE = "bad-role", "A message has a role that is not a plain word."
    NO_QUESTION = "no-question", "The prompt has no message of role 'user'."
    NO_ANSWER = "no-answer", "The call has no answer, or an empty one."
    SEVERAL_ANSWERS = "several-answers", "Two texts of the call may each be its answer, and they differ."
    STREAM = "stream", "The answer is a stream of events as an API sends it; log the text that they make."
    FAILED = "failed", "The call failed."
    NO_DOCUMENTS = (
        "no-documents",
        "Nothing was retrieved for this call; log retrievals as spans of their kind, or results of tools as messages.",
    )
    DOCUMENT_WITHOUT_TEXT = (
        "document-without-text",
        "The log has a retrieval, or a document's id, without the texts; log the texts of documents too.",
    )
    DOCUMENT_NOT_FOUND = (
        "document-not-found",
        "The prompt contains no part of a retrieved text; log the messages as the model was sent them.",
    )
    DOCUMENT_CHANGED = (
        "document-changed",
        "The prompt contains only part of a retrieved text, not all of it as retrieved.",
    )
    DOCUMENTS_OVERLAP = "documents-overlap", "Two retrieved texts share a part of the prompt."
    DOCUMENT_WITHIN_ANOTHER = "document-within-another", "The prompt contains a retrieved text only as part of another."
    TOO_MANY_DOCUMENTS = (
        "too-many-documents",
        "There are too many retrieved texts, or the prompt is too long, to search for them.",
    )


@dataclass(frozen=True, slots=True)
class Refused:
    """A record or a call that was left out."""

    reason: Reason
    where: str
    """File and line."""
    trace_id: str | None = None
    span_id: str | None = None


class Unusable(Exception):  # noqa: N818 (no user meets it)
    """Raised within this package where a call is to be refused."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.sentence)
        self.reason = reason
