"""Templates: where context and query stand in the text that the model reads.

What is template and what is data is known of every character, so that nothing in a context can act as template or
special token. Without a context the text is that of template and query alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Final

from leakmeter.core.backend import Tokenizer
from leakmeter.core.case import TURN_ROLES, Document, Message, ToolCall
from leakmeter.core.files import read_text
from leakmeter.core.long_work import checkpoint
from leakmeter.core.prompt import CONTEXT, FRAME, QUERY
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.overriding import override
from leakmeter.text.turns import PART_SEPARATOR, SEPARATOR, WrittenTurns, with_results_as_user, with_system_as_user

NAMED = {
    "plain": "Context: {context}\n\nQuestion: {query}\nAnswer:",
    # The two formats of Flemings et al., Appendix C.
    "document": "Document: {context}. {query}",
    "article": "Article: {context}. Summary of the above news article:",
}
_SLOT = re.compile(r"\{(context|query)\}")
_ROLES = {"context": CONTEXT, "query": QUERY}
_MOST_CHARACTERS: Final = 200_000
"""Of a template that is given as text; each of its characters is in every prompt."""
_GIVE_PLAIN: Final = "give --template plain"
_GIVE_ANOTHER_MODEL: Final = "messages need one, so give another model"
_SENTINEL = "LEAKMETERSLOT{}Q"
_ANY_TEXT: Final = 'An "é" <&>\n\\\'s.'
"""A text that is written otherwise wherever something in it is escaped."""


@dataclass(frozen=True, kw_only=True)
class TemplateOptions:
    template: str | None = None
    """Prompt template: chat, plain, document, article, @FILE, or a text with {context} and {query}; chat by default, if
    the model has a chat template."""
    truncate: bool = False
    """Cut the end off a context that does not fit the model's window, and report it."""


@dataclass(frozen=True, slots=True)
class PromptSegment:
    role: str
    text: str
    document: int | None = None
    """Which document of the context this is of; None for frames and the query."""
    owner: str | None = None
    """The message of the context that it comes and goes with."""
    n_lead: int = 0
    """Characters before the document's own: a separator, or a space."""
    n_skipped: int = 0
    """Characters of the document's beginning that are not written."""
    is_loose: bool = False
    """Whether it is white space that belongs to no piece: what separates the document from the one before, or stands
    at its end."""

    @property
    def is_template(self) -> bool:
        """Whether special tokens in it are special."""
        return self.document is None and self.role != QUERY

    def apart(self) -> list[PromptSegment]:
        """A document's text and the white space at its end, each on its own; any other segment as it is."""
        end = len(self.text.rstrip())
        if self.document is None or self.is_loose or not end or end == len(self.text):
            return [self]
        return [self.between(0, end), replace(self.between(end, len(self.text)), is_loose=True)]

    def between(self, start: int, end: int) -> PromptSegment:
        lead = max(self.n_lead - start, 0)
        skipped = self.n_skipped + max(start - self.n_lead, 0)
        return replace(self, text=self.text[start:end], n_lead=lead, n_skipped=skipped)


def choose(template: str | None, tokenizer: Tokenizer) -> tuple[str, str | None]:
    """A template option to (name, text); the text is None for the model's own chat template. None is chat where the
    model has it and plain otherwise; else 'chat', a name, '@FILE', or a text with {context}."""
    name = resolved(template) or ("chat" if tokenizer.has_chat_template else "plain")
    if name == "chat":
        if not tokenizer.has_chat_template:
            raise UsageError(
                f"this model has no chat template; {_GIVE_PLAIN}, or a text with {{context}} and {{query}}"
            )
        return name, None
    if "{" in name or "\n" in name:
        return "custom", _checked(name)
    if name not in NAMED:
        raise UnknownNameError("template", name, [*NAMED, "chat"])
    return name, NAMED[name]


def resolved(template: str | None) -> str | None:
    """'@FILE' to the file's text, so that a run is known by what it read; anything else as it is."""
    if template is None or not template.startswith("@"):
        return template
    return _checked(read_text(Path(template[1:]), "template file"))


