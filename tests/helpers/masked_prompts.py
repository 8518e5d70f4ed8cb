"""Prompts with pieces masked, the slow and obvious way."""

from __future__ import annotations

from dataclasses import replace

from leakmeter.core.prompt import FRAME, Piece, Prompt


def masking(prompt: Prompt, *names: str) -> Prompt:
    """The prompt with the named pieces not attended, every other token at its old position.

    By causality this equals cutting the tokens and leaving a gap in the positions, and needs no attention mask.
    """
    kept: list[Piece] = []
    gap = 0
    for piece in prompt.pieces:
        if piece.name in names:
            gap += piece.gap + len(piece.ids)
        else:
            kept.append(replace(piece, gap=piece.gap + gap))
            gap = 0
    if gap:
        kept.append(Piece("gap", FRAME, (), gap))
    return Prompt(tuple(kept))
