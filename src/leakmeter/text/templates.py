"""Templates: where context and query stand in the text that the model reads.

Frame text and data are kept apart from the start and tokenised apart, so that nothing in a context can act as
template or special token, and the frame without a context is the same whatever the context was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakmeter.core.case import Document, Message
from leakmeter.core.files import read_text
from leakmeter.core.prompt import CONTEXT, FRAME, QUERY
from leakmeter.core.tokenizer import Tokenizer
from leakmeter.errors import UnknownNameError, UsageError

NAMED = {
    "plain": "Context: {context}\n\nQuestion: {query}\nAnswer:",
    # The two formats of Flemings et al., Appendix C.
    "document": "Document: {context}. {query}",
    "article": "Article: {context}. Summary of the above news article:",
}
_CHAT_TURN = "{context}\n\n{query}"
_SLOT = re.compile(r"\{(context|query)\}")
_SENTINEL = "LEAKMETERSLOT{}Q"


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the prompt's text with one role; tokenised on its own."""

    role: str
    text: str
    document: int | None = None
    """Which document of the context this is; None for frames and the query."""
    owner: str | None = None
    """For the frame around a message of the context: the message it comes and goes with."""


def choose(template: str | None, tokenizer: Tokenizer) -> tuple[str, str | None]:
    """A template option to (name, text); the text is None for the model's own chat template.

    Args:
        template: None for chat where the model has it and plain otherwise; 'chat', a name, '@FILE', or a text with
            {context}.
        tokenizer: the model's.
    """
    name = resolved(template) or ("chat" if tokenizer.has_chat_template else "plain")
    if name == "chat":
        if not tokenizer.has_chat_template:
            raise UsageError(
                "this model has no chat template; give --template plain, or a text with {context} and {query}"
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


def needs_query(text: str | None) -> bool:
    """Whether the template has a place for a query."""
    return text is None or "{query}" in text


def segments(text: str | None, documents: Sequence[Document], query: str, tokenizer: Tokenizer) -> list[Segment]:
    """Template text, documents and query to segments, in the order the model reads them."""
    if text is not None:
        return _fill(text, documents, query)
    slots = {"context": _SENTINEL.format("C"), "query": _SENTINEL.format("X")}
    turn = _CHAT_TURN.format(**slots)
    rendered = _rendered_once(turn, slots.values(), tokenizer)
    # The rendered text is the frame; only our own sentinels are replaced, so a brace of the template stays a brace.
    return _fill(rendered, documents, query, slots=slots)


def user_turn(tokenizer: Tokenizer) -> tuple[str, str]:
    """What the model's chat template writes before and after the text of a single user message.

    Raises:
        UsageError: the model has no chat template, or one that repeats or drops the text.
    """
    mark = _SENTINEL.format("T")
    before, after = _rendered_once(mark, (mark,), tokenizer).split(mark)
    return before, after


def message_segments(
    messages: Sequence[Message], query_at: int, tokenizer: Tokenizer
) -> tuple[list[Segment], list[Document], str]:
    """A chat to segments: each message but the query's is context, and goes with its turn markers.

    Returns:
        The segments, the parts of the context messages as documents, and the query's text.
    """
    sentinels = [[_SENTINEL.format(f"{i}P{j}") for j in range(len(m.parts))] for i, m in enumerate(messages)]
    contents = [{"role": m.role, "content": joined(m, marks)} for m, marks in zip(messages, sentinels, strict=True)]
    ends = [len(tokenizer.render_chat(contents[: i + 1], answer=False)) for i in range(len(messages))]
    rendered = tokenizer.render_chat(contents, answer=True)
    if any(
        not rendered.startswith(tokenizer.render_chat(contents[: i + 1], answer=False)) for i in range(len(messages))
    ) or any(rendered.count(mark) != 1 for marks in sentinels for mark in marks):
        raise UsageError("the model's chat template does not write messages one after another; give --template plain")
    out: list[Segment] = []
    documents: list[Document] = []
    # What a template writes before the first message (a default system prompt, BOS) is nobody's turn.
    opening = _opening(rendered, tokenizer, messages[0].role)
    out.append(Segment(FRAME, rendered[:opening]))
    cursor = opening
    for i, (message, marks) in enumerate(zip(messages, sentinels, strict=True)):
        is_query = i == query_at
        owner = None if is_query else message.name
        role = FRAME if is_query else CONTEXT
        space = ""
        for number, (mark, part) in enumerate(zip(marks, message.parts, strict=True)):
            start = rendered.index(mark)
            out.append(Segment(role, rendered[cursor:start], owner=owner))
            if is_query and number in message.retrieved:
                # It comes and goes without the turn around it, and as in other templates the space before goes with it.
                out.append(Segment(CONTEXT, space + part.text, document=len(documents), owner=part.name))
                documents.append(part)
                space = ""
            elif is_query:
                kept = part.text.rstrip(" ") if number + 1 in message.retrieved else part.text
                out.append(Segment(QUERY, kept))
                space = part.text[len(kept) :]
            else:
                out.append(Segment(CONTEXT, part.text, document=len(documents), owner=owner))
                documents.append(part)
            cursor = start + len(mark)
        out.append(Segment(role, rendered[cursor : ends[i]], owner=owner))
        cursor = ends[i]
    out.append(Segment(FRAME, rendered[cursor:]))
    asking = messages[query_at]
    asked = [part.text for number, part in enumerate(asking.parts) if number not in asking.retrieved]
    query = joined(asking, asked)
    return [s for s in out if s.text], documents, query


def joined(message: Message, texts: Iterable[str]) -> str:
    """What the parts of a message are in one text."""
    return ("" if message.retrieved else "\n").join(texts)


def _opening(rendered: str, tokenizer: Tokenizer, first_role: str) -> int:
    """Where the first message's own turn begins: after what the template writes whatever that message is.

    A later turn of the same role is written without the opening: the difference in length is the opening's.
    """
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


def _rendered_once(turn: str, marks: Iterable[str], tokenizer: Tokenizer) -> str:
    rendered = tokenizer.render_chat([{"role": "user", "content": turn}], answer=True)
    if any(rendered.count(mark) != 1 for mark in marks):
        raise UsageError("the model's chat template repeats or drops what it is given; give --template plain")
    return rendered


def _checked(text: str) -> str:
    slots = _SLOT.findall(text)
    if slots.count("context") != 1 or slots.count("query") > 1:
        raise UsageError("a template holds {context} exactly once and {query} at most once")
    return text


def _fill(text: str, documents: Sequence[Document], query: str, slots: dict[str, str] | None = None) -> list[Segment]:
    pattern = _SLOT if slots is None else re.compile("|".join(map(re.escape, slots.values())))
    by_mark = {mark: role for role, mark in slots.items()} if slots else {"{context}": "context", "{query}": "query"}
    out: list[Segment] = []
    cursor = 0
    for match in pattern.finditer(text):
        frame = text[cursor : match.start()]
        # Most tokenizers write a space as part of the word after it, so the frame's last space goes with the data:
        # without the data it is not there either.
        bare = frame.rstrip(" ")
        space = frame[len(bare) :]
        if bare:
            out.append(Segment(FRAME, bare))
        if by_mark[match.group()] == "context":
            for i, document in enumerate(documents):
                out.append(Segment(CONTEXT, (space if i == 0 else "\n\n") + document.text, document=i))
        elif query:
            out.append(Segment(QUERY, space + query))
        cursor = match.end()
    if text[cursor:]:
        out.append(Segment(FRAME, text[cursor:]))
    return out
