"""How text is split before byte-pair merges, by the name that a GGUF file gives in `tokenizer.ggml.pre`.

A GGUF file holds vocabulary and merges, but of the split only a name; what the name means stands in llama.cpp's source
(`src/llama-vocab.cpp`, release b11549). The patterns here are those definitions in the syntax of the tokenizers
library. They are applied one after another: each cuts the pieces that the one before has left. Every name below is
held, id for id, against llama.cpp itself in `tests/models/test_llama_cpp.py`. A name that is not here is
refused, because another split gives other token ids, and other ids other nats, without any error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """A split, and what else llama.cpp ties to its name."""

    patterns: tuple[str, ...]
    """Regular expressions; what matches and what is left between matches are pieces of their own."""
    ignores_merges: bool = False
    """Whether a piece that is in the vocabulary is one token, also where merges would not make it."""
    adds_start: bool = False
    """Whether the start token is put before a prompt where the file does not say."""


_CONTRACTION: Final = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_WORD: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SYMBOLS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACES: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_LLAMA3: Final = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_SYMBOLS}|{_SPACES}"
_QWEN2: Final = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_SYMBOLS}|{_SPACES}"
_QWEN35: Final = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
# A letter that is no small (no capital) letter of ASCII: llama.cpp's stand-in for the upper (lower) case of Unicode.
_CAPITAL: Final = r"(?:(?=\p{L})[^a-z])"
_SMALL: Final = r"(?:(?=\p{L})[^A-Z])"
_CASED: Final = rf"[^\r\n\p{{L}}\p{{N}}]?{_CAPITAL}*{_SMALL}+"
_CAPITALS: Final = rf"[^\r\n\p{{L}}\p{{N}}]?{_CAPITAL}+{_SMALL}*"
_SLASHED: Final = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
_TEKKEN: Final = rf"{_CASED}|{_CAPITALS}|\p{{N}}|{_SLASHED}"
_GPT4O: Final = rf"{_CASED}{_CONTRACTION}?|{_CAPITALS}{_CONTRACTION}?|\p{{N}}{{1,3}}|{_SLASHED}"
_DEEPSEEK3: Final = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    rf"|{_SPACES}",
)
_BLOOM: Final = r" ?[^(\s|.,!?…。，、।۔،)]+"
_FALCON: Final = r"[\p{P}\$\+<=>\^~\|`]+"
_DEFAULT: Final = PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"))

_BY_SPLIT: Final[tuple[tuple[PreTokenizer, tuple[str, ...]], ...]] = (
    (_DEFAULT, ("default",)),
    (
        PreTokenizer((_LLAMA3,), ignores_merges=True, adds_start=True),
        ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    ),
    (PreTokenizer((_LLAMA3,)), ("dbrx", "smaug-bpe", "glm4", "chatglm-bpe")),
    (
        PreTokenizer((_GPT2,)),
        ("gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "exaone4", "mpt", "olmo", "jais", "trillion"),
    ),
    (
        PreTokenizer((r"\p{N}", _GPT2)),
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
    ),
    (
        PreTokenizer((_QWEN2,)),
        ("qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"),
    ),
    (PreTokenizer((_QWEN35,)), ("qwen35",)),
    (PreTokenizer((_TEKKEN,), ignores_merges=True, adds_start=True), ("tekken",)),
    (PreTokenizer((_GPT4O,)), ("gpt-4o", "llama4", "kanana2", "minimax-m2")),
    (PreTokenizer(_DEEPSEEK3), ("deepseek-v3", "hunyuan-dense")),
    (PreTokenizer((_FALCON, _GPT2, r"[0-9][0-9][0-9]")), ("falcon",)),
    (PreTokenizer((_BLOOM,)), ("bloom", "gpt3-finnish", "poro-chat")),
    (PreTokenizer((_BLOOM, r"\p{N}")), ("viking",)),
    (
        PreTokenizer(
            (rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|{_WORD}|\p{{N}}|{_SYMBOLS}|\s*[\r\n]|\s+(?!\S)|\s+",)
        ),
        ("bailingmoe", "bailingmoe2"),
    ),
    (
        PreTokenizer((rf"{_CONTRACTION}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}",)),
        ("seed-coder",),
    ),
)

PRE_TOKENIZERS: Final[dict[str, PreTokenizer]] = {name: split for split, names in _BY_SPLIT for name in names}
"""By the name in `tokenizer.ggml.pre`."""
