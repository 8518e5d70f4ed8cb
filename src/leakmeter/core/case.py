"""A case as the user gave it: texts, not yet tokenised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from leakmeter.core.own_words import SourceWords, has_block, is_said
from leakmeter.core.record import JsonObject

DECODINGS: Final = ("sampling", "greedy", "beam", "top-k", "top-p")
"""How a response may have been chosen; all but sampling leave tokens of the distribution out."""
SYSTEM_ROLES: Final = ("system", "developer")
TURN_ROLES: Final = (*SYSTEM_ROLES, "user", "assistant")
"""Roles of messages that say nothing of where their texts come from."""
_UNSAID: Final = (
    *(("decoding", None), ("retrieved", ()), ("fixed", False)),
    *(("calls", ()), ("emission", None), ("begun", None)),
    *(("owner", None), ("tenant", None), ("readers", ()), ("recipient", None)),
)
_EMPTY: Final = len("{}")
"""Characters of arguments that say nothing."""

Channel = Literal["answer", "tool", "agent", "memory", "reasoning"]
"""Where what a model emitted went: to the user, to a tool as its arguments, to another agent, to a memory, or nowhere
that anybody sees."""


@dataclass(frozen=True, slots=True)
class Document:
    name: str
    text: str
    owner: str | None = None
    """Whom it belongs to, or is about, as far as the log says."""
    tenant: str | None = None
    """The customer, team or the like whose it is."""
    readers: tuple[str, ...] = ()
    """Ids, roles and tenants that may read it; empty where the log says nothing of it."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """Who received an answer, as far as the log says. A tool, an agent or a memory is known by its emission."""

    id: str | None = None
    roles: tuple[str, ...] = ()
    tenant: str | None = None
    subjects: tuple[str, ...] = ()
    """Owners whose documents are the recipient's own, beside those of the id: what they are the subject of."""
    may_know: tuple[str, ...] | None = None
    """Fields of records that the log says they may know; None where it says nothing."""
    may_not_know: tuple[str, ...] | None = None

    @property
    def lists(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        return self.may_know, self.may_not_know


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, as the model wrote it."""

    name: str
    arguments: str
    """Usually an object in JSON."""


@dataclass(frozen=True, slots=True)
class Emission:
    """What a response was in its conversation: when it was said, and who received it."""

    conversation: str
    turn: int
    """Number of the model's turn, from 1."""
    channel: Channel = "answer"
    recipient: str = "user"
    """The user, or the tool, agent or memory by its name."""
    first_message: int = 0
    """Number of the first message that no case of the conversation before it has."""


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    name: str
    parts: tuple[Document, ...]
    retrieved: tuple[int, ...] = ()
    """In the turn that asks, or another that is fixed, numbers of the parts that are context. Parts of such a turn are
    one text, cut where the context begins and ends; those of another are written on lines of their own. Parts of one
    name are one document in several places."""
    fixed: bool = False
    """Whether the message stays when context is left out: only what was retrieved into it is context. The turn that
    asks always stays."""
    calls: tuple[ToolCall, ...] = ()
    """Calls of tools, of a message of the assistant's; they follow its parts."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


@dataclass(frozen=True, slots=True)
class Case:
    """A context, a query, and the response if there is one already."""

    id: str
    documents: tuple[Document, ...] = ()
    query: str = ""
    response: str | None = None
    messages: tuple[Message, ...] = ()
    """A whole chat instead of documents, without the answer: the last user message asks; the others are context."""
    decoding: str | None = None
    """How the response was chosen, one of `DECODINGS`, where that is known."""
    emission: Emission | None = None
    """What the response was in a conversation; None of one that is a question and an answer alone."""
    recipient: Recipient | None = None
    """Who received the answer, where the log says so."""
    begun: Message | None = None
    """What the model had said in its turn before the response. The last call, if there is one, is the one whose
    arguments the response is, and has none."""
    control_contexts: tuple[Document, ...] = ()
    """Contexts of other cases, a text each under the id of its case, which the response was not written from: what its
    disclosures are held against. The cases and the measure decide them, so that they are not part of `record`."""

    @property
    def channel(self) -> Channel:
        """Where the response went: what is no turn of a conversation is an answer to the user."""
        return "answer" if self.emission is None else self.emission.channel

    @property
    def context_documents(self) -> tuple[Document, ...]:
        """The documents, or what of the chat is context."""
        if not self.messages:
            return self.documents
        asking = self.asking
        out: list[Document] = []
        for i, message in enumerate(self.messages):
            stays = i == asking or message.fixed
            out += [part for n, part in enumerate(message.parts) if not stays or n in message.retrieved]
        return tuple(document for document in out if document.text)

    @property
    def says_whose(self) -> bool:
        """Whether it says of a tenant, of somebody whom a document is about, or of a conversation."""
        said = [document.owner or document.tenant for document in self.context_documents]
        tenant = None if self.recipient is None else self.recipient.tenant
        return self.emission is not None or any((tenant, *said))

    @property
    def has_only_system_context(self) -> bool:
        return self.has_unmarked_context and all(message.role in SYSTEM_ROLES for message in self._beside_query)

    @property
    def has_unmarked_context(self) -> bool:
        """Whether it is a chat without a marked retrieved text: the turn that asks may hold some."""
        # A message with a name of its own is marked as a document, and so is what a tool has answered.
        own = self._own_names
        return bool(self._beside_query) and not any(
            message.retrieved or message.role not in TURN_ROLES or message.name in own for message in self._beside_query
        )

    @property
    def own_words(self) -> frozenset[str]:
        """Names of what of the context the user said earlier in the chat; none of a turn in which there may be a
        document, see `own_words`."""
        named = self._own_names
        asking = self.asking
        # Where the last turn has one, the program that wrote it there wrote into the others too.
        if asking is not None and has_block(self.messages[asking].text):
            return frozenset()
        sources = SourceWords(
            part.text
            for message in self._beside_query
            if message.role not in ("user", "assistant") or message.name in named
            for part in message.parts
        )
        said = Counter(
            message.name
            for message in self._beside_query
            if message.role == "user" and not message.retrieved and message.name not in named
            if [part.name for part in message.parts if part.text] == [message.name] and is_said(message.text, sources)
        )
        # Of what goes by the same name as a document it is not known whose words it is.
        return frozenset(
            name for name, n in Counter(part.name for part in self.context_documents).items() if n == said[name]
        )

    @property
    def _own_names(self) -> set[str]:
        """Names of messages that are more than a role and a number: those of documents."""
        names = (f"{message.role} {number}" for number, message in enumerate(self.messages, 1))
        return {message.name for message, name in zip(self.messages, names, strict=True) if message.name != name}

    @property
    def _beside_query(self) -> tuple[Message, ...]:
        """Messages that are context; none if nothing asks, or if the turn that asks holds a marked text."""
        asking = self.asking
        if asking is None or self.messages[asking].retrieved:
            return ()
        return tuple(
            message
            for i, message in enumerate(self.messages)
            if i != asking and (message.retrieved or not message.fixed)
        )

    @property
    def asking(self) -> int | None:
        last = len(self.messages) - 1
        return next((i for i in range(last, -1, -1) if self.messages[i].role == "user"), None)

    def record(self) -> JsonObject:
        return record_of(self)


def record_of(case: Any) -> JsonObject:
    """A case, or what holds one, as what names a run: without its controls, and the fields of `_UNSAID` that say
    nothing."""
    return asdict(case, dict_factory=_said)


def _said(pairs: Iterable[tuple[str, Any]]) -> JsonObject:
    return {key: value for key, value in pairs if key != "control_contexts" and (key, value) not in _UNSAID}


def control_choice(cases: Sequence[object]) -> JsonObject:
    """What names a run beside its cases and settings where controls were chosen by whose cases are, which earlier
    versions did not look at: their runs are not continued then."""
    known = [case for case in cases if isinstance(case, Case)]
    if not any(case.control_contexts for case in known) or not any(case.says_whose for case in known):
        return {}
    return {"controls_of": "other tenants, owners and conversations, where there are any"}


def conversation_of(case: object) -> str | None:
    """The conversation that a case is a turn of."""
    return case.emission.conversation if isinstance(case, Case) and case.emission is not None else None


def context_text(case: object) -> str:
    """The documents of a case, joined by blank lines."""
    return "\n\n".join(document.text for document in case.context_documents) if isinstance(case, Case) else ""


def n_characters(case: object) -> int:
    """How long a case is: characters of its documents and its query, or of its chat."""
    if not isinstance(case, Case):
        return 0
    texts = [part.text for message in case.messages for part in message.parts]
    return sum(map(len, texts or [*(document.text for document in case.documents), case.query]))


def emission_texts(case: Case) -> JsonObject | None:
    """What a run keeps of an emission: what it was, what was said and read since the one before it, and what had been
    said by then."""
    emission = case.emission
    if emission is None:
        return None
    before: list[JsonObject] = []
    for message in case.messages[emission.first_message :]:
        for number, part in enumerate(message.parts):
            is_source = number in message.retrieved
            if part.text.strip():
                before.append({"role": message.role, "name": part.name, "text": part.text, "is_source": is_source})
        before += (
            {"role": "call", "name": call.name, "text": call.arguments, "is_source": False} for call in message.calls
        )
    fields = asdict(emission)
    del fields["first_message"]
    said = [[role, text] for role, text in _said_by_then(case)]
    return {**fields, "before": before, **({"said": said} if said else {})}


def _said_by_then(case: Case) -> dict[tuple[str, str], None]:
    """What stays in the prompt without context of all that the user and the model had said, but for the turn that asks:
    each text once, under its role, or 'call' of the arguments of one."""
    asking = case.asking
    staying = [message for i, message in enumerate(case.messages) if message.fixed and i != asking]
    said: dict[tuple[str, str], None] = {}
    for message in [*staying, *([] if case.begun is None else [case.begun])]:
        if message.role in ("user", "assistant"):
            texts = [part.text for number, part in enumerate(message.parts) if number not in message.retrieved]
            said.update(dict.fromkeys((message.role, text) for text in texts if text.strip()))
        said.update(dict.fromkeys(("call", call.arguments) for call in message.calls if call.arguments.strip()))
    return said


def unmeasured_answers(cases: Sequence[Any]) -> list[int]:
    """Of each case, how many earlier answers and calls of its chat are the response of none of the cases. An answer is
    that of another case if it answers the same question there. What an earlier case of the conversation has before it
    counts there."""
    asked: dict[str, list[str]] = {}
    for case in cases:
        if isinstance(case, Case) and case.response is not None:
            asking = case.asking
            question = case.query if asking is None else case.messages[asking].text
            asked.setdefault(_plain(case.response), []).append(_plain(question))
    # Cases of one conversation share its messages.
    texts: dict[int, str] = {}
    counted: set[tuple[str, int, str]] = set()
    return [0 if not isinstance(case, Case) else _n_unmeasured(case, asked, texts, counted) for case in cases]


def _n_unmeasured(
    case: Case, asked: Mapping[str, Sequence[str]], texts: dict[int, str], counted: set[tuple[str, int, str]]
) -> int:
    n, question = 0, ""
    first = 0 if case.emission is None else case.emission.first_message
    for i, message in enumerate(case.messages):
        if message.role not in ("user", "assistant"):
            continue
        if (text := texts.get(id(message))) is None:
            text = texts[id(message)] = _plain(message.text)
        if message.role == "user":
            question = text
        elif i >= first:
            emitted = (
                text,
                *(_plain(call.arguments) for call in message.calls if len(call.arguments.strip()) > _EMPTY),
            )
            left = [
                answer
                for answer in filter(None, emitted)
                if not (question and any(question in other for other in asked.get(answer, ())))
            ]
            before = Case("", messages=case.messages[:i]) if left else None
            # What was emitted before anything was read gives nothing away.
            if before is not None and before.context_documents and not before.has_only_system_context:
                # Emissions of one call of a model have the same prompt, each of them.
                if case.emission is not None:
                    left = [answer for answer in left if (case.emission.conversation, i, answer) not in counted]
                    counted.update((case.emission.conversation, i, answer) for answer in left)
                n += len(left)
    return n


def _plain(text: str) -> str:
    return " ".join(text.split())


def unmeasured_text(n: int) -> str:
    """A clause: how many answers and calls of chats were not measured."""
    are = "answer or call of the assistant was" if n == 1 else "answers or calls of the assistant were"
    return f"{n:,} earlier {are} not measured: as a chat in the data, with all turns and channels, each is"


def unmarked_context(documents: Iterable[str]) -> str:
    is_system = all(name.startswith(SYSTEM_ROLES) for name in documents)
    return "the system prompt" if is_system else "what was said before the last user message"
