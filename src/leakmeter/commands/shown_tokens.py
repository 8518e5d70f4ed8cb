"""Prompts as they are tokenised: ids, and of each token the piece it belongs to, as JSON and as a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from leakmeter.core.item import ContextItem
from leakmeter.core.plain import to_plain
from leakmeter.core.prompt import CONTEXT, FRAME, QUERY, Prompt
from leakmeter.core.record import Record
from leakmeter.core.tokenizer import Tokenizer
from leakmeter.errors import UnknownNameError
from leakmeter.report import blocks as b
from leakmeter.runs.measure import response_texts
from leakmeter.runs.result import AnyResult
from leakmeter.text.build import PreparedContext

RESPONSE: Final = "response"
_ROLES: Final = {FRAME: "template", CONTEXT: "context", QUERY: "query"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownToken(Record):
    """One token of a prompt, or of the response behind it."""

    id: int
    text: str = field(repr=False)
    """The characters that it is the first to hold; empty for further tokens of one character."""
    start: int
    end: int
    """Its characters [start, end) of the rendered prompt, or of the response; both 0 for start tokens."""
    role: str
    """'template', 'context', 'query' or 'response'."""
    piece: str | None
    """Name of the piece it belongs to; None outside of all."""
    further_pieces: tuple[str, ...]
    """Names of further pieces that it goes with: n-grams that overlap, values with several mentions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPiece(Record):
    """One piece of the context."""

    name: str
    kind: str
    """'unit' or 'value'."""
    document: str | None
    """Of the document or message it lies in; None where it spans several."""
    text: str = field(repr=False)
    n_tokens: int
    """Of the context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPrompt(Record):
    """The prompt that is scored without some pieces."""

    pieces: tuple[str, ...]
    """Those that are removed."""
    prompt_ids: tuple[int, ...]
    positions: tuple[int, ...]
    """Of each token; the gaps of masked tokens are left out."""
    text: str = field(repr=False)
    """What the ids decode to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensResult(AnyResult, Record):
    """A case's prompt as the model reads it."""

    schema: ClassVar[str] = "tokens-1"

    id: str
    tokenizer: str
    """The model or tokenizer, as it was given."""
    template: str
    tokenization: str
    unit: str
    removal: str
    rendered: str = field(repr=False)
    """The text that is tokenised."""
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...] | None
    """None where no response was given."""
    blank_ids: tuple[int, ...]
    """The prompt without any context, z(∅)."""
    without: ShownPrompt | None
    """The prompt without the pieces that were asked for; None where none were."""
    pieces: tuple[ShownPiece, ...]
    tokens: tuple[ShownToken, ...]
    """Of the prompt."""
    response_tokens: tuple[ShownToken, ...]
    n_truncated_tokens: int
    """Cut off the context's end."""

    def to_dict(self) -> dict[str, Any]:
        """As `Record.to_dict`, with the name and version of the schema in front."""
        return {"schema": self.schema, **to_plain(self)}

    @classmethod
    def report(
        cls,
        results: Sequence[TokensResult],
        *,
        command: str | None = None,
        provenance: b.Provenance = b.Provenance(),  # noqa: B008 (frozen)
    ) -> b.Report:
        """Each prompt, its tokens in the colours of their pieces."""
        return b.Report(
            title="Prompts as they are tokenised",
            measure="tokens",
            lead="Each token has the colour of the piece of the context that it belongs to; tokens of the template are "
            "grey, those of the query underlined. Neighbouring tokens are lighter and darker.",
            sections=[b.Section(b.Untrusted(one.id, 80), list(_blocks(one)), _cells(one)) for one in results],
            index=(b.Column("Tokens", "count"), b.Column("Of context", "count"), b.Column("Pieces", "count")),
            case=("prompt", "prompts"),
            held_by="--json prints all",
            scripted=False,
            provenance=provenance,
            command=None if command is None else b.Command(b.Untrusted(command)),
        )


def shown(prepared: PreparedContext, tokenizer: Tokenizer, name: str, without: Sequence[str] = ()) -> TokensResult:
    """A prepared case's prompt, token by token.

    Args:
        prepared: with its layout.
        tokenizer: it was made with.
        name: what the user calls the tokenizer.
        without: names of pieces that are removed together.

    Raises:
        UnknownNameError: there is no piece of such a name.
    """
    item: ContextItem = prepared.item
    assert prepared.layout is not None
    cut = None
    names = [span.name for span in item.spans]
    for unknown in (one for one in without if one not in names):
        raise UnknownNameError("piece", unknown, names)
    if without:
        prompt = item.without(tuple(dict.fromkeys(without)))
        ids = tuple(prompt.ids.tolist())
        positions = tuple(prompt.positions.tolist())
        cut = ShownPrompt(pieces=tuple(without), prompt_ids=ids, positions=positions, text=tokenizer.decode(ids))
    return TokensResult(
        id=item.id,
        tokenizer=name,
        template=prepared.template,
        tokenization=prepared.layout.tokenization,
        unit=prepared.unit,
        removal=prepared.removal,
        rendered=prepared.layout.text,
        prompt_ids=tuple(item.prompt.ids.tolist()),
        response_ids=item.response,
        blank_ids=tuple(item.blank.ids.tolist()),
        without=cut,
        pieces=tuple(_pieces(prepared)),
        tokens=tuple(_tokens(prepared, tokenizer)),
        response_tokens=tuple(_of_response(item.response or (), tokenizer)),
        n_truncated_tokens=prepared.n_truncated_tokens,
    )


