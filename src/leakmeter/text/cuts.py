"""Prompts without spans, one or several together, under one removal policy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from leakmeter.core.item import Span
from leakmeter.core.prompt import CONTEXT, Prompt
from leakmeter.text.layout import Layout
from leakmeter.text.spans import Cover


@dataclass(frozen=True, slots=True)
class Cuts:
    """Makes the prompt without spans: what is cut for one of them is cut for it beside others."""

    layout: Layout
    prompt: Prompt
    """Of the layout, split where a span begins or ends."""
    removal: str
    """drop, mask or retokenize."""
    spans: Mapping[str, tuple[Cover, Span]]
    """By name, what each covers."""

    def __call__(self, names: Collection[str]) -> Prompt:
        """The prompt without these spans, which may overlap.

        Args:
            names: of spans, one or more.
        """
        gone = [self.spans[name] for name in names]
        pieces = {piece for _, span in gone for piece in span.pieces}
        if pieces.issuperset(self.prompt.names(CONTEXT)):
            # What a stranger could have built: no gap, which would tell the length of the context.
            return self.prompt.blank()
        if self.removal == "retokenize":
            chars = [part for cover, _ in gone for part in cover.chars]
            return self.layout.rewritten(chars, {owner for cover, _ in gone for owner in cover.owners})
        if self.removal == "mask":
            return self.prompt.masking(*pieces)
        return self.prompt.without(*pieces)
