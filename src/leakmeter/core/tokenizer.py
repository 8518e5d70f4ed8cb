"""What the prompts room needs of a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from leakmeter.core.record import JsonObject


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids and the characters [start, end) each came from; zero-width or shared ranges are possible."""

    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]


class Tokenizer(Protocol):
    """Text to ids and back, telling data from template."""

    @property
    def start_ids(self) -> tuple[int, ...]:
        """Ids that the model expects before a plain prompt, such as BOS; may be empty."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Ids that end a response."""

    @property
    def has_chat_template(self) -> bool:
        """Whether `render_chat` works."""

    def encode_data(self, text: str, *, first: bool) -> Encoded:
        """Encode untrusted text: strings that look like special tokens stay text.

        Args:
            text: any text.
            first: whether it stands at the very start of the prompt; some tokenizers put a space there.
        """

    def encode_joined(self, parts: Sequence[tuple[str, bool]]) -> Encoded:
        """Encode a whole prompt as one string, as a server does.

        Args:
            parts: text and whether it is a template's, in order. Special tokens are special where they lie within
                template text; strings in data that look like them stay text, also where template text completes them.

        Returns:
            Ids, without start tokens but for those that the template writes, and characters of the joined text. Without
            such strings in data the ids are those of the joined text.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Ids to text, special tokens included."""

    def render_chat(self, messages: Sequence[Mapping[str, str]], *, answer: bool) -> str:
        """Messages to the text of the model's chat template, followed by the opening of an answer if asked.

        Raises:
            UsageError: the template refuses these messages.
        """


def response_texts(ids: Sequence[int], tokenizer: Tokenizer) -> JsonObject:
    """A response's text, without what ended it, and the text that each token adds."""
    visible = ids[:-1] if ids and ids[-1] in tokenizer.stop_ids else ids
    tokens: list[str] = []
    # A character may take several tokens: it is shown at the one that completes it.
    start, shown = 0, ""
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[start:end])
        if text.endswith("�") and end < len(ids):
            tokens.append("")
            continue
        tokens.append(text[len(shown) :])
        shown = text
        if end - start > 64:
            start, shown = end - 1, tokenizer.decode(ids[end - 1 : end])
    return {"text": tokenizer.decode(visible), "tokens": tokens}
