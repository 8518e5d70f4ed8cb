"""What reports say of options and commands, said of the controls of the Live page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from leakmeter.report import blocks as b

_SAID: Final = (
    (" (`--write-redacted`)", " (copy or download it here)"),
    ("another `--unit`", "another ablation unit"),
    ("measure with `--unit document` or `--unit whole`", "measure with a larger ablation unit"),
    ("raise `--max-loss` to", "raise the limit to"),
    ("`leakmeter redact --disclosures` chooses what to cut", "“Find out” chooses what to cut"),
    (" (`leakmeter influence`)", ", listed above"),
    ("`leakmeter doctor` says", "the page “Doctor” says"),
    ("raise M (`--search top:K:M`), or measure", "choose “every piece” in the options, or measure"),
    (" without --search", ", as the options offer it,"),
)
"""A wording, with what is to be typed between backticks, and what stands in its place; other options have no control
here, and stay."""


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
    changed: list[str | b.Untrusted] = []
    for _, run in groupby(b.parts(phrase), lambda part: isinstance(part, str)):
        some = list(run)
        own = [part for part in some if isinstance(part, str)]
        changed += _own(own) if own else some
    return tuple(changed)


def _own(words: Sequence[str]) -> Iterator[str]:
    """Own words that follow one another, some of them code: a wording may have both."""
    text = "".join(f"`{part}`" if isinstance(part, b.Code) else part for part in words)
    for option, control in _SAID:
        text = text.replace(option, control)
    return (b.Code(part) if number % 2 else part for number, part in enumerate(text.split("`")) if part)
