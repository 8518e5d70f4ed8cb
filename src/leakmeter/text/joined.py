"""Named stretches of a prompt tokenised together, as a server tokenises the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from leakmeter.core.backend import Tokenizer
from leakmeter.core.long_work import checkpoint
from leakmeter.core.prompt import FRAME, Piece, Prompt
from leakmeter.text import templates

START: Final = "start"
"""Name of the piece of what a model expects before a prompt."""


@dataclass(frozen=True, slots=True)
class TextStretch:
    name: str
    role: str
    text: str
    is_template: bool = False
    """Whether special tokens in it are special."""


def prompt_of(stretches: Iterable[TextStretch], tokenizer: Tokenizer, *, chat: bool = False) -> Prompt:
    """The prompt of stretches, one after another; neighbours of one name are one piece. A token is of the stretch in
    which its first character stands that is no white space; one of white space alone is of the stretch of its first
    character. `chat` makes them the one message of a user's, in the model's chat template, which may change it by white
    space at its ends only."""
    written = _in_turn(stretches, tokenizer) if chat else list(stretches)
    written = [stretch for stretch in written if stretch.text]
    start = tokenizer.start_ids
    ids = _together(written, tokenizer)
    opens = bool(written) and written[0].is_template
    # A chat template writes them itself, or its servers leave them out.
    has_start = (opens and ids[0][: len(start)] == start) or chat
    pieces = [] if has_start or not start else [_piece(START, FRAME, start)]
    for (name, role), same in groupby(zip(written, ids, strict=True), key=lambda pair: (pair[0].name, pair[0].role)):
        piece_ids = tuple(token for _, part in same for token in part)
        if piece_ids:
            pieces.append(_piece(name, role, piece_ids))
    return Prompt(tuple(pieces))


def owners(first: npt.NDArray[np.int64], starts: Sequence[int]) -> npt.NDArray[np.int64]:
    """Of each token, by its first character, the number of the stretch it belongs to, never decreasing; no stretch is
    empty."""
    numbers = np.searchsorted(np.asarray(starts), first, side="right") - 1
    return np.maximum.accumulate(numbers.astype(np.int64))


def first_characters(text: str, offsets: Sequence[tuple[int, int]]) -> npt.NDArray[np.int64]:
    """Of each token its first character that is no white space; of white space alone its first."""
    checkpoint()
    spans = np.asarray(offsets, dtype=np.int64).reshape(-1, 2)
    places = np.arange(len(text) + 1)
    is_space = np.fromiter(map(str.isspace, text), dtype=bool, count=len(text))
    # Of each character the first from there on that is no white space; behind the last one the end.
    candidates = np.where(np.append(is_space, False), len(text), places)
    following = np.minimum.accumulate(candidates[::-1])[::-1]
    first = following[np.minimum(spans[:, 0], len(text))]
    characters: npt.NDArray[np.int64] = np.where(first < spans[:, 1], first, spans[:, 0])
    return characters


def _in_turn(stretches: Iterable[TextStretch], tokenizer: Tokenizer) -> list[TextStretch]:
    inner = [stretch for stretch in stretches if stretch.text]
    before, kept, after = templates.turn("".join(stretch.text for stretch in inner), tokenizer)
    out: list[TextStretch] = []
    at = 0
    for stretch in inner:
        a, b = max(kept[0] - at, 0), max(kept[1] - at, 0)
        out.append(replace(stretch, text=stretch.text[a:b]))
        at += len(stretch.text)
    if out and _is_frame(out[0]):
        out[0] = replace(out[0], text=before + out[0].text)
    else:
        out.insert(0, TextStretch("opening", FRAME, before, True))
    if _is_frame(out[-1]):
        out[-1] = replace(out[-1], text=out[-1].text + after)
    else:
        out.append(TextStretch("closing", FRAME, after, True))
    return out


def _is_frame(stretch: TextStretch) -> bool:
    return stretch.is_template and stretch.role == FRAME


def _together(stretches: Sequence[TextStretch], tokenizer: Tokenizer) -> list[tuple[int, ...]]:
    coded = tokenizer.encode_joined([(stretch.text, stretch.is_template) for stretch in stretches])
    ends = np.cumsum([len(stretch.text) for stretch in stretches])
    text = "".join(stretch.text for stretch in stretches)
    first = first_characters(text, coded.offsets)
    owner_numbers = owners(first, [0, *ends[:-1].tolist()]) if stretches else np.empty(0, dtype=np.int64)
    cuts = np.searchsorted(owner_numbers, np.arange(len(stretches) + 1)).tolist()
    return [coded.ids[a:b] for a, b in pairwise(cuts)]


@lru_cache(maxsize=4096)
def _piece(name: str, role: str, ids: tuple[int, ...]) -> Piece:
    """One object for all the prompts that a piece stands in, since they are in memory together."""
    return Piece(name, role, ids)