class FilledTemplate:
    """A template's text, with {context} and perhaps {query}, and documents and a query in its places. As with `Chat`,
    what the model reads is written whatever of the context is left out or changed."""

    def __init__(self, name: str, text: str, documents: Sequence[Document], query: str) -> None:
        self.name = self.rendering = name
        self.documents = tuple(documents)
        self.query = query
        # Between texts of the template stand the names of its places.
        self._parts = [(_ROLES[part], "") if i % 2 else (FRAME, part) for i, part in enumerate(_SLOT.split(text))]

    def segments(self, texts: Sequence[str], without: Collection[str] = ()) -> list[PromptSegment]:
        """What the model reads, in order: with one text for each document, of which an empty one is not written, and
        without the messages of these names and the turns around them."""
        out: list[PromptSegment] = []
        for role, text in self._parts:
            if role == CONTEXT:
                written = [PromptSegment(CONTEXT, document, document=i) for i, document in enumerate(texts) if document]
                for n, segment in enumerate(written):
                    out += [_separator(SEPARATOR, segment.document), segment] if n else [segment]
            else:
                out.append(PromptSegment(role, self.query if role == QUERY else text))
        return [segment for segment in out if segment.text]

    def place(self) -> int:
        """The character at which a context would begin, of the text without one."""
        before = takewhile(lambda part: part[0] != CONTEXT, self._parts)
        return sum(len(self.query if role == QUERY else text) for role, text in before)


class OneTurn(FilledTemplate):
    """The model's chat template over one user message that has documents and query."""

    def __init__(self, documents: Sequence[Document], query: str, tokenizer: Tokenizer) -> None:
        super().__init__("chat", "{context}\n\n{query}", documents, query)
        self._tokenizer = tokenizer

    @override
    def segments(self, texts: Sequence[str], without: Collection[str] = ()) -> list[PromptSegment]:
        """The template's text around the message's, which a template may strip of white space at its ends."""
        filled = super().segments(texts)
        before, kept, after = turn("".join(segment.text for segment in filled), self._tokenizer)
        parts = [PromptSegment(FRAME, before), *_within(filled, kept), PromptSegment(FRAME, after)]
        return [segment for segment in parts if segment.text]

    @override
    def place(self) -> int:
        return len(user_turn(self._tokenizer)[0]) + super().place()


