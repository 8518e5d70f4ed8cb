"""Text to ids with offsets, by a fast tokenizer of the transformers library, with its model or from a directory."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import TemplateError
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast

from leakmeter.backends.hf.chat_template import TooMuchError, rendered
from leakmeter.core.backend import Encoded
from leakmeter.errors import CapabilityError, UsageError
from leakmeter.models.local import FROM_DISK, foreign_errors

# One of them stands in front of text that does not begin the prompt, where a tokenizer would put a space before it and
# no special token can stand there: the first that is a token of its own.
_ANCHORS = ("\x1f", "\u2063", "\ue000", "\n")
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
_USER = {"role": "user", "content": "text of the user"}
# By what a chat template makes of them, one template is told from another.
_CHATS = (
    [_USER],
    [{"role": "system", "content": "text of the system"}, _USER],
    [_USER, {"role": "assistant", "content": "text of the assistant"}, _USER],
)


Pairs = list[tuple[int, tuple[int, int]]]
"""Token ids and the characters [start, end) each came from."""


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
        self.n_vocab: int = tokenizer.vocab_size
        """Tokens, without those that were added to the model's vocabulary."""
        self.has_chat_template = bool(tokenizer.chat_template)
        self._specials = {id_: token for id_, token in tokenizer.added_tokens_decoder.items() if token.special}
        self._unknown: int | None = tokenizer.unk_token_id
        with_specials = tokenizer("a")["input_ids"]
        plain = tokenizer("a", add_special_tokens=False)["input_ids"]
        n_start = next((i for i in range(len(with_specials)) if with_specials[i : i + len(plain)] == plain), 0)
        self.start_ids: tuple[int, ...] = tuple(with_specials[:n_start])
        self._prepends_space = tokenizer.convert_ids_to_tokens(plain)[0].startswith(("▁", "Ġ"))
        self._mark = self._mark_before_text()
        self.stop_ids = frozenset(_stop_ids(tokenizer, model))

    def encode_data(self, text: str, *, first: bool) -> Encoded:
        return _encoded(self._encode(text, first=first, split_special_tokens=True))

    def encode_joined(self, parts: Sequence[tuple[str, bool]]) -> Encoded:
        text = "".join(part for part, _ in parts)
        pairs = self._encode(text, first=True, split_special_tokens=False)
        runs = _template_runs(parts)
        specials = (_stripped(text, (a, b)) for token, (a, b) in pairs if self._is_written(token, text[a:b]))
        if not all(any(a <= start and end <= b for a, b in runs) for start, end in specials):
            pairs = self._encode_around(text, [at for run in runs for at in self._specials_in(text, run)])
        return _encoded(pairs)

    def _is_written(self, token: int, text: str) -> bool:
        """Whether a token is special because the text writes it, as it is or once normalised, and not because the text
        has no token."""
        if token == self._unknown:
            return text.strip() == str(self.library.unk_token).strip()
        return token in self._specials

    def _specials_in(self, text: str, run: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
        """Special tokens that a stretch of template text writes: id and characters [start, end) that it takes."""
        start, end = run
        for token, (a, b) in self._encode(text[start:end], first=True, split_special_tokens=False):
            if self._is_written(token, text[start + a : start + b]):
                (first, last), kind = _stripped(text, (start + a, start + b)), self._specials[token]
                while kind.lstrip and first and text[first - 1].isspace():
                    first -= 1
                while kind.rstrip and last < len(text) and text[last].isspace():
                    last += 1
                yield token, first, last

    def _encode_around(self, text: str, specials: Sequence[tuple[int, int, int]]) -> Pairs:
        """A text of which nothing but some stretches is special."""
        pairs: Pairs = []
        cursor = 0
        for token, start, end in (*specials, (None, len(text), len(text))):
            if cursor < start:
                first = cursor == 0 or not self._mark
                pairs += _moved(self._encode(text[cursor:start], first=first, split_special_tokens=True), cursor)
            if token is not None:
                pairs.append((token, (start, end)))
            cursor = max(cursor, end)
        return pairs

    def decode(self, ids: Sequence[int]) -> str:
        """Ids to text, byte for byte where the tokenizer allows; half a surrogate pair, which is no text, as U+FFFD."""
        text: str = self.library.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return _HALF_PAIR.sub("\ufffd", text)

    def render_chat(self, messages: Sequence[Mapping[str, Any]], *, answer: bool) -> str:
        if not self.has_chat_template:
            raise UsageError("this model has no chat template; give --template plain, or a template of your own")
        try:
            return rendered(self.library, messages, answer=answer)
        except TooMuchError as error:
            raise UsageError(f"the model's chat template {error}; repair it, or give another model") from None
        except TemplateError as error:
            roles = ", ".join(f"'{message['role']}'" for message in messages)
            raise UsageError(f"the model's chat template refuses the roles {roles}: {error}") from None
        except _TEMPLATE_FAULTS as error:
            raise UsageError(
                f"the model's chat template fails ({type(error).__name__}: {error}); repair it, or give another model"
            ) from None

    @property
    def identity(self) -> dict[str, str | None]:
        """SHA-256 in hex of the tokenizer and the chat template, which join a run's id and the key of a kept score. The
        template is hashed as it renders: one that writes the date is another one tomorrow."""
        reads = {
            "library": self.library.backend_tokenizer.to_str(),
            "start": list(self.start_ids),
            # The generation defaults have a part in these, and in nothing else that is measured.
            "stop": sorted(self.stop_ids),
        }
        rendered: list[str | None] = []
        for chat in _CHATS if self.has_chat_template else ():
            try:
                rendered.append(self.render_chat(chat, answer=True))
            except UsageError:
                rendered.append(None)
        return {
            "tokenizer_sha256": json_sha256(reads),
            "chat_template_sha256": json_sha256(rendered) if self.has_chat_template else None,
        }

    def _mark_before_text(self) -> str:
        """A special token behind which no space is put before text; empty where there is none, or none is needed."""
        kinds = self._specials.values() if self._prepends_space else ()
        for token in kinds:
            if not token.lstrip and not token.rstrip and not token.single_word:
                alone, behind = (self._library_pairs(text, False) for text in ("a", f"{token.content}a"))
                return token.content if [id_ for id_, _ in behind[1:]] != [id_ for id_, _ in alone] else ""
        return ""

    def _encode(self, text: str, *, first: bool, split_special_tokens: bool) -> Pairs:
        pairs = self._coded(text, split_special_tokens=split_special_tokens, behind=self._prepends_space and not first)
        if split_special_tokens:
            # Some vocabularies have special tokens as pieces of text too: of such a string the first letter is cut off.
            for token, (start, end) in pairs:
                if end - start > 1 and self._is_written(token, text[start:end]):
                    at = start + 1
                    head = self._encode(text[:at], first=first, split_special_tokens=True)
                    tail = self._encode(text[at:], first=False, split_special_tokens=True)
                    return head + _moved(tail, at)
        return list(zip((token for token, _ in pairs), _with_marks(text, [at for _, at in pairs]), strict=True))

    def _library_pairs(self, text: str, split_special_tokens: bool) -> Pairs:
        encoding = self.library(
            text,
            add_special_tokens=False,
            return_offsets_mapping=True,
            split_special_tokens=split_special_tokens,
            verbose=False,  # the window is checked by us, over the whole prompt
        )
        return list(zip(encoding["input_ids"], encoding["offset_mapping"], strict=True))

    def _coded(self, text: str, *, split_special_tokens: bool, behind: bool) -> Pairs:
        """Ids and offsets as the library has them; with `behind`, text that no space is put before."""
        if not behind:
            return self._library_pairs(text, split_special_tokens)
        if self._mark:
            _, *pairs = self._library_pairs(self._mark + text, False)
            if not split_special_tokens or not any(token in self._specials for token, _ in pairs):
                return _moved(pairs, -len(self._mark))
        for anchor in _ANCHORS:
            pairs = self._library_pairs(anchor + text, split_special_tokens)
            if max((end for _, (start, end) in pairs if start < len(anchor)), default=0) == len(anchor):
                break
        return _moved([(token, at) for token, at in pairs if at[1] > len(anchor)], -len(anchor))


def json_sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _encoded(pairs: Pairs) -> Encoded:
    return Encoded(tuple(token for token, _ in pairs), tuple(at for _, at in pairs))


def _moved(pairs: Pairs, n: int) -> Pairs:
    return [(token, (max(start + n, 0), end + n)) for token, (start, end) in pairs]


def _with_marks(text: str, offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Offsets that cover what a normalizer has joined to the character before, such as an accent, too."""
    reached = 0
    for i in range(len(offsets) + 1):
        start = offsets[i][0] if i < len(offsets) else len(text)
        end = reached
        # Control and format characters are dropped rather than joined.
        while end < start and not text[end].isspace() and unicodedata.category(text[end]) not in ("Cc", "Cf"):
            end += 1
        if end > reached:
            j = i
            while j and offsets[j - 1][1] == reached:
                j -= 1
                offsets[j] = (offsets[j][0], end)
        if i < len(offsets):
            reached = max(reached, offsets[i][1])
    return offsets


def _template_runs(parts: Sequence[tuple[str, bool]]) -> list[tuple[int, int]]:
    """Stretches of the joined text that are a template's, each as long as can be."""
    runs: list[tuple[int, int]] = []
    at = 0
    for is_template, same in groupby((part for part in parts if part[0]), key=lambda part: part[1]):
        n = sum(len(text) for text, _ in same)
        if is_template:
            runs.append((at, at + n))
        at += n
    return runs


def _stripped(text: str, at: tuple[int, int]) -> tuple[int, int]:
    """Characters without the white space around them, which some special tokens take along."""
    inner = text[at[0] : at[1]]
    start = at[0] + len(inner) - len(inner.lstrip())
    return start, start + len(inner.strip())


def _stop_ids(tokenizer: Any, model: Any) -> set[int]:
    """Every id that ends a response: the tokenizer's, the generation defaults', and usual names of turn ends."""
    ids = {tokenizer.eos_token_id}
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ids.update(configured if isinstance(configured, list) else [configured])
    vocab = tokenizer.get_vocab()
    ids.update(vocab.get(name) for name in ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>", "</s>"))
    return {token for token in ids if token is not None}


def load_tokenizer(folder: Path, name: str) -> HfTokenizer:
    """The tokenizer of a directory with a tokenizer.json, with what its generation defaults say ends a response; a
    configuration beside it is used, weights are not."""
    failure = f"the tokenizer '{name}' could not be loaded"
    with foreign_errors(failure, "give a directory that a tokenizer's save_pretrained wrote", disk_failure=failure):
        if any((folder / file).is_file() for file in ("tokenizer_config.json", "config.json")):
            tokenizer = AutoTokenizer.from_pretrained(folder, **FROM_DISK)
        else:
            tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
        defaults = None
        if (folder / "generation_config.json").is_file():
            defaults = GenerationConfig.from_pretrained(folder, local_files_only=True)
        return HfTokenizer(tokenizer, SimpleNamespace(generation_config=defaults))
