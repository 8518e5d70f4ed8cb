"""What reports say of options and commands, said of the controls of the Live page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from leakmeter.report import blocks as b

_SAID: Final = (
    (" (--write-redacted)", " (copy or download it here)"),
    ("another --unit", "another ablation unit"),
    ("raise --max-loss to", "raise the limit to"),
    ("leakmeter redact --disclosures chooses what to cut", "“Find out” chooses what to cut"),
    (" (leakmeter influence)", ", listed above"),
    ("leakmeter doctor says", "the page “Doctor” says"),
    ("raise M (--search top:K:M), or measure", "choose “every piece” in the options, or measure"),
    (" without --search", ", as the options offer it,"),
)
"""A wording, and what stands in its place; other options have no control here, and stay."""


def here(blocks: Iterable[b.Block]) -> list[b.Block]:
    """Blocks, with the controls of the page in the place of options in advice, texts and warnings."""
    return [_block(block) for block in blocks]


def _block(block: b.Block) -> b.Block:
    match block:
        case b.Advice():
            return replace(block, rows=_rows(block.rows), others=_rows(block.others))
        case b.Text() | b.Warning():
            return replace(block, text=_phrase(block.text))
        case b.Details():
            return replace(block, blocks=here(block.blocks))
        case _:
            return block


def _rows(rows: Iterable[tuple[b.Phrase, b.Phrase]]) -> list[tuple[b.Phrase, b.Phrase]]:
    return [(found, _phrase(action)) for found, action in rows]


def _phrase(phrase: b.Phrase) -> b.Phrase:
    """The program's own words alone are changed."""
    return tuple(_own(part) if isinstance(part, str) else part for part in b.parts(phrase))


def _own(words: str) -> str:
    for option, control in _SAID:
        words = words.replace(option, control)
    return words