class Chat:
    """The model's chat template over messages: all but the query's, number `query_at`, and those that are fixed are
    context, and go with the turns around them; what was retrieved into the query is context too.

    Calls of tools are written as the template writes them. Where it writes none they are plain text, a line
    `TOOL: ARGUMENTS` each behind what else the message says; where it refuses results of tools too, or changes their
    texts, these become messages of the user's. Where it refuses a system prompt, or what does not alternate, the prompt
    stands at the head of the user's turn, and neighbours of one role are one message. `begun` is what the model had
    said in its turn before the response: the text ends behind it.
    """

    def __init__(
        self, messages: Sequence[Message], query_at: int, tokenizer: Tokenizer, begun: Message | None = None
    ) -> None:
        if not tokenizer.has_chat_template:
            raise UsageError("this model has no chat template, which messages need; give a model that has one")
        self.name = "chat"
        self._tokenizer = tokenizer
        self._begun = begun
        given = WrittenTurns(tuple(messages), query_at)
        ways = [(given, False)]
        has_calls = any(message.calls for message in (*messages, *((begun,) if begun else ())))
        has_results = any(message.role not in TURN_ROLES for message in messages)
        native = has_calls and _writes_calls(tokenizer)
        if native:
            ways.insert(0, (given, True))
        if has_results:
            ways.append((with_results_as_user(messages, query_at), False))
            in_turns = with_system_as_user(messages, query_at, has_results=True)
            ways += [(in_turns, True)] if native else []
            ways.append((in_turns, False))
        ways.append((with_system_as_user(messages, query_at, has_results=False), False))
        # Where nothing becomes another, there is nothing to try again.
        ways = [way for way in ways if way[0].told or way[0] is given]
        refusal: UsageError | None = None
        for number, (turns, has_native_calls) in enumerate(ways, 1):
            self._take(turns, has_native_calls)
            if len(ways) == 1:
                self._frames_of(tuple(range(len(messages))), frozenset())
                self._frames_of(tuple(self._staying), frozenset())
                break
            try:
                self._check(any_text=(has_calls or has_results) and number < len(ways))
            except UsageError as error:
                # What the template says of the chat as it is tells more than what it says of the last attempt.
                refusal = refusal or error
                if number == len(ways):
                    raise refusal from None
            else:
                break
        asking = messages[query_at]
        query_texts = [part.text for n, part in enumerate(asking.parts) if n not in asking.retrieved]
        self.query = ("" if asking.retrieved else PART_SEPARATOR).join(query_texts)
        instead = ["calls as lines"] if has_calls and not self._has_native_calls else []
        self.rendering = ", ".join([self.name, *instead, *turns.told])
        """Name of the template, and what stands in the place of what it does not write."""

    def _take(self, turns: WrittenTurns, has_native_calls: bool) -> None:
        """Write the chat as these messages."""
        messages, query_at = turns.messages, turns.query_at
        self._messages, self._query_at, self._has_native_calls = messages, query_at, has_native_calls
        self._joints = turns.joints
        self._stays = [i == query_at or message.fixed for i, message in enumerate(messages)]
        self._frames: dict[tuple[tuple[int, ...], frozenset[int]], _Frames] = {}
        self._staying = [i for i, stays in enumerate(self._stays) if stays]
        """Numbers of the messages that are written whatever is left out."""
        self._numbers: dict[tuple[int, int], int] = {}
        documents: list[Document] = []
        for i, message in enumerate(messages):
            for part_number, part in enumerate(message.parts):
                if part.text and (not self._stays[i] or part_number in message.retrieved):
                    self._numbers[i, part_number] = len(documents)
                    documents.append(part)
        self.documents = tuple(documents)

    def _check(self, *, any_text: bool) -> None:
        """`UsageError` where the template does not write these messages one after another, or changes one of them.
        `any_text`: of what was read it may change no other text either, since texts to compare are written in its
        place."""
        everything = range(len(self._messages))
        self._turns(everything, [document.text for document in self.documents], ())
        self._turns(self._staying, ["" for _ in self.documents], ())
        if any_text:
            self._turns(everything, [_ANY_TEXT for _ in self.documents], ())

    def _silent(self, left: Sequence[int], contents: Sequence[str]) -> frozenset[int]:
        """Of these messages, those that call tools and say nothing, which a template may write another way."""
        if not self._has_native_calls:
            return frozenset()
        return frozenset(i for i, text in zip(left, contents, strict=True) if self._messages[i].calls and not text)

    def segments(self, texts: Sequence[str], without: Collection[str] = ()) -> list[PromptSegment]:
        """The chat as the template writes it without the messages that are gone. Where the template refuses what is
        left of them, such as two turns of one role in a row, it is the whole chat without their turns; never so for the
        query alone, which may not depend on what else was there."""
        left = [i for i, message in enumerate(self._messages) if self._stays[i] or message.name not in without]
        try:
            return self._written(left, texts, without)
        except UsageError:
            if not without or left == self._staying:
                raise
        everything = self._written(range(len(self._messages)), texts, without)
        return [segment for segment in everything if segment.owner not in without]

    def place(self) -> int:
        """Before the turn that asks, behind what the template writes of its own and the turns that are fixed."""
        turns = self._turns(self._staying, ["" for _ in self.documents], ())
        at = self._staying.index(self._query_at)
        upto = turns[: at + 1]
        # Its own turn begins with the last segment before its content.
        return sum(len(segment.text) for turn in upto for segment in turn) - len(upto[-1][-1].text)

    def _written(self, left: Sequence[int], texts: Sequence[str], without: Collection[str]) -> list[PromptSegment]:
        return [segment for turn in self._turns(left, texts, without) for segment in turn if segment.text]

    def _turns(self, left: Sequence[int], texts: Sequence[str], without: Collection[str]) -> list[list[PromptSegment]]:
        """What stands before the first message's content; then each content with what follows it up to the next."""
        contents = [self._content(i, texts, without) for i in left]
        whole = ["".join(segment.text for segment in content) for content in contents]
        frames = self._frames_of(tuple(left), self._silent(left, whole))
        kept = _contents(self._rendered(left, whole), frames.marked, whole, _GIVE_ANOTHER_MODEL)
        behind = zip(contents, kept, frames.segments[1:], strict=True)
        return [list(frames.segments[0]), *([*_within(content, part), *frame] for content, part, frame in behind)]

    def _content(self, i: int, texts: Sequence[str], without: Collection[str]) -> list[PromptSegment]:
        message, stays = self._messages[i], self._stays[i]
        owner = None if stays else message.name
        out: list[PromptSegment] = []
        for number, part in enumerate(message.parts):
            document = self._numbers.get((i, number))
            is_joint = (i, number) in self._joints
            if is_joint and stays and out:
                before = self._numbers[i, number - 1]
                out.append(_separator_behind(texts[before], before, message.parts[number - 1].name))
            if document is None:
                if stays and number not in message.retrieved:
                    if number and not message.retrieved:
                        out.append(PromptSegment(FRAME, PART_SEPARATOR))
                    out.append(PromptSegment(QUERY, part.text))
            elif stays and part.name not in without:
                # What was retrieved comes and goes without the turn around it.
                out.append(PromptSegment(CONTEXT, texts[document], document=document, owner=part.name))
            elif not stays and texts[document]:
                if out:
                    out.append(_separator(SEPARATOR if is_joint else PART_SEPARATOR, document, owner))
                out.append(PromptSegment(CONTEXT, texts[document], document=document, owner=owner))
        out = [segment for segment in out if segment.text]
        if not self._has_native_calls:
            for call in message.calls:
                text = f"{PART_SEPARATOR if out else ''}{call.name}: {call.arguments}"
                out.append(PromptSegment(QUERY, text, owner=owner))
        return out

    def _rendered(self, left: Sequence[int], contents: Sequence[str], *, upto: int | None = None) -> str:
        """What the template writes of these messages, with marks in the place of what a message calls; of the first
        `upto` alone, or of all, and up to the response."""
        messages: list[Mapping[str, object]] = [
            self._message(i, content) for i, content in zip(left, contents, strict=True)
        ]
        if upto is not None:
            return self._tokenizer.render_chat(messages[:upto], answer=False)
        if self._begun is None or not self._has_native_calls:
            return self._tokenizer.render_chat(messages, answer=True)
        # The call that the response is of is written whole, and cut where its arguments begin.
        said = _mark("begun") if any(part.text for part in self._begun.parts) else ""
        begun: Mapping[str, object] = {
            "role": "assistant",
            "content": said,
            "tool_calls": _calls(self._begun, "begun"),
        }
        written = self._tokenizer.render_chat([*messages, begun], answer=False)
        last = _arguments(_mark("begun", len(self._begun.calls) - 1, "A"))
        if written.count(last) != 1 or (said and written.count(said) != 1):
            raise UsageError(f"the model's chat template does not write calls of tools as they are; {_GIVE_PLAIN}")
        return written[: written.index(last)]

    def _message(self, i: int, content: str) -> dict[str, object]:
        message = self._messages[i]
        held: dict[str, object] = {"role": message.role, "content": content}
        if not self._has_native_calls:
            return held
        if message.calls:
            held["tool_calls"] = _calls(message, i)
        elif message.role == "tool":
            before = next((n for n in range(i - 1, -1, -1) if self._messages[n].role != "tool"), i)
            held["tool_call_id"] = _call_id(before, i - before - 1)
        return held

    def _frames_of(self, left: tuple[int, ...], silent: frozenset[int]) -> _Frames:
        """What the template writes before the first of these messages, between them, and after the last; in the place
        of a content stands a mark, but of one that is silent nothing."""
        if (left, silent) in self._frames:
            return self._frames[left, silent]
        marks = ["" if i in silent else _SENTINEL.format(f"{i}M") for i in left]
        begun = []
        for n in range(len(left)):
            checkpoint()
            begun.append(self._rendered(left, marks, upto=n + 1))
        rendered = self._rendered(left, marks)
        # Some write results of tools that follow one another as one turn: between messages that stay it does not matter
        # where one ends.
        behind = [self._stays[i] for i in left[1:]] + [False]
        parted = [
            rendered.startswith(part) or (self._stays[i] and next_stays)
            for i, part, next_stays in zip(left, begun, behind, strict=True)
        ]
        if not all(parted) or any(rendered.count(mark) != 1 for mark in filter(None, marks)):
            raise UsageError(
                f"the model's chat template does not write messages one after another; {_GIVE_ANOTHER_MODEL}"
            )
        # What a template writes before the first message (a default system prompt, BOS) is nobody's turn.
        opening = _opening(rendered, self._tokenizer, self._messages[left[0]].role)
        data = self._data(left)
        frames = [[PromptSegment(FRAME, rendered[:opening])]]
        marked = [rendered[:opening]]
        cursor = opening
        for i, mark, part in zip(left, marks, begun, strict=True):
            role, owner = (FRAME, None) if self._stays[i] else (CONTEXT, self._messages[i].name)
            # What is written around nothing is behind it.
            start = rendered.index(mark) if mark else cursor
            frames[-1] += _filled(PromptSegment(role, rendered[cursor:start], owner=owner), data)
            marked[-1] += rendered[cursor:start]
            cursor = start + len(mark)
            end = len(part) if rendered.startswith(part) else cursor
            closing = PromptSegment(role, rendered[cursor:end], owner=owner)
            marked.append(closing.text)
            frames.append(_filled(closing, data))
            cursor = end
        frames[-1] += _filled(PromptSegment(FRAME, rendered[cursor:]), data)
        marked[-1] += rendered[cursor:]
        if self._begun is not None and not self._has_native_calls:
            frames[-1].append(PromptSegment(QUERY, _plainly_begun(self._begun)))
        self._frames[left, silent] = _Frames(frames, marked)
        return self._frames[left, silent]

    def _data(self, left: Sequence[int]) -> dict[str, str]:
        """What the marks of calls stand for."""
        if not self._has_native_calls:
            return {}
        said: list[tuple[object, Message]] = [(i, self._messages[i]) for i in left]
        out: dict[str, str] = {}
        if self._begun is not None:
            said.append(("begun", self._begun))
            out[_mark("begun")] = PART_SEPARATOR.join(part.text for part in self._begun.parts)
        for of, message in said:
            for n, call in enumerate(message.calls):
                out |= {_mark(of, n, "N"): call.name, _arguments(_mark(of, n, "A")): call.arguments}
        return out


