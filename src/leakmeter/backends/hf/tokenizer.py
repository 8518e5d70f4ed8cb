"""Text to ids with offsets, by a fast tokenizer of the transformers library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from leakmeter.core.tokenizer import Encoded
from leakmeter.errors import CapabilityError, UsageError

# Stands in front of text that does not begin the prompt, where a tokenizer would put a space before it.
_ANCHOR = "\n"
# What code in a template may come upon, as any code may.
_TEMPLATE_FAULTS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
_HALF_PAIR = re.compile("[\ud800-\udfff]")


class HfTokenizer:
    """A fast tokenizer, telling data (special-token strings are text) from template (they are special)."""

    library: Any
    """The tokenizer itself."""

    def __init__(self, tokenizer: Any, model: Any) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise CapabilityError(
                f"the tokenizer {type(tokenizer).__name__} gives no character offsets; load a fast one "
                "(AutoTokenizer.from_pretrained(..., use_fast=True))"
            )
        self.library = tokenizer
        self.has_chat_template = bool(tokenizer.chat_template)
        with_specials = tokenizer("a")["input_ids"]
        plain = tokenizer("a", add_special_tokens=False)["input_ids"]
        self.start_ids: tuple[int, ...] = tuple(with_specials[: _find(with_specials, plain)])
        self._prepends_space = tokenizer.convert_ids_to_tokens(plain)[0].startswith("▁")
        self.stop_ids = frozenset(_stop_ids(tokenizer, model))

    def encode_data(self, text: str, *, first: bool) -> Encoded:
        """Ids and character offsets of untrusted text."""
        return self._encode(text, first=first, split_special_tokens=True)

    def encode_frame(self, text: str, *, first: bool) -> tuple[int, ...]:
        """Ids of a template's text, its special tokens parsed."""
        return self._encode(text, first=first, split_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """Ids to text, byte for byte where the tokenizer allows; half a surrogate pair, which is no text, as U+FFFD."""
        text: str = self.library.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return _HALF_PAIR.sub("\ufffd", text)

    def render_chat(self, messages: Sequence[Mapping[str, str]], *, answer: bool) -> str:
        """The model's own chat template over the messages."""
        if not self.has_chat_template:
            raise UsageError("this model has no chat template; give --template plain, or a template of your own")
        try:
            text: str = self.library.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=answer
            )
        except TemplateError as error:
            roles = ", ".join(f"'{message['role']}'" for message in messages)
            raise UsageError(f"the model's chat template refuses the roles {roles}: {error}") from None
        except _TEMPLATE_FAULTS as error:
            raise UsageError(
                f"the model's chat template fails ({type(error).__name__}: {error}); mend it, or give --template plain"
            ) from None
        return text

    def _encode(self, text: str, *, first: bool, split_special_tokens: bool) -> Encoded:
        anchor = _ANCHOR if self._prepends_space and not first else ""
        coded = self.library(
            anchor + text,
            add_special_tokens=False,
            return_offsets_mapping=True,
            split_special_tokens=split_special_tokens,
            verbose=False,  # the window is checked by us, over the whole prompt
        )
        pairs = [
            (token, (max(start - len(anchor), 0), end - len(anchor)))
            for token, (start, end) in zip(coded["input_ids"], coded["offset_mapping"], strict=True)
            if end > len(anchor) or not anchor
        ]
        return Encoded(tuple(token for token, _ in pairs), tuple(at for _, at in pairs))


def _find(ids: Sequence[int], part: Sequence[int]) -> int:
    for start in range(len(ids) - len(part) + 1):
        if list(ids[start : start + len(part)]) == list(part):
            return start
    return 0


def _stop_ids(tokenizer: Any, model: Any) -> set[int]:
    """Every id that ends a response: the tokenizer's, the generation defaults', and usual names of turn ends."""
    ids = {tokenizer.eos_token_id}
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ids.update(configured if isinstance(configured, list) else [configured])
    known = tokenizer.get_vocab()
    ids.update(known.get(name) for name in ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>", "</s>"))
    return {token for token in ids if token is not None}
