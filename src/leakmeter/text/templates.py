"""Templates: where context and query stand in the text that the model reads.

What is template and what is data is known of every character, so that nothing in a context can act as template or
special token. Without a context the text is that of template and query alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Final

from leakmeter.core.backend import Tokenizer
from leakmeter.core.case import Document, Message
from leakmeter.core.files import read_text
from leakmeter.core.long_work import checkpoint
from leakmeter.core.prompt import CONTEXT, FRAME, QUERY
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.overriding import override

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
SEPARATOR: Final = "\n\n"
"""Between documents."""
PART_SEPARATOR: Final = "\n"
"""Between the parts of a message."""


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
        self.name = name
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
    context, and go with the turns around them; what was retrieved into the query is context too."""

    def __init__(self, messages: Sequence[Message], query_at: int, tokenizer: Tokenizer) -> None:
        if not tokenizer.has_chat_template:
            raise UsageError("this model has no chat template, which messages need; give a model that has one")
        self.name = "chat"
        self._messages = tuple(messages)
        self._query_at = query_at
        self._stays = [i == query_at or message.fixed for i, message in enumerate(messages)]
        self._staying = [i for i, stays in enumerate(self._stays) if stays]
        """Numbers of the messages that are written whatever is left out."""
        self._tokenizer = tokenizer
        self._numbers: dict[tuple[int, int], int] = {}
        documents: list[Document] = []
        for i, message in enumerate(messages):
            for number, part in enumerate(message.parts):
                if part.text and (not self._stays[i] or number in message.retrieved):
                    self._numbers[i, number] = len(documents)
                    documents.append(part)
        self.documents = tuple(documents)
        asking = messages[query_at]
        query_texts = [part.text for number, part in enumerate(asking.parts) if number not in asking.retrieved]
        self.query = ("" if asking.retrieved else PART_SEPARATOR).join(query_texts)
        self._frames: dict[tuple[int, ...], list[list[PromptSegment]]] = {}
        self._frames_of(tuple(range(len(messages))))

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
        upto = turns[: self._staying.index(self._query_at) + 1]
        # Its own turn begins with the last segment before its content.
        return sum(len(segment.text) for turn in upto for segment in turn) - len(upto[-1][-1].text)

    def _written(self, left: Sequence[int], texts: Sequence[str], without: Collection[str]) -> list[PromptSegment]:
        return [segment for turn in self._turns(left, texts, without) for segment in turn if segment.text]

    def _turns(self, left: Sequence[int], texts: Sequence[str], without: Collection[str]) -> list[list[PromptSegment]]:
        """What stands before the first message's content; then each content with what follows it up to the next."""
        frames = self._frames_of(tuple(left))
        contents = [self._content(i, texts, without) for i in left]
        whole = ["".join(segment.text for segment in content) for content in contents]
        messages = [
            {"role": self._messages[i].role, "content": content} for i, content in zip(left, whole, strict=True)
        ]
        around = ["".join(segment.text for segment in frame) for frame in frames]
        kept = _contents(self._tokenizer.render_chat(messages, answer=True), around, whole, _GIVE_ANOTHER_MODEL)
        behind = zip(contents, kept, frames[1:], strict=True)
        return [list(frames[0]), *([*_within(content, part), *frame] for content, part, frame in behind)]

    def _content(self, i: int, texts: Sequence[str], without: Collection[str]) -> list[PromptSegment]:
        message, stays = self._messages[i], self._stays[i]
        owner = None if stays else message.name
        out: list[PromptSegment] = []
        for number, part in enumerate(message.parts):
            document = self._numbers.get((i, number))
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
                    out.append(_separator(PART_SEPARATOR, document, owner))
                out.append(PromptSegment(CONTEXT, texts[document], document=document, owner=owner))
        return [segment for segment in out if segment.text]

    def _frames_of(self, left: tuple[int, ...]) -> list[list[PromptSegment]]:
        """What the template writes before the first of these messages, between them, and after the last."""
        if left in self._frames:
            return self._frames[left]
        marks = [_SENTINEL.format(f"{i}M") for i in left]
        messages = [{"role": self._messages[i].role, "content": mark} for i, mark in zip(left, marks, strict=True)]
        begun = []
        for n in range(len(messages)):
            checkpoint()
            begun.append(self._tokenizer.render_chat(messages[: n + 1], answer=False))
        rendered = self._tokenizer.render_chat(messages, answer=True)
        if any(not rendered.startswith(part) for part in begun) or any(rendered.count(mark) != 1 for mark in marks):
            raise UsageError(
                f"the model's chat template does not write messages one after another; {_GIVE_ANOTHER_MODEL}"
            )
        # What a template writes before the first message (a default system prompt, BOS) is nobody's turn.
        opening = _opening(rendered, self._tokenizer, self._messages[left[0]].role)
        frames = [[PromptSegment(FRAME, rendered[:opening])]]
        cursor = opening
        for i, mark, part in zip(left, marks, begun, strict=True):
            role, owner = (FRAME, None) if self._stays[i] else (CONTEXT, self._messages[i].name)
            start = rendered.index(mark)
            frames[-1].append(PromptSegment(role, rendered[cursor:start], owner=owner))
            cursor = start + len(mark)
            frames.append([PromptSegment(role, rendered[cursor : len(part)], owner=owner)])
            cursor = len(part)
        frames[-1].append(PromptSegment(FRAME, rendered[cursor:]))
        self._frames[left] = frames
        return frames


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