@dataclass(frozen=True, slots=True)
class _Frames:
    segments: list[list[PromptSegment]]
    marked: list[str]
    """The same as the template writes them, with marks in the place of calls, and without what is behind the last."""


def _mark(of: object, number: int = 0, what: str = "") -> str:
    return _SENTINEL.format(f"{of}C{number}{what}")


def _arguments(mark: str) -> str:
    """How a template writes arguments that are an object with a mark as its one key."""
    return json.dumps({mark: 0})


def _call_id(of: object, number: int) -> str:
    # Some templates insist on nine letters or digits.
    return f"{of if isinstance(of, int) else 9999:05}{number:04}"


def _calls(message: Message, of: object) -> list[dict[str, object]]:
    return [
        {
            "type": "function",
            "id": _call_id(of, n),
            "function": {"name": _mark(of, n, "N"), "arguments": {_mark(of, n, "A"): 0}},
        }
        for n in range(len(message.calls))
    ]


def _writes_calls(tokenizer: Tokenizer) -> bool:
    """Whether the model's chat template writes calls of tools and their results, each once and as they are."""
    called = Message("assistant", "", (), calls=(ToolCall("", ""),))
    result = _SENTINEL.format("R")
    messages: list[Mapping[str, object]] = [
        {"role": "user", "content": _SENTINEL.format("U")},
        {"role": "assistant", "content": "", "tool_calls": _calls(called, 0)},
        {"role": "tool", "content": result, "tool_call_id": _call_id(0, 0)},
    ]
    try:
        written = tokenizer.render_chat(messages, answer=True)
    except UsageError:
        return False
    marks = (_mark(0, 0, "N"), _arguments(_mark(0, 0, "A")), result)
    return all(written.count(mark) == 1 for mark in marks)


