"""A case to an item: tokenised once, cut into spans, each cut a prompt of its own."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal

from leakmeter.errors import UsageError, WindowError
from leakmeter.prompts import spans, templates, units
from leakmeter.prompts.layout import Layout
from leakmeter.prompts.spans import Cover
from leakmeter.types.case import Case
from leakmeter.types.item import Item, Span
from leakmeter.types.prompt import CONTEXT, Piece, Prompt
from leakmeter.types.tokenizer import Tokenizer

Removal = Literal["drop", "mask", "retokenize"]
_PLACEBO = (
    " The library opens at nine on weekdays. A bus stops near the park every half hour. Bread is baked before dawn."
    " The lake is calm in the evening, and boats are tied to the pier. Tickets are sold at the counter on the left."
)


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """How prompts are made and cut."""

    unit: str = "sentence"
    removal: Removal = "drop"
    template: str | None = None
    group: bool = False
    truncate: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """An item and the texts it came from, for people to read."""

    item: Item
    context: str
    """The documents, joined by blank lines; the characters of spans count in it."""
    documents: tuple[tuple[str, int, int], ...]
    """Name and characters [start, end) of each."""
    query: str
    template: str
    n_truncated_tokens: int


def prepare(
    case: Case, tokenizer: Tokenizer, settings: PromptSettings, *, window: int | None, n_reserved: int
) -> Prepared:
    """Tokenise a case and cut it.

    Args:
        case: the texts.
        tokenizer: the model's.
        settings: unit, removal, template.
        window: most tokens a sequence may have.
        n_reserved: tokens kept free for a response that is still to be sampled.

    Raises:
        UsageError: an empty context, query or response, or a template that does not fit the case.
        WindowError: more tokens than fit, without `truncate`.
    """
    unit = units.parse(settings.unit)
    template, layout, query = _layout(case, tokenizer, settings, unit)
    response = _response_ids(case, layout, tokenizer)
    n_after = n_reserved if response is None else len(response)
    n_before = len(layout.tokens)
    if window is not None and layout.n_tokens + n_after > window:
        layout = _fitted(case.id, layout, n_after, window, settings.truncate)
    spare = None if window is None else window - layout.n_tokens - n_after
    bounds = tuple(
        (document.name, start, start + len(document.text))
        for document, start in zip(layout.documents, layout.document_starts, strict=True)
    )
    item = _item(case.id, layout, unit, settings, response, spare, tokenizer)
    return Prepared(item, layout.context, bounds, query, template, n_before - len(layout.tokens))


def _layout(case: Case, tokenizer: Tokenizer, settings: PromptSettings, unit: units.Unit) -> tuple[str, Layout, str]:
    if case.messages:
        if settings.template not in (None, "chat"):
            raise UsageError("messages are written by the model's own chat template; leave --template out")
        asking = max((i for i, message in enumerate(case.messages) if message.role == "user"), default=-1)
        if asking < 0:
            raise UsageError(f"case '{case.id}' has no message of role 'user' that could be the query")
        name = "chat"
        segments, documents, query = templates.message_segments(case.messages, asking, tokenizer)
    else:
        if unit.kind == "message":
            raise UsageError("unit 'message' needs a chat; give --messages")
        name, text = templates.choose(settings.template, tokenizer)
        query = case.query if templates.needs_query(text) else ""
        if templates.needs_query(text) and not query.strip():
            raise UsageError(f"case '{case.id}' has an empty query; say what the model is asked")
        documents = [document for document in case.documents if document.text.strip()]
        segments = templates.segments(text, documents, query, tokenizer)
    if not any(document.text.strip() for document in documents):
        raise UsageError(f"case '{case.id}' has an empty context; there is nothing whose influence could be measured")
    if case.messages and not query.strip():
        raise UsageError(f"case '{case.id}' has an empty query: its last user message says nothing")
    return name, Layout(segments, documents, tokenizer), query


def _response_ids(case: Case, layout: Layout, tokenizer: Tokenizer) -> tuple[int, ...] | None:
    if case.response is None:
        return None
    if not case.response.strip():
        raise UsageError(f"case '{case.id}' has an empty response; leave it out to have one sampled")
    # A response is tokenised alone; after "Answer:" it begins with the space that a model would write.
    joined = not layout.segments[-1].text[-1].isspace() and not case.response[0].isspace()
    return tokenizer.encode_data((" " if joined else "") + case.response, first=False).ids


def _fitted(case_id: str, layout: Layout, n_after: int, window: int, truncate: bool) -> Layout:
    if not truncate:
        raise WindowError(
            f"case '{case_id}' needs {layout.n_tokens + n_after:,} tokens ({len(layout.tokens):,} of context, "
            f"{n_after:,} of response) and {window:,} fit the model's window; shorten the context or give --truncate"
        )
    while (over := layout.n_tokens + n_after - window) > 0:
        if over >= len(layout.tokens):
            raise WindowError(f"case '{case_id}': the window of {window:,} tokens leaves no room for any context")
        layout = layout.shortened(over)
    return layout


def _item(
    case_id: str,
    layout: Layout,
    unit: units.Unit,
    settings: PromptSettings,
    response: tuple[int, ...] | None,
    spare: int | None,
    tokenizer: Tokenizer,
) -> Item:
    covers = spans.of_units(layout, unit)
    values = spans.of_values(layout)
    repeated = spans.repeated_in(layout, covers, values)
    if settings.group:
        covers = covers + values
    prompt = layout.prompt({edge for cover in covers for part in cover.tokens for edge in part})
    named = [_span(layout, prompt, cover, repeated.get(cover.name, ())) for cover in covers]
    blank = prompt.blank()
    whole = set(prompt.names(CONTEXT))
    cuts: dict[str, Prompt] = {}
    for cover, span in zip(covers, named, strict=True):
        if whole <= set(span.pieces):
            # What a stranger could have built: no gap, which would tell the length of the context.
            cuts[span.name] = blank
        elif settings.removal == "retokenize":
            cuts[span.name] = layout.rewritten(cover.chars, cover.owners)
        elif settings.removal == "mask":
            cuts[span.name] = prompt.masking(*span.pieces)
        else:
            cuts[span.name] = prompt.without(*span.pieces)
    return Item(
        id=case_id,
        prompt=prompt,
        spans=tuple(named),
        cuts=cuts,
        alone={span.name: prompt.only(*span.pieces) for span in named},
        blank=blank,
        placebos=_placebos(prompt, named, spare, tokenizer),
        response=response,
        stop_ids=tokenizer.stop_ids,
    )


def _span(layout: Layout, prompt: Prompt, cover: Cover, repeated: tuple[str, ...]) -> Span:
    numbers = [int(piece.name[1:]) for piece in prompt.pieces if piece.name.startswith("t") and piece.role == CONTEXT]
    pieces = tuple(f"t{n}" for n in numbers if any(a <= n < b for a, b in cover.tokens))
    return Span(
        name=cover.name,
        kind=cover.kind,
        ranges=cover.chars,
        pieces=(*pieces, *layout.frames_of(cover.owners)),
        document=cover.document,
        n_tokens=cover.n_tokens,
        repeats=repeated,
    )


def _placebos(prompt: Prompt, named: list[Span], spare: int | None, tokenizer: Tokenizer) -> tuple[Prompt, ...]:
    """The prompt with an irrelevant piece of a unit's median length at the start, middle and end of the context."""
    n = max(1, round(statistics.median(span.n_tokens for span in named if span.kind == "unit")))
    if spare is not None and n > spare:
        return ()
    text = tokenizer.encode_data(_PLACEBO, first=False).ids
    ids = (text * (n // len(text) + 1))[:n]
    context = [i for i, piece in enumerate(prompt.pieces) if piece.role == CONTEXT and not piece.name.startswith("#")]
    places = dict.fromkeys((context[0], context[len(context) // 2], context[-1] + 1))
    return tuple(prompt.with_inserted(at, Piece("placebo", CONTEXT, ids)) for at in places)
