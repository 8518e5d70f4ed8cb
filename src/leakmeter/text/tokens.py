"""A prepared case as its tokens: what the model reads, and what of it goes with each piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, cast

from leakmeter.core.backend import Tokenizer
from leakmeter.core.prompt import QUERY
from leakmeter.core.record import JsonObject, Record
from leakmeter.errors import UnknownNameError
from leakmeter.overriding import override
from leakmeter.text.build import PreparedContext, response_text
from leakmeter.text.joined import START
from leakmeter.text.layout import LOOSE, CharRange, Layout
from leakmeter.text.spans import Cuts

RESPONSE: Final = "response"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptToken(Record):
    """One token of a prompt, or of the response behind it."""

    id: int
    text: str
    """The characters that it came from; several tokens may share one, and some have none."""
    start: int
    """Of these characters, the first: of `rendered`, with the response behind it."""
    end: int
    """The character behind the last."""
    piece: str
    """The first unit that it goes with; of a token that goes with none 'template', 'query', 'context', 'response', or
    'start' of start tokens that the template does not write."""
    role: str
    """frame, context, query or response."""
    spans: tuple[str, ...]
    """All units and repeated values that it goes with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftTokens(Record):
    """What is left of a prompt without some pieces."""

    pieces: tuple[str, ...]
    """What was removed."""
    removal: str
    """drop, mask or retokenize."""
    prompt_ids: tuple[int, ...]
    positions: tuple[int, ...]
    """Of each id, its position; consecutive except under mask."""
    retokenised: tuple[int, ...] | None
    """Places in `prompt_ids` of what a token held of others, tokenised on its own; None where the prompt was rendered
    and tokenised again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensResult(Record):
    """A case as the model reads it: text, ids, and the piece of each token."""

    schema: ClassVar[str] = "leakmeter.tokens/1"

    id: str
    model: str
    """As it was named; of a served model, whose tokenizer is another name, too."""
    template: str
    rendered: str
    """The prompt as one string, without start tokens that it does not write itself."""
    response: str | None
    """What is tokenised of the response; None where there is none."""
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...] | None
    tokens: tuple[PromptToken, ...]
    """Of the prompt, and of the response behind it."""
    truncated_tokens: int
    """Of the context, cut off by max_context_tokens."""
    without: LeftTokens | None
    """What is left without the pieces that were named; None where none was."""

    @override
    def to_dict(self) -> JsonObject:
        # In slotted dataclasses `super()` has no class.
        return {"schema": self.schema, **Record.to_dict(self)}


def tokens_of(
    prepared: PreparedContext,
    response: str | None,
    tokenizer: Tokenizer,
    *,
    model: str,
    without: Sequence[str] = (),
) -> TokensResult:
    """A prepared case as its tokens; of units and values named by `without` the joint removal is shown."""
    cuts = cast("Cuts", prepared.item.cut_together)
    for name in without:
        if name not in cuts.spans:
            raise UnknownNameError(f"piece of case '{prepared.item.id}'", name, cuts.spans)
    layout = cuts.layout
    answer = None if response is None else response_text(response, layout)
    return TokensResult(
        id=prepared.item.id,
        model=model,
        template=prepared.template,
        rendered=layout.text,
        response=answer,
        prompt_ids=tuple(prepared.item.prompt.ids.tolist()),
        response_ids=prepared.item.response,
        tokens=(
            *_of_prompt(prepared, layout),
            *(() if answer is None else _of_response(answer, len(layout.text), tokenizer)),
        ),
        truncated_tokens=prepared.n_truncated_tokens,
        without=_left(prepared, cuts, list(dict.fromkeys(without))) if without else None,
    )


def _of_prompt(prepared: PreparedContext, layout: Layout) -> Iterator[PromptToken]:
    held: dict[str, list[str]] = {}
    units: dict[str, str] = {}
    for span in prepared.item.spans:
        for piece in (name for name in span.pieces if not name.startswith(LOOSE)):
            held.setdefault(piece, []).append(span.name)
            if span.kind == "unit":
                units.setdefault(piece, span.name)
    places: Iterator[CharRange] = iter(layout.offsets)
    for piece in prepared.item.prompt.pieces:
        owner = units.get(piece.name) or {"frame": "template", QUERY: QUERY}.get(piece.role, piece.role)
        is_start = piece.name == START
        for token in piece.ids:
            start, end = (0, 0) if is_start else next(places)
            yield PromptToken(
                id=token,
                text=layout.text[start:end],
                start=start,
                end=end,
                piece=START if is_start else owner,
                role=piece.role,
                spans=tuple(held.get(piece.name, ())),
            )


def _of_response(response: str, at: int, tokenizer: Tokenizer) -> Iterator[PromptToken]:
    coded = tokenizer.encode_data(response, first=False)
    for token, (start, end) in zip(coded.ids, coded.offsets, strict=True):
        text = response[start:end]
        yield PromptToken(id=token, text=text, start=at + start, end=at + end, piece=RESPONSE, role=RESPONSE, spans=())


def _left(prepared: PreparedContext, cuts: Cuts, names: list[str]) -> LeftTokens:
    prompt = prepared.item.without(names)
    return LeftTokens(
        pieces=tuple(names),
        removal=cuts.removal,
        prompt_ids=tuple(prompt.ids.tolist()),
        positions=tuple(prompt.positions.tolist()),
        retokenised=None if cuts.is_all(names) or cuts.removal == "retokenize" else tuple(_places_anew(cuts, names)),
    )


def _places_anew(cuts: Cuts, names: Sequence[str]) -> Iterator[int]:
    """Places, among what is left, of ids that the one tokenisation does not have."""
    at = len(cuts.layout.start_ids)
    for _, ids in cuts.layout.left(cuts.removed(names)):
        yield from () if ids is None else range(at, at + len(ids))
        at += 1 if ids is None else len(ids)