def _filled(segment: PromptSegment, data: Mapping[str, str]) -> list[PromptSegment]:
    """A frame with what its marks stand for, which is data."""
    if not data:
        return [segment]
    parts = re.split("(" + "|".join(map(re.escape, data)) + ")", segment.text)
    return [
        PromptSegment(QUERY, data[part], owner=segment.owner) if i % 2 else replace(segment, text=part)
        for i, part in enumerate(parts)
    ]


def _plainly_begun(begun: Message) -> str:
    *before, last = begun.calls or (None,)
    lines = [part.text for part in begun.parts if part.text]
    lines += (f"{call.name}: {call.arguments}" for call in before if call is not None)
    return PART_SEPARATOR.join([*lines, *((f"{last.name}:",) if last is not None else ())])


Writing = FilledTemplate | Chat
PLAIN_OR_CHAT: Final = ("plain", "chat")
"""Templates of prompts that are no documents: the text as it is, or all of it as one user message."""


def check_plain_or_chat(template: str | None, noun: str) -> None:
    if template is not None and template not in PLAIN_OR_CHAT:
        raise UnknownNameError(f"template for {noun}", template, PLAIN_OR_CHAT)


def plain_or_chat(template: str | None, tokenizer: Tokenizer) -> str:
    """The template that is named; of None, chat where the model has it."""
    return template or ("chat" if tokenizer.has_chat_template else "plain")


