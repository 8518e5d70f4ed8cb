"""Tokenizers of nine families with chat templates in the manner of each, trained here on a few invented lines.

What tells them apart is how text becomes pieces before merges, whether a space is put before the first word, what is
done behind a special token, and what their chat templates do with the white space around a message.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import pytest

_TEXT: Final = (
    "The ferry to Quellhof sails at nine. Nurse Tovey Lindqvar holds the key 7731.\n\nHer number is 617-555-0134 "
    "(home). Anna sang; Bo (who ate figs) did not.\n“Late,” said Cid… and left!?\n\n\nQuestion: Who called?\n"
    "Answer: Anna.\n"
    "Context: naïve café 🙂 figs, ice\tcream.  Two  spaces.\r\nA line.)\n\nNext: [x] {y} <z> it's we'll I'd\n"
)
_LLAMA3: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_QWEN: Final = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_TEKKEN: Final = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CHATML: Final = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are helpful.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_HEADERS: Final = (
    "{% for message in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ '<|start|>' + message['role'] + '<|end|>\n\n' + message['content'] | trim + '<|eot|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant<|end|>\n\n' }}{% endif %}"
)
_TURNS: Final = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
    "{{ '<turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\n'"
    " + message['content'] | trim + '</turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<turn>model\n' }}{% endif %}"
)
_INST: Final = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}"
    "{{ ' ' + message['content'] | trim + ' ' + eos_token }}{% else %}"
    "{{ '[INST] ' + message['content'] | trim + ' [/INST]' }}{% endif %}{% endfor %}"
)
_PLAIN: Final = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)


def _byte_level(pattern: str | None, normalizer: Any = None, **merges: Any) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE(**merges))
    if normalizer is not None:
        made.normalizer = normalizer
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if pattern is None:
        made.pre_tokenizer = as_bytes
    else:
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), as_bytes])
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([_TEXT] * 4, trainer)
    return made


def _sentencepiece(kind: str, *, prefix: str) -> Any:
    """BPE or Unigram over '▁', with bytes for what it does not know."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    spaces = normalizers.Replace(" ", "▁")
    known: dict[str, Any] = {"special_tokens": ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]}
    if kind == "bpe":
        learner = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
        trainer: Any = trainers.BpeTrainer(vocab_size=560, show_progress=False, **known)
    else:
        learner = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=420, unk_token="<unk>", show_progress=False, **known)
    learner.normalizer = spaces
    learner.train_from_iterator([_TEXT] * 4, trainer)
    spec = json.loads(learner.to_str())
    # Bytes are no tokens that are looked for in a text.
    spec["added_tokens"] = [token for token in spec["added_tokens"] if not token["content"].startswith("<0x")]
    if kind != "bpe":
        spec["model"]["byte_fallback"] = True
    made = Tokenizer.from_str(json.dumps(spec))
    if prefix == "first":
        made.normalizer = None
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=kind != "bpe")
    elif prefix == "every":
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence(steps if prefix == "none" else [*steps, decoders.Strip(" ", 1, 0)])
    return made


def _word_piece() -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False, clean_text=False)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(cleanup=False)
    trainer = trainers.WordPieceTrainer(vocab_size=420, special_tokens=["[UNK]"], show_progress=False)
    made.train_from_iterator([_TEXT] * 4, trainer)
    return made


def _made(name: str) -> tuple[Any, dict[str, str], tuple[str, ...], str]:
    """Tokenizer, its named special tokens, further ones, and chat template."""
    from tokenizers import normalizers

    bounds = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    ends = {"eos_token": "<|im_end|>"}
    headers = {"bos_token": "<|begin|>", "eos_token": "<|eot|>"}
    roles, words = ("<|user|>", "<|assistant|>", "<|end|>"), {"unk_token": "[UNK]", "eos_token": "[EOS]"}
    inst, two = ("[INST]", "[/INST]"), {"bos_token": "<s>", "eos_token": "</s>"}
    made: dict[str, tuple[Callable[[], Any], dict[str, str], tuple[str, ...], str]] = {
        "gpt2": (lambda: _byte_level(None), ends, ("<|im_start|>",), _CHATML),
        "llama3": (lambda: _byte_level(_LLAMA3, ignore_merges=True), headers, ("<|start|>", "<|end|>"), _HEADERS),
        "qwen": (lambda: _byte_level(_QWEN, normalizers.NFC()), ends, ("<|im_start|>",), _CHATML),
        "tekken": (lambda: _byte_level(_TEKKEN), two, inst, _INST),
        "llama2": (lambda: _sentencepiece("bpe", prefix="every"), bounds, (), _INST),
        "metaspace": (lambda: _sentencepiece("bpe", prefix="first"), bounds, inst, _INST),
        "gemma": (lambda: _sentencepiece("bpe", prefix="none"), bounds, ("<turn>", "</turn>"), _TURNS),
        "unigram": (lambda: _sentencepiece("unigram", prefix="first"), bounds, roles, _PLAIN),
        "wordpiece": (_word_piece, words, roles, _PLAIN),
    }
    make, named, further, template = made[name]
    return make(), named, further, template


FAMILIES: Final = ("gpt2", "llama3", "qwen", "tekken", "llama2", "metaspace", "gemma", "unigram", "wordpiece")
SOME_QUICK: Final = [
    name if name in ("qwen", "llama2", "unigram") else pytest.param(name, marks=pytest.mark.long) for name in FAMILIES
]
"""All of them, most among the long tests."""


@lru_cache
def library_family(name: str) -> Any:
    """The transformers library's tokenizer of a family."""
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    core, named, further, template = _made(name)
    made = PreTrainedTokenizerFast(tokenizer_object=core, **named)
    made.add_special_tokens({"additional_special_tokens": list(further)})
    made.chat_template = template
    if "bos_token" in named:
        start = named["bos_token"]
        made.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{start} $A", pair=f"{start} $A $B", special_tokens=[(start, made.convert_tokens_to_ids(start))]
        )
    return made


@lru_cache
def family(name: str) -> Any:
    from leakmeter.backends.hf.tokenizer import HfTokenizer

    return HfTokenizer(library_family(name), None)