def _pieces(prepared: PreparedContext) -> Iterator[ShownPiece]:
    for span in prepared.item.spans:
        text = " … ".join(prepared.context[start:end] for start, end in span.ranges)
        yield ShownPiece(name=span.name, kind=span.kind, document=span.document, text=text, n_tokens=span.n_tokens)


def _tokens(prepared: PreparedContext, tokenizer: Tokenizer) -> Iterator[ShownToken]:
    prompt: Prompt = prepared.item.prompt
    layout = prepared.layout
    assert layout is not None
    spans: dict[str, list[str]] = {}
    for span in prepared.item.spans:
        for piece in span.pieces:
            spans.setdefault(piece, []).append(span.name)
    places = [(0, 0)] * len(layout.start_ids) + list(layout.offsets)
    at, reached = 0, 0
    for piece in prompt.pieces:
        names = spans.get(piece.name, [])
        behind = at + len(piece.ids)
        # Start tokens have no characters, and those of a template in parts have all of it.
        alone = piece.role == FRAME and (at < len(layout.start_ids) or layout.tokenization == "parts")
        texts: Sequence[str] = response_texts(piece.ids, tokenizer)["tokens"] if alone else ()
        for i, token in enumerate(piece.ids):
            start, end = places[at + i]
            yield ShownToken(
                id=token,
                text=texts[i] if alone else layout.text[max(start, reached) : end],
                start=start,
                end=end,
                role=_ROLES.get(piece.role, piece.role),
                piece=names[0] if names else None,
                further_pieces=tuple(names[1:]),
            )
            reached = max(reached, end)
        at = behind


def _of_response(ids: Sequence[int], tokenizer: Tokenizer) -> Iterator[ShownToken]:
    start = 0
    for token, text in zip(ids, response_texts(ids, tokenizer)["tokens"], strict=True):
        end = start + len(text)
        yield ShownToken(id=token, text=text, start=start, end=end, role=RESPONSE, piece=None, further_pieces=())
        start = end


def _cells(one: TokensResult) -> tuple[b.Cell, ...]:
    return len(one.tokens), sum(token.role == "context" for token in one.tokens), len(one.pieces)


def _blocks(one: TokensResult) -> Iterator[b.Block]:
    n_context = sum(token.role == "context" for token in one.tokens)
    behind = "" if one.response_ids is None else f", and {len(one.response_ids):,} of the response behind them"
    yield b.Headline(f"{len(one.tokens):,} tokens, {n_context:,} of them of the context{behind}.")
    if one.n_truncated_tokens:
        yield b.Warning(f"The last {one.n_truncated_tokens:,} tokens of the context were cut off.")
    numbers = {piece.name: number for number, piece in enumerate(one.pieces, 1)}
    yield _coloured("Prompt", one.tokens, numbers, one.rendered if one.tokenization == "joint" else None)
    if one.response_tokens:
        yield _coloured("Response, tokenised on its own", one.response_tokens, numbers, None)
    if one.without is not None:
        names = [b.Untrusted(name, 40) for name in one.without.pieces]
        yield b.ShadedText(
            (b.Passage((b.Segment(b.Untrusted(one.without.text)),)),),
            heading=("Without ", *_listed(names), f": {len(one.without.prompt_ids):,} tokens, decoded"),
            style="tokens",
        )
    yield b.Table(
        [b.Column("Piece"), b.Column("Tokens", "count"), b.Column("Text")],
        [b.Row((b.Untrusted(one.name, 40), one.n_tokens, b.Untrusted(one.text, 100))) for one in one.pieces],
        caption="Pieces of the context",
        rest=("piece", "pieces"),
    )
    settings: Mapping[str, str] = {
        "Tokenizer": one.tokenizer,
        "Template": one.template,
        "Tokenization": one.tokenization,
        "Unit": one.unit,
        "Removal": one.removal,
    }
    yield from b.facts_of(settings)


def _listed(names: Sequence[b.Untrusted]) -> Iterator[str | b.Untrusted]:
    for number, name in enumerate(names):
        if number:
            yield ", "
        yield name


def _coloured(heading: str, tokens: Sequence[ShownToken], numbers: Mapping[str, int], text: str | None) -> b.ShadedText:
    """Tokens in the colours of their pieces, and what of the text is in none."""
    segments: list[b.Segment] = []
    reached = 0
    for token in tokens:
        if text is not None and token.start > reached:
            segments.append(b.Segment(b.Untrusted(text[reached : token.start])))
        reached = max(reached, token.end)
        if token.text:
            name = token.role if token.piece is None else b.Untrusted(token.piece, 40)
            group = 0 if token.piece is None else numbers[token.piece]
            line: Literal["", "solid"] = "solid" if token.role == "query" else ""
            segments.append(b.Segment(b.Untrusted(token.text), said=name, group=group, line=line))
    if text is not None and reached < len(text):
        segments.append(b.Segment(b.Untrusted(text[reached:])))
    return b.ShadedText((b.Passage(segments),), heading=heading, style="tokens")