def user_turn(tokenizer: Tokenizer) -> tuple[str, str]:
    """What the model's chat template writes before and after the text of a single user message."""
    mark = _SENTINEL.format("T")
    rendered = tokenizer.render_chat([{"role": "user", "content": mark}], answer=True)
    if rendered.count(mark) != 1:
        raise UsageError(f"the model's chat template repeats or drops its input; {_GIVE_PLAIN}")
    before, after = rendered.split(mark)
    return before, after


def turn(content: str, tokenizer: Tokenizer) -> tuple[str, tuple[int, int], str]:
    """A single user message in the model's chat template: text before, its characters that are written, text behind."""
    before, after = user_turn(tokenizer)
    rendered = tokenizer.render_chat([{"role": "user", "content": content}], answer=True)
    (kept,) = _contents(rendered, (before, after), (content,))
    return before, kept, after


def _opening(rendered: str, tokenizer: Tokenizer, first_role: str) -> int:
    """Where the first message's own turn begins: after what the template writes whatever that message is. A later turn
    of the same role is written without the opening: the difference in length is the opening's."""
    turn = {"role": first_role, "content": _SENTINEL.format("A")}
    answer = {"role": "assistant", "content": _SENTINEL.format("B")}
    for between in ([], [answer]):
        try:
            first = len(tokenizer.render_chat([turn], answer=False))
            before = len(tokenizer.render_chat([turn, *between], answer=False))
            after = len(tokenizer.render_chat([turn, *between, turn], answer=False))
        except UsageError:
            # Some templates insist on turns that alternate, or on a single system message.
            continue
        return max(first - (after - before), 0)
    start = tokenizer.decode(tokenizer.start_ids)
    return len(start) if rendered.startswith(start) else 0


def _checked(text: str) -> str:
    if len(text) > _MOST_CHARACTERS:
        raise UsageError(f"a template of {len(text):,} characters; {_MOST_CHARACTERS:,} are read at most")
    slots = _SLOT.findall(text)
    if slots.count("context") != 1 or slots.count("query") > 1:
        raise UsageError("a template holds {context} exactly once and {query} at most once")
    return text


def _separator(text: str, document: int | None, owner: str | None = None) -> PromptSegment:
    return PromptSegment(CONTEXT, text, document=document, owner=owner, n_lead=len(text), is_loose=True)


def _separator_behind(text: str, document: int, owner: str) -> PromptSegment:
    return PromptSegment(CONTEXT, SEPARATOR, document=document, owner=owner, n_skipped=len(text), is_loose=True)


def _contents(
    rendered: str, frames: Sequence[str], contents: Sequence[str], advice: str = _GIVE_PLAIN
) -> list[tuple[int, int]]:
    """What of each content a chat template has written, as characters [start, end): it may strip white space only.
    `frames` are what it writes before, between and after the contents; `advice` is what to do where it changes them."""
    kept: list[tuple[int, int]] = []
    cursor = len(frames[0])
    good = rendered.startswith(frames[0])
    for content, frame in zip(contents, frames[1:], strict=True):
        left, right = len(content) - len(content.lstrip()), len(content.rstrip())
        # Of white space alone nothing is left, at whichever end it is cut.
        right = max(left, right)
        for start, end in ((0, len(content)), (left, right), (left, len(content)), (0, right)):
            if rendered.startswith(content[start:end] + frame, cursor):
                kept.append((start, end))
                cursor += end - start + len(frame)
                break
        else:
            good = False
    if not good or cursor != len(rendered):
        raise UsageError(
            "the model's chat template changes its input beyond white space at the ends, so tokens cannot be assigned "
            f"to messages; {advice}"
        )
    return kept


def _within(segments: Iterable[PromptSegment], kept: tuple[int, int]) -> list[PromptSegment]:
    """Segments cut to some of their characters, counted over all of them."""
    out: list[PromptSegment] = []
    at = 0
    for segment in segments:
        start, end = max(kept[0] - at, 0), min(kept[1] - at, len(segment.text))
        if start < end:
            out.append(segment.between(start, end))
        at += len(segment.text)
    return out
